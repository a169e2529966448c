"""Qwen."""

from legacy import old_rope, patched

from .registry import base, rope, variant

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
