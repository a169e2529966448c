"""GLM-4.5 to 4.7 and dots.llm1: grouped-query attention, first layers dense, then DeepSeek V3's mixture of experts."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .deepseek import dense, mixture, sparse_layers
from .weights import Weights

MODEL_TYPES = ("glm4_moe", "dots1")
ARCHITECTURES = ("Glm4MoeForCausalLM", "Dots1ForCausalLM")
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads, layers = c.integer("hidden_size"), blocks.Heads.read(c), c.integer("num_hidden_layers")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-5))
    qk_norm = norm if "model.layers.0.self_attn.q_norm.weight" in w else None
    c.expect("use_qk_norm", qk_norm is not None)
    c.ignore("attention_bias")  # the tensors say
    w.ignore_layers("model.layers", layers, c.integer("num_nextn_predict_layers", 0))
    windows = blocks.windows(blocks.layer_types(c, ["full_attention"] * layers), c.integer("sliding_window", 0))
    c.ignore("max_window_layers")

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half")
    embedding = w.matrix("model.embed_tokens.weight", c.integer("vocab_size"), hidden)
    x = g.embedding(embedding)
    for i, (window, is_sparse) in enumerate(zip(windows, sparse_layers(c, layers), strict=True)):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            h = blocks.self_attention(
                g, h, layer.at("self_attn"), heads, rotation=rotation, window=window, qk_norm=qk_norm
            )
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            h = mixture(g, h, c, layer.at("mlp")) if is_sparse else dense(g, h, c, layer.at("mlp"))
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)
