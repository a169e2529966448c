"""What GGUF architectures need beyond renaming to become configs: each function completes a config in place.

`tensors` are under Hugging Face's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .base import StoredTensor

Config = dict[str, Any]
Tensors = Mapping[str, StoredTensor]


def exists(tensors: Tensors, name: str) -> bool:
    """Whether a tensor has a name that ends so."""
    return any(tensor.endswith(name) for tensor in tensors)


def drop(config: Config, *keys: str) -> None:
    """Removes keys that are there."""
    for key in keys:
        config.pop(key, None)


def llama(config: Config, tensors: Tensors) -> None:
    """Models with experts are another type."""
    if config.get("num_local_experts"):
        config["model_type"] = "mixtral"
    else:
        drop(config, "num_local_experts", "num_experts_per_tok")


def sharpened(config: Config, tensors: Tensors) -> None:
    """Queries that grow with the position, and a factor on scores (Ministral 3)."""
    scaling = config.setdefault("rope_scaling", {"rope_type": "default"})
    if (beta := config.pop("temperature_scale", None)) is not None:
        scaling["llama_4_scaling_beta"] = beta
    score_factor(config, "yarn_log_multiplier", 1.0)


def score_factor(config: Config, key: str, unit: float) -> None:
    """YaRN's factor on scores, stored in units of its own; it makes the one on angles 1."""
    if (stored := config.pop(key, None)) is not None:
        config["rope_scaling"] |= {"mscale": stored / unit, "mscale_all_dim": stored / unit}


def sections(config: Config, tensors: Tensors) -> None:
    """Sections of the head that turn by time, height and width, in pairs of their own or interleaved."""
    sections = [n for n in config.pop("mrope_section") if n]
    config["rope_scaling"] = {"rope_type": "default", "mrope_section": sections}
    if config["model_type"] not in ("qwen2", "qwen2_vl"):
        config["rope_scaling"]["mrope_interleaved"] = True


def query_scale_of_27b(config: Config, tensors: Tensors) -> None:
    """The largest Gemma 2 and 3, known by their layers, scale by the hidden size per head."""
    if config["num_hidden_layers"] in (46, 62):
        config["query_pre_attn_scalar"] = config["hidden_size"] // config["num_attention_heads"]


def gemma4(config: Config, tensors: Tensors) -> None:
    """Sizes that differ between windowed and global layers, and between layers with and without a cache."""
    layers = config["num_hidden_layers"]
    kv, widths = config.pop("num_key_value_heads"), config["intermediate_size"]
    kv = kv if isinstance(kv, list) else [kv] * layers
    types = config["layer_types"]
    windowed = [i for i, kind in enumerate(types) if kind == "sliding_attention"]
    wide, narrow = config.pop("head_dim"), config.pop("head_dim_swa")
    config |= {"head_dim": narrow, "num_key_value_heads": kv[windowed[0]] if windowed else kv[0]}
    config["per_layer_config"] = {
        str(i): {"head_dim": wide, "num_key_value_heads": kv[i]} for i in range(layers) if i not in windowed
    }
    config["rope_parameters"] = {
        "full_attention": {"rope_theta": config.pop("rope_theta")},
        "sliding_attention": {"rope_theta": config.pop("rope_local_base_freq", 10000.0)},
    }
    drop(config, "partial_rotary_factor")
    if isinstance(widths, list):
        config |= {"intermediate_size": widths[0], "use_double_wide_mlp": widths[-1] == 2 * widths[0]}
    if config.get("num_experts"):
        config["enable_moe_block"] = True
    per_layer_inputs(config, tensors)


def per_layer_inputs(config: Config, tensors: Tensors) -> None:
    """Sizes that tensors tell."""
    if table := tensors.get("model.embed_tokens_per_layer.weight"):
        config["vocab_size_per_layer_input"] = table.shape[0]
    if low_rank := tensors.get("model.layers.0.laurel.linear_left.weight"):
        config["laurel_rank"] = low_rank.shape[0]


