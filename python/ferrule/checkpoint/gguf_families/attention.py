"""Families whose layers attend, dense or with experts, under the names that Hugging Face gives in most of them."""

from __future__ import annotations

from .. import gguf_adjust as adjust
from .family import LAYER, TURNED, Family, under
from .shared import (
    EXPERT_FFN,
    EXPERT_KEYS,
    GATED_FFN,
    LATENT,
    LATENT_KEYS,
    LAYER_NORM,
    LOCAL_EXPERTS,
    NORM_BEFORE_FFN,
    QWEN_EXPERTS,
    ROUTED_EXPERTS,
    SHARED_EXPERT,
)

_DENSE = (
    "block_count",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.layer_norm_rms_epsilon",
)
_SANDWICH = under(
    LAYER,
    {
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    },
)
_POST_NORMS = under(
    LAYER, {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
)
_PER_LAYER = {
    "per_layer_token_embd": "model.embed_tokens_per_layer",
    "per_layer_model_proj": "model.per_layer_model_projection",
    "per_layer_proj_norm": "model.per_layer_projection_norm",
    **under(
        LAYER,
        {
            "inp_gate": "per_layer_input_gate",
            "proj": "per_layer_projection",
            "post_norm": "post_per_layer_input_norm",
        },
    ),
}
_MIXTRAL_EXPERTS = under(
    LAYER,
    {
        "ffn_gate_exps": "block_sparse_moe.experts.w1",
        "ffn_up_exps": "block_sparse_moe.experts.w3",
        "ffn_down_exps": "block_sparse_moe.experts.w2",
        "ffn_gate_inp": "block_sparse_moe.gate",
        "exp_probs_b.bias": "block_sparse_moe.e_score_correction_bias",
    },
)
_INDEXER = under(
    f"{LAYER}.self_attn.indexer",
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
_QWEN3_VL = {"rope.dimension_sections": "mrope_section", "n_deepstack_layers": ""}
_PHI3_KEYS = {"rope.scaling.original_context_length": "original_context_length"}
_PHI3_KEYS |= {"rope.scaling.attn_factor": "attn_factor"}

FAMILIES = {
    "llama": Family(  # also Mistral, Mixtral and SmolLM: converters write one architecture for all
        "llama", tensors=_MIXTRAL_EXPERTS, keys=LOCAL_EXPERTS, required=_DENSE, adjust=adjust.llama, rows=TURNED
    ),
    "mistral3": Family(
        "ministral3",
        keys={
            "attention.temperature_scale": "temperature_scale",
            "rope.scaling.yarn_log_multiplier": "yarn_log_multiplier",
        },
        adjust=adjust.sharpened,
        rows=TURNED,
    ),
    "arcee": Family("arcee", config={"hidden_act": "relu2"}, rows=TURNED),
    "seed_oss": Family("seed_oss", tensors=NORM_BEFORE_FFN),
    "qwen2": Family("qwen2", required=_DENSE),
    "qwen2vl": Family("qwen2_vl", keys={"rope.dimension_sections": "mrope_section"}, adjust=adjust.sections),
    "qwen3": Family("qwen3", required=_DENSE),
    "qwen3vl": Family("qwen3_vl", keys=_QWEN3_VL, adjust=adjust.sections),
    "qwen2moe": Family("qwen2_moe", tensors=SHARED_EXPERT, keys=QWEN_EXPERTS),
    "qwen3moe": Family("qwen3_moe", keys=QWEN_EXPERTS, config={"norm_topk_prob": True}),
    "qwen3vlmoe": Family(
        "qwen3_vl_moe", keys={**QWEN_EXPERTS, **_QWEN3_VL}, config={"norm_topk_prob": True}, adjust=adjust.sections
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
            **under(
                LAYER,
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
            **under(
                LAYER,
                {
                    "layer_output_scale.weight": "layer_scalar",
                    "post_ffw_norm_1": "post_feedforward_layernorm_1",
                    "post_ffw_norm_2": "post_feedforward_layernorm_2",
                    "pre_ffw_norm_2": "pre_feedforward_layernorm_2",
                    "ffn_gate_inp": "router.proj",
                    "ffn_gate_inp.scale": "router.scale",
                    "ffn_down_exps.scale": "router.per_expert_scale",
                    "ffn_gate_up_exps.weight": "experts.gate_up_proj",
                    **EXPERT_FFN,
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
    "olmo": Family("olmo", keys={"attention.clamp_kqv": "clip_qkv", "attention.layer_norm_epsilon": ""}, rows=TURNED),
    "olmo2": Family("olmo2", tensors=_POST_NORMS, keys={"rope.freq_base_swa": ""}),  # also OLMo 3
    "olmoe": Family("olmoe", keys={**EXPERT_KEYS, "expert_count": "num_experts"}),
    "phi2": Family(
        "phi",
        tensors={
            "output_norm": "model.final_layernorm",
            **under(LAYER, {"attn_output": "self_attn.dense", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"}),
        },
        keys=LAYER_NORM,
    ),
    "phi3": Family(
        "phi3",
        tensors=under(LAYER, {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}),
        keys=_PHI3_KEYS,
        adjust=adjust.longrope,
    ),
    "phimoe": Family("phimoe", tensors=_MIXTRAL_EXPERTS, keys={**LOCAL_EXPERTS, **_PHI3_KEYS}, adjust=adjust.longrope),
    "smollm3": Family("smollm3", rows=TURNED),
    "gpt-oss": Family(
        "gpt_oss",
        tensors={
            **NORM_BEFORE_FFN,
            **under(LAYER, {"attn_sinks.weight": "self_attn.sinks", "ffn_gate_inp": "mlp.router"}),
        },
        keys=LOCAL_EXPERTS,
        adjust=adjust.gpt_oss,
    ),
    "deepseek2": Family("deepseek_v2", tensors=LATENT, keys={**ROUTED_EXPERTS, **LATENT_KEYS}, adjust=adjust.deepseek),
    "deepseek32": Family(
        "deepseek_v32",
        tensors={**LATENT, **_INDEXER},
        keys={**ROUTED_EXPERTS, **LATENT_KEYS, **_INDEXER_KEYS},
        adjust=adjust.indexed,
    ),
    "glm-dsa": Family(
        "glm_moe_dsa",
        tensors={**LATENT, **_INDEXER},
        keys={**ROUTED_EXPERTS, **LATENT_KEYS, **_INDEXER_KEYS},
        adjust=adjust.indexed,
    ),
    "minicpm3": Family(
        "minicpm3",
        tensors=LATENT,
        keys=LATENT_KEYS,
        config={"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256},
        adjust=adjust.latent,
    ),
    "starcoder2": Family(
        "starcoder2",
        tensors=under(LAYER, {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}),
        keys={"attention.layer_norm_epsilon": "norm_epsilon"},
    ),
    "command-r": Family("cohere", keys={**LAYER_NORM, "logit_scale": "logit_scale"}, adjust=adjust.cohere),
    "cohere2": Family("cohere2", keys={**LAYER_NORM, "logit_scale": "logit_scale"}),
    "stablelm": Family(
        "stablelm",
        tensors=under(LAYER, {"attn_q_norm": "self_attn.q_layernorm", "attn_k_norm": "self_attn.k_layernorm"}),
        keys={**LAYER_NORM, "use_parallel_residual": "use_parallel_residual"},
        adjust=adjust.stablelm,
    ),
    "nemotron": Family(
        "nemotron",
        keys={"attention.layer_norm_epsilon": "norm_eps", "attention.layer_norm_rms_epsilon": ""},
    ),
    "chatglm": Family("glm", tensors=under(LAYER, {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"})),
    "glm4": Family(
        "glm4",
        tensors=under(
            LAYER,
            {
                "post_attention_norm": "post_self_attn_layernorm",
                "post_ffw_norm": "post_mlp_layernorm",
                "ffn_up": "mlp.gate_up_proj",
            },
        ),
    ),
    "glm4moe": Family("glm4_moe", tensors=NORM_BEFORE_FFN, keys=ROUTED_EXPERTS, adjust=adjust.routed),
    "dots1": Family("dots1", keys=ROUTED_EXPERTS),
    "ernie4_5": Family("ernie4_5"),
    "ernie4_5-moe": Family(
        "ernie4_5_moe",
        tensors=under(LAYER, {"exp_probs_b.bias": "mlp.moe_statics.e_score_correction_bias"}),
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
        tensors=under(LAYER, {"attn_q_norm": "self_attn.query_layernorm", "attn_k_norm": "self_attn.key_layernorm"}),
    ),
    "llama4": Family(
        "llama4_text",
        tensors=under(
            LAYER,
            {
                **{gguf: f"feed_forward.{hf}" for gguf, hf in (GATED_FFN | EXPERT_FFN).items()},
                **{f"{gguf}_shexp": f"feed_forward.shared_expert.{hf}" for gguf, hf in GATED_FFN.items()},
                "ffn_gate_inp": "feed_forward.router",
            },
        ),
        keys={
            **LOCAL_EXPERTS,
            "interleave_moe_layer_step": "interleave_moe_layer_step",
            "attention.chunk_size": "attention_chunk_size",
        },
        config={"attention_chunk_size": 8192},
        adjust=adjust.llama4,
    ),
    "minimax-m2": Family("minimax_m2", tensors=_MIXTRAL_EXPERTS, keys=LOCAL_EXPERTS, adjust=adjust.widths_of_experts),
    "apertus": Family(
        "apertus",
        tensors=under(LAYER, {"attn_norm": "attention_layernorm", "ffn_norm": "feedforward_layernorm"}),
        keys={f"xielu.{name}": f"xielu_{name}" for name in ("alpha_p", "alpha_n", "beta", "eps")},
    ),
}
