"""The tiny models: one entry per variant, saying only what makes it special.

`variant(name, model type, tokenizer, **config)`; the config keys are those of the transformers config class.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from legacy import old_gemma3, old_longrope, old_rope, patched

VOCABULARY = 384
Config = dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """A model to build: `gains` multiply the deviation of tensors whose name contains the key, `legacy` makes the older
    form of the config, `mxfp4` stores the experts as MXFP4 blocks, `model_class` is for multimodal wrappers."""

    model_type: str
    tokenizer: str
    config: Config
    model_class: str | None = None
    dtype: str = "bf16"
    shards: int = 1
    gains: dict[str, float] = field(default_factory=dict)
    legacy: Callable[[Config], Config] | None = None
    mxfp4: bool = False
    note: str = ""


VARIANTS: dict[str, Variant] = {}
BUILD_OPTIONS = ("model_class", "dtype", "shards", "gains", "legacy", "mxfp4", "note")


def variant(name: str, model_type: str, tokenizer: str = "qwen", **arguments: Any) -> None:
    """Registers a variant; arguments that are not build options belong to its config."""
    options = {key: arguments.pop(key) for key in BUILD_OPTIONS if key in arguments}
    VARIANTS[name] = Variant(model_type, tokenizer, arguments, **options)


def base(**changes: Any) -> Config:
    """The common small config with `changes`; `...` drops a default."""
    config = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
    }
    return {key: value for key, value in {**config, **changes}.items() if value is not ...}


def rope(theta: float = 10000.0, kind: str = "default", **scaling: Any) -> Config:
    return dict(rope_theta=theta, rope_type=kind, **scaling)


LLAMA3_ROPE = rope(
    500000.0, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32
)
YARN_ROPE = rope(150000.0, "yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0, original_max_position_embeddings=32)

# llama & friends
variant("llama2", "llama", "llama", **base(rope_parameters=rope(), num_key_value_heads=4))
variant("llama3", "llama", dtype="f32", **base(rope_parameters=rope(500000.0)))
variant("llama3_sharded", "llama", shards=5, **base(rope_parameters=rope(500000.0)))
variant("llama3_f16", "llama", dtype="f16", **base(rope_parameters=rope(500000.0)))
variant("llama3_1", "llama", legacy=old_rope, **base(rope_parameters=LLAMA3_ROPE))
variant(
    "llama3_2_tied",
    "llama",
    legacy=old_rope,
    **base(rope_parameters=LLAMA3_ROPE, tie_word_embeddings=True, head_dim=32),
)
variant("llama_linear", "llama", legacy=old_rope, **base(rope_parameters=rope(10000.0, "linear", factor=4.0)))
variant(
    "llama_dynamic",
    "llama",
    legacy=old_rope,
    note="stateful NTK: golden taken from fresh rope state per prompt; cached decode keeps old keys un-rescaled",
    **base(rope_parameters=rope(10000.0, "dynamic", factor=4.0), max_position_embeddings=24),
)
variant("llama_yarn", "llama", legacy=old_rope, **base(rope_parameters=YARN_ROPE))
variant("llama_bias", "llama", **base(rope_parameters=rope(), attention_bias=True, mlp_bias=True))
variant(
    "llama_q256",
    "llama",
    dtype="bf16",
    **base(
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=32,
        rope_parameters=rope(500000.0),
    ),
)
variant("mistral_swa", "mistral", "llama", **base(rope_parameters=rope(), sliding_window=16, head_dim=16))
variant("mistral_nemo", "mistral", **base(rope_parameters=rope(1e6), sliding_window=None, head_dim=32))
variant(
    "ministral3",
    "ministral3",
    **base(
        rope_parameters=rope(
            1e6,
            "yarn",
            factor=16.0,
            original_max_position_embeddings=16,
            max_position_embeddings=512,
            beta_fast=32.0,
            beta_slow=1.0,
            mscale_all_dim=1.0,
            mscale=1.0,
            llama_4_scaling_beta=0.1,
        ),
        head_dim=16,
    ),
)
variant(
    "mixtral",
    "mixtral",
    "llama",
    **base(rope_parameters=rope(1e6), num_local_experts=4, num_experts_per_tok=2, sliding_window=None),
)
# qwen
variant("qwen2", "qwen2", legacy=old_rope, **base(rope_parameters=rope(1e6)))
variant("qwen2_5_tied", "qwen2", **base(rope_parameters=rope(1e6), tie_word_embeddings=True))
variant(
    "qwen2_5_yarn",
    "qwen2",
    legacy=old_rope,
    **base(rope_parameters=rope(1e6, "yarn", factor=4.0, original_max_position_embeddings=32)),
)
variant(
    "qwen2_swa",
    "qwen2",
    **base(rope_parameters=rope(1e6), use_sliding_window=True, sliding_window=16, max_window_layers=1),
)
variant(
    "qwen1_5_moe",
    "qwen2_moe",
    **base(
        rope_parameters=rope(1e6),
        num_experts=6,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=64,
        norm_topk_prob=False,
        decoder_sparse_step=1,
    ),
)
variant("qwen3", "qwen3", **base(rope_parameters=rope(1e6), head_dim=32))
variant("qwen3_tied", "qwen3", **base(rope_parameters=rope(1e6), head_dim=32, tie_word_embeddings=True))
variant(
    "qwen3_moe",
    "qwen3_moe",
    **base(
        rope_parameters=rope(1e6),
        head_dim=32,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        norm_topk_prob=True,
    ),
)
variant(
    "qwen3_moe_mixed",
    "qwen3_moe",
    note="mlp_only_layers=[0]; norm_topk_prob False",
    **base(
        rope_parameters=rope(1e6),
        head_dim=32,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        norm_topk_prob=False,
        mlp_only_layers=[0],
    ),
)
DELTA_NET = {
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
variant(
    "qwen3_next",
    "qwen3_next",
    legacy=patched(
        drop=("rope_parameters", "layer_types"),
        partial_rotary_factor=0.25,
        rope_theta=1000000.0,
        full_attention_interval=4,
    ),
    **base(
        rope_parameters=rope(1e6, partial_rotary_factor=0.25),
        head_dim=32,
        num_hidden_layers=4,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
        norm_topk_prob=True,
        **DELTA_NET,
    ),
)
variant(
    "qwen3_5_text",
    "qwen3_5_text",
    **base(
        rope_parameters=rope(1e6, partial_rotary_factor=0.25, mrope_section=[2, 1, 1], mrope_interleaved=True),
        head_dim=32,
        num_hidden_layers=4,
        **DELTA_NET,
    ),
)
variant(
    "qwen3_5_moe_text",
    "qwen3_5_moe_text",
    **base(
        intermediate_size=...,
        rope_parameters=rope(1e6, partial_rotary_factor=0.25, mrope_section=[2, 1, 1], mrope_interleaved=True),
        head_dim=32,
        num_hidden_layers=4,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
        **DELTA_NET,
    ),
)
QWEN2_VISION = {
    "depth": 1,
    "embed_dim": 32,
    "hidden_size": 64,
    "num_heads": 2,
    "mlp_ratio": 2,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
variant(
    "qwen2_vl",
    "qwen2_vl",
    legacy=patched(
        hoist="text_config", rope_theta=1000000.0, rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]}
    ),
    model_class="Qwen2VLForConditionalGeneration",
    note="text tower + 1-block vision tower; mrope_section=[2,3,3]; also mrope golden with distinct t/h/w positions",
    text_config=base(rope_parameters=rope(1e6, mrope_section=[2, 3, 3])),
    vision_config=QWEN2_VISION,
    image_token_id=380,
    video_token_id=381,
    vision_start_token_id=382,
    vision_end_token_id=383,
)
variant(
    "qwen2_5_vl",
    "qwen2_5_vl",
    model_class="Qwen2_5_VLForConditionalGeneration",
    note="as qwen2_vl",
    text_config=base(rope_parameters=rope(1e6, mrope_section=[2, 3, 3])),
    vision_config={
        "depth": 1,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_heads": 2,
        "out_hidden_size": 64,
        "patch_size": 4,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "window_size": 16,
        "fullatt_block_indexes": [0],
    },
    image_token_id=380,
    video_token_id=381,
    vision_start_token_id=382,
    vision_end_token_id=383,
)
variant(
    "qwen3_vl",
    "qwen3_vl",
    model_class="Qwen3VLForConditionalGeneration",
    note="interleaved mrope",
    text_config=base(rope_parameters=rope(1e6, mrope_section=[6, 5, 5], mrope_interleaved=True), head_dim=32),
    vision_config={
        "depth": 1,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_heads": 2,
        "out_hidden_size": 64,
        "patch_size": 4,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "num_position_embeddings": 16,
        "deepstack_visual_indexes": [0],
    },
    image_token_id=380,
    video_token_id=381,
    vision_start_token_id=382,
    vision_end_token_id=383,
)
# gemma
variant("gemma1", "gemma", "gemma", **base(rope_parameters=rope(), head_dim=32))
variant(
    "gemma2",
    "gemma2",
    "gemma",
    **base(
        rope_parameters=rope(),
        head_dim=32,
        num_hidden_layers=4,
        sliding_window=16,
        query_pre_attn_scalar=32,
        attn_logit_softcapping=5.0,
        final_logit_softcapping=10.0,
    ),
)
variant(
    "gemma2_qpas",
    "gemma2",
    "gemma",
    note="query_pre_attn_scalar != head_dim (27B style); llama.cpp ignores it unless 46 layers",
    **base(
        rope_parameters=rope(),
        head_dim=32,
        num_hidden_layers=4,
        sliding_window=16,
        query_pre_attn_scalar=24,
        attn_logit_softcapping=5.0,
        final_logit_softcapping=10.0,
    ),
)
GEMMA3_ROPE = {"sliding_attention": rope(10000.0), "full_attention": rope(1e6)}
GEMMA3_LINEAR_ROPE = {"sliding_attention": rope(10000.0), "full_attention": rope(1e6, "linear", factor=8.0)}
variant(
    "gemma3_text",
    "gemma3_text",
    "gemma",
    legacy=old_gemma3,
    **base(rope_parameters=GEMMA3_ROPE, head_dim=32, num_hidden_layers=6, sliding_window=16, query_pre_attn_scalar=32),
)
GEMMA_VISION = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 4,
}
variant(
    "gemma3_mm",
    "gemma3",
    "gemma",
    model_class="Gemma3ForConditionalGeneration",
    note="multimodal config (text_config hoist), linear rope x8 on global layers",
    text_config=base(
        rope_parameters=GEMMA3_LINEAR_ROPE,
        head_dim=32,
        num_hidden_layers=6,
        sliding_window=16,
        query_pre_attn_scalar=32,
    ),
    vision_config=GEMMA_VISION,
    mm_tokens_per_image=4,
    image_token_index=380,
    boi_token_index=381,
    eoi_token_index=382,
)
variant(
    "gemma3_qpas",
    "gemma3_text",
    "gemma",
    note="query_pre_attn_scalar=24 (27B style)",
    **base(
        rope_parameters=GEMMA3_LINEAR_ROPE,
        head_dim=32,
        num_hidden_layers=6,
        sliding_window=16,
        query_pre_attn_scalar=24,
    ),
)
variant(
    "gemma3n_text",
    "gemma3n_text",
    "gemma",
    **base(
        rope_parameters=GEMMA3_ROPE,
        head_dim=32,
        intermediate_size=[64] * 4,
        num_hidden_layers=4,
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        sliding_window=16,
        vocab_size_per_layer_input=VOCABULARY,
        hidden_size_per_layer_input=256,
        num_kv_shared_layers=2,
        laurel_rank=64,
        activation_sparsity_pattern=[0.95, 0.0, 0.0, 0.0],
    ),
)
GEMMA4_ROPE = {
    "sliding_attention": rope(10000.0),
    "full_attention": rope(1e6, "proportional", partial_rotary_factor=0.25),
}
GEMMA4_LAYERS = ["sliding_attention", "sliding_attention", "full_attention"] * 2
GEMMA4 = {
    "rope_parameters": GEMMA4_ROPE,
    "head_dim": 32,
    "global_head_dim": 64,
    "num_hidden_layers": 6,
    "layer_types": GEMMA4_LAYERS,
    "sliding_window": 16,
    "final_logit_softcapping": 30.0,
    "hidden_size_per_layer_input": 0,
    "vocab_size_per_layer_input": VOCABULARY,
}
variant(
    "gemma4_dense",
    "gemma4_text",
    "gemma",
    legacy=patched(drop=("per_layer_config",), global_head_dim=64, num_global_key_value_heads=1),
    note="31B style: k_eq_v, num_global_key_value_heads, no PLE",
    **base(**GEMMA4, attention_k_eq_v=True, num_global_key_value_heads=1),
)
variant(
    "gemma4_e2b",
    "gemma4_text",
    "gemma",
    legacy=patched(drop=("per_layer_config",), global_head_dim=64, num_global_key_value_heads=None),
    note="E2B style: PLE + KV sharing + double wide MLP",
    **base(
        **{
            **GEMMA4,
            "num_hidden_layers": 9,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 3,
            "hidden_size_per_layer_input": 16,
            "num_kv_shared_layers": 3,
            "use_double_wide_mlp": True,
            "num_key_value_heads": 1,
            "intermediate_size": 64,
        }
    ),
)
variant(
    "gemma4_e4b",
    "gemma4_text",
    "gemma",
    legacy=patched(drop=("per_layer_config",), global_head_dim=64, num_global_key_value_heads=None),
    note="E4B style: PLE + KV sharing (many), single-wide MLP",
    **base(**{**GEMMA4, "num_hidden_layers": 6, "hidden_size_per_layer_input": 16, "num_kv_shared_layers": 3}),
)
variant(
    "gemma4_kvshare_rev",
    "gemma4_text",
    "gemma",
    legacy=patched(drop=("per_layer_config",), global_head_dim=64, num_global_key_value_heads=None),
    note="adversarial: last unshared layers are [full, sliding] order (llama.cpp assumes [..swa, full])",
    **base(
        **{
            **GEMMA4,
            "num_hidden_layers": 6,
            "layer_types": [
                "sliding_attention",
                "full_attention",
                "sliding_attention",
                "sliding_attention",
                "full_attention",
                "full_attention",
            ],
            "hidden_size_per_layer_input": 16,
            "num_kv_shared_layers": 3,
        }
    ),
)
variant(
    "gemma4_moe",
    "gemma4_text",
    "gemma",
    legacy=patched(drop=("per_layer_config",), global_head_dim=64, num_global_key_value_heads=1),
    note="26B-A4B style: dense MLP + MoE in parallel, k_eq_v",
    **base(
        **GEMMA4,
        attention_k_eq_v=True,
        num_global_key_value_heads=1,
        enable_moe_block=True,
        num_experts=8,
        top_k_experts=2,
        moe_intermediate_size=32,
    ),
)
variant(
    "gemma4_mm",
    "gemma4",
    "gemma",
    legacy=patched(
        inside="text_config", drop=("per_layer_config",), global_head_dim=64, num_global_key_value_heads=None
    ),
    model_class="Gemma4ForConditionalGeneration",
    note="multimodal wrapper, tensor prefix model.language_model.",
    text_config=base(
        **{
            **GEMMA4,
            "hidden_size_per_layer_input": 16,
            "num_kv_shared_layers": 3,
            "use_double_wide_mlp": True,
            "num_key_value_heads": 1,
            "intermediate_size": 64,
        }
    ),
    vision_config={
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "patch_size": 4,
        "position_embedding_size": 16,
    },
    audio_config=None,
    image_token_id=380,
    video_token_id=381,
    audio_token_id=382,
    boi_token_id=377,
    eoi_token_id=378,
    boa_token_id=376,
    eoa_token_index=379,
)
variant(
    "gemma4_unified",
    "gemma4_unified",
    "gemma",
    legacy=patched(inside="text_config", drop=("per_layer_config",), global_head_dim=64, num_global_key_value_heads=1),
    model_class="Gemma4UnifiedForConditionalGeneration",
    note="12B unified style (encoder-free vision/audio)",
    text_config=base(
        **{k: v for k, v in GEMMA4.items() if "per_layer_input" not in k},
        attention_k_eq_v=True,
        num_global_key_value_heads=1,
    ),
    vision_config={"mm_embed_dim": 64, "patch_size": 4, "model_patch_size": 12, "mm_posemb_size": 16},
    audio_config={"audio_embed_dim": 32},
    image_token_id=380,
    video_token_id=381,
    audio_token_id=382,
    boi_token_id=377,
    eoi_token_id=378,
    boa_token_id=376,
    eoa_token_index=379,
)
# deepseek
MLA = {
    "num_hidden_layers": 2,
    "num_key_value_heads": 4,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
variant(
    "deepseek_v2",
    "deepseek_v2",
    legacy=old_rope,
    note="q_lora_rank, group_limited_greedy, yarn with mscale",
    **base(
        **MLA,
        rope_parameters=rope(
            10000.0,
            "yarn",
            factor=8.0,
            beta_fast=32.0,
            beta_slow=1.0,
            mscale=0.707,
            mscale_all_dim=0.707,
            original_max_position_embeddings=32,
        ),
        q_lora_rank=32,
        n_routed_experts=8,
        n_shared_experts=2,
        num_experts_per_tok=2,
        topk_method="group_limited_greedy",
        n_group=4,
        topk_group=2,
        routed_scaling_factor=16.0,
    ),
)
variant(
    "deepseek_v2_plain",
    "deepseek_v2",
    legacy=old_rope,
    note="q_lora_rank, greedy, yarn with mscale (llama.cpp-checkable)",
    **base(
        **MLA,
        rope_parameters=rope(
            10000.0,
            "yarn",
            factor=8.0,
            beta_fast=32.0,
            beta_slow=1.0,
            mscale=0.707,
            mscale_all_dim=0.707,
            original_max_position_embeddings=32,
        ),
        q_lora_rank=32,
        n_routed_experts=8,
        n_shared_experts=2,
        num_experts_per_tok=2,
        topk_method="greedy",
        n_group=1,
        topk_group=1,
        routed_scaling_factor=1.0,
    ),
)
MLA_27_LAYERS = {
    "hidden_size": 32,
    "num_hidden_layers": 27,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "moe_intermediate_size": 32,
    "intermediate_size": 32,
    "first_k_dense_replace": 1,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
}
variant(
    "deepseek_v2_lite27",
    "deepseek_v2",
    legacy=patched(drop=("head_dim", "qk_head_dim"), flat_rope=True, scoring_func="softmax", moe_layer_freq=1),
    note="27 layers: llama.cpp only treats 26/27 layers as lite (no q_lora)",
    **MLA_27_LAYERS,
    rope_parameters=rope(),
    q_lora_rank=None,
    n_routed_experts=4,
    n_shared_experts=1,
    num_experts_per_tok=2,
    topk_method="greedy",
    routed_scaling_factor=1.0,
    n_group=1,
    topk_group=1,
)
variant(
    "moonlight27",
    "deepseek_v3",
    legacy=patched(drop=("head_dim", "qk_head_dim"), flat_rope=True, scoring_func="sigmoid", topk_method="noaux_tc"),
    note="Moonlight style 27 layers, sigmoid",
    **MLA_27_LAYERS,
    rope_parameters=rope(50000.0),
    q_lora_rank=None,
    n_routed_experts=4,
    n_shared_experts=1,
    num_experts_per_tok=2,
    n_group=1,
    topk_group=1,
    routed_scaling_factor=2.446,
    norm_topk_prob=True,
)
variant(
    "deepseek_v3",
    "deepseek_v3",
    legacy=patched(
        drop=("head_dim", "qk_head_dim"),
        flat_rope=True,
        scoring_func="sigmoid",
        topk_method="noaux_tc",
        num_nextn_predict_layers=0,
        moe_layer_freq=1,
    ),
    note="sigmoid + bias, group limited, yarn",
    **base(
        **MLA,
        rope_parameters=rope(
            10000.0,
            "yarn",
            factor=8.0,
            beta_fast=32.0,
            beta_slow=1.0,
            mscale=1.0,
            mscale_all_dim=1.0,
            original_max_position_embeddings=32,
        ),
        q_lora_rank=32,
        n_routed_experts=16,
        n_shared_experts=1,
        num_experts_per_tok=4,
        n_group=4,
        topk_group=2,
        routed_scaling_factor=2.5,
        norm_topk_prob=True,
    ),
)
MLA_NO_DENSE = {k: v for k, v in MLA.items() if k != "first_k_dense_replace"}
variant(
    "deepseek_v32",
    "deepseek_v32",
    note="MLA_NO_DENSE indexer, index_topk=12 so that sparsity is active",
    **base(
        **MLA_NO_DENSE,
        rope_parameters=rope(10000.0),
        q_lora_rank=32,
        n_routed_experts=16,
        n_shared_experts=1,
        num_experts_per_tok=4,
        n_group=4,
        topk_group=2,
        routed_scaling_factor=2.5,
        first_k_dense_replace=1,
        index_topk=12,
        index_head_dim=64,
        index_n_heads=16,
    ),
)
# gpt-oss
variant(
    "gpt_oss",
    "gpt_oss",
    legacy=patched(
        drop=("rope_parameters",),
        rope_theta=150000.0,
        rope_scaling={
            "rope_type": "yarn",
            "factor": 8.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 32,
        },
    ),
    note="f32/bf16 experts (dequantised layout)",
    **base(
        rope_parameters={**YARN_ROPE, "truncate": False},
        head_dim=32,
        num_hidden_layers=4,
        sliding_window=16,
        num_local_experts=4,
        num_experts_per_tok=2,
        intermediate_size=64,
    ),
    gains={"gate_up_proj": 3.0},
)
variant(
    "gpt_oss_trunc",
    "gpt_oss",
    note="yarn truncate=True (llama.cpp always floors/ceils the correction range)",
    **base(
        rope_parameters={**YARN_ROPE, "truncate": True},
        head_dim=32,
        num_hidden_layers=2,
        sliding_window=16,
        num_local_experts=4,
        num_experts_per_tok=2,
        intermediate_size=64,
    ),
    gains={"gate_up_proj": 3.0},
)
variant(
    "gpt_oss_limit",
    "gpt_oss",
    note="swiglu_limit=1.5 (llama.cpp hard-codes 7.0)",
    **base(
        rope_parameters={**YARN_ROPE, "truncate": False},
        head_dim=32,
        num_hidden_layers=2,
        sliding_window=16,
        num_local_experts=4,
        num_experts_per_tok=2,
        intermediate_size=64,
        swiglu_limit=1.5,
    ),
)
variant(
    "gpt_oss_mxfp4",
    "gpt_oss",
    note="MXFP4 *_blocks/*_scales as on the hub; golden from the dequantised weights",
    mxfp4=True,
    **base(
        rope_parameters={**YARN_ROPE, "truncate": True},
        head_dim=32,
        num_hidden_layers=2,
        sliding_window=16,
        num_local_experts=4,
        num_experts_per_tok=2,
        intermediate_size=64,
    ),
)
# starcoder2/gpt2/...
variant(
    "starcoder2",
    "starcoder2",
    "gpt2",
    **base(rms_norm_eps=..., rope_parameters=rope(1e5), norm_epsilon=1e-5, sliding_window=None),
)
variant(
    "starcoder2_swa",
    "starcoder2",
    "gpt2",
    **base(rms_norm_eps=..., rope_parameters=rope(1e5), norm_epsilon=1e-5, sliding_window=16),
)
variant("gpt2", "gpt2", "gpt2", vocab_size=VOCABULARY, n_positions=128, n_embd=64, n_layer=2, n_head=4)
variant("gpt_bigcode", "gpt_bigcode", "gpt2", vocab_size=VOCABULARY, n_positions=128, n_embd=64, n_layer=2, n_head=4)
variant(
    "granite",
    "granite",
    **base(
        rope_parameters=rope(1e6),
        embedding_multiplier=1.5,
        logits_scaling=4.0,
        residual_multiplier=0.8,
        attention_multiplier=0.1,
        tie_word_embeddings=True,
    ),
)
variant(
    "granitemoe",
    "granitemoe",
    **base(
        rope_parameters=rope(1e4),
        embedding_multiplier=1.5,
        logits_scaling=4.0,
        residual_multiplier=0.8,
        attention_multiplier=0.1,
        tie_word_embeddings=True,
        num_local_experts=4,
        num_experts_per_tok=2,
        intermediate_size=32,
    ),
)
variant(
    "granitemoeshared",
    "granitemoeshared",
    **base(
        rope_parameters=rope(1e4),
        embedding_multiplier=1.5,
        logits_scaling=4.0,
        residual_multiplier=0.8,
        attention_multiplier=0.1,
        tie_word_embeddings=True,
        num_local_experts=4,
        num_experts_per_tok=2,
        intermediate_size=32,
        shared_intermediate_size=64,
    ),
)
GRANITE_MAMBA = {
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_n_groups": 2,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_chunk_size": 16,
}
variant(
    "granite4_h",
    "granitemoehybrid",
    legacy=patched(layer_types=["mamba", "attention", "mamba"]),
    note="hybrid NoPE + moe + shared",
    **base(
        embedding_multiplier=1.5,
        logits_scaling=4.0,
        residual_multiplier=0.8,
        attention_multiplier=0.1,
        tie_word_embeddings=True,
        num_local_experts=4,
        num_experts_per_tok=2,
        intermediate_size=32,
        shared_intermediate_size=64,
        num_hidden_layers=3,
        layer_types=["linear_attention", "full_attention", "linear_attention"],
        position_embedding_type="nope",
        **GRANITE_MAMBA,
    ),
)
variant(
    "granite4_micro",
    "granitemoehybrid",
    legacy=patched(
        drop=("rope_parameters",),
        layer_types=["attention", "attention", "attention"],
        rope_theta=10000000.0,
        rope_scaling=None,
    ),
    note="dense: num_local_experts=0, attention only, rope",
    **base(
        rope_parameters=rope(1e7),
        embedding_multiplier=1.5,
        logits_scaling=4.0,
        residual_multiplier=0.8,
        attention_multiplier=0.1,
        tie_word_embeddings=True,
        num_local_experts=0,
        num_experts_per_tok=0,
        intermediate_size=64,
        shared_intermediate_size=64,
        layer_types=["full_attention"] * 3,
        position_embedding_type="rope",
        num_hidden_layers=3,
        **GRANITE_MAMBA,
    ),
)
variant(
    "smollm3",
    "smollm3",
    **base(
        rope_parameters=rope(2e6),
        num_hidden_layers=4,
        no_rope_layer_interval=4,
        tie_word_embeddings=True,
        pad_token_id=3,
    ),
)
variant("smollm2", "llama", **base(rope_parameters=rope(1e5), tie_word_embeddings=True))
# phi
variant(
    "phi3",
    "phi3",
    "llama",
    **base(rope_parameters=rope(), sliding_window=None, original_max_position_embeddings=512, pad_token_id=0),
)
variant(
    "phi3_swa",
    "phi3",
    "llama",
    **base(rope_parameters=rope(), sliding_window=16, original_max_position_embeddings=512, pad_token_id=0),
)
variant(
    "phi3_longrope",
    "phi3",
    "llama",
    legacy=old_longrope,
    note="original_max=32: 40-token prompt uses long factors, 1/7 use short; HF re-selects by current seq len",
    **base(
        rope_parameters=rope(
            10000.0,
            "longrope",
            short_factor=[1.0 + 0.05 * i for i in range(8)],
            long_factor=[1.0 + 0.6 * i for i in range(8)],
            original_max_position_embeddings=32,
            factor=16.0,
        ),
        sliding_window=None,
        original_max_position_embeddings=32,
        max_position_embeddings=512,
        pad_token_id=0,
    ),
)
variant(
    "phi4_mini",
    "phi3",
    legacy=patched(drop=("rope_parameters",), partial_rotary_factor=0.75, rope_theta=10000.0, rope_scaling=None),
    note="partial_rotary_factor 0.75, tied",
    **base(
        rope_parameters=rope(10000.0, partial_rotary_factor=0.75),
        head_dim=32,
        hidden_size=64,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=True,
        sliding_window=None,
        original_max_position_embeddings=512,
        pad_token_id=0,
    ),
)
variant(
    "phi3_longrope_short",
    "phi3",
    "llama",
    note="all prompts stay under original_max=512: short factors; llama.cpp: n_ctx<=512",
    **base(
        rope_parameters=rope(
            10000.0,
            "longrope",
            short_factor=[1.0 + 0.05 * i for i in range(8)],
            long_factor=[1.0 + 0.6 * i for i in range(8)],
            original_max_position_embeddings=512,
            factor=16.0,
        ),
        sliding_window=None,
        original_max_position_embeddings=512,
        max_position_embeddings=8192,
        pad_token_id=0,
    ),
)
variant(
    "phi3_longrope_cross",
    "phi3",
    "llama",
    note="original_max=44: 40-token prompt short factors until length 45 is reached in decode; cached keys stay",
    **base(
        rope_parameters=rope(
            10000.0,
            "longrope",
            short_factor=[1.0 + 0.05 * i for i in range(8)],
            long_factor=[1.0 + 0.6 * i for i in range(8)],
            original_max_position_embeddings=44,
            factor=11.636363636363637,
        ),
        sliding_window=None,
        original_max_position_embeddings=44,
        max_position_embeddings=512,
        pad_token_id=0,
    ),
)
variant(
    "phi3_5_moe",
    "phimoe",
    "llama",
    legacy=patched(
        drop=("rope_parameters",), architectures=["PhiMoEForCausalLM"], rope_theta=10000.0, rope_scaling=None
    ),
    note="sparsemixer; attention_bias+lm_head_bias True as on the hub; LayerNorm",
    **base(
        rope_parameters=rope(),
        num_local_experts=4,
        num_experts_per_tok=2,
        intermediate_size=32,
        attention_bias=True,
        lm_head_bias=True,
        sliding_window=None,
        pad_token_id=0,
    ),
)
variant(
    "phi3_5_moe_longrope",
    "phimoe",
    "llama",
    note="longrope short_mscale/long_mscale",
    **base(
        rope_parameters=rope(
            10000.0,
            "longrope",
            short_factor=[1.0 + 0.05 * i for i in range(8)],
            long_factor=[1.0 + 0.6 * i for i in range(8)],
            short_mscale=1.1,
            long_mscale=1.3,
            original_max_position_embeddings=32,
            factor=16.0,
        ),
        num_local_experts=4,
        num_experts_per_tok=2,
        intermediate_size=32,
        attention_bias=True,
        lm_head_bias=True,
        sliding_window=None,
        pad_token_id=0,
    ),
)

variant(
    "phi2",
    "phi",
    "gpt2",
    legacy=patched(drop=("rope_parameters",), partial_rotary_factor=0.5, rope_theta=10000.0, rope_scaling=None),
    **base(
        rms_norm_eps=...,
        rope_parameters=rope(10000.0, partial_rotary_factor=0.5),
        num_key_value_heads=4,
        intermediate_size=256,
        layer_norm_eps=1e-5,
    ),
)
# neox, falcon, bloom, mpt, ...
variant(
    "gpt_neox",
    "gpt_neox",
    "gpt2",
    legacy=patched(drop=("rope_parameters",), rotary_pct=0.25, rotary_emb_base=10000),
    note="pythia: partial rotary 0.25, parallel residual",
    **base(
        rope_parameters=rope(10000.0, partial_rotary_factor=0.25),
        num_key_value_heads=...,
        rms_norm_eps=...,
        layer_norm_eps=1e-5,
    ),
)
variant(
    "gpt_neox_seq",
    "gpt_neox",
    "gpt2",
    note="use_parallel_residual False, rotary_pct 1",
    **base(
        rope_parameters=rope(10000.0, partial_rotary_factor=1.0),
        num_key_value_heads=...,
        rms_norm_eps=...,
        layer_norm_eps=1e-5,
        use_parallel_residual=False,
    ),
)
FALCON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "ffn_hidden_size": 256,
}
variant(
    "falcon_7b",
    "falcon",
    "gpt2",
    legacy=patched(drop=("num_kv_heads", "rope_parameters", "ffn_hidden_size")),
    note="old decoder: MQA, parallel attn, one LN",
    **FALCON,
    rope_parameters=rope(),
    multi_query=True,
    parallel_attn=True,
    bias=False,
    new_decoder_architecture=False,
)
variant(
    "falcon_40b",
    "falcon",
    "gpt2",
    legacy=patched(drop=("rope_parameters", "ffn_hidden_size")),
    note="new decoder: grouped fused qkv, 2 LN",
    **FALCON,
    rope_parameters=rope(),
    num_kv_heads=2,
    new_decoder_architecture=True,
    bias=False,
)
variant(
    "falcon_11b",
    "falcon",
    "gpt2",
    note="new decoder with num_ln_in_parallel_attn=1",
    **FALCON,
    rope_parameters=rope(),
    num_kv_heads=2,
    new_decoder_architecture=True,
    bias=False,
    num_ln_in_parallel_attn=1,
)
variant(
    "falcon_rw",
    "falcon",
    "gpt2",
    note="ALiBi, sequential, bias, MHA",
    **FALCON,
    alibi=True,
    multi_query=False,
    parallel_attn=False,
    bias=True,
    new_decoder_architecture=False,
)
variant("bloom", "bloom", "gpt2", vocab_size=VOCABULARY, hidden_size=64, n_layer=2, n_head=4)
variant(
    "bloom_h6",
    "bloom",
    "gpt2",
    note="n_head not a power of 2",
    vocab_size=VOCABULARY,
    hidden_size=48,
    n_layer=2,
    n_head=6,
)
variant(
    "mpt",
    "mpt",
    "gpt2",
    legacy=patched(architectures=["MPTForCausalLM"]),
    vocab_size=VOCABULARY,
    d_model=64,
    n_heads=4,
    n_layers=2,
    expansion_ratio=2,
    max_seq_len=128,
    use_cache=True,
    attn_config={"alibi": True, "alibi_bias_max": 8},
)
variant(
    "mpt_clip",
    "mpt",
    "gpt2",
    note="clip_qkv, n_heads=6 alibi",
    vocab_size=VOCABULARY,
    d_model=48,
    n_heads=6,
    n_layers=2,
    expansion_ratio=2,
    max_seq_len=128,
    use_cache=True,
    attn_config={"alibi": True, "alibi_bias_max": 8, "clip_qkv": 1.0},
)
variant("gptj", "gptj", "gpt2", vocab_size=VOCABULARY, n_positions=128, n_embd=64, n_layer=2, n_head=4, rotary_dim=8)
variant(
    "opt",
    "opt",
    "gpt2",
    vocab_size=VOCABULARY,
    hidden_size=64,
    num_hidden_layers=2,
    ffn_dim=96,
    max_position_embeddings=128,
    num_attention_heads=4,
    word_embed_proj_dim=64,
)
variant(
    "stablelm",
    "stablelm",
    "gpt2",
    legacy=patched(drop=("rope_parameters",), partial_rotary_factor=0.25, rope_theta=10000.0),
    note="StableLM-2: partial rotary .25, LN, qkv bias",
    **base(
        rms_norm_eps=...,
        rope_parameters=rope(10000.0, partial_rotary_factor=0.25),
        use_qkv_bias=True,
        num_key_value_heads=4,
        layer_norm_eps=1e-5,
    ),
)
variant(
    "stablelm_qknorm",
    "stablelm",
    "gpt2",
    note="12B: per-head LN qk, parallel residual",
    **base(
        rms_norm_eps=...,
        rope_parameters=rope(10000.0, partial_rotary_factor=0.25),
        qk_layernorm=True,
        use_parallel_residual=True,
        layer_norm_eps=1e-5,
    ),
)
# SSM
variant(
    "mamba",
    "mamba",
    "gpt2",
    vocab_size=VOCABULARY,
    hidden_size=64,
    state_size=16,
    num_hidden_layers=2,
    pad_token_id=0,
    bos_token_id=0,
    eos_token_id=0,
)
variant(
    "falcon_mamba",
    "falcon_mamba",
    "gpt2",
    vocab_size=VOCABULARY,
    hidden_size=64,
    state_size=16,
    num_hidden_layers=2,
    pad_token_id=0,
    bos_token_id=0,
    eos_token_id=0,
)
variant(
    "mamba2",
    "mamba2",
    "gpt2",
    vocab_size=VOCABULARY,
    hidden_size=64,
    state_size=16,
    num_hidden_layers=2,
    num_heads=8,
    head_dim=16,
    expand=2,
    n_groups=2,
    chunk_size=16,
    pad_token_id=0,
    bos_token_id=0,
    eos_token_id=0,
)
NEMOTRON_H = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "ssm_state_size": 16,
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "n_groups": 2,
    "conv_kernel": 4,
    "expand": 2,
    "chunk_size": 16,
    "time_step_min": 1e-8,
}
variant(
    "nemotron_h",
    "nemotron_h",
    legacy=patched(drop=("layers_block_type", "layer_types"), hybrid_override_pattern="M-M*-"),
    note="mamba2/mlp/attention hybrid (Nemotron-H 8B style)",
    **NEMOTRON_H,
    layers_block_type=["linear_attention", "mlp", "linear_attention", "full_attention", "mlp"],
)
variant(
    "nemotron_h_moe",
    "nemotron_h",
    legacy=patched(drop=("layers_block_type", "layer_types"), hybrid_override_pattern="ME*E"),
    note="Nemotron 3 Nano style with MoE layers",
    **NEMOTRON_H,
    layers_block_type=["linear_attention", "moe", "full_attention", "moe"],
    n_routed_experts=8,
    num_experts_per_tok=2,
    moe_intermediate_size=32,
    moe_shared_expert_intermediate_size=64,
    n_shared_experts=1,
    n_group=1,
    topk_group=1,
    routed_scaling_factor=2.5,
    norm_topk_prob=True,
)
variant(
    "falcon_h1",
    "falcon_h1",
    **base(
        rope_parameters=rope(1e5),
        head_dim=16,
        mamba_d_ssm=64,
        mamba_n_heads=4,
        mamba_d_head=16,
        mamba_n_groups=1,
        mamba_d_state=16,
        mamba_chunk_size=16,
        mamba_rms_norm=False,
        embedding_multiplier=2.0,
        lm_head_multiplier=0.5,
        key_multiplier=0.5,
        attention_out_multiplier=0.7,
        ssm_in_multiplier=0.8,
        ssm_out_multiplier=0.6,
        ssm_multipliers=[0.9, 0.8, 0.7, 0.6, 0.5],
        mlp_multipliers=[0.9, 0.7],
    ),
)
variant(
    "jamba",
    "jamba",
    "llama",
    **base(
        num_hidden_layers=4,
        num_experts=4,
        num_experts_per_tok=2,
        attn_layer_period=4,
        attn_layer_offset=2,
        expert_layer_period=2,
        expert_layer_offset=1,
        mamba_d_state=16,
        mamba_d_conv=4,
        mamba_expand=2,
        use_mamba_kernels=False,
    ),
)
# others popular
variant(
    "glm4",
    "glm4",
    legacy=patched(drop=("rope_parameters",), partial_rotary_factor=0.5, rope_theta=10000.0),
    **base(rope_parameters=rope(10000.0, partial_rotary_factor=0.5), head_dim=32, pad_token_id=3, eos_token_id=[2]),
)
variant(
    "glm4_chat",
    "glm",
    note="glm-4-9b-hf: interleaved partial rope, fused gate_up",
    **base(rope_parameters=rope(10000.0, partial_rotary_factor=0.5), head_dim=16, pad_token_id=3, eos_token_id=[2]),
)
variant(
    "glm4_moe",
    "glm4_moe",
    legacy=patched(drop=("rope_parameters",), partial_rotary_factor=0.5, rope_theta=1000000.0, rope_scaling=None),
    note="GLM-4.5/4.6",
    **base(
        rope_parameters=rope(1e6, partial_rotary_factor=0.5),
        head_dim=32,
        n_routed_experts=8,
        n_shared_experts=1,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        first_k_dense_replace=1,
        n_group=1,
        topk_group=1,
        routed_scaling_factor=2.5,
        norm_topk_prob=True,
        use_qk_norm=True,
        attention_bias=True,
        num_mtp_layers=0,
    ),
)
variant(
    "glm4_moe_lite",
    "glm4_moe_lite",
    note="GLM-4.7-Flash (MLA)",
    **base(
        **MLA_NO_DENSE,
        rope_parameters=rope(1e6),
        q_lora_rank=32,
        n_routed_experts=8,
        n_shared_experts=1,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        routed_scaling_factor=1.8,
    ),
)
variant(
    "glm_moe_dsa",
    "glm_moe_dsa",
    note="GLM-5: MLA_NO_DENSE",
    **base(
        **MLA_NO_DENSE,
        rope_parameters=rope(1e6),
        q_lora_rank=32,
        n_routed_experts=8,
        n_shared_experts=1,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        routed_scaling_factor=2.5,
        first_k_dense_replace=1,
        index_topk=12,
        index_head_dim=64,
        index_n_heads=16,
    ),
)
variant(
    "olmo",
    "olmo",
    "gpt2",
    note="non-parametric LN, clip_qkv",
    **base(rms_norm_eps=..., rope_parameters=rope(), num_key_value_heads=4, clip_qkv=1.5, pad_token_id=3),
)
variant(
    "olmo2",
    "olmo2",
    "gpt2",
    note="post-norm only, full-width qk norm",
    **base(rope_parameters=rope(500000.0), num_key_value_heads=4, pad_token_id=3),
)
variant(
    "olmo3",
    "olmo3",
    "gpt2",
    note="olmo2 + SWA; yarn on full layers only",
    **base(
        rope_parameters=rope(
            500000.0,
            "yarn",
            factor=8.0,
            beta_fast=32.0,
            beta_slow=1.0,
            attention_factor=1.2079441541679836,
            original_max_position_embeddings=32,
        ),
        num_hidden_layers=4,
        sliding_window=16,
        num_key_value_heads=4,
        pad_token_id=3,
    ),
)
variant(
    "olmoe",
    "olmoe",
    "gpt2",
    **base(
        rope_parameters=rope(),
        num_experts=8,
        num_experts_per_tok=2,
        intermediate_size=32,
        num_key_value_heads=4,
        norm_topk_prob=False,
        pad_token_id=3,
    ),
)
variant(
    "command_r",
    "cohere",
    note="interleaved rope, LN w/o bias, parallel, logit_scale, tied",
    **base(rms_norm_eps=..., rope_parameters=rope(75000.0), logit_scale=0.25, layer_norm_eps=1e-5),
)
variant(
    "command_r_plus",
    "cohere",
    note="use_qk_norm",
    **base(rms_norm_eps=..., rope_parameters=rope(75000.0), logit_scale=0.25, use_qk_norm=True, layer_norm_eps=1e-5),
)
variant(
    "command_r7b",
    "cohere2",
    legacy=patched(drop=("layer_types", "rope_parameters"), sliding_window_pattern=4, rope_theta=50000.0),
    note="SWA with rope, full layers NoPE",
    **base(
        rms_norm_eps=...,
        rope_parameters=rope(50000.0),
        logit_scale=0.25,
        num_hidden_layers=4,
        sliding_window=16,
        layer_norm_eps=1e-5,
    ),
)
variant(
    "lfm2",
    "lfm2",
    **base(
        rms_norm_eps=...,
        rope_parameters=rope(1e6),
        norm_eps=1e-5,
        num_hidden_layers=4,
        layer_types=["conv", "conv", "full_attention", "conv"],
        block_auto_adjust_ff_dim=False,
        conv_L_cache=3,
    ),
)
variant(
    "lfm2_moe",
    "lfm2_moe",
    **base(
        rms_norm_eps=...,
        rope_parameters=rope(1e6),
        norm_eps=1e-5,
        num_hidden_layers=4,
        layer_types=["conv", "conv", "full_attention", "conv"],
        conv_L_cache=3,
        num_dense_layers=1,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
    ),
)
variant("ernie4_5", "ernie4_5", "llama", **base(rope_parameters=rope(500000.0), head_dim=32, tie_word_embeddings=True))
variant(
    "ernie4_5_moe",
    "ernie4_5_moe",
    "llama",
    **base(
        rope_parameters=rope(500000.0),
        moe_intermediate_size=32,
        moe_k=2,
        moe_num_experts=8,
        moe_num_shared_experts=2,
        moe_layer_start_index=1,
        tie_word_embeddings=True,
        intermediate_size=128,
    ),
)
variant(
    "llama4_text",
    "llama4_text",
    **base(
        rope_parameters=rope(500000.0),
        head_dim=16,
        num_hidden_layers=4,
        intermediate_size=32,
        intermediate_size_mlp=64,
        num_local_experts=4,
        num_experts_per_tok=1,
        interleave_moe_layer_step=2,
    ),
)
variant(
    "llama4_chunk",
    "llama4_text",
    note="attention_chunk_size=16, floor_scale=16",
    **base(
        rope_parameters=rope(500000.0),
        head_dim=16,
        num_hidden_layers=4,
        intermediate_size=32,
        intermediate_size_mlp=64,
        num_local_experts=4,
        num_experts_per_tok=1,
        interleave_moe_layer_step=2,
        attention_chunk_size=16,
        floor_scale=16,
    ),
)
variant("hunyuan_dense", "hunyuan_v1_dense", **base(rope_parameters=rope(10000.0), head_dim=16, pad_token_id=3))
variant(
    "minimax_m2",
    "minimax_m2",
    **base(
        rope_parameters=rope(5e6, partial_rotary_factor=0.5),
        head_dim=32,
        num_local_experts=8,
        num_experts_per_tok=2,
        intermediate_size=32,
    ),
)
variant(
    "seed_oss", "seed_oss", **base(rope_parameters=rope(1e7), head_dim=32, attention_dropout=0.0, residual_dropout=0.0)
)
variant(
    "exaone4",
    "exaone4",
    **base(rope_parameters=rope(1e6), num_hidden_layers=4, sliding_window=16, sliding_window_pattern=4),
)
variant(
    "exaone4_full",
    "exaone4",
    note="no SWA (1.2B style)",
    **base(rope_parameters=rope(1e6), num_hidden_layers=3, sliding_window=None, layer_types=["full_attention"] * 3),
)
variant(
    "nemotron",
    "nemotron",
    note="LayerNorm1p, relu2, partial rotary",
    **base(rms_norm_eps=..., rope_parameters=rope(10000.0, partial_rotary_factor=0.5), head_dim=16, norm_eps=1e-5),
)
variant(
    "apertus",
    "apertus",
    note="xIELU, qk-norm",
    **base(
        rope_parameters=rope(
            12e6, "llama3", factor=8.0, original_max_position_embeddings=32, low_freq_factor=1.0, high_freq_factor=4.0
        )
    ),
)
variant("arcee", "arcee", note="relu2 ungated (AFM-4.5B)", **base(rope_parameters=rope(10000.0)))
variant(
    "mistral4",
    "mistral4",
    note="MLA + MoE, yarn, llama4 q scaling",
    **base(
        **MLA,
        rope_parameters=rope(
            10000.0,
            "yarn",
            factor=8.0,
            original_max_position_embeddings=16,
            max_position_embeddings=512,
            beta_fast=32.0,
            beta_slow=1.0,
            mscale_all_dim=1.0,
            mscale=1.0,
            llama_4_scaling_beta=0.1,
        ),
        q_lora_rank=32,
        n_routed_experts=8,
        n_shared_experts=1,
        num_experts_per_tok=2,
    ),
)
variant(
    "kimi_linear",
    "kimi_linear",
    **base(
        **{**MLA_NO_DENSE, "num_hidden_layers": 3},
        n_shared_experts=1,
        num_local_experts=8,
        num_experts_per_tok=2,
        linear_head_dim=16,
        linear_num_heads=4,
        linear_conv_kernel_dim=4,
        layer_types=["linear_attention", "linear_attention", "full_attention"],
        first_k_dense_replace=1,
        pad_token_id=3,
    ),
)
variant(
    "minicpm3",
    "minicpm3",
    **base(
        rope_parameters=rope(),
        num_key_value_heads=4,
        kv_lora_rank=32,
        q_lora_rank=32,
        qk_rope_head_dim=16,
        qk_nope_head_dim=16,
        v_head_dim=16,
        dim_model_base=256,
        scale_emb=12,
        scale_depth=1.4,
    ),
)
variant("bitnet", "bitnet", **base(rope_parameters=rope(500000.0)))
variant(
    "dots1",
    "dots1",
    **base(
        rope_parameters=rope(1e7),
        n_routed_experts=8,
        n_shared_experts=1,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        first_k_dense_replace=1,
        n_group=1,
        topk_group=1,
        routed_scaling_factor=2.5,
        norm_topk_prob=True,
        sliding_window=None,
        num_key_value_heads=4,
    ),
)
variant(
    "lfm3",
    "lfm3",
    **base(
        rms_norm_eps=...,
        norm_eps=1e-5,
        head_dim=16,
        num_hidden_layers=5,
        sliding_window=16,
        conv_L_cache=4,
        pad_token_id=3,
    ),
)
