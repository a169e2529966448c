"""Lowering: fusions, barriers and memory layout of real plans, and what they compute."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import tiny_models
from ferrule import _core
from ferrule.architectures import record
from ferrule.checkpoint import open_checkpoint
from ferrule.engine.kv_cache import KVCache, Sequence
from ferrule.engine.runner import Runner
from ferrule.engine.step_inputs import Chunk
from ferrule.errors import DeviceError, UnsupportedOp
from ferrule.graph import CacheLayer, Graph, StateLayer, Value, Weight
from ferrule.lowering import Plan, Target, cpu_target, lower, metal_target
from ferrule.lowering.layout import row_bytes
from ferrule.lowering.plan import Launch

VARIANTS = ["llama3", "qwen3", "gemma3_text", "qwen2", "deepseek_v3", "gpt_oss", "jamba", "qwen3_next"]


def graph_of(path: Path) -> Graph:
    return record(open_checkpoint(path)).graph


def accesses(launch: Launch) -> tuple[set[object], set[object]]:
    """(what the launch reads, what it writes), among values, caches and states."""
    kinds = {name: kind for name, kind, _ in _core.signatures()[launch.op][2]}
    shared = {n: o for n, o in launch.operands.items() if isinstance(o, Value | CacheLayer | StateLayer)}
    return {o for n, o in shared.items() if kinds[n] != "write"}, {o for n, o in shared.items() if kinds[n] != "read"}


def epochs(plan: Plan) -> list[list[Launch]]:
    """Launches that may run at once."""
    groups: list[list[Launch]] = [[]]
    for launch in plan.launches:
        if launch.barrier:
            groups.append([])
        groups[-1].append(launch)
    return groups


@pytest.fixture(params=[(v, c, f) for v in VARIANTS for c in ("few_rows", "many_rows") for f in (True, False)], ids=str)
def plan(request: pytest.FixtureRequest, tiny_model: Callable[..., Path]) -> Plan:
    variant, row_class, fuse = request.param
    return lower(graph_of(tiny_model(variant)), cpu_target(), row_class, fuse=fuse)


def test_launches_of_an_epoch_are_independent(plan: Plan) -> None:
    for group in epochs(plan):
        for a, b in combinations(group, 2):
            reads_a, writes_a = accesses(a)
            reads_b, writes_b = accesses(b)
            assert not writes_a & (reads_b | writes_b), f"{a.kernel} and {b.kernel} race"
            assert not writes_b & reads_a, f"{a.kernel} and {b.kernel} race"


def test_values_alive_at_once_do_not_overlap(plan: Plan) -> None:
    alive: dict[Value, list[int]] = {}
    for i, group in enumerate(epochs(plan)):
        for launch in group:
            for value in (o for o in launch.operands.values() if isinstance(o, Value) and o not in plan.outputs):
                alive.setdefault(value, []).append(i)
    for a, b in combinations(alive, 2):
        if alive[a][-1] < alive[b][0] or alive[b][-1] < alive[a][0]:
            continue
        begin_a, begin_b = plan.offsets[a], plan.offsets[b]
        end_a, end_b = (plan.offsets[v] + row_bytes(v) * plan.max_dims[str(v.shape[0])] for v in (a, b))
        assert end_a <= begin_b or end_b <= begin_a
    assert max(plan.offsets[v] + row_bytes(v) * plan.max_dims[str(v.shape[0])] for v in alive) <= plan.arena_bytes


@pytest.mark.parametrize("variant", VARIANTS)
def test_fused_and_unfused_plans_agree_with_the_golden(tiny_model: Callable[..., Path], variant: str) -> None:
    golden = tiny_models.golden(variant).prompts[40]
    graph = graph_of(tiny_model(variant))
    for fuse in (True, False):
        cache = KVCache(graph.caches, dtype="f32", positions=64, states=graph.states)
        runner = Runner(graph, cpu_target(), cache, threads=2, fuse=fuse)
        logits = runner.forward([Chunk(Sequence(), golden.ids.tolist(), "all")])
        np.testing.assert_allclose(logits[golden.positions], golden.logits, atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("variant", "fused"),
    [
        ("llama3", ["rms_norm", "matvec_f32", "qkv_prepare_f32", "attention_f32", "gated_activation"]),
        ("qwen3", ["rms_norm", "matvec_bf16", "qkv_prepare_f32", "attention_f32", "gated_activation"]),
    ],
)
def test_a_fused_layer_has_no_other_launches(tiny_model: Callable[..., Path], variant: str, fused: list[str]) -> None:
    plan = lower(graph_of(tiny_model(variant)), cpu_target(), "few_rows")
    assert {launch.kernel for launch in plan.launches if launch.layer == 0} == set(fused)


def test_unfused_plans_keep_one_launch_per_op(tiny_model: Callable[..., Path]) -> None:
    graph = graph_of(tiny_model("qwen3"))
    assert len(lower(graph, cpu_target(), "few_rows", fuse=False).launches) == len(graph.ops)


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("multiplies_bf16", [False, True])
def test_float_weights_meet_bfloat16_with_8_bits_where_the_target_multiplies_it(
    tiny_model: Callable[..., Path], bits: int, multiplies_bf16: bool
) -> None:
    kernels = frozenset(k for k in cpu_target().kernels if not k.endswith("_rounded"))
    kernels |= {f"{op}_bf16_rounded" for op in ("matvec", "matmul", "expert_linear")} if multiplies_bf16 else set()
    target = Target("some", "cpu", 8, kernels, bits)
    plan = lower(graph_of(tiny_model("qwen3_moe")), target, "many_rows")
    products = [launch for launch in plan.launches if launch.op in ("matmul", "expert_linear")]
    rounded = bits == 8 and multiplies_bf16
    assert {launch.kernel.endswith("_rounded") for launch in products} == {rounded}
    for launch in products:
        x = launch.operands["x"]
        assert isinstance(x, Value)
        assert x.dtype == ("bf16" if rounded else "f32")
        parts = x.width // launch.params["k"]
        assert row_bytes(x) == (parts * -(-launch.params["k"] // 128) * 256 if rounded else 4 * x.width)


def test_a_missing_kernel_names_op_layer_and_kernel() -> None:
    graph = Graph()
    x = graph.embedding(Weight("embedding", (8, 32), "F32", np.zeros(8 * 32 * 4, np.uint8)))
    with graph.layer(3), graph.stage("ffn down"):
        graph.output = graph.linear(x, Weight("odd", (8, 32), "BF16", np.zeros(8 * 32 * 2, np.uint8)))
    bare = Target("bare", "cpu", 8, frozenset({"embedding_f32"}))
    with pytest.raises(
        UnsupportedOp, match=r"bare has no kernel matvec_bf16 for op linear \(layer 3, stage ffn down\)"
    ):
        lower(graph, bare, "few_rows")


def test_unknown_targets_are_refused_with_the_nearest_name() -> None:
    plainest = _core.all_targets()[-1]
    with pytest.raises(DeviceError, match=f"Did you mean '{plainest}'"):
        cpu_target(plainest[:-1])
    with pytest.raises(DeviceError, match="apple9"):
        metal_target("apple19")
