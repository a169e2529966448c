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


# Activation bits: (most mean KL divergence, least agreement of the likeliest token).
CLOSE = {16: (0.00002, 0.996), 8: (0.004, 0.94)}


@pytest.mark.parametrize("bits", CLOSE)
@pytest.mark.parametrize("name", MODELS)
def test_distributions_stay_close_to_exact_arithmetic(name: str, bits: int) -> None:
    """What quantised activations and an f16 cache cost."""
    with ferrule.load(model_path(name), activation_bits=bits) as model:
        ids = model.tokenizer.encode(TEXT.read_text())[:POSITIONS]
        assert len(ids) == POSITIONS
        ours = log_softmax(model.logits(ids))
        exact = log_softmax(Reference(model.architecture.graph, dtype=np.float32).forward(ids))
    divergence = (np.exp(exact) * (exact - ours)).sum(axis=-1)
    agreement = np.mean(exact.argmax(axis=-1) == ours.argmax(axis=-1))
    most, least = CLOSE[bits]
    assert divergence.mean() <= most
    assert agreement >= least
