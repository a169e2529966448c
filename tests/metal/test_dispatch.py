"""Whole models through the Metal executor on the stand-in framework, against transformers' goldens and NumPy."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import ferrule
import tiny_gguf
import tiny_models
from ferrule.architectures import record
from ferrule.checkpoint import open_checkpoint, packages
from ferrule.errors import DeviceError
from ferrule.reference import Reference
from metal import dispatch_steps as steps
from metal.metal_process import MetalProcess

TOLERANCE = 1e-3  # on logits of standard deviation 4
FAMILIES = ["llama3", "mistral_swa", "qwen2", "qwen3", "gemma3_text"]
# Those that have kernels of their own.
SPECIAL = ["bloom", "falcon_h1", "gemma3n_text", "lfm2", "mamba", "phi3_longrope", "qwen3_5_text"]
CASES: list[tuple[str, str | None]] = [(v, None) for v in tiny_models.variants()]
CASES += [("llama3", "bf16"), ("qwen3", "f16"), ("gemma3_text", "f32"), ("mamba2", "f16"), ("gpt2", "f32")]

TinyModel = Callable[..., Path]


def prompts(variant: str) -> list[list[int]]:
    return [golden.ids.tolist() for golden in tiny_models.golden(variant).prompts.values()]


def prompt(variant: str, tokens: int) -> list[int]:
    return tiny_models.golden(variant).prompts[tokens].ids.tolist()


def assert_golden(variant: str, found: list[np.ndarray]) -> None:
    for golden, logits in zip(tiny_models.golden(variant).prompts.values(), found, strict=True):
        np.testing.assert_allclose(logits[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(("variant", "dtype"), CASES)
def test_logits_and_greedy_tokens(
    metal_process: MetalProcess, tiny_model: TinyModel, variant: str, dtype: str | None
) -> None:
    path = tiny_model(variant, dtype)
    assert_golden(variant, metal_process.run(steps.logits, path, prompts(variant), "f32"))
    expected = [tuple(golden.greedy.tolist()) for golden in tiny_models.golden(variant).prompts.values()]
    assert metal_process.run(steps.greedy, path, prompts(variant), 16, "f32") == expected


@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_what_is_unordered_does_not_matter(
    metal_process: MetalProcess, tiny_model: TinyModel, seed: int
) -> None:
    path = tiny_model("gemma3_text")
    usual = metal_process.run(steps.logits, path, prompts("gemma3_text"))
    for expected, found in zip(
        usual, metal_process.run(steps.logits, path, prompts("gemma3_text"), seed=seed), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("variant", [*FAMILIES, *SPECIAL, "mixtral", "gpt_oss", "deepseek_v3", "deepseek_v32"])
def test_nothing_is_found_wrong(metal_process: MetalProcess, tiny_model: TinyModel, variant: str) -> None:
    assert_golden(variant, metal_process.run(steps.logits, tiny_model(variant), prompts(variant), checked=True))


@pytest.mark.parametrize(("variant", "bound"), tiny_models.QUANTISED_CACHE)
def test_quantised_cache(metal_process: MetalProcess, tiny_model: TinyModel, variant: str, bound: float) -> None:
    """Close to transformers; closer to the CPU, whose codes differ where a rounding error crosses the middle of two."""
    found = metal_process.run(steps.logits, tiny_model(variant), prompts(variant), "q8_0")
    for golden, logits in zip(tiny_models.golden(variant).prompts.values(), found, strict=True):
        np.testing.assert_allclose(logits[golden.positions], golden.logits, atol=bound, rtol=0)
    with ferrule.load(tiny_model(variant), threads=2, kv_dtype="q8_0") as model:
        for ids, logits in zip(prompts(variant), found, strict=True):
            np.testing.assert_allclose(logits, model.logits(ids), atol=bound / 4, rtol=0)


QUANTISED = [
    ("llama3", "Q4_0"),
    ("llama3", "Q5_1"),
    ("llama3", "Q8_0"),
    ("bloom", "Q8_0"),
    ("mamba2", "Q4_0"),
    ("gemma4_e2b", "Q8_0"),
    ("lfm2", "Q4_1"),
    ("qwen3_5_text", "Q8_0"),
    ("qwen3_moe", "Q4_0"),
    ("gemma4_moe", "Q8_0"),
    ("deepseek_v3", "Q4_0"),
]


@pytest.mark.parametrize(("variant", "kind"), QUANTISED)
def test_quantised_weights(metal_process: MetalProcess, tmp_path: Path, variant: str, kind: str) -> None:
    whole = tiny_gguf.build(variant, tmp_path / "whole.gguf")
    path = tiny_gguf.quantised(whole, tmp_path / "quantised.gguf", gguf.GGMLQuantizationType[kind])
    found = metal_process.run(steps.logits, path, prompts(variant), "f32")
    graph = record(open_checkpoint(path)).graph
    for tokens, logits in zip(prompts(variant), found, strict=True):
        np.testing.assert_allclose(logits, Reference(graph).forward(tokens), atol=TOLERANCE)


@pytest.mark.parametrize("variant", ["bloom", "falcon_h1", "lfm2", "mamba", "qwen3_5_text"])
def test_prefill_in_chunks_beside_other_sequences(
    metal_process: MetalProcess, tiny_model: TinyModel, variant: str
) -> None:
    texts = [prompt(variant, 40), prompt(variant, 7), prompt(variant, 40)]
    chunks = [
        [(0, 0, 13), (2, 0, 1)],
        [(2, 1, 30), (0, 13, 14), (1, 0, 6)],
        [(0, 14, 15)],
        [(1, 6, 7), (2, 30, 40), (0, 15, 40)],
    ]
    found = metal_process.run(steps.in_chunks, tiny_model(variant), texts, chunks, checked=True)
    for text, logits in zip(texts, found, strict=True):
        golden = tiny_models.golden(variant).prompts[len(text)]
        np.testing.assert_allclose(logits[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("lengths", [(1, 1), (1, 7), (7, 40)])
def test_sequences_side_by_side(metal_process: MetalProcess, tiny_model: TinyModel, lengths: tuple[int, int]) -> None:
    variant = "gemma3_text"
    found = metal_process.run(steps.batch, tiny_model(variant), [prompt(variant, n) for n in lengths])
    for n, logits in zip(lengths, np.split(found, [lengths[0]]), strict=True):
        golden = tiny_models.golden(variant).prompts[n]
        np.testing.assert_allclose(logits[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("tokens", [1, 7, 40])
def test_every_barrier_is_needed(metal_process: MetalProcess, tiny_model: TinyModel, tokens: int) -> None:
    path = tiny_model("llama3")
    n_barriers = metal_process.run(steps.barriers, path, tokens)
    assert n_barriers > 10
    for index in range(n_barriers):
        with pytest.raises(DeviceError, match=r"data race .* no barrier in between"):
            metal_process.run(steps.without_barrier, path, prompt("llama3", tokens), index, checked=True)


# Rows for which all products are split, and for which some are.
@pytest.mark.parametrize("rows", [9, 33])
def test_split_products(metal_process: MetalProcess, rows: int) -> None:
    tokens = [i % 16 for i in range(rows)]
    found = metal_process.run(steps.small_cache_logits, steps.long_products, tokens, checked=True)
    np.testing.assert_allclose(found, Reference(steps.long_products()).forward(tokens), atol=1e-5)


# Those before linears_merge of one product, and of two side by side.
@pytest.mark.parametrize("index", [1, 5])
def test_barriers_of_split_products_are_needed(metal_process: MetalProcess, index: int) -> None:
    with pytest.raises(DeviceError, match=r"data race .* of linears_merge, no barrier in between"):
        metal_process.run(steps.without_barrier, steps.long_products, [0] * 9, index, checked=True)


def test_profile(metal_process: MetalProcess, tiny_model: TinyModel) -> None:
    golden = tiny_models.golden("qwen3").prompts[40]
    launches, durations, logits = metal_process.run(steps.profiled, tiny_model("qwen3"), golden.ids.tolist())
    assert launches == durations
    np.testing.assert_allclose(logits[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("variant", ["llama3", "mixtral"])
def test_weights_are_read_through_several_views(
    metal_process: MetalProcess, tiny_model: TinyModel, variant: str
) -> None:
    path, golden = tiny_model(variant), tiny_models.golden(variant).prompts[7]
    limit = 1 << 18
    assert (path / "model.safetensors").stat().st_size > limit
    found = metal_process.run(steps.small_cache_logits, path, golden.ids.tolist(), max_buffer_bytes=limit)
    np.testing.assert_allclose(found[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gpu_family": 6}, "not an Apple GPU of family 7"),
        ({"max_threads": 32}, r"cannot run \w+: it needs \d+ threads per threadgroup; the limit is 32"),
        ({"max_buffer_bytes": 1 << 14}, "exceeds the GPU's limit for buffers of 16384"),
    ],
)
def test_a_device_that_cannot_run_the_model_is_refused(
    metal_process: MetalProcess, tiny_model: TinyModel, settings: dict[str, int], message: str
) -> None:
    with pytest.raises(DeviceError, match=message):
        metal_process.run(steps.small_cache_logits, tiny_model("llama3"), [1, 2, 3], **settings)


def test_logits_that_are_no_numbers_are_an_error(
    metal_process: MetalProcess, tiny_model: TinyModel, tmp_path: Path
) -> None:
    path = tmp_path / "model"
    path.mkdir()
    for file in tiny_model("llama3").iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    weights = path / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1024:] = b"\xff" * 1024  # NaN
    weights.write_bytes(content)
    with pytest.raises(DeviceError, match="not numbers"):
        metal_process.run(steps.small_cache_logits, path, [1, 2, 3])


def test_auto_takes_a_gpu_but_never_the_stand_in(metal_process: MetalProcess, tiny_model: TinyModel) -> None:
    automatic = metal_process.run(steps.information, tiny_model("llama3"), "auto")
    chosen = metal_process.run(steps.information, tiny_model("llama3"), "metal")
    assert (chosen["device"], chosen["device_reason"]) == ("metal", "asked for")
    if metal_process.run(steps.backend) == "gpu":
        assert (automatic["device"], automatic["device_reason"]) == ("metal", "the GPU can run the model")
    else:
        assert chosen["target"] == "apple9"
        assert automatic["device"] == "cpu"
        assert "no Metal backend" in automatic["device_reason"]


@pytest.mark.parametrize(
    "options",
    [{"temperature": 0.8}, {"temperature": 1.5, "top_k": 20, "min_p": 0.01}, {"temperature": 1.0, "top_p": 0.8}],
    ids=str,
)
def test_sampled_tokens_are_those_of_the_cpu(
    metal_process: MetalProcess, tiny_model: TinyModel, options: dict[str, Any]
) -> None:
    path, settings = tiny_model("qwen3"), {**options, "seed": 11, "ignore_eos": True}
    with ferrule.load(path, device="cpu", context=512) as model:
        expected = model.generate(prompt("qwen3", 7), max_new_tokens=12, **settings).tokens
    found, blocks = metal_process.run(partial(steps.sampled, **settings), path, prompt("qwen3", 7), 12)
    assert (found, blocks) == (expected, 0)


@pytest.mark.parametrize("variant", ["qwen3", "qwen3_next"])
def test_an_answer_that_was_left_is_taken_up(metal_process: MetalProcess, tiny_model: TinyModel, variant: str) -> None:
    """The step ahead has read its last token already, into a state, too."""
    parts = [prompt(variant, n) for n in (40, 7, 1)]
    expected = steps.taken_up(tiny_model(variant), "cpu", parts, reuse=False)
    found = metal_process.run(steps.taken_up, tiny_model(variant), "metal", parts, reuse=True)
    assert [answer for answer, _ in found] == [answer for answer, _ in expected]
    assert [read for _, read in found] == [40, 7, 1]


@pytest.mark.parametrize("package", packages.PACKAGES, ids=lambda package: package.name)
def test_real_models_write_what_the_cpu_writes(metal_process: MetalProcess, package: packages.ModelPackage) -> None:
    path = package.path(progress=False)
    with ferrule.load(path, device="cpu", context=512) as model:
        prompt = model.tokenizer.encode("The capital of France is")
        expected = model.generate(prompt, max_new_tokens=8, temperature=0, ignore_eos=True).tokens
    assert metal_process.run(steps.greedy, path, [prompt], 8) == [expected]


@pytest.mark.parametrize("variant", [*FAMILIES, *SPECIAL, "gpt_oss", "deepseek_v32"])
@pytest.mark.parametrize("tokens", [1, 7, 40])
def test_every_op_agrees(metal_process: MetalProcess, tiny_model: TinyModel, variant: str, tokens: int) -> None:
    assert metal_process.run(steps.divergence, tiny_model(variant), prompt(variant, tokens)) is None


def test_a_fault_is_named(metal_process: MetalProcess, tiny_model: TinyModel) -> None:
    found = metal_process.run(steps.divergence, tiny_model("llama3"), prompt("llama3", 7), fault_in_layer=1)
    assert found is not None
    assert found.startswith("layer 1, stage ")
    assert "gated_activation by gated_activation differs by" in found
