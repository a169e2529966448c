"""Adapters that are damaged, of kinds that are not supported, or for another model: what is wrong is named."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferrule
import tiny_adapters
import tiny_gguf
import tiny_models
from ferrule.checkpoint import open_adapter, open_checkpoint
from ferrule.errors import AdapterError, FerruleError, ModelNotFound, OptionError

TinyModel = Callable[..., Path]
LAYER = "base_model.model.model.layers.0"
Q, LAST = f"{LAYER}.self_attn.q_proj", "base_model.model.model.layers.1.self_attn.v_proj"


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    return tiny_adapters.build("llama3-all", tmp_path / "adapter")


def change_config(adapter: Path, **changes: Any) -> None:
    path = adapter / "adapter_config.json"
    tiny_models.write_json(path, {**json.loads(path.read_text()), **changes})


def change_tensors(adapter: Path, **changes: tuple[str, np.ndarray] | None) -> None:
    about = tiny_adapters.description("llama3-all")
    tensors = {**dict(tiny_adapters.tensors("llama3-all", about)), **changes}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    tiny_models.write_safetensors(adapter / "adapter_model.safetensors", kept)


def zeros(*shape: int) -> tuple[str, np.ndarray]:
    return "F32", np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "LOHA"}, "peft_type; expected LORA; found LOHA. Merge it"),
        ({"lora_bias": True}, "lora_bias is not supported; found True. Merge it"),
        ({"trainable_token_indices": [3]}, "trainable_token_indices is not supported; found [3]. Merge it"),
        ({"some_new_maths": {"k": 1}}, "some_new_maths is not supported; found {'k': 1}"),
        ({"init_lora_weights": "pissa_niter_4"}, "changes the base model's weights; found 'pissa_niter_4'. Save it"),
        ({"r": 0}, "rank or alpha of model.layers.0.mlp.down_proj; expected a positive number; found 0"),
        ({"lora_alpha": None}, "rank or alpha of model.layers.0.mlp.down_proj; expected a positive number; found None"),
        (
            {"lora_alpha": float("nan")},
            "rank or alpha of model.layers.0.mlp.down_proj; expected a positive number; found",
        ),
        (
            {"lora_alpha": 1e39},
            "rank or alpha of model.layers.0.mlp.down_proj; expected a positive number; found 1e+39",
        ),
        ({"r": 10**400}, "rank or alpha of model.layers.0.mlp.down_proj; expected a positive number; found 1000"),
        ({"alpha_pattern": {"(": 8}}, "alpha_pattern: missing ), unterminated subpattern at position 7; expected reg"),
        ({"rank_pattern": ["v_proj"]}, "rank_pattern; expected an object; found ['v_proj']"),
        ({"use_rslora": "false"}, "use_rslora; expected true or false; found 'false'"),
        ({"target_parameters": "down_proj"}, "target_parameters; expected a list; found 'down_proj'"),
        ({"rank_pattern": {"v_proj": 8}}, "the rank is not that of adapter_config.json (tensor"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_configs_that_are_refused(adapter: Path, changes: dict[str, Any], message: str) -> None:
    change_config(adapter, **changes)
    with pytest.raises(AdapterError) as error:
        open_adapter(adapter)
    assert message in str(error.value)
    assert str(adapter) in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({f"{LAST}.lora_B.weight": None}, f"its other factor is missing (tensor {LAST}.lora_A.weight). Download"),
        (
            {f"{Q}.lora_B.weight": zeros(64, 5)},
            "shapes do not fit each other (tensor {}.lora_B.weight); expected [n_out, rank] and [rank, n_in]; "
            "found [64, 5] and [4, 64]",
        ),
        ({f"{Q}.lora_B.weight": zeros()}, "the factors' shapes do not fit each other (tensor {}.lora_B.weight)"),
        ({f"{Q}.lora_B.weight": zeros(4)}, "the factors' shapes do not fit each other (tensor {}.lora_B.weight)"),
        (
            {f"{Q}.lora_A.weight": zeros(0, 64), f"{Q}.lora_B.weight": zeros(64, 0)},
            "the factors' shapes do not fit each other (tensor {}.lora_B.weight)",
        ),
        (
            {f"{Q}.lora_embedding_B": zeros(64, 4)},
            "another tensor stands for the same part of the model (tensor {}.lora_embedding_B)",
        ),
        ({f"{Q}.lora_E": zeros(4)}, "the tensor is no factor of a matrix's delta (tensor {}.lora_E)"),
        ({f"{Q}x.lora_magnitude_vector": zeros(64)}, "no factors belong to it (tensor {}x.lora_magnitude_vector)"),
    ],
    ids=["missing", "shapes", "scalar", "vector", "empty", "twice", "unknown", "magnitude"],
)
def test_tensors_that_are_refused(adapter: Path, changes: dict[str, Any], message: str) -> None:
    change_tensors(adapter, **changes)
    with pytest.raises(AdapterError) as error:
        open_adapter(adapter)
    assert message.format(Q) in str(error.value)
    assert str(adapter / "adapter_model.safetensors") in str(error.value)


EXPERTS = f"{LAYER}.mlp.experts"


@pytest.mark.parametrize(
    ("rows", "magnitude", "message"),
    [
        (64, zeros(64), "magnitudes of experts are not supported (tensor {}.lora_magnitude_vector)"),
        (
            63,
            None,
            "the rows of gate and up are not as many (tensor {}.lora_B.weight); expected an even number; found 63",
        ),
    ],
    ids=["magnitude", "odd"],
)
def test_factors_of_fused_experts_that_are_refused(
    adapter: Path, rows: int, magnitude: tuple[str, np.ndarray] | None, message: str
) -> None:
    a, b = zeros(8, 64), zeros(rows, 8)
    names = [f"{EXPERTS}.lora_{part}" for part in ("A.weight", "B.weight", "magnitude_vector")]
    change_tensors(adapter, **dict(zip(names, (a, b, magnitude), strict=True)))
    with pytest.raises(AdapterError) as error:
        open_adapter(adapter)
    assert message.format(EXPERTS) in str(error.value)


def test_missing_files_are_named(tmp_path: Path, adapter: Path) -> None:
    with pytest.raises(ModelNotFound, match="no such adapter"):
        open_adapter(tmp_path / "nothing")
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    with pytest.raises(ModelNotFound, match=r"has no adapter_model.safetensors. Convert adapter_model.bin"):
        open_adapter(adapter)
    (adapter / "adapter_config.json").unlink()
    with pytest.raises(ModelNotFound, match=r"has no adapter_config.json. A PEFT adapter is a directory with"):
        open_adapter(adapter)


def test_one_file_of_a_directory_stands_for_it(adapter: Path) -> None:
    for file in adapter.iterdir():
        assert open_adapter(file).deltas.keys() == open_adapter(adapter).deltas.keys()


def test_an_adapter_is_no_model(tmp_path: Path, adapter: Path) -> None:
    for path in (adapter, tiny_adapters.build_gguf(tmp_path / "adapter.gguf")):
        with pytest.raises(ModelNotFound, match=r"holds a LoRA adapter.*[Gg]ive its base model, and it as adapter"):
            open_checkpoint(path)


def refusal(model: Path, adapter: Any) -> str:
    with pytest.raises(FerruleError) as error:
        ferrule.load(model, adapter=adapter)
    return str(error.value)


def test_adapters_of_other_models_are_refused(tiny_model: TinyModel, adapter: Path) -> None:
    name = f"{adapter / 'adapter_model.safetensors'}: "
    found = refusal(tiny_model("gpt2"), adapter)
    assert found.startswith(
        f"{name}the model has no product with such a matrix (tensor {Q[:29]}.0.mlp.down_proj.lora_B"
    )
    assert f"Give the model that the adapter was trained on, not {tiny_model('gpt2')}" in found
    found = refusal(tiny_model("qwen3"), adapter)
    assert f"another shape (tensor {LAYER}.self_attn.k_proj.lora_B.weight); expected 64 x" in found
    assert "; found 32 x 64. Give the model that the adapter was trained on, not " in found
    change_tensors(adapter, **{f"{Q}x.lora_A.weight": zeros(4, 64), f"{Q}x.lora_B.weight": zeros(64, 4)})
    assert "expected one such as model.layers.0.self_attn.q_proj or " in refusal(tiny_model("llama3"), adapter)


def test_replaced_tensors_are_checked(tiny_model: TinyModel, tmp_path: Path, adapter: Path) -> None:
    whole = "base_model.model.lm_head.weight"
    change_tensors(adapter, **{whole: zeros(400, 64)})
    found = refusal(tiny_model("llama3"), adapter)
    assert f"no tensor of that name and shape for the adapter to replace (tensor {whole}); expected lm_head" in found
    assert "; found [384, 64]. Give the model" in found
    change_tensors(adapter, **{whole: zeros(384, 64)})
    with ferrule.load(tiny_gguf.build("llama3", tmp_path / "base.gguf"), adapter=adapter) as model:
        assert not model.logits([5, 6]).any()
    assert "; found none. Give the model" in refusal(tiny_model("llama3_2_tied"), adapter)
    change_tensors(adapter, **{"base_model.model.model.embed_tokens.weight": zeros(384, 64)})
    assert "an embedding to which the head is tied (tensor model.embed" in refusal(tiny_model("llama3_2_tied"), adapter)
    change_tensors(adapter, **{f"{LAYER}.self_attn.o_proj.modules_to_save.weight": zeros(64, 64)})
    assert "that GGUF files may hold in another form (tensor" in refusal(tmp_path / "base.gguf", adapter)


def test_a_matrix_under_two_names_is_refused(tiny_model: TinyModel, adapter: Path) -> None:
    again = Q.replace("model.layers", "model.language_model.layers")
    change_tensors(adapter, **{f"{again}.lora_A.weight": zeros(4, 64), f"{again}.lora_B.weight": zeros(64, 4)})
    assert f"another tensor stands for model.layers.0.self_attn.q_proj, too (tensor {again}.lora_B" in refusal(
        tiny_model("llama3"), adapter
    )
    norm = {f"base_model.model.model.{part}norm.weight": zeros(64) for part in ("", "language_model.")}
    change_tensors(adapter, **norm)
    assert "another tensor stands for model.norm.weight, too" in refusal(tiny_model("llama3"), adapter)


def test_magnitudes_are_as_many_as_rows(tiny_model: TinyModel, adapter: Path) -> None:
    change_tensors(adapter, **{f"{Q}.lora_magnitude_vector": zeros(63)})
    assert "rows (tensor model.layers.0.self_attn.q_proj); expected 64; found [63]" in refusal(
        tiny_model("llama3"), adapter
    )


def test_gguf_adapters_of_other_models_are_refused(tiny_model: TinyModel, tmp_path: Path) -> None:
    base = tiny_gguf.build("llama3", tmp_path / "base.gguf")
    adapter = tiny_adapters.build_gguf(tmp_path / "adapter.gguf")
    assert "a GGUF adapter is for a GGUF model; found" in refusal(tiny_model("llama3"), adapter)
    other = tiny_adapters.build_gguf(tmp_path / "other.gguf", architecture="qwen3")
    assert f"for another architecture; expected llama, as in {base}; found qwen3. Give the" in refusal(base, other)
    control = tiny_adapters.build_gguf(tmp_path / "control.gguf", kind="control_vector")
    assert "the file holds no LoRA adapter; expected general.type adapter" in refusal(base, control)
    assert "the file holds no LoRA adapter" in refusal(base, base)


@pytest.mark.parametrize("alpha", [float("nan"), float("inf"), -1.0])
def test_alphas_of_gguf_adapters_are_numbers_from_0_up(tmp_path: Path, alpha: float) -> None:
    path = tiny_adapters.build_gguf(tmp_path / "adapter.gguf")
    float32, stored = 6, tiny_adapters.description("llama3-all")["config"]["lora_alpha"]
    before, after = (b"adapter.lora.alpha" + struct.pack("<If", float32, value) for value in (stored, alpha))
    data = path.read_bytes()
    assert data.count(before) == 1
    path.write_bytes(data.replace(before, after))
    with pytest.raises(AdapterError, match=r"expected a string and a number from 0 up; found 'llama', (nan|inf|-1)"):
        open_adapter(path)


def test_matrices_that_converters_change_are_refused(tmp_path: Path, adapter: Path) -> None:
    name = "base_model.model.model.layers.0.linear_attn.out_proj"
    factors = {f"{name}.lora_A.weight": zeros(4, 64), f"{name}.lora_B.weight": zeros(64, 4)}
    tiny_models.write_safetensors(adapter / "adapter_model.safetensors", factors)
    base = tiny_gguf.build("qwen3_5_text", tmp_path / "base.gguf")
    found = refusal(base, adapter)
    assert "the adapter does not fit (tensor model.layers.0.linear_attn.out_proj). Give the model as a Hugging" in found


def test_an_adapter_is_a_path(tiny_model: TinyModel) -> None:
    with pytest.raises(OptionError, match="adapter is no path or name; expected str or Path; found int"):
        ferrule.load(tiny_model("llama3"), adapter=3)
