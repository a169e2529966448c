"""Llama 1 to 3.2, Mistral, Ministral, SmolLM2 and other pre-norm decoders of plain attention; SmolVLM's text tower."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("llama", "mistral", "ministral3", "idefics3", "smolvlm")
ARCHITECTURES = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Ministral3ForCausalLM",
    "Mistral3ForConditionalGeneration",
    "Idefics3ForConditionalGeneration",
    "SmolVLMForConditionalGeneration",
)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$", r"vision_(tower|model)\.", r"multi_modal_projector\.", r"connector\.")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    build_llama(g, c, w, gated=True)


def build_llama(g: Graph, c: Config, w: Weights, *, gated: bool) -> None:
    """Pre-norm decoder with or without a gate in its FFN."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-6))
    window = c.integer("sliding_window", 0)
    c.ignore("attention_bias", "mlp_bias")  # the tensors say which there are

    # Converters to GGUF permute the rows of q and k of this family, so that pairs become neighbours.
    pairing = "adjacent" if c.container == "gguf" else "half"
    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing=pairing, applied=["llama_4_scaling_beta"])
    sharpen = blocks.sharpening(g, c)
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            h = blocks.self_attention(
                g, h, layer.at("self_attn"), heads, rotation=rotation, window=window, sharpen=sharpen
            )
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            mix = blocks.gated_ffn if gated else blocks.ffn
            h = mix(g, h, layer.at("mlp"), width=ffn, activation=activation)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)
