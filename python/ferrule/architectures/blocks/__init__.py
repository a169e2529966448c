"""Pieces that several families share, with explicit arguments."""

from .alibi import alibi_slopes
from .attention import (
    Heads,
    attend,
    fused_qkv,
    index_selection,
    latent_attention,
    project_qkv,
    self_attention,
)
from .basic import ACTIVATIONS, Norm, head, layer_types, linear, residual, whole, windows
from .delta_net import delta_rule, gated_norm
from .ffn import ffn, fused_gated_ffn, gated_ffn
from .moe import gated_experts, mix_gated, plain_experts, route
from .per_layer import per_layer_inputs, per_layer_update
from .recurrent import convolution, mamba, mamba2
from .rotation import Rotation, rotation, sharpening

__all__ = [
    "ACTIVATIONS",
    "Heads",
    "Norm",
    "Rotation",
    "alibi_slopes",
    "attend",
    "convolution",
    "delta_rule",
    "ffn",
    "fused_gated_ffn",
    "fused_qkv",
    "gated_experts",
    "gated_ffn",
    "gated_norm",
    "head",
    "index_selection",
    "latent_attention",
    "layer_types",
    "linear",
    "mamba",
    "mamba2",
    "mix_gated",
    "per_layer_inputs",
    "per_layer_update",
    "plain_experts",
    "project_qkv",
    "residual",
    "rotation",
    "route",
    "self_attention",
    "sharpening",
    "whole",
    "windows",
]
