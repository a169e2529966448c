"""Families with recurrent layers or convolutions, alone or beside attention, and Granite, whose hybrids have both."""

from __future__ import annotations

from .. import gguf_adjust as adjust
from .family import LAYER, TURNED, Family, under
from .shared import (
    EXPERT_FFN,
    EXPERT_KEYS,
    GATED_FFN,
    LATENT,
    LATENT_KEYS,
    LOCAL_EXPERTS,
    NORM_BEFORE_FFN,
    QWEN_EXPERTS,
    ROUTED_EXPERTS,
    SHARED_EXPERT,
)

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
_INNER = {"ssm.inner_size": "ssm_inner_size"}
_SSM_KEYS = {"ssm.conv_kernel": "conv_kernel", "ssm.state_size": "state_size"}
_NO_SSM = {f"ssm.{key}": "" for key in ("conv_kernel", "state_size", "group_count", "inner_size", "time_step_rank")}
_GRANITE_KEYS = {
    **LOCAL_EXPERTS,
    "attention.scale": "attention_multiplier",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
    "logit_scale": "logits_scaling",
    "expert_shared_feed_forward_length": "shared_intermediate_size",
}
_LINEAR_KEYS = {
    **QWEN_EXPERTS,
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
    **NORM_BEFORE_FFN,
    **SHARED_EXPERT,
    **under(
        f"{LAYER}.linear_attn",
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
_STATE_SPACE = {"token_embd": "backbone.embeddings", "output_norm": "backbone.norm_f"}
_BACKBONE = "backbone.layers.{}"
_SHORT_CONV = {
    "token_embd_norm": "model.embedding_norm",
    **under(
        LAYER,
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
_GRANITE_TENSORS = under(
    LAYER,
    {
        **{gguf: f"block_sparse_moe.{hf}" for gguf, hf in EXPERT_FFN.items()},
        **{f"{gguf}_shexp": f"shared_mlp.{hf}" for gguf, hf in GATED_FFN.items()},
        "ffn_gate_inp": "block_sparse_moe.router.layer",
        **{gguf: f"mamba.{hf}" for gguf, hf in _MAMBA2.items()},
    },
)
_NEMOTRON_H = Family(
    "nemotron_h",
    tensors={
        **_STATE_SPACE,
        **under(
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
        **ROUTED_EXPERTS,
        "expert_shared_feed_forward_length": "moe_shared_expert_intermediate_size",
        "attention.layer_norm_epsilon": "layer_norm_epsilon",
        "ssm.conv_kernel": "conv_kernel",
        "ssm.state_size": "ssm_state_size",
        "ssm.group_count": "n_groups",
        "ssm.time_step_rank": "mamba_num_heads",
        **_INNER,
    },
    adjust=adjust.nemotron_h,
    rows=TURNED,
)

FAMILIES = {
    "qwen3next": Family("qwen3_next", tensors=_DELTA_NET, keys=_LINEAR_KEYS, adjust=adjust.delta_net),
    "qwen35": Family(
        "qwen3_5", tensors=_DELTA_NET, keys=_LINEAR_KEYS, adjust=adjust.delta_net, converted=r"\.linear_attn\."
    ),
    "qwen35moe": Family(
        "qwen3_5_moe", tensors=_DELTA_NET, keys=_LINEAR_KEYS, adjust=adjust.delta_net, converted=r"\.linear_attn\."
    ),
    "granite": Family(  # also hybrids without experts
        "granite", keys={**_GRANITE_KEYS, **_NO_SSM}, adjust=adjust.granite, rows=TURNED
    ),
    "granitemoe": Family("granitemoe", tensors=_GRANITE_TENSORS, keys=_GRANITE_KEYS, rows=TURNED),
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
        rows=TURNED,
    ),
    "mamba": Family(  # also Falcon-Mamba
        "mamba",
        tensors={
            **_STATE_SPACE,
            **under(_BACKBONE, {"attn_norm": "norm", **{gguf: f"mixer.{hf}" for gguf, hf in _MAMBA1.items()}}),
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
            **under(_BACKBONE, {"attn_norm": "norm", **{gguf: f"mixer.{hf}" for gguf, hf in _MAMBA2.items()}}),
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
            **under(
                LAYER,
                {
                    **{gguf: f"mamba.{hf}" for gguf, hf in _MAMBA1.items()},
                    **{gguf: f"feed_forward.{hf}" for gguf, hf in (GATED_FFN | EXPERT_FFN).items()},
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
            **under(
                LAYER,
                {
                    **{gguf: f"mamba.{hf}" for gguf, hf in _MAMBA2.items()},
                    **{gguf: f"feed_forward.{hf}" for gguf, hf in GATED_FFN.items()},
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
            **EXPERT_KEYS,
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
            **LATENT,
            **under(
                LAYER,
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
                    **{f"{gguf}_shexp": f"block_sparse_moe.shared_experts.{hf}" for gguf, hf in GATED_FFN.items()},
                },
            ),
        },
        keys={
            **LATENT_KEYS,
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
