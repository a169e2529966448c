"""Further families."""

from legacy import patched

from .registry import base, rope, variant

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
