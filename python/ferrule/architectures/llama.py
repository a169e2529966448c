"""Llama 1 to 3.2, Mistral, SmolLM2 and other checkpoints of the same two classes."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("llama", "mistral")
ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM")
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    kv_heads = c.integer("num_key_value_heads", heads)
    head_dim = c.integer("head_dim", hidden // heads)
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-6))
    window = c.integer("sliding_window", 0)
    # The tensors themselves say whether there are biases.
    c.get("attention_bias"), c.get("mlp_bias")

    # Converters to GGUF permute the rows of q and k of this family, so that pairs become neighbours.
    pairing = "adjacent" if c.container == "gguf" else "half"
    rotation = blocks.rotation(g, c, w, head_dim=head_dim, pairing=pairing)
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            with g.stage("attention norm"):
                normed = norm(g, x, layer.vector("input_layernorm.weight", hidden))
            mixed = blocks.self_attention(
                g,
                normed,
                layer.at("self_attn"),
                heads=heads,
                kv_heads=kv_heads,
                head_dim=head_dim,
                scale=head_dim**-0.5,
                rotation=rotation,
                window=window,
            )
            with g.stage("attention residual"):
                x = g.add(x, mixed)
            with g.stage("ffn norm"):
                normed = norm(g, x, layer.vector("post_attention_layernorm.weight", hidden))
            mixed = blocks.gated_ffn(g, normed, layer.at("mlp"), width=ffn, activation=activation)
            with g.stage("ffn residual"):
                x = g.add(x, mixed)
    blocks.head(g, x, w, norm=norm, embedding=embedding)
