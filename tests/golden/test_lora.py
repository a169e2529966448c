"""LoRA adapters on both containers against PEFT and transformers in float32."""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

import ferrule
import tiny_adapters
import tiny_gguf
import tiny_models
from ferrule import lora
from ferrule.architectures import record
from ferrule.checkpoint import Adapter, StoredTensor, open_adapter, open_checkpoint
from ferrule.checkpoint.adapters import LowRank
from ferrule.engine.kv_cache import Sequence
from ferrule.engine.step_inputs import Chunk
from ferrule.lowering import Target, cpu_target, lower, metal_target
from ferrule.reference import Reference

TOLERANCE = 1e-3  # on logits of standard deviation 4, which the adapters move by 5 to 16
TinyModel = Callable[..., Path]


def variant(name: str) -> str:
    return tiny_adapters.description(name)["variant"]


def assert_golden(name: str, model: ferrule.Model) -> None:
    for golden in tiny_adapters.goldens(name):
        prompt = golden.ids.tolist()
        np.testing.assert_allclose(model.logits(prompt)[-2:], golden.logits, atol=TOLERANCE, rtol=0)
        sequence, unread, tokens = Sequence(), prompt, []
        for _ in golden.greedy:
            logits = model.runner.forward([Chunk(sequence, unread, "last", len(prompt) + len(tokens))])
            unread = [int(logits[0].argmax())]
            tokens += unread
        assert tokens == golden.greedy.tolist()


@pytest.mark.parametrize("name", tiny_adapters.names())
def test_logits_and_greedy_tokens(tiny_model: TinyModel, tmp_path: Path, name: str) -> None:
    adapter = tiny_adapters.build(name, tmp_path)
    with ferrule.load(tiny_model(variant(name)), adapter=adapter, threads=2) as model:
        assert_golden(name, model)


@pytest.mark.parametrize("name", [name for name in tiny_adapters.names() if variant(name) in tiny_gguf.variants()])
def test_logits_and_greedy_tokens_from_gguf(tmp_path: Path, name: str) -> None:
    base = tiny_gguf.build(variant(name), tmp_path / "base.gguf")
    with ferrule.load(base, adapter=tiny_adapters.build(name, tmp_path), threads=2) as model:
        assert_golden(name, model)


# Of those whose rows converters reorder or split, one or more of each kind, and some that they leave alone.
CONVERTED = [
    *("arcee", "bloom", "deepseek_v3", "falcon_40b", "gpt2", "gpt_neox", "granite", "granitemoe", "granite4_micro"),
    *("jamba", "kimi_linear", "llama3", "ministral3", "mixtral", "nemotron_h", "olmo", "phi3", "qwen3_5_text"),
    *("qwen3_next", "smollm3"),
]


@pytest.mark.parametrize("variant", CONVERTED)
def test_every_matrix_means_the_same_in_both_containers(tiny_model: TinyModel, tmp_path: Path, variant: str) -> None:
    models = [open_checkpoint(tiny_model(variant)), open_checkpoint(tiny_gguf.build(variant, tmp_path / "base.gguf"))]
    architectures = [record(model) for model in models]
    shapes, in_gguf = (lora.matrix_shapes(architecture.graph) for architecture in architectures)
    random = np.random.default_rng(7)
    deltas = {
        name: LowRank(stored(random.normal(size=(3, n_in)) / n_in**0.5), stored(random.normal(size=(n_out, 3)) / 8), 1)
        for name, (n_out, n_in) in shapes.items()
        if name in in_gguf and "[" not in name and not (variant == "qwen3_5_text" and ".linear_attn." in name)
    }
    assert len(deltas) >= 5
    ids = tiny_models.golden(variant).prompts[7].ids
    plain = Reference(architectures[0].graph, dtype=np.float32).forward(ids)
    adapter = Adapter(tmp_path, None, deltas)
    expected, found = (
        Reference(lora.record_adapted(model, adapter).graph, dtype=np.float32).forward(ids) for model in models
    )
    assert np.abs(expected - plain).max() > 1
    np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=0)


def stored(values: np.ndarray, name: str = "factor") -> StoredTensor:
    data = np.ascontiguousarray(values, np.float32)
    return StoredTensor(name, data.shape, "F32", data.reshape(-1).view(np.uint8))


@pytest.mark.parametrize(("name", "architecture"), [("llama3-all", "llama"), ("qwen3_moe-experts", "qwen3moe")])
def test_gguf_adapter(tmp_path: Path, name: str, architecture: str) -> None:
    base = tiny_gguf.build(variant(name), tmp_path / "base.gguf")
    adapter = tiny_adapters.build_gguf(tmp_path / "adapter.gguf", name, architecture=architecture)
    with ferrule.load(base, adapter=adapter, threads=2) as model:
        assert_golden(name, model)


def test_quantised_weights_stay_as_they_are(tmp_path: Path) -> None:
    source = tiny_gguf.build("llama3", tmp_path / "source.gguf")
    base = tiny_gguf.quantised(source, tmp_path / "base.gguf", gguf.GGMLQuantizationType.Q8_0)
    adapter, checkpoint = tiny_adapters.build("llama3-all", tmp_path), open_checkpoint(base)
    graph = lora.record_adapted(checkpoint, open_adapter(adapter)).graph
    ids = tiny_adapters.goldens("llama3-all")[1].ids.tolist()
    with ferrule.load(base, adapter=adapter, threads=2, kv_dtype="f32") as model:
        np.testing.assert_allclose(model.logits(ids), Reference(graph).forward(ids), atol=5e-3, rtol=0)


@pytest.mark.parametrize("target", [cpu_target(), metal_target()], ids=lambda target: target.backend)
def test_a_delta_takes_two_launches_or_fewer(tiny_model: TinyModel, tmp_path: Path, target: Target) -> None:
    checkpoint = open_checkpoint(tiny_model("llama3"))
    adapter = open_adapter(tiny_adapters.build("llama3-all", tmp_path))
    plain = record(checkpoint)
    adapted = lora.record_adapted(checkpoint, adapter)
    for row_class in target.row_classes:
        before, after = (lower(architecture.graph, target, row_class).launches for architecture in (plain, adapted))
        assert len(after) - len(before) <= 2 * len(adapter.deltas)
        stages = {launch.stage.removesuffix(" lora") for launch in after if launch.stage.endswith(" lora")}
        assert stages == {"qkv", "attention output", "ffn gate, up", "ffn down"}
