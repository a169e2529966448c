"""Llama and what differs from it little."""

from legacy import old_rope

from .registry import LLAMA3_ROPE, YARN_ROPE, base, rope, variant

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
    "smolvlm",
    "smolvlm",
    "llama",
    model_class="SmolVLMForConditionalGeneration",
    note="multimodal config whose text tower is a Llama",
    text_config={"model_type": "llama", **base(rope_parameters=rope(100000.0))},
    vision_config={
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 16,
        "patch_size": 4,
    },
    scale_factor=2,
    image_token_id=380,
)
