"""The engine against transformers in float32: logits, and greedy tokens through the cache."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

import ferrule
import tiny_gguf
import tiny_models
from ferrule import _core
from ferrule.architectures import record
from ferrule.checkpoint import open_checkpoint
from ferrule.engine.kv_cache import Sequence
from ferrule.engine.step_inputs import Chunk
from ferrule.reference import Reference

TOLERANCE = 1e-3  # on logits of standard deviation 4
QUANTISED_TOLERANCE = 5e-3  # where products round each activation to one of 32 637 values
ROUNDED_TOLERANCE = 0.2  # where they round each to 8 significant bits
VARIANTS = tiny_models.variants()


def forms() -> list[tuple[str, str | None, str]]:
    """(variant, dtype of the file, form of the config): every variant as it is, and the other dtypes and old forms."""
    cases: list[tuple[str, str | None, str]] = [(v, None, "v5") for v in VARIANTS]
    cases += [("llama3", dtype, "v5") for dtype in ("bf16", "f16")] + [("gemma3_text", "f32", "v5")]
    cases += [(v, None, "legacy") for v in VARIANTS if tiny_models.description(v).get("legacy_config")]
    return cases


@pytest.mark.parametrize(("variant", "dtype", "form"), forms(), ids=lambda x: str(x))
def test_logits_and_greedy_tokens(tiny_model: Callable[..., Path], variant: str, dtype: str | None, form: str) -> None:
    with ferrule.load(tiny_model(variant, dtype, form), threads=2, kv_dtype="f32") as model:
        for golden in tiny_models.golden(variant).prompts.values():
            prompt = golden.ids.tolist()
            logits = model.logits(prompt)
            np.testing.assert_allclose(logits[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)
            completion = model.generate(prompt, max_new_tokens=16, temperature=0, ignore_eos=True)
            assert completion.tokens == tuple(golden.greedy.tolist())


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("variant", ["llama3", "phi3"])
def test_logits_with_activations_of_8_bits(tiny_model: Callable[..., Path], variant: str, dtype: str) -> None:
    """Float weights meet bfloat16 where the processor multiplies it, float32 elsewhere."""
    with ferrule.load(tiny_model(variant, dtype), activation_bits=8, kv_dtype="f32") as model:
        for golden in tiny_models.golden(variant).prompts.values():
            logits = model.logits(golden.ids.tolist())[golden.positions]
            np.testing.assert_allclose(logits, golden.logits, atol=ROUNDED_TOLERANCE, rtol=0)


@pytest.mark.parametrize("variant", [v for v in tiny_gguf.variants() if v not in tiny_gguf.UNTOLD])
def test_logits_and_greedy_tokens_from_gguf(tmp_path: Path, variant: str) -> None:
    path = tiny_gguf.build(variant, tmp_path / "model.gguf")
    with ferrule.load(path, threads=2, kv_dtype="f32") as model:
        for golden in tiny_models.golden(variant).prompts.values():
            prompt = golden.ids.tolist()
            np.testing.assert_allclose(model.logits(prompt)[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)
            assert greedy(model, prompt) == golden.greedy.tolist()


def greedy(model: ferrule.Model, prompt: list[int]) -> list[int]:
    """16 tokens, without the tokenizer that `generate` needs and not every file has."""
    tokens, unread, sequence = prompt, prompt, Sequence()
    while len(tokens) < len(prompt) + 16:
        if len(tokens) - 1 in model.runner.graph.reread_lengths:
            model.runner.cache.release(sequence)
            unread = tokens
        logits = model.runner.forward([Chunk(sequence, unread, "last", len(tokens))])
        unread = [int(logits[0].argmax())]
        tokens = tokens + unread
    model.runner.cache.release(sequence)
    return tokens[len(prompt) :]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("chunks", [(40,), (13, 1, 26), (9, 31), (1,) * 40], ids=["whole", "three", "two", "single"])
def test_prefill_agrees_however_it_is_cut(
    tiny_model: Callable[..., Path], variant: str, chunks: tuple[int, ...]
) -> None:
    golden = tiny_models.golden(variant).prompts[40]
    with ferrule.load(tiny_model(variant), kv_dtype="f32") as model:
        sequence, logits, begin = Sequence(), [], 0
        for n in chunks:
            part = golden.ids[begin : begin + n].tolist()
            logits.append(model.runner.forward([Chunk(sequence, part, "all", sum(chunks))]))
            begin += n
        np.testing.assert_allclose(np.concatenate(logits)[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("kind", [GGMLQuantizationType.Q8_0, GGMLQuantizationType.Q4_0], ids=lambda kind: kind.name)
@pytest.mark.parametrize("variant", ["llama3", "bloom", "deepseek_v3", "gemma4_moe", "mamba2", "qwen3_moe"])
def test_quantised_weights(tmp_path: Path, variant: str, kind: GGMLQuantizationType) -> None:
    """Against NumPy on the same weights: only activations are rounded."""
    source = tiny_gguf.build(variant, tmp_path / "source.gguf")
    path = tiny_gguf.quantised(source, tmp_path / "quantised.gguf", kind)
    ids = tiny_models.golden(variant).prompts[40].ids.tolist()
    expected = Reference(record(open_checkpoint(path)).graph).forward(ids)
    with ferrule.load(path, threads=2, kv_dtype="f32") as model:
        np.testing.assert_allclose(model.logits(ids), expected, atol=QUANTISED_TOLERANCE, rtol=0)
        few_rows = np.concatenate([model.logits(ids[:7]), model.logits(ids[:8])[7:]])
    np.testing.assert_allclose(few_rows, expected[:8], atol=QUANTISED_TOLERANCE, rtol=0)


@pytest.mark.parametrize(("variant", "bound"), tiny_models.QUANTISED_CACHE)
def test_quantised_cache(tiny_model: Callable[..., Path], variant: str, bound: float) -> None:
    """Close to transformers, and the same however the prompt is cut."""
    golden = tiny_models.golden(variant).prompts[40]
    ids, sequence = golden.ids.tolist(), Sequence()
    with ferrule.load(tiny_model(variant), threads=2, kv_dtype="q8_0") as model:
        logits = model.logits(ids)
        parts = [(0, 13), (13, 14), (14, 40)]
        cut = [model.runner.forward([Chunk(sequence, ids[a:b], "all", len(ids))]) for a, b in parts]
    np.testing.assert_allclose(logits[golden.positions], golden.logits, atol=bound, rtol=0)
    np.testing.assert_array_equal(np.concatenate(cut), logits)


# Of every kind of cache, of experts and of recurrent layers.
KINDS = ("bloom", "deepseek_v3", "gpt_oss", "jamba", "kimi_linear", "lfm2", "llama4_chunk", "mamba2", "qwen3_next")


@pytest.mark.parametrize("variant", KINDS)
def test_a_sequence_does_not_feel_the_others(tiny_model: Callable[..., Path], variant: str) -> None:
    prompts = tiny_models.golden(variant).prompts
    texts = [prompts[40].ids.tolist(), prompts[7].ids.tolist(), prompts[40].ids[::-1].tolist()]
    steps = [((0, 0, 13), (2, 0, 1)), ((2, 1, 30), (0, 13, 14), (1, 0, 6)), ((1, 6, 7), (2, 30, 40), (0, 14, 40))]
    with ferrule.load(tiny_model(variant)) as model:

        def run(step: Iterable[tuple[int, int, int]], sequences: list[Sequence]) -> NDArray[np.float32]:
            return model.runner.forward([Chunk(sequences[i], texts[i][a:b], "all", len(texts[i])) for i, a, b in step])

        together, alone = [Sequence() for _ in texts], [Sequence() for _ in texts]
        for step in steps:
            parts = [run([part], alone) for part in step]
            np.testing.assert_array_equal(run(step, together), np.concatenate(parts))


@pytest.mark.parametrize("target", _core.targets())
def test_every_target_agrees(tiny_model: Callable[..., Path], target: str) -> None:
    golden = tiny_models.golden("qwen3").prompts[40]
    with ferrule.load(tiny_model("qwen3"), target=target) as model:
        np.testing.assert_allclose(
            model.logits(golden.ids.tolist())[golden.positions], golden.logits, atol=TOLERANCE, rtol=0
        )
