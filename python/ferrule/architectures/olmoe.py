"""OLMoE: Llama with experts and a norm over all heads of queries and of keys."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("olmoe",)
ARCHITECTURES = ("OlmoeForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    experts, chosen = c.integer("num_experts"), c.integer("num_experts_per_tok")
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm, limit = blocks.Norm(c.number("rms_norm_eps", 1e-5)), c.number("clip_qkv", 0.0)
    c.ignore("attention_bias")  # the tensors say

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half")
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        mlp = layer.at("mlp")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            h = blocks.self_attention(
                g,
                h,
                layer.at("self_attn"),
                heads,
                rotation=rotation,
                qk_norm=norm,
                whole_rows=True,
                clip=limit,
            )
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            normalize = c.flag("norm_topk_prob", False)
            routes = blocks.route(g, h, mlp, experts, k=chosen, scoring="softmax", normalize=normalize)
            h = blocks.gated_experts(g, h, routes, mlp.at("experts"), experts=experts, width=ffn, activation=activation)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)
