"""MiniMax-M2: norms over all heads of queries and of keys, partial rotation, experts by sigmoid and bias."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("minimax_m2",)
ARCHITECTURES = ("MiniMaxM2ForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    experts, chosen = c.integer("num_local_experts"), c.integer("num_experts_per_tok")
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-6))
    c.expect("scoring_func", "sigmoid")
    c.expect("qk_norm_type", "per_layer")
    c.expect("use_qk_norm", True)
    c.expect("shared_intermediate_size", 0)
    c.ignore("router_jitter_noise", "use_routing_bias", "attn_type_list", "layernorm_full_attention_beta")
    c.ignore(*(key for key in c if "mtp" in key))

    partial = c.integer("rotary_dim", heads.dim) / heads.dim
    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half", partial=partial)
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        moe = layer.at("block_sparse_moe")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            h = blocks.self_attention(
                g, h, layer.at("self_attn"), heads, rotation=rotation, qk_norm=norm, whole_rows=True
            )
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            bias = moe.optional_vector("e_score_correction_bias", experts)
            routes = blocks.route(g, h, moe, experts, k=chosen, scoring="sigmoid", normalize=True, choice_bias=bias)
            h = blocks.gated_experts(
                g,
                h,
                routes,
                moe.at("experts"),
                experts=experts,
                width=ffn,
                activation=activation,
                names=("w1", "w3", "w2"),
            )
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)
