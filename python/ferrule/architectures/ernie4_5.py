"""ERNIE 4.5: rotation of neighbours; in the larger models experts chosen with a bias, beside shared ones."""

from __future__ import annotations

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("ernie4_5", "ernie4_5_moe")
ARCHITECTURES = ("Ernie4_5ForCausalLM", "Ernie4_5_MoeForCausalLM", "Ernie4_5_ForCausalLM")
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$", r"^model\.mtp_")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads, layers = c.integer("hidden_size"), blocks.Heads.read(c), c.integer("num_hidden_layers")
    ffn, activation = c.integer("intermediate_size"), c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-5))
    c.ignore(
        "use_bias", "compression_ratio", "moe_capacity", "moe_use_aux_free", "moe_gate", "num_nextn_predict_layers"
    )
    sparse = sparse_layers(c, layers) if c.integer("moe_num_experts", 0) else set()

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="adjacent", theta=500000.0)
    embedding = w.matrix("model.embed_tokens.weight", c.integer("vocab_size"), hidden)
    x = g.embedding(embedding)
    for i in range(layers):
        layer = w.at(f"model.layers.{i}")
        mlp = layer.at("mlp")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            h = blocks.self_attention(g, h, layer.at("self_attn"), heads, rotation=rotation)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            if i in sparse:
                h = mixture(g, h, c, mlp, activation)
            else:
                h = blocks.gated_ffn(g, h, mlp, width=ffn, activation=activation)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)


def sparse_layers(c: Config, layers: int) -> set[int]:
    """Layers with experts: every `moe_layer_interval`-th one of a range that includes its end."""
    first, is_last = c.integer("moe_layer_start_index", 1, least=0), c.get("moe_layer_end_index", -1) == -1
    interval = c.integer("moe_layer_interval", 1)
    end = layers if is_last else min(c.integer("moe_layer_end_index", least=0) + 1, layers)
    return {i for i in range(first, end) if (i + 1) % interval == 0}


def mixture(g: Graph, x: Value, c: Config, w: Weights, activation: str) -> Value:
    """Routed experts and the shared ones, which are one wider FFN."""
    experts, width = c.integer("moe_num_experts"), c.integer("moe_intermediate_size")
    routes = blocks.route(
        g,
        x,
        w,
        experts,
        k=c.integer("moe_k"),
        scoring="softmax",
        normalize=True,
        norm_eps=c.number("moe_norm_min", 1e-12),
        choice_bias=w.optional_vector("moe_statics.e_score_correction_bias", experts),
    )
    mixed = blocks.gated_experts(g, x, routes, w.at("experts"), experts=experts, width=width, activation=activation)
    shared = c.integer("moe_num_shared_experts", 0)
    if shared == 0:
        return mixed
    h = blocks.gated_ffn(g, x, w.at("shared_experts"), width=shared * width, activation=activation)
    return blocks.residual(g, mixed, h, "expert sum")
