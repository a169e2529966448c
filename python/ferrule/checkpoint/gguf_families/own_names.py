"""Families whose layers attend, under names of their own: GPT-2, GPT-NeoX, Falcon, BLOOM, MPT."""

from __future__ import annotations

from .. import gguf_adjust as adjust
from .family import Family, by_parts, under
from .shared import LAYER_NORM

_GPT2 = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    **under(
        "transformer.h.{}",
        {
            "attn_norm": "ln_1",
            "attn_qkv": "attn.c_attn",
            "attn_output": "attn.c_proj",
            "ffn_norm": "ln_2",
            "ffn_up": "mlp.c_fc",
            "ffn_down": "mlp.c_proj",
        },
    ),
}
_GPT2_KEYS = {
    "context_length": "n_positions",
    "embedding_length": "n_embd",
    "block_count": "n_layer",
    "feed_forward_length": "n_inner",
    "attention.head_count": "n_head",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
}
_FALCON = {
    "token_embd": "transformer.word_embeddings",
    "output_norm": "transformer.ln_f",
    **under(
        "transformer.h.{}",
        {
            "attn_norm": "input_layernorm",
            "attn_norm_2": "ln_attn",
            "attn_qkv": "self_attention.query_key_value",
            "attn_output": "self_attention.dense",
            "ffn_norm": "post_attention_layernorm",
            "ffn_up": "mlp.dense_h_to_4h",
            "ffn_down": "mlp.dense_4h_to_h",
        },
    ),
}

FAMILIES = {
    "gpt2": Family("gpt2", tensors=_GPT2, keys={**_GPT2_KEYS, "attention.head_count_kv": ""}),
    "starcoder": Family("gpt_bigcode", tensors=_GPT2, keys=_GPT2_KEYS, adjust=adjust.bigcode),
    "gptneox": Family(
        "gpt_neox",
        tensors={
            "token_embd": "gpt_neox.embed_in",
            "output_norm": "gpt_neox.final_layer_norm",
            "output": "embed_out",
            **under(
                "gpt_neox.layers.{}",
                {
                    "attn_norm": "input_layernorm",
                    "attn_qkv": "attention.query_key_value",
                    "attn_output": "attention.dense",
                    "ffn_norm": "post_attention_layernorm",
                    "ffn_up": "mlp.dense_h_to_4h",
                    "ffn_down": "mlp.dense_4h_to_h",
                },
            ),
        },
        keys={**LAYER_NORM, "use_parallel_residual": "use_parallel_residual"},
        config={"partial_rotary_factor": 1.0},
        rows={"query_key_value": by_parts("num_attention_heads", "num_attention_heads")},
    ),
    "falcon": Family(
        "falcon",
        tensors=_FALCON,
        keys={"attention.layer_norm_epsilon": "layer_norm_epsilon", "feed_forward_length": "ffn_hidden_size"},
        adjust=adjust.falcon,
        rows={"query_key_value": by_parts("num_attention_heads", "num_kv_heads")},
    ),
    "bloom": Family(
        "bloom",
        tensors={**_FALCON, "token_embd_norm": "transformer.word_embeddings_layernorm"},
        keys={
            "attention.layer_norm_epsilon": "layer_norm_epsilon",
            "attention.head_count": "n_head",
            "block_count": "n_layer",
            "feed_forward_length": "",
            "attention.head_count_kv": "",
        },
        rows={"query_key_value": by_parts("n_head", "n_head")},
    ),
    "mpt": Family(
        "mpt",
        tensors={
            "token_embd": "transformer.wte",
            "output_norm": "transformer.norm_f",
            **under(
                "transformer.blocks.{}",
                {
                    "attn_norm": "norm_1",
                    "attn_qkv": "attn.Wqkv",
                    "attn_output": "attn.out_proj",
                    "ffn_norm": "norm_2",
                    "ffn_up": "ffn.up_proj",
                    "ffn_down": "ffn.down_proj",
                },
            ),
        },
        keys={
            "attention.layer_norm_epsilon": "layer_norm_epsilon",
            "attention.clamp_kqv": "clip_qkv",
            "attention.max_alibi_bias": "alibi_bias_max",
            "attention.head_count": "n_heads",
            "attention.head_count_kv": "",
            "block_count": "n_layers",
            "context_length": "max_seq_len",
            "embedding_length": "d_model",
            "feed_forward_length": "",
        },
        adjust=adjust.mpt,
    ),
}
