"""GPT and its relatives, from learned positions to ALiBi, and gpt-oss."""

from legacy import patched

from .registry import VOCABULARY, YARN_ROPE, base, rope, variant

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
    attention="sdpa",  # eager attention adds the position biases twice
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
    "codegen",
    "codegen",
    "gpt2",
    note="three heads in each of the four parts of the fused projection",
    vocab_size=VOCABULARY,
    n_positions=128,
    n_embd=192,
    n_layer=2,
    n_head=12,
    n_inner=320,
    rotary_dim=8,
)
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
