"""Gemma 3n, text: four streams of which layers see one (AltUp), low-rank side paths, sparse gates, per-layer inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from statistics import NormalDist

import numpy as np

from ..graph import CacheLayer, Graph, Value, Weight
from . import blocks
from .config import Config
from .gemma3 import layer_rotation
from .gemma4 import attention, shared_cache
from .weights import Weights

MODEL_TYPES = ("gemma3n_text", "gemma3n")
ARCHITECTURES = ("Gemma3nForCausalLM", "Gemma3nForConditionalGeneration")
IGNORED_TENSORS = (r"(vision|audio)_tower\.", r"embed_(vision|audio)\.")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads, layers = c.integer("hidden_size"), blocks.Heads.read(c), c.integer("num_hidden_layers")
    norm, n = blocks.Norm(c.number("rms_norm_eps", 1e-6)), c.integer("altup_num_inputs", 4)
    activation = c.choice("hidden_activation", blocks.ACTIVATIONS, "gelu_pytorch_tanh")
    c.expect("attention_bias", False)
    c.expect("altup_active_idx", 0)
    c.expect("altup_correct_scale", True)
    c.ignore("altup_coef_clip")  # in training only
    types = blocks.layer_types(c, ["sliding_attention" if (i + 1) % 5 else "full_attention" for i in range(layers)])
    windows = blocks.windows(types, c.integer("sliding_window", 512))
    rotations = {kind: layer_rotation(g, c, w, heads.dim, kind, two_bases=True) for kind in sorted(set(types))}
    first_shared = layers - c.integer("num_kv_shared_layers", 0)

    embedding = w.matrix("model.embed_tokens.weight", c.integer("vocab_size"), hidden)
    x = g.embedding(embedding, scale=math.sqrt(hidden))
    small, vocabulary = c.integer("hidden_size_per_layer_input"), c.integer("vocab_size_per_layer_input")
    per_layer = blocks.per_layer_inputs(
        g, x, w.at("model"), layers=layers, width=small, vocabulary=vocabulary, norm=norm
    )
    with g.stage("streams"):
        projections = stacked(w, "model.altup_projections", n - 1, hidden)
        units = [g.constant(f"stream {i}", unit) for i, unit in enumerate(np.eye(n))]
        inactive = g.constant("inactive streams", 1 - np.eye(n)[0])
        streams, active = g.mix_streams(x, units[0], width=hidden), x
        for unit, projection in zip(units[1:], projections, strict=True):
            streams = g.mix_streams(at_magnitude(g, x, x, projection), unit, width=hidden, residual=streams)
    caches: dict[str, CacheLayer] = {}
    for i, kind in enumerate(types):
        layer = w.at(f"model.layers.{i}")
        altup = layer.at("altup")
        with g.layer(i):
            streams, active = predicted(g, streams, active, altup, norm)
            x = active
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            side = blocks.residual(g, h, low_rank(g, h, c, layer.at("laurel"), norm), "laurel residual")
            cache = shared_cache(c, caches, kind) if i >= first_shared else None
            h, caches[kind] = attention(g, h, layer.at("self_attn"), heads, norm, rotations[kind], windows[i], cache)
            h = norm(g, h, layer, "post_attention_layernorm", stage="attention post norm")
            h = blocks.residual(g, x, h, "attention residual")
            with g.stage("attention residual"):
                x = g.scale(g.add(h, side), math.sqrt(0.5))
            h = norm(g, x, layer, "pre_feedforward_layernorm", stage="ffn norm")
            h = feed_forward(g, h, c, layer.at("mlp"), activation, i)
            h = norm(g, h, layer, "post_feedforward_layernorm", stage="ffn post norm")
            x = blocks.residual(g, x, h, "ffn residual")
            streams, active = corrected(g, streams, active, x, altup, norm)
            with g.stage("per-layer gate"):
                x = g.scale_columns(active, altup.vector("correct_output_scale", hidden))
            h = blocks.per_layer_update(g, x, per_layer, layer, layer=i, width=small, activation=activation, norm=norm)
            with g.stage("per-layer residual"):
                streams = g.mix_streams(h, inactive, width=hidden, residual=streams)
    with g.stage("streams"):
        projections = stacked(w, "model.altup_unembed_projections", n - 1, hidden)
        others = [g.take_columns(streams, i * hidden, hidden) for i in range(1, n)]
        others = [at_magnitude(g, s, active, p) for s, p in zip(others, projections, strict=True)]
        x = g.scale(reduce(g.add, others, active), 1 / n)
    softcap = c.number("final_logit_softcapping", 0.0)
    blocks.head(g, x, w, norm=norm, embedding=embedding, softcap=softcap)


def stacked(w: Weights, name: str, n: int, size: int) -> Sequence[Weight]:
    """n square matrices, each in a tensor or, in GGUF, all in one."""
    if f"{name}.weight" in w:
        return w.experts(name, n, size, size).matrices
    return [w.matrix(f"{name}.{i}.weight", size, size) for i in range(n)]


def at_magnitude(g: Graph, x: Value, like: Value, projection: Weight) -> Value:
    """A projection of x with the magnitude of `like`."""
    return g.scale_groups(g.rms_norm(g.linear(x, projection), None, 1e-12), g.root_mean_square(like))


def modalities(g: Graph, x: Value, w: Weights, norm: blocks.Norm, n: int) -> Value:
    """What a layer's router sees in a stream [tokens, n]."""
    h = blocks.linear(g, norm(g, x, w, "router_norm"), w, "modality_router", n)
    return g.softcap(g.scale(h, 1 / x.width), 1.0)


