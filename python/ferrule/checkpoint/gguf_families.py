"""What each GGUF architecture calls its tensors and metadata, where it differs from the tables that all share.

Source: what llama.cpp's converters write for these families.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import gguf_adjust as adjust
from .gguf_adjust import Config, Tensors

RowOrder = Callable[[int, Mapping[str, Any]], NDArray[np.intp]]


@dataclass(frozen=True)
class Family:
    """How one GGUF architecture differs from the shared tables.

    `tensors`: stems, or whole names, GGUF -> Hugging Face. `keys`: metadata keys -> config keys, "" for keys that say
    nothing more. `config`: what the architecture implies and the file does not say. `adjust(config, tensors)` does what
    is more than renaming, `tensors` being under Hugging Face's names. `rows`: last part of a matrix's name -> the order
    that converters give its n rows, as the row of Hugging Face's that each of them is, from n and the config.
    `converted`: matrices, by a pattern of Hugging Face's names, of which converters change more than that order.
    """

    model_type: str
    tensors: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ("block_count", "embedding_length")
    without: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # absent key -> config that follows from it
    adjust: Callable[[Config, Tensors], None] | None = None
    rows: Mapping[str, RowOrder] = field(default_factory=dict)
    converted: str | None = None


_DENSE = (
    "block_count",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.layer_norm_rms_epsilon",
)
_LAYER = "model.layers.{}"


def _under(prefix: str, table: Mapping[str, str]) -> dict[str, str]:
    """The table for tensors of a layer, GGUF's names after "blk.{}.", Hugging Face's after `prefix`."""
    return {f"blk.{{}}.{gguf}": f"{prefix}.{hf}" for gguf, hf in table.items()}


def _neighbours(heads: str) -> RowOrder:
    """The halves of each head interleaved, so that values that turn together are neighbours."""
    return lambda n, config: np.arange(n).reshape(config[heads], 2, -1).swapaxes(1, 2).reshape(-1)


def _by_parts(heads: str, kv_heads: str) -> RowOrder:
    """All queries, keys, values, where Hugging Face has the queries, key and value of each key/value head together."""

    def order(n: int, config: Mapping[str, Any]) -> NDArray[np.intp]:
        group = config[heads] // config[kv_heads]
        grouped = np.arange(n).reshape(config[kv_heads], group + 2, -1)
        return np.concatenate([part.reshape(-1) for part in np.split(grouped, [group, group + 1], axis=1)])

    return order


_TURNED = {"q_proj": _neighbours("num_attention_heads"), "k_proj": _neighbours("num_key_value_heads")}
_SANDWICH = _under(
    _LAYER,
    {
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    },
)
_POST_NORMS = _under(
    _LAYER, {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
)
_PER_LAYER = {
    "per_layer_token_embd": "model.embed_tokens_per_layer",
    "per_layer_model_proj": "model.per_layer_model_projection",
    "per_layer_proj_norm": "model.per_layer_projection_norm",
    **_under(
        _LAYER,
        {
            "inp_gate": "per_layer_input_gate",
            "proj": "per_layer_projection",
            "post_norm": "post_per_layer_input_norm",
        },
    ),
}
_NORM_BEFORE_FFN = _under(_LAYER, {"post_attention_norm": "post_attention_layernorm"})
_MIXTRAL_EXPERTS = _under(
    _LAYER,
    {
        "ffn_gate_exps": "block_sparse_moe.experts.w1",
        "ffn_up_exps": "block_sparse_moe.experts.w3",
        "ffn_down_exps": "block_sparse_moe.experts.w2",
        "ffn_gate_inp": "block_sparse_moe.gate",
        "exp_probs_b.bias": "block_sparse_moe.e_score_correction_bias",
    },
)
_SHARED_EXPERT = _under(
    _LAYER,
    {
        "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
        "ffn_up_shexp": "mlp.shared_expert.up_proj",
        "ffn_down_shexp": "mlp.shared_expert.down_proj",
        "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    },
)
_LATENT = _under(
    _LAYER,
    {
        "attn_q_a": "self_attn.q_a_proj",
        "attn_q_a_norm": "self_attn.q_a_layernorm",
        "attn_q_b": "self_attn.q_b_proj",
        "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
        "attn_kv_a_norm": "self_attn.kv_a_layernorm",
        "attn_kv_b": "self_attn.kv_b_proj",
        "attn_k_b": "self_attn.k_b_proj",
        "attn_v_b": "self_attn.v_b_proj",
    },
)
_GATED_FFN = {"ffn_gate": "gate_proj", "ffn_up": "up_proj", "ffn_down": "down_proj"}
_EXPERT_FFN = {f"{gguf}_exps": f"experts.{hf}" for gguf, hf in _GATED_FFN.items()}
_MAMBA = {
    "ssm_in": "in_proj",
    "ssm_conv1d": "conv1d",
    "ssm_x": "x_proj",
    "ssm_out": "out_proj",
    "ssm_a": "A_log",
    "ssm_d": "D",
}
_MAMBA1 = {**_MAMBA, "ssm_dt": "dt_proj", "ssm_dt_norm": "dt_layernorm"}
_MAMBA1 |= {"ssm_b_norm": "b_layernorm", "ssm_c_norm": "c_layernorm"}
_MAMBA2 = {**_MAMBA, "ssm_dt.bias": "dt_bias", "ssm_norm": "norm"}

_EXPERT_KEYS = {
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_used_count": "num_experts_per_tok",
    "expert_weights_norm": "norm_topk_prob",
    "expert_weights_scale": "routed_scaling_factor",
    "expert_gating_func": "scoring_func",
}
_LOCAL_EXPERTS = {**_EXPERT_KEYS, "expert_count": "num_local_experts"}
_QWEN_EXPERTS = {
    **_EXPERT_KEYS,
    "expert_count": "num_experts",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
}
_ROUTED_EXPERTS = {
    **_EXPERT_KEYS,
    "expert_count": "n_routed_experts",
    "expert_shared_count": "n_shared_experts",
    "expert_shared_feed_forward_length": "",
    "expert_group_count": "n_group",
    "expert_group_used_count": "topk_group",
    "leading_dense_block_count": "first_k_dense_replace",
    "nextn_predict_layers": "num_nextn_predict_layers",
}
_LAYER_NORM = {"attention.layer_norm_epsilon": "layer_norm_eps"}
_INNER = {"ssm.inner_size": "ssm_inner_size"}
_SSM_KEYS = {"ssm.conv_kernel": "conv_kernel", "ssm.state_size": "state_size"}
_NO_SSM = {f"ssm.{key}": "" for key in ("conv_kernel", "state_size", "group_count", "inner_size", "time_step_rank")}
_GRANITE_KEYS = {
    **_LOCAL_EXPERTS,
    "attention.scale": "attention_multiplier",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
    "logit_scale": "logits_scaling",
    "expert_shared_feed_forward_length": "shared_intermediate_size",
}


_LATENT_KEYS = {
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "attention.key_length": "key_length",
    "attention.value_length": "value_length",
    "attention.key_length_mla": "key_length_mla",
    "attention.value_length_mla": "value_length_mla",
    "rope.dimension_count": "qk_rope_head_dim",
    "rope.scaling.yarn_log_multiplier": "yarn_log_multiplier",
}
_INDEXER = _under(
    f"{_LAYER}.self_attn.indexer",
    {
        "indexer.attn_q_b": "wq_b",
        "indexer.attn_k": "wk",
        "indexer.k_norm": "k_norm",
        "indexer.proj": "weights_proj",
    },
)
_INDEXER_KEYS = {
    "attention.indexer.head_count": "index_n_heads",
    "attention.indexer.key_length": "index_head_dim",
    "attention.indexer.top_k": "index_topk",
    "attention.indexer.types": "indexer_types",
}
_LINEAR_KEYS = {
    **_QWEN_EXPERTS,
    "ssm.conv_kernel": "linear_conv_kernel_dim",
    "ssm.state_size": "linear_key_head_dim",
    "ssm.group_count": "linear_num_key_heads",
    "ssm.time_step_rank": "linear_num_value_heads",
    **_INNER,
    "attention.recurrent_layers": "recurrent_layers",
    "full_attention_interval": "full_attention_interval",
    "rope.dimension_sections": "mrope_section",
}
_DELTA_NET = {
    **_NORM_BEFORE_FFN,
    **_SHARED_EXPERT,
    **_under(
        f"{_LAYER}.linear_attn",
        {
            "attn_qkv": "in_proj_qkv",
            "attn_gate": "in_proj_z",
            "ssm_ba": "in_proj_ba",
            "ssm_alpha": "in_proj_a",
            "ssm_beta": "in_proj_b",
            "ssm_conv1d": "conv1d",
            "ssm_a": "A_log",
            "ssm_dt.bias": "dt_bias",
            "ssm_norm": "norm",
            "ssm_out": "out_proj",
        },
    ),
}
_GPT2 = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    **_under(
        "transformer.h.{}",
        {
            "attn_norm": "ln_1",
            "attn_qkv": "attn.c_attn",
            "attn_output": "attn.c_proj",
            "ffn_norm": "ln_2",
            "ffn_up": "mlp.c_fc",
            "ffn_down": "mlp.c_proj",
        },
    ),
}
_GPT2_KEYS = {
    "context_length": "n_positions",
    "embedding_length": "n_embd",
    "block_count": "n_layer",
    "feed_forward_length": "n_inner",
    "attention.head_count": "n_head",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
}
_FALCON = {
    "token_embd": "transformer.word_embeddings",
    "output_norm": "transformer.ln_f",
    **_under(
        "transformer.h.{}",
        {
            "attn_norm": "input_layernorm",
            "attn_norm_2": "ln_attn",
            "attn_qkv": "self_attention.query_key_value",
            "attn_output": "self_attention.dense",
            "ffn_norm": "post_attention_layernorm",
            "ffn_up": "mlp.dense_h_to_4h",
            "ffn_down": "mlp.dense_4h_to_h",
        },
    ),
}
_STATE_SPACE = {"token_embd": "backbone.embeddings", "output_norm": "backbone.norm_f"}
_BACKBONE = "backbone.layers.{}"
_SHORT_CONV = {
    "token_embd_norm": "model.embedding_norm",
    **_under(
        _LAYER,
        {
            "attn_norm": "operator_norm",
            "ffn_norm": "ffn_norm",
            "attn_output": "self_attn.out_proj",
            "attn_q_norm": "self_attn.q_layernorm",
            "attn_k_norm": "self_attn.k_layernorm",
            "shortconv.conv": "conv.conv",
            "shortconv.in_proj": "conv.in_proj",
            "shortconv.out_proj": "conv.out_proj",
            "ffn_gate": "feed_forward.w1",
            "ffn_up": "feed_forward.w3",
            "ffn_down": "feed_forward.w2",
            "ffn_gate_exps": "feed_forward.experts.w1",
            "ffn_up_exps": "feed_forward.experts.w3",
            "ffn_down_exps": "feed_forward.experts.w2",
            "ffn_gate_inp": "feed_forward.gate",
            "exp_probs_b.bias": "feed_forward.expert_bias",
        },
    ),
}
_QWEN3_VL = {"rope.dimension_sections": "mrope_section", "n_deepstack_layers": ""}
_PHI3_KEYS = {"rope.scaling.original_context_length": "original_context_length"}
_PHI3_KEYS |= {"rope.scaling.attn_factor": "attn_factor"}
_GRANITE_TENSORS = _under(
    _LAYER,
    {
        **{gguf: f"block_sparse_moe.{hf}" for gguf, hf in _EXPERT_FFN.items()},
        **{f"{gguf}_shexp": f"shared_mlp.{hf}" for gguf, hf in _GATED_FFN.items()},
        "ffn_gate_inp": "block_sparse_moe.router.layer",
        **{gguf: f"mamba.{hf}" for gguf, hf in _MAMBA2.items()},
    },
)
_NEMOTRON_H = Family(
    "nemotron_h",
    tensors={
        **_STATE_SPACE,
        **_under(
            _BACKBONE,
            {
                "attn_norm": "norm",
                **{gguf: f"mixer.{hf}" for gguf, hf in _MAMBA2.items()},
                **{f"attn_{part}": f"mixer.{part}_proj" for part in "qkv"},
                "attn_output": "mixer.o_proj",
                "ffn_up": "mixer.up_proj",
                "ffn_down": "mixer.down_proj",
                "ffn_up_exps": "mixer.experts.up_proj",
                "ffn_down_exps": "mixer.experts.down_proj",
                "ffn_up_shexp": "mixer.shared_experts.up_proj",
                "ffn_down_shexp": "mixer.shared_experts.down_proj",
                "ffn_gate_inp": "mixer.gate",
                "exp_probs_b.bias": "mixer.gate.e_score_correction_bias",
            },
        ),
    },
    keys={
        **_ROUTED_EXPERTS,
        "expert_shared_feed_forward_length": "moe_shared_expert_intermediate_size",
        "attention.layer_norm_epsilon": "layer_norm_epsilon",
        "ssm.conv_kernel": "conv_kernel",
        "ssm.state_size": "ssm_state_size",
        "ssm.group_count": "n_groups",
        "ssm.time_step_rank": "mamba_num_heads",
        **_INNER,
    },
    adjust=adjust.nemotron_h,
    rows=_TURNED,
)

FAMILIES = {
    "llama": Family(  # also Mistral, Mixtral and SmolLM: converters write one architecture for all
        "llama", tensors=_MIXTRAL_EXPERTS, keys=_LOCAL_EXPERTS, required=_DENSE, adjust=adjust.llama, rows=_TURNED
    ),
    "mistral3": Family(
        "ministral3",
        keys={
            "attention.temperature_scale": "temperature_scale",
            "rope.scaling.yarn_log_multiplier": "yarn_log_multiplier",
        },
        adjust=adjust.sharpened,
        rows=_TURNED,
    ),
    "arcee": Family("arcee", config={"hidden_act": "relu2"}, rows=_TURNED),
    "seed_oss": Family("seed_oss", tensors=_NORM_BEFORE_FFN),
    "qwen2": Family("qwen2", required=_DENSE),
    "qwen2vl": Family("qwen2_vl", keys={"rope.dimension_sections": "mrope_section"}, adjust=adjust.sections),
    "qwen3": Family("qwen3", required=_DENSE),
    "qwen3vl": Family("qwen3_vl", keys=_QWEN3_VL, adjust=adjust.sections),
    "qwen2moe": Family("qwen2_moe", tensors=_SHARED_EXPERT, keys=_QWEN_EXPERTS),
    "qwen3moe": Family("qwen3_moe", keys=_QWEN_EXPERTS, config={"norm_topk_prob": True}),
    "qwen3vlmoe": Family(
        "qwen3_vl_moe", keys={**_QWEN_EXPERTS, **_QWEN3_VL}, config={"norm_topk_prob": True}, adjust=adjust.sections
    ),
    "qwen3next": Family("qwen3_next", tensors=_DELTA_NET, keys=_LINEAR_KEYS, adjust=adjust.delta_net),
    "qwen35": Family(
        "qwen3_5", tensors=_DELTA_NET, keys=_LINEAR_KEYS, adjust=adjust.delta_net, converted=r"\.linear_attn\."
    ),
    "qwen35moe": Family(
        "qwen3_5_moe", tensors=_DELTA_NET, keys=_LINEAR_KEYS, adjust=adjust.delta_net, converted=r"\.linear_attn\."
    ),
    "gemma": Family("gemma"),
    "gemma2": Family("gemma2", tensors=_SANDWICH, adjust=adjust.query_scale_of_27b),
    "gemma3": Family(
        "gemma3_text",
        tensors=_SANDWICH,
        required=_DENSE,
        without={"attention.sliding_window": {"sliding_window_pattern": 1}},
        adjust=adjust.query_scale_of_27b,
    ),
    "gemma3n": Family(
        "gemma3n_text",
        tensors={
            **_SANDWICH,
            **_PER_LAYER,
            "altup_proj": "model.altup_projections",
            "altup_unembd_proj": "model.altup_unembed_projections",
            **_under(
                _LAYER,
                {
                    "altup_correct_scale.weight": "altup.correct_output_scale",
                    "altup_correct_coef": "altup.correction_coefs",
                    "altup_predict_coef": "altup.prediction_coefs",
                    "altup_router": "altup.modality_router",
                    "altup_router_norm": "altup.router_norm",
                    "laurel_l": "laurel.linear_left",
                    "laurel_r": "laurel.linear_right",
                    "laurel_post_norm": "laurel.post_laurel_norm",
                },
            ),
        },
        keys={
            "altup.active_idx": "altup_active_idx",
            "altup.num_inputs": "altup_num_inputs",
            "activation_sparsity_scale": "activation_sparsity_scale",
            "attention.shared_kv_layers": "num_kv_shared_layers",
            "embedding_length_per_layer_input": "hidden_size_per_layer_input",
        },
        adjust=adjust.per_layer_inputs,
    ),
    "gemma4": Family(
        "gemma4_text",
        tensors={
            **_SANDWICH,
            **_PER_LAYER,
            **_under(
                _LAYER,
                {
                    "layer_output_scale.weight": "layer_scalar",
                    "post_ffw_norm_1": "post_feedforward_layernorm_1",
                    "post_ffw_norm_2": "post_feedforward_layernorm_2",
                    "pre_ffw_norm_2": "pre_feedforward_layernorm_2",
                    "ffn_gate_inp": "router.proj",
                    "ffn_gate_inp.scale": "router.scale",
                    "ffn_down_exps.scale": "router.per_expert_scale",
                    "ffn_gate_up_exps.weight": "experts.gate_up_proj",
                    **_EXPERT_FFN,
                },
            ),
        },
        keys={
            "expert_count": "num_experts",
            "expert_used_count": "top_k_experts",
            "expert_feed_forward_length": "moe_intermediate_size",
            "attention.key_length_swa": "head_dim_swa",
            "attention.value_length_swa": "",
            "attention.value_length": "",
            "rope.dimension_count_swa": "",
            "rope.dimension_count": "",
            "attention.shared_kv_layers": "num_kv_shared_layers",
            "embedding_length_per_layer_input": "hidden_size_per_layer_input",
        },
        adjust=adjust.gemma4,
    ),
    "granite": Family(
        "granite", keys={**_GRANITE_KEYS, **_NO_SSM}, adjust=adjust.granite, rows=_TURNED
    ),  # also hybrids without experts
    "granitemoe": Family("granitemoe", tensors=_GRANITE_TENSORS, keys=_GRANITE_KEYS, rows=_TURNED),
    "granitehybrid": Family(
        "granitemoehybrid",
        tensors=_GRANITE_TENSORS,
        keys={
            **_GRANITE_KEYS,
            "ssm.conv_kernel": "mamba_d_conv",
            "ssm.state_size": "mamba_d_state",
            "ssm.group_count": "mamba_n_groups",
            "ssm.time_step_rank": "mamba_n_heads",
            **_INNER,
            "rope.scaling.finetuned": "rope_finetuned",
        },
        adjust=adjust.granite_hybrid,
        rows=_TURNED,
    ),
    "olmo": Family("olmo", keys={"attention.clamp_kqv": "clip_qkv", "attention.layer_norm_epsilon": ""}, rows=_TURNED),
    "olmo2": Family("olmo2", tensors=_POST_NORMS, keys={"rope.freq_base_swa": ""}),  # also OLMo 3
    "olmoe": Family("olmoe", keys={**_EXPERT_KEYS, "expert_count": "num_experts"}),
    "phi2": Family(
        "phi",
        tensors={
            "output_norm": "model.final_layernorm",
            **_under(_LAYER, {"attn_output": "self_attn.dense", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"}),
        },
        keys=_LAYER_NORM,
    ),
    "phi3": Family(
        "phi3",
        tensors=_under(_LAYER, {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}),
        keys=_PHI3_KEYS,
        adjust=adjust.longrope,
    ),
    "phimoe": Family("phimoe", tensors=_MIXTRAL_EXPERTS, keys={**_LOCAL_EXPERTS, **_PHI3_KEYS}, adjust=adjust.longrope),
    "smollm3": Family("smollm3", rows=_TURNED),
    "gpt-oss": Family(
        "gpt_oss",
        tensors={
            **_NORM_BEFORE_FFN,
            **_under(_LAYER, {"attn_sinks.weight": "self_attn.sinks", "ffn_gate_inp": "mlp.router"}),
        },
        keys=_LOCAL_EXPERTS,
        adjust=adjust.gpt_oss,
    ),
    "deepseek2": Family(
        "deepseek_v2", tensors=_LATENT, keys={**_ROUTED_EXPERTS, **_LATENT_KEYS}, adjust=adjust.deepseek
    ),
    "deepseek32": Family(
        "deepseek_v32",
        tensors={**_LATENT, **_INDEXER},
        keys={**_ROUTED_EXPERTS, **_LATENT_KEYS, **_INDEXER_KEYS},
        adjust=adjust.indexed,
    ),
    "glm-dsa": Family(
        "glm_moe_dsa",
        tensors={**_LATENT, **_INDEXER},
        keys={**_ROUTED_EXPERTS, **_LATENT_KEYS, **_INDEXER_KEYS},
        adjust=adjust.indexed,
    ),
    "minicpm3": Family(
        "minicpm3",
        tensors=_LATENT,
        keys=_LATENT_KEYS,
        config={"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256},
        adjust=adjust.latent,
    ),
    "starcoder2": Family(
        "starcoder2",
        tensors=_under(_LAYER, {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}),
        keys={"attention.layer_norm_epsilon": "norm_epsilon"},
    ),
    "gpt2": Family("gpt2", tensors=_GPT2, keys={**_GPT2_KEYS, "attention.head_count_kv": ""}),
    "starcoder": Family("gpt_bigcode", tensors=_GPT2, keys=_GPT2_KEYS, adjust=adjust.bigcode),
    "gptneox": Family(
        "gpt_neox",
        tensors={
            "token_embd": "gpt_neox.embed_in",
            "output_norm": "gpt_neox.final_layer_norm",
            "output": "embed_out",
            **_under(
                "gpt_neox.layers.{}",
                {
                    "attn_norm": "input_layernorm",
                    "attn_qkv": "attention.query_key_value",
                    "attn_output": "attention.dense",
                    "ffn_norm": "post_attention_layernorm",
                    "ffn_up": "mlp.dense_h_to_4h",
                    "ffn_down": "mlp.dense_4h_to_h",
                },
            ),
        },
        keys={**_LAYER_NORM, "use_parallel_residual": "use_parallel_residual"},
        config={"partial_rotary_factor": 1.0},
        rows={"query_key_value": _by_parts("num_attention_heads", "num_attention_heads")},
    ),
    "falcon": Family(
        "falcon",
        tensors=_FALCON,
        keys={"attention.layer_norm_epsilon": "layer_norm_epsilon", "feed_forward_length": "ffn_hidden_size"},
        adjust=adjust.falcon,
        rows={"query_key_value": _by_parts("num_attention_heads", "num_kv_heads")},
    ),
    "bloom": Family(
        "bloom",
        tensors={**_FALCON, "token_embd_norm": "transformer.word_embeddings_layernorm"},
        keys={
            "attention.layer_norm_epsilon": "layer_norm_epsilon",
            "attention.head_count": "n_head",
            "block_count": "n_layer",
            "feed_forward_length": "",
            "attention.head_count_kv": "",
        },
        rows={"query_key_value": _by_parts("n_head", "n_head")},
    ),
    "mpt": Family(
        "mpt",
        tensors={
            "token_embd": "transformer.wte",
            "output_norm": "transformer.norm_f",
            **_under(
                "transformer.blocks.{}",
                {
                    "attn_norm": "norm_1",
                    "attn_qkv": "attn.Wqkv",
                    "attn_output": "attn.out_proj",
                    "ffn_norm": "norm_2",
                    "ffn_up": "ffn.up_proj",
                    "ffn_down": "ffn.down_proj",
                },
            ),
        },
        keys={
            "attention.layer_norm_epsilon": "layer_norm_epsilon",
            "attention.clamp_kqv": "clip_qkv",
            "attention.max_alibi_bias": "alibi_bias_max",
            "attention.head_count": "n_heads",
            "attention.head_count_kv": "",
            "block_count": "n_layers",
            "context_length": "max_seq_len",
            "embedding_length": "d_model",
            "feed_forward_length": "",
        },
        adjust=adjust.mpt,
    ),
    "command-r": Family("cohere", keys={**_LAYER_NORM, "logit_scale": "logit_scale"}, adjust=adjust.cohere),
    "cohere2": Family("cohere2", keys={**_LAYER_NORM, "logit_scale": "logit_scale"}),
    "stablelm": Family(
        "stablelm",
        tensors=_under(_LAYER, {"attn_q_norm": "self_attn.q_layernorm", "attn_k_norm": "self_attn.k_layernorm"}),
        keys={**_LAYER_NORM, "use_parallel_residual": "use_parallel_residual"},
        adjust=adjust.stablelm,
    ),
    "nemotron": Family(
        "nemotron",
        keys={"attention.layer_norm_epsilon": "norm_eps", "attention.layer_norm_rms_epsilon": ""},
    ),
    "chatglm": Family("glm", tensors=_under(_LAYER, {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"})),
    "glm4": Family(
        "glm4",
        tensors=_under(
            _LAYER,
            {
                "post_attention_norm": "post_self_attn_layernorm",
                "post_ffw_norm": "post_mlp_layernorm",
                "ffn_up": "mlp.gate_up_proj",
            },
        ),
    ),
    "glm4moe": Family("glm4_moe", tensors=_NORM_BEFORE_FFN, keys=_ROUTED_EXPERTS, adjust=adjust.routed),
    "dots1": Family("dots1", keys=_ROUTED_EXPERTS),
    "ernie4_5": Family("ernie4_5"),
    "ernie4_5-moe": Family(
        "ernie4_5_moe",
        tensors=_under(_LAYER, {"exp_probs_b.bias": "mlp.moe_statics.e_score_correction_bias"}),
        keys={
            "expert_count": "moe_num_experts",
            "expert_used_count": "moe_k",
            "expert_feed_forward_length": "moe_intermediate_size",
            "expert_shared_count": "moe_num_shared_experts",
            "expert_shared_feed_forward_length": "",
            "interleave_moe_layer_step": "moe_layer_interval",
            "leading_dense_block_count": "moe_layer_start_index",
        },
    ),
    "exaone4": Family("exaone4", tensors=_POST_NORMS),
    "hunyuan-dense": Family(
        "hunyuan_v1_dense",
        tensors=_under(_LAYER, {"attn_q_norm": "self_attn.query_layernorm", "attn_k_norm": "self_attn.key_layernorm"}),
    ),
    "llama4": Family(
        "llama4_text",
        tensors=_under(
            _LAYER,
            {
                **{gguf: f"feed_forward.{hf}" for gguf, hf in (_GATED_FFN | _EXPERT_FFN).items()},
                **{f"{gguf}_shexp": f"feed_forward.shared_expert.{hf}" for gguf, hf in _GATED_FFN.items()},
                "ffn_gate_inp": "feed_forward.router",
            },
        ),
        keys={
            **_LOCAL_EXPERTS,
            "interleave_moe_layer_step": "interleave_moe_layer_step",
            "attention.chunk_size": "attention_chunk_size",
        },
        config={"attention_chunk_size": 8192},
        adjust=adjust.llama4,
    ),
    "minimax-m2": Family("minimax_m2", tensors=_MIXTRAL_EXPERTS, keys=_LOCAL_EXPERTS, adjust=adjust.widths_of_experts),
    "apertus": Family(
        "apertus",
        tensors=_under(_LAYER, {"attn_norm": "attention_layernorm", "ffn_norm": "feedforward_layernorm"}),
        keys={f"xielu.{name}": f"xielu_{name}" for name in ("alpha_p", "alpha_n", "beta", "eps")},
    ),
    "mamba": Family(  # also Falcon-Mamba
        "mamba",
        tensors={
            **_STATE_SPACE,
            **_under(_BACKBONE, {"attn_norm": "norm", **{gguf: f"mixer.{hf}" for gguf, hf in _MAMBA1.items()}}),
        },
        keys={
            **_SSM_KEYS,
            "ssm.inner_size": "intermediate_size",
            "feed_forward_length": "",
            "ssm.time_step_rank": "time_step_rank",
            "ssm.dt_b_c_rms": "ssm_dt_b_c_rms",
            "attention.layer_norm_rms_epsilon": "layer_norm_epsilon",
        },
        adjust=adjust.mamba,
    ),
    "mamba2": Family(
        "mamba2",
        tensors={
            **_STATE_SPACE,
            **_under(_BACKBONE, {"attn_norm": "norm", **{gguf: f"mixer.{hf}" for gguf, hf in _MAMBA2.items()}}),
        },
        keys={
            **_SSM_KEYS,
            "ssm.group_count": "n_groups",
            "ssm.time_step_rank": "num_heads",
            **_INNER,
            "attention.layer_norm_rms_epsilon": "layer_norm_epsilon",
        },
        adjust=adjust.mamba2,
    ),
    "nemotron_h": _NEMOTRON_H,
    "nemotron_h_moe": _NEMOTRON_H,
    "jamba": Family(
        "jamba",
        tensors={
            "output_norm": "model.final_layernorm",
            **_under(
                _LAYER,
                {
                    **{gguf: f"mamba.{hf}" for gguf, hf in _MAMBA1.items()},
                    **{gguf: f"feed_forward.{hf}" for gguf, hf in (_GATED_FFN | _EXPERT_FFN).items()},
                    "ffn_gate_inp": "feed_forward.router",
                    "ffn_norm": "pre_ff_layernorm",
                },
            ),
        },
        keys={
            "expert_count": "num_experts",
            "expert_used_count": "num_experts_per_tok",
            "ssm.conv_kernel": "mamba_d_conv",
            "ssm.state_size": "mamba_d_state",
            "ssm.time_step_rank": "mamba_dt_rank",
            **_INNER,
        },
        adjust=adjust.jamba,
    ),
    "falcon-h1": Family(
        "falcon_h1",
        tensors={
            "output_norm": "model.final_layernorm",
            **_under(
                _LAYER,
                {
                    **{gguf: f"mamba.{hf}" for gguf, hf in _MAMBA2.items()},
                    **{gguf: f"feed_forward.{hf}" for gguf, hf in _GATED_FFN.items()},
                    "ffn_norm": "pre_ff_layernorm.weight",
                },
            ),
        },
        keys={
            "ssm.conv_kernel": "mamba_d_conv",
            "ssm.state_size": "mamba_d_state",
            "ssm.group_count": "mamba_n_groups",
            "ssm.time_step_rank": "mamba_n_heads",
            **_INNER,
        },
        adjust=adjust.falcon_h1,
        converted=r".",
    ),
    "lfm2": Family(
        "lfm2",
        tensors=_SHORT_CONV,
        keys={"shortconv.l_cache": "conv_L_cache", "attention.layer_norm_rms_epsilon": "norm_eps"},
        adjust=adjust.lfm2,
    ),
    "lfm2moe": Family(
        "lfm2_moe",
        tensors=_SHORT_CONV,
        keys={
            **_EXPERT_KEYS,
            "expert_count": "num_experts",
            "leading_dense_block_count": "num_dense_layers",
            "shortconv.l_cache": "conv_L_cache",
            "attention.layer_norm_rms_epsilon": "norm_eps",
        },
        adjust=adjust.lfm2,
    ),
    "kimi-linear": Family(
        "kimi_linear",
        tensors={
            **_LATENT,
            **_under(
                _LAYER,
                {
                    "ssm_a": "self_attn.A_log",
                    "ssm_beta": "self_attn.b_proj",
                    "ssm_dt.bias": "self_attn.dt_bias",
                    "ssm_f_a": "self_attn.f_a_proj",
                    "ssm_f_b": "self_attn.f_b_proj",
                    "ssm_g_a": "self_attn.g_a_proj",
                    "ssm_g_b": "self_attn.g_b_proj",
                    "ssm_norm": "self_attn.o_norm",
                    **{f"ssm_conv1d_{part}": f"self_attn.{part}_conv1d" for part in "qkv"},
                    "ffn_gate_exps": "block_sparse_moe.experts.w1",
                    "ffn_up_exps": "block_sparse_moe.experts.w3",
                    "ffn_down_exps": "block_sparse_moe.experts.w2",
                    "ffn_gate_inp": "block_sparse_moe.gate",
                    "exp_probs_b.bias": "block_sparse_moe.gate.e_score_correction_bias",
                    **{f"{gguf}_shexp": f"block_sparse_moe.shared_experts.{hf}" for gguf, hf in _GATED_FFN.items()},
                },
            ),
        },
        keys={
            **_LATENT_KEYS,
            "expert_count": "num_experts",
            "expert_used_count": "num_experts_per_token",
            "expert_feed_forward_length": "moe_intermediate_size",
            "expert_shared_count": "num_shared_experts",
            "expert_group_count": "num_expert_group",
            "expert_group_used_count": "topk_group",
            "expert_gating_func": "moe_router_activation_func",
            "expert_weights_norm": "moe_renormalize",
            "expert_weights_scale": "routed_scaling_factor",
            "leading_dense_block_count": "first_k_dense_replace",
            "ssm.conv_kernel": "linear_conv_kernel_dim",
            "kda.head_dim": "linear_head_dim",
        },
        adjust=adjust.kimi_linear,
    ),
}
