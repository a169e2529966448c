"""What each special feature is worth: switched off, the logits of the family's golden must move, and by how much.

A feature that could be left out unnoticed is one that the goldens do not test.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny_models
from ferrule import architectures
from ferrule.checkpoint import open_checkpoint
from ferrule.graph import CacheLayer, Graph, Op
from ferrule.reference import Reference


@dataclass(frozen=True)
class Off:
    """How a feature is switched off: config keys are replaced, or ops of a kind, of a stage, are changed.

    `set` replaces attributes, `drop` removes an operand, `instead` gives an operand the place of another, `caches` lets
    ops read one cache layer instead of another, by number; `skip` lets the op return its first operand. `no_weight`
    restricts the change to ops without a weight, `first_layer` to those from a layer on.
    """

    kind: str = ""
    stage: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    set: dict[str, Any] = field(default_factory=dict)
    drop: str = ""
    instead: dict[str, str] = field(default_factory=dict)
    caches: dict[int, int] = field(default_factory=dict)
    skip: bool = False
    no_weight: bool = False
    first_layer: int = 0

    def __call__(self, op: Op, graph: Graph) -> Op:
        if op.kind != self.kind or not op.stage.startswith(self.stage) or (self.no_weight and "weight" in op.operands):
            return op
        if self.first_layer and (op.layer is None or op.layer < self.first_layer):
            return op
        if self.skip:
            return replace(
                op, kind="scale", operands={"x": next(iter(op.operands.values()))}, attributes={"factor": 1.0}
            )
        operands = {name: operand for name, operand in op.operands.items() if name != self.drop}
        operands |= {name: op.operands[other] for name, other in self.instead.items()}
        cache = op.operands.get("cache")
        if isinstance(cache, CacheLayer) and cache.index in self.caches:
            operands["cache"] = graph.caches[self.caches[cache.index]]
        return replace(op, operands=operands, attributes={**op.attributes, **self.set})


def skip(kind: str, stage: str = "", **restriction: bool) -> Off:
    return Off(kind, stage, skip=True, **restriction)


ROPE = {"rope_type": "default", "rope_theta": 10000.0}

DEFAULT = {"rope_type": "default"}
ROUNDED_YARN = {
    "rope_type": "yarn",
    "rope_theta": 150000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 32,
    "truncate": True,
}

GEMMA = {
    "sliding_attention": ROPE,
    "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25},
}

# Feature, variant whose golden shows it, how it is switched off, by how much the largest logit then moves.
FEATURES: list[tuple[str, str, Off, float]] = [
    ("window", "mistral_swa", Off("attention", set={"window": 0}), 14.0),
    ("window of upper layers", "qwen2_swa", Off("attention", set={"window": 0}), 5.9),
    ("window of every other layer", "gemma2", Off("attention", set={"window": 0}), 3.9),
    ("window of every other layer", "gpt_oss", Off("attention", set={"window": 0}), 22.0),
    ("window of five layers in six", "gemma3_text", Off("attention", set={"window": 0}), 5.9),
    ("window of three layers in four", "command_r7b", Off("attention", set={"window": 0}), 6.3),
    ("window", "starcoder2_swa", Off("attention", set={"window": 0}), 11.0),
    ("window", "phi3_swa", Off("attention", set={"window": 0}), 15.0),
    ("softcap of scores", "gemma2", Off("attention", set={"softcap": 0.0}), 2.1),
    ("softcap of logits", "gemma2", skip("softcap"), 9.6),
    ("norms after attention", "gemma2", skip("rms_norm", "attention post norm"), 3.2),
    ("norm weights plus one", "gemma1", Off("rms_norm", set={"weight_offset": 0.0}), 48.0),
    ("embedding scale", "gemma1", Off("embedding", set={"scale": 1.0}), 19.0),
    ("query_pre_attn_scalar", "gemma2_qpas", Off(config={"query_pre_attn_scalar": 32}), 0.4),
    ("q/k norm", "qwen3", skip("rms_norm", "qk norm"), 9.3),
    ("biases of q, k, v", "qwen2", Off("linear", "qkv", drop="bias"), 8.6),
    ("biases of q, k, v", "seed_oss", Off("linear", "qkv", drop="bias"), 5.6),
    ("biases of q, k, v", "stablelm", Off("linear", "qkv", drop="bias"), 5.6),
    ("linear scaling", "llama_linear", Off(config={"rope_parameters": ROPE}), 11.0),
    ("llama3 scaling", "llama3_1", Off(config={"rope_parameters": {**ROPE, "rope_theta": 500000.0}}), 12.0),
    ("YaRN", "llama_yarn", Off(config={"rope_parameters": ROPE}), 14.0),
    ("dynamic scaling", "llama_dynamic", Off("dynamic_rope_table", set={"factor": 1.0}), 6.1),
    ("longrope", "phi3_longrope", Off("long_rope_table", set={"threshold": 1000}), 12.0),
    ("longrope's scale", "phi3_longrope", Off("long_rope_table", set={"long_scale": 1.0}), 6.8),
    ("queries sharpened by position", "ministral3", skip("scale_by_position"), 1.4),
    ("layers without rotation", "smollm3", Off(config={"no_rope_layers": [1, 1, 1, 1]}), 9.9),
    ("interval of layers without rotation", "smollm3", Off(config={"no_rope_layers": [1, 0, 1, 0]}), 14.0),
    ("v norm", "gemma4_dense", skip("rms_norm", "qk norm", no_weight=True), 2.8),
    ("layer scalar", "gemma4_dense", skip("scale", "layer scalar"), 13.0),
    ("per-layer inputs", "gemma4_e2b", skip("add", "per-layer residual"), 20.0),
    ("context in per-layer inputs", "gemma4_e2b", skip("add", "per-layer inputs"), 17.0),
    ("KV shared by the last layers", "gemma4_e2b", Off("attention", caches={4: 3, 5: 2}, first_layer=6), 22.0),
    ("KV shared by the last layers", "gemma4_kvshare_rev", Off("attention", caches={2: 0}, first_layer=3), 9.5),
    ("KV shared by the last layers", "gemma3n_text", Off("attention", caches={0: 1, 1: 0}, first_layer=2), 6.8),
    ("values that are keys before norm and rotation", "gemma4_dense", Off("kv_append", instead={"v": "k"}), 21.0),
    (
        "proportional scaling",
        "gemma4_dense",
        Off(config={"rope_parameters": {**GEMMA, "full_attention": {**GEMMA["full_attention"], **DEFAULT}}}),
        8.4,
    ),
    (
        "RoPE of each layer type",
        "gemma3_text",
        Off(config={"rope_parameters": {"full_attention": ROPE, "sliding_attention": ROPE}}),
        2.7,
    ),
    ("norm of the router's input", "gemma4_moe", skip("rms_norm", "router"), 7.2),
    ("scale of each expert", "gemma4_moe", Off("route", drop="expert_scale"), 5.6),
    ("experts beside the FFN", "gemma4_moe", skip("add", "expert sum"), 9.7),
    ("norms after experts", "gemma4_moe", skip("rms_norm", "experts post norm"), 6.5),
    ("attention sinks", "gpt_oss", Off("attention", drop="sinks"), 11.0),
    ("biases of experts", "gpt_oss", Off("expert_linear", drop="bias"), 8.3),
    ("limit of the clamped SwiGLU", "gpt_oss_limit", Off("clamped_swiglu", set={"limit": 1e9}), 5.3),
    ("attention factor of YaRN", "gpt_oss", Off("rope_table", set={"scale": 1.0}), 9.8),
    ("unrounded range of YaRN", "gpt_oss", Off(config={"rope_parameters": ROUNDED_YARN}), 13.0),
    ("renormalised weights", "mixtral", Off("route", set={"normalize": False}), 4.3),
    ("renormalised weights", "qwen3_moe", Off("route", set={"normalize": False}), 3.6),
    ("weights not renormalised", "qwen1_5_moe", Off("route", set={"normalize": True}), 2.1),
    ("gate of the shared expert", "qwen1_5_moe", skip("scale_groups"), 12.0),
    ("sparsemixer", "phi3_5_moe", Off("route", set={"scoring": "softmax"}), 10.0),
    ("jitter of the sparsemixer", "phi3_5_moe", Off("route", set={"jitter": 0.0}), 4.7),
    ("groups scored by two", "deepseek_v3", Off("route", set={"group_score": "max"}), 9.3),
    ("groups scored by their best", "deepseek_v2", Off("route", set={"group_score": "top2"}), 8.1),
    ("group limit", "deepseek_v2", Off("route", set={"top_groups": 4}), 7.7),
    ("scale of routed experts", "deepseek_v2", Off("route", set={"scale": 1.0}), 16.0),
    ("sigmoid router", "deepseek_v3", Off("route", set={"scoring": "softmax"}), 9.2),
    ("sigmoid router", "moonlight27", Off("route", set={"scoring": "softmax"}), 22.0),
    ("pairs of neighbours", "deepseek_v3", Off("rope", set={"pairing": "half"}), 14.0),
    ("group limit by two", "deepseek_v3", Off("route", set={"top_groups": 4}), 8.0),
    ("correction bias", "deepseek_v3", Off("route", drop="choice_bias"), 4.3),
    ("scale of routed experts", "deepseek_v3", Off("route", set={"scale": 1.0}), 4.3),
    ("YaRN's factor on scores", "deepseek_v2", Off("latent_attention", set={"scale": 32**-0.5}), 9.0),
    ("norm of latents", "deepseek_v3", skip("rms_norm", "qkv"), 9.8),
    ("shared experts", "deepseek_v3", skip("add", "expert sum"), 13.0),
    ("embedding multiplier", "granite", Off("embedding", set={"scale": 1.0}), 2.0),
    ("attention multiplier", "granite", Off("attention", set={"scale": 0.25}), 1.7),
    ("residual multiplier", "granite", skip("scale", "attention residual"), 0.84),
    ("logits scaling", "granite", skip("scale", "logits"), 42.0),
    ("shared FFN beside experts", "granitemoeshared", skip("add", "expert sum"), 3.7),
    ("shared FFN beside experts", "granite4_h", skip("add", "expert sum"), 5.2),
    ("linear position biases", "bloom", Off("attention", drop="slopes"), 7.5),
    ("norm of embeddings", "bloom", skip("layer_norm", "embedding norm"), 11.0),
    ("linear position biases", "mpt", Off("attention", drop="slopes"), 15.0),
    ("linear position biases", "falcon_rw", Off("attention", drop="slopes"), 3.5),
    ("linear position biases of six heads", "bloom_h6", Off("attention", drop="slopes"), 8.1),
    ("clipped q, k, v", "mpt_clip", skip("clamp"), 12.0),
    ("learned positions", "gpt2", skip("add", "position embedding"), 26.0),
    ("learned positions", "opt", skip("add", "position embedding"), 12.0),
    ("pairs of neighbours", "gptj", Off("rope", set={"pairing": "half"}), 9.3),
    ("pairs of neighbours", "codegen", Off("rope", set={"pairing": "half"}), 9.5),
    ("partial rotation", "codegen", Off(config={"rotary_dim": 16}), 8.5),
    ("pairs of neighbours", "ernie4_5", Off("rope", set={"pairing": "half"}), 20.0),
    ("pairs of neighbours", "command_r", Off("rope", set={"pairing": "half"}), 5.8),
    ("pairs of neighbours", "glm4", Off("rope", set={"pairing": "half"}), 19.0),
    ("partial rotation", "phi2", Off(config={"rope_parameters": {**ROPE, "partial_rotary_factor": 1.0}}), 9.1),
    ("attention beside the FFN", "gpt_neox", Off(config={"use_parallel_residual": False}), 7.7),
    ("attention before the FFN", "gpt_neox_seq", Off(config={"use_parallel_residual": True}), 9.0),
    ("gate of attention", "qwen3_next", skip("gated_activation", "attention gate"), 13.0),
    ("convolution before the delta rule", "qwen3_next", skip("causal_conv1d"), 19.0),
    ("gated norm", "qwen3_next", skip("gated_activation", "gated norm"), 21.0),
    ("logit scale", "command_r", skip("scale", "logits"), 39.0),
    ("weights of each head's norm", "command_r_plus", skip("scale_columns", "qk norm"), 2.9),
    ("weights of each head's norm", "stablelm_qknorm", skip("scale_columns", "qk norm"), 6.0),
    ("clipped q, k, v", "olmo", skip("clamp"), 9.0),
    ("norm over all heads", "olmo2", skip("rms_norm", "qk norm"), 13.0),
    ("window of three layers in four", "olmo3", Off("attention", set={"window": 0}), 17.0),
    ("weights not renormalised", "olmoe", Off("route", set={"normalize": True}), 4.3),
    ("norm weights plus one", "nemotron", Off("layer_norm", set={"weight_offset": 0.0}), 13.0),
    ("squared ReLU", "nemotron", Off("activation", set={"activation": "relu"}), 15.0),
    ("squared ReLU", "arcee", Off("activation", set={"activation": "relu"}), 9.4),
    ("norm after the rotation", "hunyuan_dense", skip("rms_norm", "qk norm"), 9.9),
    ("norms after attention", "glm4", skip("rms_norm", "attention post norm"), 11.0),
    ("norms after attention", "exaone4", skip("rms_norm", "attention post norm"), 16.0),
    ("attention in chunks", "llama4_chunk", Off("chunked_attention", set={"chunk": 4096}), 20.0),
    ("queries sharpened by position", "llama4_chunk", skip("scale_by_position"), 0.48),
    ("norms without weights", "llama4_text", skip("rms_norm", "qk norm"), 16.0),
    ("weights on the input of experts", "llama4_text", Off("expert_linear", set={"weighted": False}), 6.2),
    ("negative branch of xIELU", "apertus", Off("xielu", set={"negative": 0.0}), 5.2),
    ("choice by bias", "ernie4_5_moe", Off("route", drop="choice_bias"), 8.5),
    ("choice by bias", "minimax_m2", Off("route", drop="choice_bias"), 8.7),
    ("choice by bias", "lfm2_moe", Off("route", drop="choice_bias"), 9.0),
    ("choice by bias", "glm4_moe", Off("route", drop="choice_bias"), 9.3),
    ("choice by bias", "dots1", Off("route", drop="choice_bias"), 8.4),
    ("selected positions", "deepseek_v32", Off("latent_attention", drop="selected"), 16.0),
    ("selected positions", "glm_moe_dsa", Off("latent_attention", drop="selected"), 15.0),
    ("pairing of the indexer", "deepseek_v32", Off("rope", "index", set={"pairing": "adjacent"}), 12.0),
    ("queries sharpened by position", "mistral4", skip("scale_by_position"), 1.0),
    ("residuals scaled by depth", "minicpm3_deep", skip("scale", "attention residual"), 11.0),
    ("logits scaled by width", "minicpm3_deep", skip("scale", "logits"), 7.3),
    ("embedding scale", "minicpm3_deep", Off("embedding", set={"scale": 1.0}), 10.0),
    ("pairs half a head apart", "minicpm3_deep", Off("rope", set={"pairing": "adjacent"}), 11.0),
    ("convolution", "mamba", skip("causal_conv1d"), 16.0),
    ("convolution", "falcon_mamba", skip("causal_conv1d"), 18.0),
    ("convolution", "jamba", skip("causal_conv1d"), 23.0),
    ("convolution", "kimi_linear", skip("causal_conv1d"), 20.0),
    ("norms of the recurrence's inputs", "falcon_mamba", skip("rms_norm", "ssm parameters"), 3.7),
    ("norms of the recurrence's inputs", "jamba", skip("rms_norm", "ssm parameters"), 18.0),
    ("norm in groups", "mamba2", Off("rms_norm", "ssm out", set={"groups": 1}), 11.0),
    ("scale of routed experts", "nemotron_h_moe", Off("route", set={"scale": 1.0}), 14.0),
    ("multipliers of the state space", "falcon_h1", skip("scale_columns", "ssm in"), 7.7),
    ("multiplier of keys", "falcon_h1", Off(config={"key_multiplier": 1.0}), 3.7),
    ("multipliers of the FFN", "falcon_h1", skip("scale", "ffn"), 3.4),
    ("convolution", "lfm2", skip("causal_conv1d"), 27.0),
    ("gate of each head", "lfm3", skip("scale_groups", "attention gate"), 8.4),
    ("norms after the FFN", "lfm3", skip("rms_norm", "ffn post norm"), 16.0),
    (
        "sigmoid of the gated norm",
        "kimi_linear",
        Off("gated_activation", "gated norm", set={"activation": "silu"}),
        23.0,
    ),
    ("inner norms", "bitnet", skip("rms_norm", "attention inner norm"), 12.0),
    ("sparse gates", "gemma3n_text", skip("keep_outliers"), 5.1),
    ("side path", "gemma3n_text", skip("add", "laurel residual"), 8.5),
    ("mixture of streams", "gemma3n_text", skip("mix_streams", "altup predict"), 4.1),
    ("scale of the active stream", "gemma3n_text", skip("scale_columns", "per-layer gate"), 7.5),
]


@pytest.mark.parametrize(
    ("feature", "variant", "off", "moves"), FEATURES, ids=lambda x: x if isinstance(x, str) else ""
)
def test_feature_shows_in_its_golden(
    tiny_model: Callable[..., Path], feature: str, variant: str, off: Off, moves: float
) -> None:
    moved = movement(tiny_model(variant), variant, off)
    assert moved > 0.1, feature  # a hundred times the tolerance of the goldens
    assert moved == pytest.approx(moves, rel=0.2), feature


def movement(path: Path, variant: str, off: Off) -> float:
    """Largest difference that switching the feature off makes to the golden logits."""
    checkpoint = open_checkpoint(path)
    changed = replace(checkpoint, config={**checkpoint.config, **off.config})
    graph = architectures.record(changed).graph
    ops = [off(op, graph) for op in graph.ops]
    assert off.config or ops != graph.ops, "nothing was switched off"
    edited = Graph(ops=ops, caches=graph.caches, states=graph.states, inputs=graph.inputs, output=graph.output)
    golden = tiny_models.golden(variant).prompts[40]
    logits = Reference(edited, dtype=np.float32).forward(golden.ids)
    return float(np.abs(logits[golden.positions] - golden.logits).max())
