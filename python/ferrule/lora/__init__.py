"""Puts a LoRA adapter (Hu et al. 2021) into a recorded graph: W x becomes W x + scale * B (A x).

A delta is two products of its own, in stages named "<stage> lora", so weights stay as the file holds them. Only the
matrices that attention over latents applies within its kernels get theirs in a float32 copy. With magnitudes (DoRA, Liu
et al. 2024) the sum is scaled: m / norm(W + scale * B A) for each row of that matrix is computed here.
"""

from .adapted import record_adapted
from .matrices import matrix_shapes

__all__ = ["matrix_shapes", "record_adapted"]