def latent(config: Config, tensors: Tensors) -> None:
    """Sizes of latent attention: older files give them as those of heads."""
    heads, rotated = config["num_attention_heads"], config["qk_rope_head_dim"]
    old = {key: config.pop(key, None) for key in ("key_length", "value_length")}
    config["qk_nope_head_dim"] = config.pop("key_length_mla", None) or old["key_length"]
    config["qk_nope_head_dim"] -= rotated
    value = config.pop("value_length_mla", None) or old["value_length"]
    output = tensors.get("model.layers.0.self_attn.o_proj.weight")
    config["v_head_dim"] = value or (output.shape[1] // heads if output else None)
    drop(config, "num_key_value_heads", "head_dim", "partial_rotary_factor")


def deepseek(config: Config, tensors: Tensors) -> None:
    """Latent attention, and how experts are chosen."""
    latent(config, tensors)
    routed(config, tensors)
    has_bias = exists(tensors, "gate.e_score_correction_bias")
    limited = config.get("n_group", 1) > 1
    config["topk_method"] = "noaux_tc" if has_bias else "group_limited_greedy" if limited else "greedy"
    score_factor(config, "yarn_log_multiplier", 0.1)


def indexed(config: Config, tensors: Tensors) -> None:
    """Which layers select positions and which take the last selection."""
    deepseek(config, tensors)
    if (types := config.get("indexer_types")) is not None:
        types = types if isinstance(types, list) else [types] * config["num_hidden_layers"]
        config["indexer_types"] = ["full" if yes else "shared" for yes in types]


def routed(config: Config, tensors: Tensors) -> None:
    """Layers that predict further tokens are counted among the layers."""
    config["num_hidden_layers"] -= config.get("num_nextn_predict_layers", 0)


def longrope(config: Config, tensors: Tensors) -> None:
    """The rule of Phi's long contexts, whose factors are tensors."""
    original, scale = config.pop("original_context_length", None), config.pop("attn_factor", None)
    factors = [tensors.get(f"rope_factors_{kind}.weight") for kind in ("short", "long")]
    if all(factors):
        short, long = (np.asarray(f.data).view(np.float32).tolist() for f in factors if f)
        rule: Config = {"rope_type": "longrope", "short_factor": short, "long_factor": long}
        rule["original_max_position_embeddings"] = original
        config["rope_scaling"] = {**rule, **({"attention_factor": scale} if scale else {})}


def hybrid(config: Config, names: tuple[str, str]) -> list[str]:
    """Layer types by which layers have key/value heads; the config keeps their number."""
    kv = config["num_key_value_heads"]
    kv = kv if isinstance(kv, list) else [kv] * config["num_hidden_layers"]
    config["num_key_value_heads"] = max(kv)
    return [names[n > 0] for n in kv]


def granite(config: Config, tensors: Tensors) -> None:
    """Models without experts have no keys for them."""
    if not config.get("num_local_experts"):
        drop(config, "num_local_experts", "num_experts_per_tok", "shared_intermediate_size")


def granite_hybrid(config: Config, tensors: Tensors) -> None:
    """Kinds of layers, and whether those of attention rotate, which a flag of another meaning tells."""
    config["layer_types"] = hybrid(config, ("mamba", "attention"))
    inner = config.pop("ssm_inner_size")
    config["mamba_d_head"] = inner // config["mamba_n_heads"]
    config["position_embedding_type"] = "rope" if config.pop("rope_finetuned", False) else "nope"


def falcon(config: Config, tensors: Tensors) -> None:
    """The generation of the decoder, by key/value heads and norms."""
    kv, two_norms = config.pop("num_key_value_heads"), exists(tensors, "ln_attn.weight")
    drop(config, "head_dim")
    new = two_norms or kv not in (1, config["num_attention_heads"])
    config |= {"num_kv_heads": kv, "multi_query": kv == 1, "new_decoder_architecture": new}
    config |= {"num_ln_in_parallel_attn": 2 if two_norms else 1} if new else {}


def mpt(config: Config, tensors: Tensors) -> None:
    """Keys that belong into the config of attention."""
    config["attn_config"] = {key: config.pop(key) for key in ("clip_qkv", "alibi_bias_max") if key in config}


def bigcode(config: Config, tensors: Tensors) -> None:
    """Whether all heads share one key and value."""
    config["multi_query"] = config.pop("num_key_value_heads", 1) == 1


def llama4(config: Config, tensors: Tensors) -> None:
    """Queries and keys are normalised but in the largest model."""
    config["use_qk_norm"] = (config["num_hidden_layers"], config["num_local_experts"]) != (48, 128)
    config["intermediate_size_mlp"] = config["intermediate_size"]
    config["intermediate_size"] = config.pop("moe_intermediate_size")


def gpt_oss(config: Config, tensors: Tensors) -> None:
    """The range that YaRN interpolates is not rounded in any published model, which files do not say."""
    widths_of_experts(config, tensors)
    config["rope_scaling"]["truncate"] = False


def cohere(config: Config, tensors: Tensors) -> None:
    """Whether queries and keys are normalised."""
    config["use_qk_norm"] = exists(tensors, "q_norm.weight")


def stablelm(config: Config, tensors: Tensors) -> None:
    """Whether queries and keys are normalised."""
    config["qk_layernorm"] = exists(tensors, "q_layernorm.weight")


def widths_of_experts(config: Config, tensors: Tensors) -> None:
    """The width of experts, where no layer is dense."""
    config["intermediate_size"] = config.pop("moe_intermediate_size", config["intermediate_size"])


def mamba(config: Config, tensors: Tensors) -> None:
    """No attention; norms in the recurrence, in Falcon-Mamba."""
    drop(config, "num_attention_heads", "num_key_value_heads")
    if config.pop("ssm_dt_b_c_rms", False):
        config["mixer_rms_eps"] = 1e-6


def mamba2(config: Config, tensors: Tensors) -> None:
    """No attention; the size of heads."""
    drop(config, "num_attention_heads", "num_key_value_heads", "intermediate_size")
    config["head_dim"] = config.pop("ssm_inner_size") // config["num_heads"]


def nemotron_h(config: Config, tensors: Tensors) -> None:
    """Kinds of layers, and the width of an FFN, by the tensors they have."""
    last = {"mamba": "in_proj", "attention": "q_proj", "moe": "experts.up_proj", "mlp": "up_proj"}
    kinds = []
    for i in range(config["num_hidden_layers"]):
        names = {kind: f"backbone.layers.{i}.mixer.{name}.weight" for kind, name in last.items()}
        kinds += [next((kind for kind, name in names.items() if name in tensors), "unknown")]
        if kinds[-1] == "mlp":
            config["intermediate_size"] = tensors[names["mlp"]].shape[0]
    config["layers_block_type"] = kinds
    hybrid(config, ("", ""))
    config["mamba_head_dim"] = config.pop("ssm_inner_size") // config["mamba_num_heads"]
    drop(config, "partial_rotary_factor")


def jamba(config: Config, tensors: Tensors) -> None:
    """Periods of attention and of experts, by where there are any."""
    kinds = hybrid(config, ("mamba", "attention"))
    sparse = [exists(tensors, f"layers.{i}.feed_forward.router.weight") for i in range(len(kinds))]
    for name, chosen in (("attn", [kind == "attention" for kind in kinds]), ("expert", sparse)):
        where = [i for i, yes in enumerate(chosen) if yes] or [len(chosen)]
        config[f"{name}_layer_offset"] = where[0]
        config[f"{name}_layer_period"] = where[1] - where[0] if len(where) > 1 else len(chosen) + 1
    config["mamba_expand"] = config.pop("ssm_inner_size") // config["hidden_size"]


def falcon_h1(config: Config, tensors: Tensors) -> None:
    """Multipliers are part of the weights."""
    config["mamba_d_ssm"] = config.pop("ssm_inner_size")


def lfm2(config: Config, tensors: Tensors) -> None:
    """Kinds of layers, by key/value heads."""
    config["layer_types"] = hybrid(config, ("conv", "full_attention"))
    if not config.get("num_experts"):
        drop(config, "num_experts", "num_experts_per_tok")


def delta_net(config: Config, tensors: Tensors) -> None:
    """Kinds of layers, and the size of value heads."""
    recurrent = config.pop("recurrent_layers", None)
    if recurrent is not None:
        config["layer_types"] = ["linear_attention" if yes else "full_attention" for yes in recurrent]
    config["linear_value_head_dim"] = config.pop("ssm_inner_size") // config["linear_num_value_heads"]
    if "mrope_section" in config:
        sections(config, tensors)


def kimi_linear(config: Config, tensors: Tensors) -> None:
    """Kinds of layers, and latent attention."""
    config["layer_types"] = hybrid(config, ("linear_attention", "full_attention"))
    config["linear_num_heads"] = config["num_attention_heads"]
    latent(config, tensors)
