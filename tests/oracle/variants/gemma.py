"""Gemma."""

from legacy import old_gemma3, patched

from .registry import VOCABULARY, base, rope, variant

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
