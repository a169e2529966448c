"""Every family's graph from GGUF, interpreted in NumPy, against transformers in float32."""

from pathlib import Path

import numpy as np
import pytest

import tiny_gguf
import tiny_models
from ferrule import architectures
from ferrule.checkpoint import open_checkpoint
from ferrule.reference import Reference

TOLERANCE = 1e-3  # on logits of standard deviation 4


@pytest.mark.parametrize("variant", [v for v in tiny_gguf.variants() if v not in tiny_gguf.UNTOLD])
def test_logits(tmp_path: Path, variant: str) -> None:
    checkpoint = open_checkpoint(tiny_gguf.build(variant, tmp_path / "model.gguf"))
    graph = architectures.record(checkpoint).graph
    for golden in tiny_models.golden(variant).prompts.values():
        logits = Reference(graph, dtype=np.float32).forward(golden.ids)
        np.testing.assert_allclose(logits[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)
