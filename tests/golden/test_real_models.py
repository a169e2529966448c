"""The two real files that packages carry, against the NumPy reference on the same, dequantised weights."""

import functools
from pathlib import Path

import numpy as np
import pytest

import ferrule
from ferrule.checkpoint import packages
from ferrule.reference import Reference

TEXT = Path(__file__).parent / "ordinary_text.txt"
POSITIONS = 320
MODELS = ["SmolLM2-135M-Instruct", "Gemma 3 270M"]


@functools.cache
def model_path(name: str) -> Path:
    found = {package.name: package for package in packages.PACKAGES}
    return found[name].path(progress=False)  # an error, not a skip, where the test extra is not installed


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("name", MODELS)
def test_distributions_stay_close_to_exact_arithmetic(name: str) -> None:
    """int8 activations and an f16 cache cost little: mean KL divergence and agreement of the likeliest token."""
    with ferrule.load(model_path(name)) as model:
        ids = model.tokenizer.encode(TEXT.read_text())[:POSITIONS]
        assert len(ids) == POSITIONS
        ours = log_softmax(model.logits(ids))
        exact = log_softmax(Reference(model.architecture.graph, dtype=np.float32).forward(ids))
    divergence = (np.exp(exact) * (exact - ours)).sum(axis=-1)
    agreement = np.mean(exact.argmax(axis=-1) == ours.argmax(axis=-1))
    assert divergence.mean() <= 0.002
    assert agreement >= 0.98
