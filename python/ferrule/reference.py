"""Interprets a Graph in NumPy, float64 by default: slow and obvious, the oracle for every backend.

One sequence at a time. `Reference.forward` may be called repeatedly: keys and values are kept between calls, so that
prefill in one call, in chunks and token by token can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .formats import FORMATS
from .graph import CacheLayer, Graph, Input, Op, Value, Weight

Array = NDArray[Any]


class Reference:
    """Runs `graph`; `observe(op, result)` is called after every op that has a result."""

    def __init__(
        self, graph: Graph, *, dtype: DTypeLike = np.float64, observe: Callable[[Op, Array], None] | None = None
    ) -> None:
        self._graph = graph
        self._dtype = np.dtype(dtype)
        self._observe = observe
        self._weights: dict[Weight, Array] = {}
        self._keys: dict[CacheLayer, Array] = {}
        self._values: dict[CacheLayer, Array] = {}
        self._length = 0

    def forward(self, tokens: Sequence[int], *, rows: Sequence[int] | None = None) -> Array:
        """Logits [len(rows), vocabulary] after appending `tokens`; `rows` index them, default all."""
        n = len(tokens)
        inputs = {
            "tokens": np.asarray(tokens, np.int64),
            "positions": np.arange(self._length, self._length + n),
            "rows": np.arange(n) if rows is None else np.asarray(rows, np.int64),
        }
        results: dict[Value, Array] = {}

        def value(operand: object) -> Any:
            match operand:
                case Value():
                    return results[operand]
                case Input():
                    return inputs.get(operand.name)
                case Weight():
                    return self._weight(operand)
                case _:
                    return operand

        for op in self._graph.ops:
            operands = {name: value(operand) for name, operand in op.operands.items()}
            result = getattr(self, f"_{op.kind}")(**operands, **op.attributes)
            if op.out is not None:
                results[op.out] = result
                if self._observe is not None:
                    self._observe(op, result)
        self._length += n
        assert self._graph.output is not None
        return results[self._graph.output]

    def _weight(self, weight: Weight) -> Array:
        if weight not in self._weights:
            self._weights[weight] = FORMATS[weight.format].decode(weight.data, weight.shape).astype(self._dtype)
        return self._weights[weight]

    def _embedding(self, tokens: Array, table: Array, scale: float) -> Array:
        return table[tokens] * scale

    def _rms_norm(self, x: Array, eps: float, weight_offset: float, groups: int, weight: Array | None = None) -> Array:
        parts = x.reshape(len(x), groups, -1)
        normed = parts / np.sqrt(np.mean(parts**2, axis=-1, keepdims=True) + eps)
        return (normed if weight is None else normed * (weight_offset + weight)).reshape(x.shape)

    def _linear(self, x: Array, weight: Array, bias: Array | None = None) -> Array:
        y = x @ weight.T
        return y if bias is None else y + bias

    def _rope_table(self, positions: Array, frequencies: Array, scale: float) -> Array:
        angles = positions[:, None] * frequencies
        return (np.concatenate([np.cos(angles), np.sin(angles)], axis=1) * scale).astype(self._dtype)

    def _rope(self, x: Array, table: Array, heads: int, head_dim: int, pairing: str) -> Array:
        out = x.reshape(len(x), heads, head_dim).copy()
        n = table.shape[1] // 2
        cos, sin = table[:, None, :n], table[:, None, n:]
        first, second = (slice(0, n), slice(n, 2 * n)) if pairing == "half" else (slice(0, 2 * n, 2), slice(1, 2 * n, 2))
        a, b = out[..., first].copy(), out[..., second].copy()
        out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
        return out.reshape(x.shape)

    def _kv_append(self, cache: CacheLayer, k: Array, v: Array, slots: None) -> None:
        k, v = k.reshape(len(k), cache.kv_heads, -1), v.reshape(len(v), cache.kv_heads, -1)
        self._keys[cache] = np.concatenate([self._keys[cache], k]) if cache in self._keys else k
        self._values[cache] = np.concatenate([self._values[cache], v]) if cache in self._values else v

    def _attention(
        self,
        q: Array,
        cache: CacheLayer,
        spans: None,
        block_table: None,
        heads: int,
        scale: float,
        window: int,
        softcap: float,
        sinks: Array | None = None,
        slopes: Array | None = None,
    ) -> Array:
        group = heads // cache.kv_heads
        keys, values = self._keys[cache], self._values[cache]
        query = q.reshape(len(q), cache.kv_heads, group, cache.head_dim)
        scores = np.einsum("tkgd,jkd->kgtj", query, keys) * scale
        if softcap:
            scores = softcap * np.tanh(scores / softcap)
        distance = np.arange(len(keys)) - np.arange(len(keys) - len(q), len(keys))[:, None]  # j - i
        if slopes is not None:
            scores = scores + slopes.reshape(cache.kv_heads, group, 1, 1) * distance
        scores = np.where((distance <= 0) & ((window == 0) | (-distance < window)), scores, -np.inf)
        if sinks is not None:
            extra = np.broadcast_to(sinks.reshape(cache.kv_heads, group, 1, 1), (*scores.shape[:3], 1))
            scores = np.concatenate([scores, extra], axis=-1)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        if sinks is not None:
            weights = weights[..., :-1]
        return np.einsum("kgtj,jkd->tkgd", weights, values).reshape(len(q), -1)

    def _activation(self, x: Array, activation: str) -> Array:
        return _ACTIVATIONS[activation](x)

    def _gated_activation(self, gate: Array, up: Array, activation: str) -> Array:
        return _ACTIVATIONS[activation](gate) * up

    def _add(self, a: Array, b: Array) -> Array:
        return a + b

    def _scale(self, x: Array, factor: float) -> Array:
        return x * factor

    def _softcap(self, x: Array, cap: float) -> Array:
        return cap * np.tanh(x / cap)

    def _take_rows(self, x: Array, index: Array) -> Array:
        return x[index]


def _silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _gelu_erf(x: Array) -> Array:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "silu": _silu,
    "gelu_tanh": _gelu_tanh,
    "gelu_erf": _gelu_erf,
    "relu": lambda x: np.maximum(x, 0),
    "relu2": lambda x: np.maximum(x, 0) ** 2,
}
