"""Plans for Metal, which any build can make: kernels by row class, and what they cannot take."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ferrule import _core
from ferrule.architectures import record
from ferrule.checkpoint import open_checkpoint
from ferrule.errors import UnsupportedOp
from ferrule.formats import FORMATS
from ferrule.graph import Graph, Weight
from ferrule.lowering import RowClass, lower, metal_target, show

KERNELS: dict[RowClass, set[str]] = {
    "one_row": {"matvec_f32", "attention_split_f32", "attention_merge"},
    "few_rows": {"matvec_rows_f32", "attention_split_f32", "attention_merge"},
    "many_rows": {"matmul_f32", "attention_f32"},
}


def graph_of(path: Path) -> Graph:
    return record(open_checkpoint(path)).graph


@pytest.mark.parametrize("row_class", KERNELS)
def test_kernels_by_row_class(tiny_model: Callable[..., Path], row_class: RowClass) -> None:
    plan = lower(graph_of(tiny_model("llama3")), metal_target(), row_class)
    layer = {launch.kernel for launch in plan.launches if launch.layer == 0}
    assert layer == KERNELS[row_class] | {"rms_norm", "qkv_prepare_f32"}
    assert layer <= _core.metal_kernels().keys()


@pytest.mark.parametrize(
    ("variant", "launches"),
    [
        # Norm, q/k/v, their preparation, two of attention, its output, norm, gate and up, down. The first norm is made
        # with the embeddings.
        *((v, [8, 9]) for v in ("llama3", "llama_bias", "mistral_swa", "qwen2", "qwen3", "granite", "hunyuan_dense")),
        # Norms of the results make the norms before the next products.
        *((variant, [9]) for variant in ("gemma3_text", "olmo2")),
        # A norm before the second product of the FFN.
        ("bitnet", [9, 10]),
        # Activations are part of the products.
        *((variant, [9]) for variant in ("bloom", "gpt2")),
        # A gate, a projection and a norm of what a token has for each layer.
        ("gemma4_e2b", [12]),
    ],
)
def test_launches_of_a_layer(tiny_model: Callable[..., Path], variant: str, launches: list[int]) -> None:
    plan = lower(graph_of(tiny_model(variant)), metal_target(), "one_row")
    counts = Counter(launch.layer for launch in plan.launches if launch.layer is not None)
    assert sorted(set(counts.values())) == launches


def test_products_of_one_value_are_grouped_by_format() -> None:
    graph = Graph()
    x = graph.embedding(matrix("embedding", 8, "F32"))
    with graph.layer(0):
        results = [graph.linear(x, matrix(name, n, fmt)) for name, n, fmt in (("q", 8, "F16"), ("k", 4, "F16"))]
        results.append(graph.linear(x, matrix("v", 4, "BF16")))
    graph.output = results[0]
    plan = lower(graph, metal_target(), "one_row")
    products = [launch for launch in plan.launches if launch.op == "linears"]
    assert [launch.kernel for launch in products] == ["matvec_f16", "matvec_bf16"]
    assert (products[0].params["n"], products[0].params["n_b"], products[0].params["n_c"]) == (8, 4, 0)
    assert products[0].operands["out_b"] is results[1]


def test_a_product_may_gate_columns_of_a_value() -> None:
    graph = Graph()
    x, y = (graph.embedding(matrix(name, 8, "F32")) for name in ("embedding", "other"))
    gate = graph.scale(graph.linear(x, matrix("gate", 6, "F16")), 0.5)
    graph.output = graph.gated_activation(gate, graph.take_columns(y, 7, 6), "silu")
    plan = lower(graph, metal_target(), "one_row")
    launch = plan.launches[-1]
    assert [launch.op for launch in plan.launches] == ["embedding", "embedding", "linears"]
    assert launch.operands["up"] is y
    assert {name: launch.params[name] for name in ("activated", "gated", "scale", "up_stride", "up_begin")} == {
        "activated": 1,
        "gated": 0,
        "scale": 0.5,
        "up_stride": 32,
        "up_begin": 7,
    }


def test_a_gate_that_others_read_has_a_launch_of_its_own() -> None:
    graph = Graph()
    x = graph.embedding(matrix("embedding", 8, "F32"))
    gate, up = (graph.linear(x, matrix(name, 32, "F16")) for name in ("gate", "up"))
    graph.output = graph.add(gate, graph.gated_activation(gate, up, "silu"))
    plan = lower(graph, metal_target(), "one_row")
    assert [launch.op for launch in plan.launches] == ["embedding", "linears", "gated_activation", "add"]


def matrix(name: str, n: int, fmt: str, k: int = 32) -> Weight:
    return Weight(name, (n, k), fmt, np.zeros(n * FORMATS[fmt].row_bytes(k), np.uint8))


@pytest.mark.parametrize(
    ("n", "k", "is_split"), [(64, 1023, False), (64, 1024, True), (4096, 1024, True), (4097, 1024, False)]
)
def test_long_sums_of_few_results_are_split(n: int, k: int, is_split: bool) -> None:
    graph = Graph()
    graph.output = graph.linear(graph.embedding(matrix("embedding", 8, "F32", k)), matrix("weight", n, "F32", k))
    plan = lower(graph, metal_target(), "many_rows", logits="many_rows")
    assert [launch.op for launch in plan.launches] == ["embedding", "linears", *["linears_merge"] * is_split]
    few_rows = lower(graph, metal_target(), "few_rows")
    assert [launch.op for launch in few_rows.launches] == ["embedding", "linears"]


def test_split_products_of_one_value_still_run_side_by_side() -> None:
    graph = Graph()
    x = graph.embedding(matrix("embedding", 8, "F32", 1024))
    a, b = (graph.linear(x, matrix(fmt, 64, fmt, 1024)) for fmt in ("F16", "BF16"))
    graph.output = graph.clamped_swiglu(a, b, alpha=1.7, limit=7.0)
    plan = lower(graph, metal_target(), "many_rows")
    kernels = [(launch.kernel, launch.barrier) for launch in plan.launches]
    assert kernels[1:] == [
        ("matmul_f16", True),
        ("matmul_bf16", False),
        ("linears_merge", True),
        ("linears_merge", False),
        ("clamped_swiglu", True),
    ]


def test_rows_of_logits_have_a_class_of_their_own(tiny_model: Callable[..., Path]) -> None:
    plan = lower(graph_of(tiny_model("llama3")), metal_target(), "many_rows")
    assert plan.launches[-1].kernel == "matvec_f32"
    assert plan.max_dims == {"tokens": 512, "rows": 1, "sequences": 512}


def test_a_window_limits_the_parts_of_the_context(tiny_model: Callable[..., Path]) -> None:
    plan = lower(graph_of(tiny_model("mistral_swa")), metal_target(), "one_row")
    (launch,) = (launch for launch in plan.launches if launch.op == "attention_split" and launch.layer == 0)
    assert launch.params["splits"] == launch.params["window"] // 64 + 2


def test_a_format_without_a_kernel_is_refused() -> None:
    graph = Graph()
    x = graph.embedding(Weight("embedding", (8, 256), "F32", np.zeros(8 * 256 * 4, np.uint8)))
    with graph.layer(3), graph.stage("ffn down"):
        graph.output = graph.linear(x, Weight("odd", (8, 256), "I8", np.zeros(8 * 256, np.uint8)))
    with pytest.raises(UnsupportedOp, match=r"apple9 has no kernel matvec_i8 for op linears \(layer 3, stage ffn"):
        lower(graph, metal_target(), "one_row")
    shown = lower(graph, metal_target(), "one_row", allow_missing=True)
    assert shown.launches[-1].kernel == "matvec_i8"


@pytest.mark.parametrize(
    ("row_class", "head_dim", "needs"),
    [("many_rows", 640, "at most 576"), ("one_row", 7, "an even size")],
)
def test_a_head_size_that_kernels_cannot_take_is_refused(row_class: RowClass, head_dim: int, needs: str) -> None:
    graph = Graph()
    x = graph.embedding(Weight("embedding", (8, head_dim), "F32", np.zeros(8 * head_dim * 4, np.uint8)))
    cache = graph.cache(1, head_dim, head_dim, 0)
    graph.kv_append(cache, x, x)
    graph.output = graph.attention(x, cache, scale=1.0)
    with pytest.raises(UnsupportedOp, match=rf"kernel attention\w* of target apple9 needs .*{needs}"):
        lower(graph, metal_target(), row_class)
    text = show.as_text(lower(graph, metal_target(), row_class, allow_missing=True))
    assert re.search(r" attention\w* \*", text)


def test_a_state_that_kernels_cannot_hold_is_refused() -> None:
    graph = Graph()
    width, n = 4, 257

    def weight(*shape: int) -> Weight:
        return Weight("weight", shape, "F32", np.zeros(4 * int(np.prod(shape)), np.uint8))

    x = graph.embedding(weight(8, width))
    b = graph.linear(x, weight(n, width))
    state = graph.state(1, width, n)
    graph.output = graph.ssm_scan(x, graph.linear(x, weight(1, width)), b, b, weight(1, 1), weight(1), None, state)
    with pytest.raises(UnsupportedOp, match="kernel ssm_scan of target apple9 needs n of at most 256"):
        lower(graph, metal_target(), "one_row")
