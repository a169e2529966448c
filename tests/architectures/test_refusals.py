"""Configs and tensors that say something unknown are refused by name."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferrule import architectures
from ferrule.checkpoint import open_checkpoint
from ferrule.errors import CorruptFile, UnsupportedArchitecture

ROPE = {"rope_theta": 10000.0, "rope_type": "default"}
# Variant, changed keys of its config, what the message names.
UNKNOWN: list[tuple[str, dict[str, Any], str]] = [
    ("llama3", {"model_type": "llamba", "architectures": []}, "did you mean 'llama'"),
    ("llama3", {"new_key": 3}, "new_key"),
    ("llama3", {"rope_parameters": ROPE | {"rope_type": "spiral"}}, "spiral"),
    ("llama3", {"rope_parameters": ROPE | {"pitch": 1}}, "pitch"),
    ("qwen3", {"hidden_act": "mish"}, "mish"),
    ("deepseek_v3", {"scoring_func": "tanh"}, "scoring_func"),
    ("deepseek_v3", {"topk_method": "random"}, "topk_method"),
    ("deepseek_v2", {"norm_topk_prob": True}, "norm_topk_prob"),
    ("gemma4_dense", {"use_bidirectional_attention": "all"}, "use_bidirectional_attention"),
    ("granite4_h", {"layer_types": ["linear_attention", "odd", "linear_attention"]}, "odd"),
    ("bloom", {"apply_residual_connection_post_layernorm": True}, "apply_residual_connection_post_layernorm"),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
    ("opt", {"do_layer_norm_before": False}, "do_layer_norm_before"),
    ("phi2", {"qk_layernorm": True}, "qk_layernorm"),
]


@pytest.mark.parametrize(("variant", "changes", "named"), UNKNOWN, ids=lambda x: x if isinstance(x, str) else "")
def test_unknown_config(tiny_model: Callable[..., Path], variant: str, changes: dict[str, Any], named: str) -> None:
    checkpoint = open_checkpoint(tiny_model(variant))
    with pytest.raises(UnsupportedArchitecture, match=named):
        architectures.record(replace(checkpoint, config={**checkpoint.config, **changes}))


def test_tensor_left_over(tiny_model: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(tiny_model("llama3"))
    extra = {"model.layers.0.self_attn.q_norm.weight": checkpoint.tensors["model.norm.weight"]}
    with pytest.raises(UnsupportedArchitecture, match="q_norm"):
        architectures.record(replace(checkpoint, tensors={**checkpoint.tensors, **extra}))


def test_tensor_missing(tiny_model: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(tiny_model("mixtral"))
    name = "model.layers.1.block_sparse_moe.experts.3.w2.weight"
    tensors = {key: tensor for key, tensor in checkpoint.tensors.items() if key != name}
    with pytest.raises(CorruptFile, match="w2"):
        architectures.record(replace(checkpoint, tensors=tensors))
