"""The engine against transformers in float32: logits, and greedy tokens through the cache."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ferrule
import tiny_gguf
import tiny_models
from ferrule import _core
from ferrule.engine.kv_cache import Sequence
from ferrule.engine.step_inputs import Chunk

TOLERANCE = 1e-3  # on logits of standard deviation 4
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma3", "gemma3_text")

VARIANTS = [
    v
    for v in tiny_models.variants()
    if tiny_models.description(v)["config"]["model_type"] in FAMILIES and v != "llama_dynamic"
]


def forms() -> list[tuple[str, str | None, str]]:
    """(variant, dtype of the file, form of the config): every variant as it is, and the other dtypes and old forms."""
    cases: list[tuple[str, str | None, str]] = [(v, None, "v5") for v in VARIANTS]
    cases += [("llama3", dtype, "v5") for dtype in ("bf16", "f16")] + [("gemma3_text", "f32", "v5")]
    cases += [(v, None, "legacy") for v in VARIANTS if tiny_models.description(v).get("legacy_config")]
    return cases


@pytest.mark.parametrize(("variant", "dtype", "form"), forms(), ids=lambda x: str(x))
def test_logits_and_greedy_tokens(tiny_model: Callable[..., Path], variant: str, dtype: str | None, form: str) -> None:
    with ferrule.load(tiny_model(variant, dtype, form), threads=2) as model:
        for golden in tiny_models.golden(variant).prompts.values():
            prompt = golden.ids.tolist()
            logits = model.logits(prompt)
            np.testing.assert_allclose(logits[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)
            completion = model.generate(prompt, max_new_tokens=16, temperature=0, ignore_eos=True)
            assert completion.tokens == tuple(golden.greedy.tolist())


# Converters write no sliding window for Mistral and Qwen2, no scalar of the queries for Gemma 3.
UNTOLD_BY_GGUF = {"mistral_swa", "qwen2_swa", "gemma3_qpas"}


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v in tiny_gguf.variants() and v not in UNTOLD_BY_GGUF])
def test_logits_and_greedy_tokens_from_gguf(tmp_path: Path, variant: str) -> None:
    path = tiny_gguf.build(variant, tmp_path / "model.gguf")
    with ferrule.load(path, threads=2, kv_dtype="f32") as model:
        for golden in tiny_models.golden(variant).prompts.values():
            prompt = golden.ids.tolist()
            np.testing.assert_allclose(model.logits(prompt)[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)
            completion = model.generate(prompt, max_new_tokens=16, temperature=0, ignore_eos=True)
            assert completion.tokens == tuple(golden.greedy.tolist())


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("chunks", [(40,), (13, 1, 26), (9, 31), (1,) * 40], ids=["whole", "three", "two", "single"])
def test_prefill_agrees_however_it_is_cut(
    tiny_model: Callable[..., Path], variant: str, chunks: tuple[int, ...]
) -> None:
    golden = tiny_models.golden(variant).prompts[40]
    with ferrule.load(tiny_model(variant)) as model:
        sequence, logits, begin = Sequence(), [], 0
        for n in chunks:
            logits.append(model.runner.forward([Chunk(sequence, golden.ids[begin : begin + n].tolist(), "all")]))
            begin += n
        np.testing.assert_allclose(np.concatenate(logits)[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("target", _core.targets())
def test_every_target_agrees(tiny_model: Callable[..., Path], target: str) -> None:
    golden = tiny_models.golden("qwen3").prompts[40]
    with ferrule.load(tiny_model("qwen3"), target=target) as model:
        np.testing.assert_allclose(
            model.logits(golden.ids.tolist())[golden.positions], golden.logits, atol=TOLERANCE, rtol=0
        )
