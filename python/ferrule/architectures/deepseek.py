"""DeepSeek V2 and V3, Moonlight, Kimi K2, GLM-4.7-Flash, Mistral 4: latent attention, shared and routed experts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..graph import Graph, Value
from . import blocks, rope
from .config import Config
from .weights import Weights

MODEL_TYPES = ("deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite", "mistral4")
ARCHITECTURES = (
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "Mistral4ForCausalLM",
)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)
Select = Callable[..., Value]
GROUP_SCORES = {"greedy": None, "group_limited_greedy": "max", "noaux_tc": "top2"}


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    build_deepseek(g, c, w, select=None)


def build_deepseek(g: Graph, c: Config, w: Weights, *, select: Select | None) -> None:
    """Latent attention, over all positions or those that select(layer, its input, query latents, weights) gives."""
    hidden, layers = c.integer("hidden_size"), c.integer("num_hidden_layers")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-6))
    c.ignore("attention_bias", "mlp_bias")  # the tensors say which there are
    c.ignore("num_key_value_heads", "qk_head_dim", "ep_size", "seq_aux", "aux_loss_alpha")
    c.expect("moe_layer_freq", 1)
    w.ignore_layers("model.layers", layers, c.integer("num_nextn_predict_layers", 0))

    rotation = latent_rotation(g, c, w)
    embedding = w.matrix("model.embed_tokens.weight", c.integer("vocab_size"), hidden)
    x = g.embedding(embedding)
    for i, is_sparse in enumerate(sparse_layers(c, layers)):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            chosen = partial(select, i, h, w=layer.at("self_attn.indexer")) if select else None
            h = latent_attention(g, h, c, layer.at("self_attn"), rotation, select=chosen)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            h = mixture(g, h, c, layer.at("mlp")) if is_sparse else dense(g, h, c, layer.at("mlp"))
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)


def sparse_layers(c: Config, layers: int) -> list[bool]:
    """Whether each layer has experts: listed, or all after the first `first_k_dense_replace`."""
    first = c.integer("first_k_dense_replace", 0)
    after_first = ["sparse" if i >= first else "dense" for i in range(layers)]
    return c.choices("mlp_layer_types", {"dense": False, "sparse": True}, after_first, count=layers)


def latent_rotation(g: Graph, c: Config, w: Weights) -> blocks.Rotation:
    """The rotation of the part of queries and keys that carries positions."""
    pairing = "adjacent" if c.flag("rope_interleave", True) else "half"
    head_dim = c.integer("head_dim", c.integer("qk_rope_head_dim"))
    return blocks.rotation(g, c, w, head_dim=head_dim, pairing=pairing, applied=["llama_4_scaling_beta"])


def latent_attention(
    g: Graph,
    x: Value,
    c: Config,
    w: Weights,
    rotation: blocks.Rotation | None,
    *,
    select: Callable[[Value], Value] | None = None,
) -> Value:
    """Latent attention; YaRN sharpens scores by the square of its factor for all dimensions."""
    plain, rotated = c.integer("qk_nope_head_dim"), c.integer("qk_rope_head_dim")
    scale = (plain + rotated) ** -0.5
    parameters = rope.parameters(c)
    all_dims = parameters.number("mscale_all_dim", 0.0)
    if parameters["rope_type"] != "default" and all_dims:
        scale *= rope.yarn_mscale(parameters.number("factor", above=0.0), all_dims) ** 2
    return blocks.latent_attention(
        g,
        x,
        w,
        heads=c.integer("num_attention_heads"),
        plain=plain,
        rotated=rotated,
        v_dim=c.integer("v_head_dim"),
        q_rank=c.integer("q_lora_rank", 0),
        kv_rank=c.integer("kv_lora_rank"),
        norm=blocks.Norm(1e-6),
        scale=scale,
        rotation=rotation,
        split_kv_up="kv_b_proj.weight" not in w,
        sharpen=blocks.sharpening(g, c),
        select=select,
    )


def dense(g: Graph, x: Value, c: Config, w: Weights) -> Value:
    """The FFN of a layer without experts."""
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    return blocks.gated_ffn(g, x, w, width=c.integer("intermediate_size"), activation=activation)


def mixture(g: Graph, x: Value, c: Config, w: Weights) -> Value:
    """Routed experts and the shared ones, which are one wider FFN."""
    experts, width = c.integer("n_routed_experts"), c.integer("moe_intermediate_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    group_score = c.choice("topk_method", GROUP_SCORES, "noaux_tc")
    if group_score != "top2":
        c.expect("norm_topk_prob", False)
    bias = w.optional_vector("gate.e_score_correction_bias", experts)
    scoring = {"sigmoid": "sigmoid", "softmax": "softmax"}
    routes = blocks.route(
        g,
        x,
        w,
        experts,
        k=c.integer("num_experts_per_tok"),
        scoring=c.choice("scoring_func", scoring, "softmax" if bias is None else "sigmoid"),
        normalize=c.flag("norm_topk_prob", group_score == "top2"),
        norm_eps=1e-20,
        scale=c.number("routed_scaling_factor", 1.0),
        groups=c.integer("n_group", 1) if group_score else 1,
        top_groups=c.integer("topk_group", 1) if group_score else 1,
        group_score=group_score or "max",
        choice_bias=bias,
    )
    c.ignore("n_group", "topk_group")
    mixed = blocks.gated_experts(g, x, routes, w.at("experts"), experts=experts, width=width, activation=activation)
    shared = c.integer("n_shared_experts", 0)
    if shared == 0:
        return mixed
    h = blocks.gated_ffn(g, x, w.at("shared_experts"), width=shared * width, activation=activation)
    return blocks.residual(g, mixed, h, "expert sum")
