"""Slopes of linear position biases."""

from __future__ import annotations

import numpy as np

from ...graph import Graph, Weight


def alibi_slopes(g: Graph, heads: int, *, largest: float = 8.0, factor: float = 1.0) -> Weight:
    """factor * 2^(-largest * i / n) for i = 1 .. n, n the power of two not below `heads` (Press et al. 2022).

    Of more slopes than heads the even i come first, then the odd ones.
    """
    n = 1 << (heads - 1).bit_length()
    slopes = 2.0 ** (-largest * np.arange(1, n + 1) / n)
    if n != heads:
        slopes = np.concatenate([slopes[1::2], slopes[::2]])[:heads]
    return g.constant("alibi slopes", factor * slopes)
