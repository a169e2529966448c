"""Phi-3 and later."""

from legacy import old_longrope, patched

from .registry import base, rope, variant

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
