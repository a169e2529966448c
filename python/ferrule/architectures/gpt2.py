"""GPT-2 and GPT-BigCode (SantaCoder, StarCoder): learned positions, one fused projection."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("gpt2", "gpt_bigcode")
ARCHITECTURES = ("GPT2LMHeadModel", "GPTBigCodeForCausalLM")
IGNORED_TENSORS = (r"attn\.(masked_)?bias$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, n_heads = c.integer("n_embd"), c.integer("n_head")
    heads = blocks.Heads.of(c, n_heads, 1 if c.flag("multi_query", False) else n_heads, hidden // n_heads)
    ffn, vocabulary = c.integer("n_inner", 4 * hidden), c.integer("vocab_size")
    activation = c.choice("activation_function", blocks.ACTIVATIONS, "gelu_new")
    norm = blocks.Norm(c.number("layer_norm_epsilon", 1e-5), kind="layer")
    c.expect("scale_attn_weights", True)
    c.expect("scale_attn_by_inverse_layer_idx", False)
    c.expect("num_key_value_heads", heads.kv)
    c.ignore("reorder_and_upcast_attn", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "n_ctx")
    c.ignore(*(key for key in c if key.startswith("summary_")))

    # GPT-2 files hold matrices as [n_in, n_out], but for those converted to GGUF. BigCode, with biases of the same
    # shape, holds [n_out, n_in], and queries, key and value of a head together.
    is_bigcode = c.get("multi_query") is not None
    transposed = c.container != "gguf" and not is_bigcode
    by_parts = c.container == "gguf" or not is_bigcode
    w = w.at("transformer")
    embedding = w.matrix("wte.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    with g.stage("position embedding"):
        positions = g.embedding(w.matrix("wpe.weight", c.integer("n_positions"), hidden), index="positions")
        x = g.add(x, positions)
    for i in range(c.integer("n_layer")):
        layer = w.at(f"h.{i}")
        attention = layer.at("attn")
        with g.layer(i):
            h = norm(g, x, layer, "ln_1", stage="attention norm")
            qkv = blocks.fused_qkv(g, h, attention, "c_attn", heads, by_parts=by_parts, transposed=transposed)
            h = blocks.attend(g, *qkv, heads, scale=heads.dim**-0.5, rotation=None)
            with g.stage("attention output"):
                h = blocks.linear(g, h, attention, "c_proj", hidden, transposed=transposed)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "ln_2", stage="ffn norm")
            h = blocks.ffn(
                g,
                h,
                layer.at("mlp"),
                width=ffn,
                activation=activation,
                names=("c_fc", "c_proj"),
                transposed=transposed,
            )
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="ln_f")
