"""A checkpoint that is not what its architecture expects: a variant is told from a damaged file."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import tiny_models
from ferrule import architectures
from ferrule.checkpoint import open_checkpoint
from ferrule.errors import CorruptFile, FerruleError, UnsupportedArchitecture


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


# Variant, another name for what one of its keys says, its value.
OTHER_NAMES = [("bloom", "n_embed", 64), ("bloom", "num_attention_heads", 4), ("qwen3_moe", "num_experts", 8)]


@pytest.mark.parametrize(("variant", "key", "value"), OTHER_NAMES)
def test_a_config_may_have_both_names_of_a_fact(
    tiny_model: Callable[..., Path], variant: str, key: str, value: int
) -> None:
    config = {**tiny_models.description(variant)["config"], key: value}
    architectures.record(dataclasses.replace(open_checkpoint(tiny_model(variant)), config=config))


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


# Variant, key, a value that no such model has.
IMPOSSIBLE: list[tuple[str, str, Any]] = [
    ("llama3", "hidden_size", "x"),
    ("llama3", "num_attention_heads", 0),
    ("llama3", "head_dim", 10**30),
    ("llama3", "rms_norm_eps", math.nan),
    ("llama3", "tie_word_embeddings", "x"),
    ("gemma3_mm", "text_config", 5),
    ("phi3_longrope", "num_key_value_heads", 0),
    ("command_r7b", "layer_types", 5),
    ("command_r7b", "layer_types", [{}] * 4),
    ("kimi_linear", "layer_types", ["linear_attention"] * 2),
    ("lfm3", "layer_types", [["conv"]] * 6),
    ("smollm3", "no_rope_layers", [1]),
    ("qwen3_moe", "mlp_only_layers", "x"),
    ("deepseek_v32", "indexer_types", ["shared", "full"]),
    ("deepseek_v3", "norm_topk_prob", "x"),
    ("gemma3n_text", "num_kv_shared_layers", 99),
    ("gemma3n_text", "activation_sparsity_pattern", [1.0] * 4),
    ("falcon_h1", "mlp_multipliers", [1.0]),
    ("mamba2", "time_step_limit", [0.0]),
    ("mamba2", "time_step_limit", [1.0, 0.0]),
    ("gemma4_moe", "layer_types", {}),
    ("mamba", "time_step_rank", "x"),
    ("granite", "logits_scaling", 0.0),
]


@pytest.mark.parametrize(("variant", "key", "value"), IMPOSSIBLE)
def test_impossible_values_are_refused_by_name(
    tiny_model: Callable[..., Path], variant: str, key: str, value: Any
) -> None:
    config = tiny_models.description(variant)["config"]
    changed = {**config, key: value} if key == "text_config" else text_config(config, {key: value})
    with pytest.raises((CorruptFile, UnsupportedArchitecture), match=key) as error:
        architectures.record(dataclasses.replace(open_checkpoint(tiny_model(variant)), config=changed))
    assert error.value.path


# Variant, key, a value that contradicts the tensors or another key, what the error speaks of.
CONTRADICTIONS: list[tuple[str, str, Any, str]] = [
    ("llama3", "num_key_value_heads", 3, "heads"),
    ("llama3", "num_hidden_layers", 1 << 23, "missing"),
    ("deepseek_v3", "qk_nope_head_dim", 7, "rows"),
    ("deepseek_v3", "n_group", 3, "groups"),
    ("deepseek_v3", "num_experts_per_tok", 100, "experts"),
    ("qwen3_next", "linear_num_key_heads", 3, "value heads"),
    ("mamba2", "n_groups", 3, "multiple of 3"),
    ("qwen2_5_vl", "partial_rotary_factor", 2.5, "rotated part"),
    ("glm_moe_dsa", "head_dim", 64, "rotated part"),
]


@pytest.mark.parametrize(("variant", "key", "value", "what"), CONTRADICTIONS)
def test_contradictions_are_refused(
    tiny_model: Callable[..., Path], variant: str, key: str, value: Any, what: str
) -> None:
    config = text_config(tiny_models.description(variant)["config"], {key: value})
    with pytest.raises(CorruptFile, match=what):
        architectures.record(dataclasses.replace(open_checkpoint(tiny_model(variant)), config=config))


# Variant, RoPE parameter, a value that no rotation has.
ROTATIONS: list[tuple[str, str, Any]] = [
    ("llama3", "rope_theta", 0),
    ("llama3", "rope_theta", "x"),
    ("llama3", "rope_type", ["default"]),
    ("llama3_1", "factor", None),
    ("llama3_1", "low_freq_factor", "x"),
    ("llama_yarn", "beta_fast", -1),
    ("llama_yarn", "truncate", "x"),
    ("llama_linear", "factor", 0),
    ("llama_dynamic", "factor", None),
    ("phi3_longrope", "short_factor", [1.0]),
    ("phi3_longrope", "long_factor", 1.0),
    ("qwen2_vl", "mrope_section", [1, 2, 3]),
    ("qwen2_vl", "mrope_section", {}),
    ("ministral3", "llama_4_scaling_beta", "x"),
]


@pytest.mark.parametrize(("variant", "key", "value"), ROTATIONS)
def test_impossible_rotations_are_refused_by_name(
    tiny_model: Callable[..., Path], variant: str, key: str, value: Any
) -> None:
    config = tiny_models.description(variant)["config"]
    rope = {**config.get("text_config", config)["rope_parameters"], key: value}
    changed = text_config(config, {"rope_parameters": rope})
    with pytest.raises((CorruptFile, UnsupportedArchitecture), match=key):
        architectures.record(dataclasses.replace(open_checkpoint(tiny_model(variant)), config=changed))


@pytest.mark.parametrize("value", [[None], {"a": None}, -1, "x"])
@pytest.mark.parametrize("variant", ["deepseek_v32", "falcon_h1", "gemma3n_text", "gemma4_moe", "llama4_text", "mpt"])
def test_no_key_fails_by_its_type(tiny_model: Callable[..., Path], variant: str, value: Any) -> None:
    """Whatever stands there, a config is refused as such, or what stands there does not matter."""
    checkpoint, config = open_checkpoint(tiny_model(variant)), tiny_models.description(variant)["config"]
    for key in config.get("text_config", config):
        with contextlib.suppress(FerruleError):
            architectures.record(dataclasses.replace(checkpoint, config=text_config(config, {key: value})))


@pytest.mark.parametrize(("key", "value"), [("alibi", False), ("qk_ln", True), ("attn_type", "grouped")])
def test_unknown_forms_of_attention_are_refused_by_name(tiny_model: Callable[..., Path], key: str, value: Any) -> None:
    config = tiny_models.description("mpt")["config"]
    changed = {**config, "attn_config": {**config["attn_config"], key: value}}
    refused(tiny_model("mpt"), changed, key)
