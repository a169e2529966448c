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
UNTOLD = {
    "gemma2_qpas": "query_pre_attn_scalar",
    "gemma3_qpas": "query_pre_attn_scalar",
    "gpt_oss_limit": "swiglu_limit",
    "gpt_oss_mxfp4": "truncate among the RoPE parameters",
    "gpt_oss_trunc": "truncate among the RoPE parameters",
    "llama4_chunk": "attention_chunk_size",
    "llama_dynamic": "dynamic scaling",
    "mistral_swa": "sliding_window",
    "phi3_5_moe_longrope": "short_mscale and long_mscale",
    "qwen2_swa": "sliding_window",
    "starcoder2_swa": "sliding_window",
}
"""Variants of which converters write no such fact, so that the file stands for another model."""


@pytest.mark.parametrize("variant", [v for v in tiny_gguf.variants() if v not in UNTOLD])
def test_logits(tmp_path: Path, variant: str) -> None:
    checkpoint = open_checkpoint(tiny_gguf.build(variant, tmp_path / "model.gguf"))
    graph = architectures.record(checkpoint).graph
    for golden in tiny_models.golden(variant).prompts.values():
        logits = Reference(graph, dtype=np.float32).forward(golden.ids)
        np.testing.assert_allclose(logits[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)
