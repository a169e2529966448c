"""GLM-4 and GLM-4-0414: partial rotation of neighbours, fused gate and up; the latter with four norms a layer."""

from __future__ import annotations

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("glm", "glm4")
ARCHITECTURES = ("GlmForCausalLM", "Glm4ForCausalLM")
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-5))
    sandwich = "model.layers.0.post_self_attn_layernorm.weight" in w
    c.ignore("attention_bias")  # the tensors say

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="adjacent", partial=0.5)
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            h = attention(g, h, layer.at("self_attn"), heads, rotation)
            if sandwich:
                h = norm(g, h, layer, "post_self_attn_layernorm", stage="attention post norm")
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            h = blocks.fused_gated_ffn(g, h, layer.at("mlp"), width=ffn, activation=activation)
            if sandwich:
                h = norm(g, h, layer, "post_mlp_layernorm", stage="ffn post norm")
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)


def attention(g: Graph, x: Value, w: Weights, heads: blocks.Heads, rotation: blocks.Rotation) -> Value:
    """Attention; GGUF files of the first models hold q, k and v in one matrix."""
    if "qkv_proj.weight" not in w:
        return blocks.self_attention(g, x, w, heads, rotation=rotation)
    qkv = blocks.fused_qkv(g, x, w, "qkv_proj", heads, by_parts=True)
    mixed = blocks.attend(g, *qkv, heads, scale=heads.dim**-0.5, rotation=rotation)
    with g.stage("attention output"):
        return blocks.linear(g, mixed, w, "o_proj", x.width)
