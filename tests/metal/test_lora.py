"""LoRA adapters through the Metal executor, against PEFT and transformers in float32."""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

import tiny_adapters
import tiny_gguf
from ferrule import lora
from ferrule.checkpoint import open_adapter, open_checkpoint
from ferrule.reference import Reference
from metal import dispatch_steps as steps
from metal.metal_process import MetalProcess

TOLERANCE = 1e-3  # on logits of standard deviation 4, which the adapters move by 5 to 16


@pytest.mark.parametrize("name", tiny_adapters.names())
def test_logits_and_greedy_tokens(
    metal_process: MetalProcess, tiny_model: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    path, adapter = tiny_model(tiny_adapters.description(name)["variant"]), tiny_adapters.build(name, tmp_path)
    goldens = tiny_adapters.goldens(name)
    prompts = [golden.ids.tolist() for golden in goldens]
    found = metal_process.run(steps.logits, path, prompts, "f32", adapter, checked=name == "llama3-patterns")
    for logits, golden in zip(found, goldens, strict=True):
        np.testing.assert_allclose(logits[-2:], golden.logits, atol=TOLERANCE, rtol=0)
    tokens = metal_process.run(steps.greedy, path, prompts, 16, "f32", adapter=adapter)
    assert tokens == [tuple(golden.greedy.tolist()) for golden in goldens]


def test_quantised_weights(metal_process: MetalProcess, tmp_path: Path) -> None:
    source = tiny_gguf.build("llama3", tmp_path / "source.gguf")
    base = tiny_gguf.quantised(source, tmp_path / "base.gguf", gguf.GGMLQuantizationType.Q4_0)
    adapter, checkpoint = tiny_adapters.build("llama3-all", tmp_path), open_checkpoint(base)
    graph = lora.record_adapted(checkpoint, open_adapter(adapter)).graph
    prompts = [golden.ids.tolist() for golden in tiny_adapters.goldens("llama3-all")]
    found = metal_process.run(steps.logits, base, prompts, "f32", adapter)
    for prompt, logits in zip(prompts, found, strict=True):
        np.testing.assert_allclose(logits, Reference(graph).forward(prompt), atol=TOLERANCE, rtol=0)
