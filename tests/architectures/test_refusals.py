"""A checkpoint that is not what its architecture expects: a variant is told from a damaged file."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import tiny_models
from ferrule import architectures
from ferrule.checkpoint import open_checkpoint
from ferrule.errors import CorruptFile, UnsupportedArchitecture


def test_a_variant_is_named_by_its_config_keys(tiny_model: Callable[..., Path]) -> None:
    """A mixture of experts that calls itself a Llama lacks Llama's FFN, but that is not what is wrong with it."""
    checkpoint = open_checkpoint(tiny_model("mixtral"))
    config = {**checkpoint.config, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    with pytest.raises(UnsupportedArchitecture, match="not understood: num_experts_per_tok, num_local_experts"):
        architectures.record(dataclasses.replace(checkpoint, config=config))


@pytest.mark.parametrize("variant", ["llama3", "gemma2", "mixtral", "mamba2", "falcon_7b", "deepseek_v3"])
def test_a_missing_tensor_is_named(tiny_model: Callable[..., Path], variant: str) -> None:
    checkpoint = open_checkpoint(tiny_model(variant))
    in_layers = [name for name in checkpoint.tensors if ".1." in name and "bias" not in name]
    for missing in (in_layers[0], in_layers[-1]):
        tensors = {name: tensor for name, tensor in checkpoint.tensors.items() if name != missing}
        with pytest.raises(CorruptFile, match="a tensor is missing") as error:
            architectures.record(dataclasses.replace(checkpoint, tensors=tensors))
        assert error.value.tensor == missing


def test_a_missing_head_is_not_replaced_by_the_embedding(tiny_model: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(tiny_model("llama3"))
    tensors = {name: tensor for name, tensor in checkpoint.tensors.items() if name != "lm_head.weight"}
    with pytest.raises(CorruptFile, match=r"lm_head\.weight"):
        architectures.record(dataclasses.replace(checkpoint, tensors=tensors))


def refused(path: Path, config: dict[str, Any], key: str) -> None:
    """The config is refused by an error that names the key."""
    with pytest.raises(UnsupportedArchitecture, match=key):
        architectures.record(dataclasses.replace(open_checkpoint(path), config=config))


def text_config(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The config with changes to its part about the text model."""
    if "text_config" in config:
        return {**config, "text_config": {**config["text_config"], **changes}}
    return {**config, **changes}


@pytest.mark.parametrize("variant", tiny_models.variants())
def test_unknown_keys_are_refused_by_name(tiny_model: Callable[..., Path], variant: str) -> None:
    config = tiny_models.description(variant)["config"]
    refused(tiny_model(variant), text_config(config, {"attention_form": "relu"}), "attention_form")


ACTIVATION_KEYS = ("hidden_act", "hidden_activation", "activation_function", "activation", "mlp_hidden_act")


@pytest.mark.parametrize("variant", tiny_models.variants())
def test_unknown_activations_and_rotations_are_refused_by_name(tiny_model: Callable[..., Path], variant: str) -> None:
    config = tiny_models.description(variant)["config"]
    text = config.get("text_config", config)
    for key in ACTIVATION_KEYS:
        if text.get(key) is not None:
            refused(tiny_model(variant), text_config(config, {key: "tanh_of_tanh"}), key)
    rope = text.get("rope_parameters")
    if rope:
        unknown = {"rope_type": "spiral"}
        nested = {kind: {**of, **unknown} for kind, of in rope.items() if isinstance(of, dict)}
        changed = {"rope_parameters": {**rope, **nested} if nested else {**rope, **unknown}}
        if not (text.get("alibi") or text.get("position_embedding_type") == "nope"):
            refused(tiny_model(variant), text_config(config, changed), "rope_type")


# Variant, key, a value that is not implemented.
UNKNOWN: list[tuple[str, str, Any]] = [
    ("deepseek_v3", "scoring_func", "softplus"),
    ("deepseek_v2", "topk_method", "random"),
    ("deepseek_v3", "moe_layer_freq", 2),
    ("kimi_linear", "moe_router_activation_func", "softmax"),
    ("kimi_linear", "layer_types", ["linear_attention", "ring_attention", "full_attention"]),
    ("gemma3_text", "layer_types", ["spiral_attention"] * 6),
    ("gemma4_dense", "use_bidirectional_attention", "all"),
    ("gemma3_text", "use_bidirectional_attention", True),
    ("deepseek_v32", "indexer_types", ["full", "none"]),
    ("bloom", "apply_residual_connection_post_layernorm", True),
    ("gpt2", "scale_attn_by_inverse_layer_idx", True),
    ("gpt2", "scale_attn_weights", False),
    ("opt", "do_layer_norm_before", False),
    ("mpt", "norm_type", "rmsnorm"),
    ("nemotron_h", "layers_block_type", ["linear_attention", "mlp", "linear_attention", "conv", "mlp"]),
    ("granite4_h", "position_embedding_type", "alibi"),
    ("phi2", "qk_layernorm", True),
]


@pytest.mark.parametrize(("variant", "key", "value"), UNKNOWN)
def test_unknown_values_are_refused_by_name(
    tiny_model: Callable[..., Path], variant: str, key: str, value: object
) -> None:
    refused(tiny_model(variant), text_config(tiny_models.description(variant)["config"], {key: value}), key)


@pytest.mark.parametrize("value", [["linear_attention"] * 2, 5, [["linear_attention"]] * 3])
def test_damaged_lists_are_refused_by_name(tiny_model: Callable[..., Path], value: Any) -> None:
    config = {**tiny_models.description("kimi_linear")["config"], "layer_types": value}
    with pytest.raises((CorruptFile, UnsupportedArchitecture), match="layer_types"):
        architectures.record(dataclasses.replace(open_checkpoint(tiny_model("kimi_linear")), config=config))


@pytest.mark.parametrize(("key", "value"), [("alibi", False), ("qk_ln", True), ("attn_type", "grouped")])
def test_unknown_forms_of_attention_are_refused_by_name(tiny_model: Callable[..., Path], key: str, value: Any) -> None:
    config = tiny_models.description("mpt")["config"]
    changed = {**config, "attn_config": {**config["attn_config"], key: value}}
    refused(tiny_model("mpt"), changed, key)
