"""Latent attention in both its forms: absorbed in queries and results, and with expanded keys and values."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType

import ferrule
import maps
import tiny_gguf
import tiny_models
from ferrule.cli.info import as_text
from ferrule.engine import kv_cache, runner
from ferrule.engine.kv_cache import Sequence
from ferrule.engine.step_inputs import Chunk
from ferrule.reference import Reference

TOLERANCE = 1e-4  # on logits of standard deviation 4
VARIANTS = ["deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "kimi_linear", "minicpm3_deep", "mistral4"]


def kernels(model: ferrule.Model) -> set[str]:
    """Of all plans that have run."""
    return {launch.kernel for plan, _ in model.runner._programs.values() for launch in plan.launches}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("most_absorbed", [8, 1000], ids=["expanded", "absorbed"])
def test_prefill_and_decode_agree_with_one_full_call(
    tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, variant: str, most_absorbed: int
) -> None:
    monkeypatch.setattr(runner, "EXPANDED_ROWS", most_absorbed)
    ids = tiny_models.golden(variant).prompts[40].ids.tolist() * 3
    cuts = [0, 70, 79, 110, *range(111, 121)]  # more than one tile, a chunk that begins inside a block, single tokens
    with ferrule.load(tiny_model(variant), threads=2, kv_dtype="f32") as model:
        sequence = Sequence()
        logits = [
            model.runner.forward([Chunk(sequence, ids[begin:end], "all", len(ids))]) for begin, end in pairwise(cuts)
        ]
        expanded = most_absorbed == 8 and variant != "deepseek_v32"  # whose positions are selected
        assert ("latent_attention_f32" in kernels(model)) == expanded
        assert "attention_f32" in kernels(model)
        expected = Reference(model.architecture.graph).forward(ids)
    np.testing.assert_allclose(np.concatenate(logits), expected, atol=TOLERANCE, rtol=0)


def test_quantised_matrices_are_expanded_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both forms against NumPy on the same weights: absorbed, activations are rounded; expanded, latents are not."""
    source = tiny_gguf.build("deepseek_v3", tmp_path / "source.gguf")
    path = tiny_gguf.quantised(source, tmp_path / "quantised.gguf", GGMLQuantizationType.Q8_0)
    ids = tiny_models.golden("deepseek_v3").prompts[40].ids.tolist()
    for most_absorbed in (8, 1000):
        monkeypatch.setattr(runner, "EXPANDED_ROWS", most_absorbed)
        with ferrule.load(path, threads=2, kv_dtype="f32") as model:
            expected = Reference(model.architecture.graph).forward(ids)
            np.testing.assert_allclose(model.logits(ids), expected, atol=5e-3, rtol=0)
            assert ("latent_attention_f32" in kernels(model)) == (most_absorbed == 8)


def test_a_step_takes_the_form_that_has_less_work(tiny_model: Callable[..., Path]) -> None:
    ids = [5] * 300
    with ferrule.load(tiny_model("deepseek_v2")) as model:
        long, short = Sequence(), [Sequence() for _ in range(20)]
        model.runner.forward([Chunk(long, ids[:100])])
        model.runner.forward([Chunk(sequence, [5]) for sequence in short])
        assert "latent_attention_f32" not in kernels(model)
        model.runner.forward([Chunk(long, ids[100:]), Chunk(short[0], [6])])
        assert "latent_attention_f32" in kernels(model)


def test_rows_beside_an_expanding_chunk(tiny_model: Callable[..., Path]) -> None:
    texts = [[7, 8, 9], list(range(4, 204)), [10] * 70]
    with ferrule.load(tiny_model("deepseek_v3"), threads=2, kv_dtype="f32") as model:
        sequences = [Sequence() for _ in texts]
        model.runner.forward([Chunk(sequences[0], texts[0][:2]), Chunk(sequences[2], texts[2][:66])])
        rest = [texts[0][2:], texts[1], texts[2][66:]]
        logits = model.runner.forward([Chunk(s, ids) for s, ids in zip(sequences, rest, strict=True)])
        assert "latent_attention_f32" in kernels(model)
        for row, ids in zip(logits, texts, strict=True):
            expected = Reference(model.architecture.graph).forward(ids, rows=[-1])[0]
            np.testing.assert_allclose(row, expected, atol=TOLERANCE, rtol=0)


def test_latents_are_a_small_part_of_keys_and_values() -> None:
    """DeepSeek V2 Lite: 512 + 64 values of each layer instead of 16 heads' 192 + 128."""
    _, graph = maps.graph_of(json.loads((maps.CONFIGS / "deepseek-v2-lite.json").read_text()))
    latents = kv_cache.position_bytes(graph.caches, "f16")
    expanded = kv_cache.expanded_bytes(graph, "f16")
    assert latents == 27 * (512 + 64) * 2
    assert expanded == 27 * 16 * (192 + 128) * 2
    assert expanded / latents >= 7


def test_info_says_what_latents_save(tiny_model: Callable[..., Path]) -> None:
    with ferrule.load(tiny_model("deepseek_v2"), kv_dtype="f32") as model:
        facts = model.info()
    assert facts["cache_bytes_per_token"] == 2 * (32 + 16) * 4
    assert facts["expanded_cache_bytes_per_token"] == 2 * 4 * (32 + 16) * 4
    assert "384 bytes per token as latents, 4.0 times less than keys and values (1.54 kB)" in as_text(facts)
    with ferrule.load(tiny_model("llama3")) as model:
        facts = model.info()
    assert facts["expanded_cache_bytes_per_token"] is None
    assert "latents" not in as_text(facts)
