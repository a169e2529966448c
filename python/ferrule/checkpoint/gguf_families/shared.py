"""Names of tensors and keys that several families share, where they differ from the tables of all."""

from __future__ import annotations

from .family import LAYER, under

NORM_BEFORE_FFN = under(LAYER, {"post_attention_norm": "post_attention_layernorm"})
SHARED_EXPERT = under(
    LAYER,
    {
        "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
        "ffn_up_shexp": "mlp.shared_expert.up_proj",
        "ffn_down_shexp": "mlp.shared_expert.down_proj",
        "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    },
)
LATENT = under(
    LAYER,
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
GATED_FFN = {"ffn_gate": "gate_proj", "ffn_up": "up_proj", "ffn_down": "down_proj"}
EXPERT_FFN = {f"{gguf}_exps": f"experts.{hf}" for gguf, hf in GATED_FFN.items()}
EXPERT_KEYS = {
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_used_count": "num_experts_per_tok",
    "expert_weights_norm": "norm_topk_prob",
    "expert_weights_scale": "routed_scaling_factor",
    "expert_gating_func": "scoring_func",
}
LOCAL_EXPERTS = {**EXPERT_KEYS, "expert_count": "num_local_experts"}
QWEN_EXPERTS = {
    **EXPERT_KEYS,
    "expert_count": "num_experts",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
}
ROUTED_EXPERTS = {
    **EXPERT_KEYS,
    "expert_count": "n_routed_experts",
    "expert_shared_count": "n_shared_experts",
    "expert_shared_feed_forward_length": "",
    "expert_group_count": "n_group",
    "expert_group_used_count": "topk_group",
    "leading_dense_block_count": "first_k_dense_replace",
    "nextn_predict_layers": "num_nextn_predict_layers",
}
LAYER_NORM = {"attention.layer_norm_epsilon": "layer_norm_eps"}
LATENT_KEYS = {
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "attention.key_length": "key_length",
    "attention.value_length": "value_length",
    "attention.key_length_mla": "key_length_mla",
    "attention.value_length_mla": "value_length_mla",
    "rope.dimension_count": "qk_rope_head_dim",
    "rope.scaling.yarn_log_multiplier": "yarn_log_multiplier",
}