def predicted(g: Graph, streams: Value, active: Value, w: Weights, norm: blocks.Norm) -> tuple[Value, Value]:
    """Each stream plus a mixture of all, by coefficients that the active one chooses; all streams, the active one."""
    n = streams.width // active.width
    with g.stage("altup predict"):
        seen = modalities(g, active, w, norm, n)
        coefficients = blocks.linear(g, seen, w, "prediction_coefs", n * n)
        streams = g.mix_streams(streams, coefficients, width=active.width, residual=streams)
        return streams, g.take_columns(streams, 0, active.width)


def corrected(g: Graph, streams: Value, active: Value, x: Value, w: Weights, norm: blocks.Norm) -> tuple[Value, Value]:
    """Each stream plus 1 + c times what the layer changed in the active one; its result x chooses the c."""
    n = streams.width // active.width
    with g.stage("altup correct"):
        seen = modalities(g, x, w, norm, n)
        coefficients = g.linear(seen, w.matrix("correction_coefs.weight", n, n), g.constant("one", np.ones(n)))
        change = g.mix_streams(active, g.constant("minus one", -np.ones(1)), width=x.width, residual=x)
        streams = g.mix_streams(change, coefficients, width=x.width, residual=streams)
        return streams, g.take_columns(streams, 0, x.width)


def low_rank(g: Graph, x: Value, c: Config, w: Weights, norm: blocks.Norm) -> Value:
    """A side path of two small matrices, normalised."""
    with g.stage("laurel"):
        h = blocks.linear(g, x, w, "linear_left", c.integer("laurel_rank"))
        return norm(g, blocks.linear(g, h, w, "linear_right", x.width), w, "post_laurel_norm")


def feed_forward(g: Graph, x: Value, c: Config, w: Weights, activation: str, layer: int) -> Value:
    """A gated FFN that in some layers keeps only the largest values of its gate."""
    width = c.of_layer("intermediate_size", layer).integer("intermediate_size")
    with g.stage("ffn gate, up"):
        gate, up = blocks.linear(g, x, w, "gate_proj", width), blocks.linear(g, x, w, "up_proj", width)
    with g.stage("ffn activation"):
        if (deviations := cutoff(c, layer)) > -math.inf:
            gate = g.keep_outliers(gate, deviations)
        mixed = g.gated_activation(gate, up, activation)
    with g.stage("ffn down"):
        return blocks.linear(g, mixed, w, "down_proj", x.width)


def cutoff(c: Config, layer: int) -> float:
    """Standard deviations that a gate's value must exceed; Hugging Face stores the share of values that do not."""
    if c.container == "gguf":
        deviations = c.of_layer("activation_sparsity_scale", layer).get("activation_sparsity_scale")
        if deviations in (None, -math.inf):
            return -math.inf
        return c.replaced("activation_sparsity_scale", deviations).number("activation_sparsity_scale", above=-math.inf)
    share = c.of_layer("activation_sparsity_pattern", layer).number("activation_sparsity_pattern", 0.0, below=1.0)
    return NormalDist().inv_cdf(share) if share > 0 else -math.inf
