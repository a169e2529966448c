"""Interprets a Graph in NumPy, float64 by default: slow and obvious, the oracle for every backend.

One sequence at a time. `Reference.forward` may be called repeatedly: caches and states are kept between calls, so that
prefill in one call, in chunks and token by token can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .formats import FORMATS
from .graph import CacheLayer, Experts, Graph, Input, Op, StateLayer, Value, Weight

Array = Any  # an ndarray, mostly of the interpreter's dtype, of which NumPy's own types lose track


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
        self._states: dict[StateLayer, Array] = {}
        self._length = 0

    def forward(
        self,
        tokens: Sequence[int],
        *,
        rows: Sequence[int] | None = None,
        length: int | None = None,
        axis_positions: Array | None = None,
    ) -> Array:
        """Logits [len(rows), vocabulary] after appending `tokens`; `rows` index them, default all.

        `length` is that of the whole prompt where `tokens` are a chunk of it. `axis_positions` [n, 3] are positions in
        time, height and width, by default three times those in the text.
        """
        n = len(tokens)
        positions = np.arange(self._length, self._length + n)
        inputs = {
            "tokens": np.asarray(tokens, np.int64),
            "positions": positions,
            "lengths": np.full(n, length or self._length + n),
            "axis_positions": np.stack([positions] * 3, axis=1) if axis_positions is None else axis_positions,
            "rows": np.arange(n) if rows is None else np.asarray(rows, np.int64),
        }
        results: dict[Value, Array] = {}

        def value(operand: object) -> Any:
            match operand:
                case Value():
                    return results[operand]
                case Input():
                    return inputs[operand.name]
                case Weight():
                    return self._weight(operand)
                case Experts():
                    return [self._weight(matrix) for matrix in operand.matrices]
                case _:
                    return operand

        for op in self._graph.ops:
            operands = {name: value(operand) for name, operand in op.operands.items() if not _is_place(operand)}
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

    def _layer_norm(
        self,
        x: Array,
        eps: float,
        weight_offset: float,
        groups: int,
        weight: Array | None = None,
        bias: Array | None = None,
    ) -> Array:
        parts = x.reshape(len(x), groups, -1)
        centred = parts - parts.mean(axis=-1, keepdims=True)
        normed = centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + eps)
        if weight is not None:
            normed = normed * (weight_offset + weight)
        return (normed if bias is None else normed + bias).reshape(x.shape)

    def _linear(self, x: Array, weight: Array, bias: Array | None = None) -> Array:
        y = x @ weight.T
        return y if bias is None else y + bias

    def _rope_table(self, positions: Array, frequencies: Array, scale: float) -> Array:
        return self._table(positions[:, None] * frequencies.astype(np.float64), scale)

    def _sectioned_rope_table(self, axis_positions: Array, frequencies: Array, axes: Array, scale: float) -> Array:
        return self._table(axis_positions[:, axes.astype(np.int64)] * frequencies.astype(np.float64), scale)

    def _long_rope_table(
        self,
        positions: Array,
        lengths: Array,
        short_frequencies: Array,
        long_frequencies: Array,
        threshold: int,
        short_scale: float,
        long_scale: float,
    ) -> Array:
        is_long = (lengths > threshold)[:, None]
        frequencies: Array = np.where(is_long, long_frequencies, short_frequencies)
        scale = np.where(is_long, long_scale, short_scale)
        return self._table(positions[:, None] * frequencies.astype(np.float64), scale)

    def _dynamic_rope_table(
        self, positions: Array, lengths: Array, frequencies: Array, factor: float, threshold: int
    ) -> Array:
        stretch = factor * np.maximum(lengths, threshold) / threshold - (factor - 1)
        n = len(frequencies)
        shrunk = frequencies.astype(np.float64) * stretch[:, None] ** (-np.arange(n) / (n - 1))
        return self._table(positions[:, None] * shrunk, 1.0)

    def _table(self, angles: Array, scale: Any) -> Array:
        return (np.concatenate([np.cos(angles), np.sin(angles)], axis=1) * scale).astype(self._dtype)

    def _rope(self, x: Array, table: Array, heads: int, head_dim: int, pairing: str) -> Array:
        out = x.reshape(len(x), heads, head_dim).copy()
        n = table.shape[1] // 2
        cos, sin = table[:, None, :n], table[:, None, n:]
        first, second = (
            (slice(0, n), slice(n, 2 * n)) if pairing == "half" else (slice(0, 2 * n, 2), slice(1, 2 * n, 2))
        )
        a, b = out[..., first].copy(), out[..., second].copy()
        out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
        return out.reshape(x.shape)

    def _kv_append(self, cache: CacheLayer, k: Array, v: Array) -> None:
        k, v = k.reshape(len(k), cache.kv_heads, -1), v.reshape(len(v), cache.kv_heads, -1)
        self._keys[cache] = np.concatenate([self._keys[cache], k]) if cache in self._keys else k
        self._values[cache] = np.concatenate([self._values[cache], v]) if cache in self._values else v

    def _attention(
        self,
        q: Array,
        cache: CacheLayer,
        heads: int,
        scale: float,
        window: int,
        softcap: float,
        sinks: Array | None = None,
        slopes: Array | None = None,
    ) -> Array:
        keys, values = self._keys[cache], self._values[cache]
        distance = _distance(len(q), len(keys))
        scores = _scores(q, keys) * scale
        if softcap:
            scores = softcap * np.tanh(scores / softcap)
        if slopes is not None:
            scores = scores + slopes.reshape(cache.kv_heads, -1, 1, 1) * distance
        visible = (distance <= 0) & ((window == 0) | (-distance < window))
        return _mix(scores, visible, values, sinks)

    def _chunked_attention(self, q: Array, cache: CacheLayer, heads: int, scale: float, chunk: int) -> Array:
        keys, values = self._keys[cache], self._values[cache]
        seen = np.arange(len(keys))
        same_chunk = seen // chunk == (seen // chunk)[-len(q) :, None]
        return _mix(_scores(q, keys) * scale, same_chunk & (_distance(len(q), len(keys)) <= 0), values, None)

    def _index_append(self, cache: CacheLayer, k: Array) -> None:
        self._keys[cache] = np.concatenate([self._keys[cache], k]) if cache in self._keys else k

    def _select_positions(
        self,
        q: Array,
        weights: Array,
        cache: CacheLayer,
        heads: int,
        scale: float,
        top: int,
    ) -> Array:
        keys = self._keys[cache]
        products = np.einsum("thd,jd->thj", q.reshape(len(q), heads, -1), keys) * scale
        scores = np.einsum("th,thj->tj", weights, np.maximum(products, 0))
        scores = np.where(_distance(len(q), len(keys)) <= 0, scores, -np.inf)
        best = np.argsort(-scores, axis=-1, kind="stable")[:, :top]
        found = np.where(np.take_along_axis(scores, best, axis=-1) > -np.inf, best, -1)
        padding = np.full((len(q), top - found.shape[1]), -1)
        return np.concatenate([found, padding], axis=1).astype(self._dtype)

    def _latent_attention(
        self,
        q: Array,
        q_rotated: Array,
        cache: CacheLayer,
        k_up: list[Array],
        v_up: list[Array],
        heads: int,
        scale: float,
        selected: Array | None = None,
    ) -> Array:
        latents, rotated = self._values[cache][:, 0], self._keys[cache]
        keys = np.stack([latents @ up for up in k_up], axis=1)
        values = np.stack([latents @ up.T for up in v_up], axis=1)
        scores = _scores(q, keys) + _scores(q_rotated, rotated).reshape(heads, 1, len(q), len(keys))
        visible = _distance(len(q), len(keys)) <= 0
        if selected is not None:
            visible = visible & (selected[:, :, None] == np.arange(len(keys))).any(axis=1)
        return _mix(scores * scale, visible, values, None)

    def _activation(self, x: Array, activation: str) -> Array:
        return _ACTIVATIONS[activation](x)

    def _gated_activation(self, gate: Array, up: Array, activation: str) -> Array:
        return _ACTIVATIONS[activation](gate) * up

    def _clamped_swiglu(self, gate: Array, up: Array, alpha: float, limit: float) -> Array:
        gate = np.minimum(gate, limit)
        return gate * _sigmoid(alpha * gate) * (np.clip(up, -limit, limit) + 1)

    def _xielu(self, x: Array, positive: float, negative: float, beta: float, eps: float) -> Array:
        below = negative * (np.expm1(np.minimum(x, eps)) - x)
        return np.where(x > 0, positive * x**2, below) + beta * x

    def _clamp(self, x: Array, limit: float) -> Array:
        return np.clip(x, -limit, limit)

    def _root_mean_square(self, x: Array) -> Array:
        return np.sqrt(np.mean(x**2, axis=-1, keepdims=True))

    def _keep_outliers(self, x: Array, deviations: float) -> Array:
        cutoff = x.mean(axis=-1, keepdims=True) + deviations * x.std(axis=-1, keepdims=True)
        return np.maximum(x - cutoff, 0).astype(self._dtype)

    def _scale_columns(self, x: Array, factors: Array) -> Array:
        return x * factors

    def _scale_groups(self, x: Array, factors: Array, groups: int) -> Array:
        return (x.reshape(len(x), groups, -1) * factors[:, :, None]).reshape(x.shape)

    def _scale_by_position(self, x: Array, positions: Array, beta: float, period: float, offset: int) -> Array:
        factors = 1 + beta * np.log(1 + np.floor((positions + offset) / period))
        return (x * factors[:, None]).astype(self._dtype)

    def _mix_streams(self, x: Array, coefficients: Array, width: int, residual: Array | None = None) -> Array:
        x = x.reshape(len(x), -1, width)
        inputs = x.shape[1]
        mixed = coefficients.reshape(-1, coefficients.shape[-1] // inputs, inputs) @ x
        mixed = mixed.reshape(len(x), -1)
        return mixed if residual is None else residual + mixed

    def _take_columns(self, x: Array, begin: int, width: int) -> Array:
        return x[:, begin : begin + width]

    def _route(
        self,
        logits: Array,
        k: int,
        scoring: str,
        normalize: bool,
        norm_eps: float,
        scale: float,
        jitter: float,
        groups: int,
        top_groups: int,
        group_score: str,
        choice_bias: Array | None = None,
        expert_scale: Array | None = None,
    ) -> Array:
        if scoring == "sparsemixer":
            ids, weights = _sparsemixer(logits, k, jitter)
        else:
            scores = _softmax(logits) if scoring == "softmax" else _sigmoid(logits)
            choice = scores if choice_bias is None else scores + choice_bias
            if top_groups < groups:
                parts = -np.sort(-choice.reshape(len(choice), groups, -1), axis=-1)
                best = parts[..., 0] if group_score == "max" else parts[..., :2].sum(axis=-1)
                kept = np.argsort(-best, axis=-1, kind="stable")[:, :top_groups]
                is_kept = (kept[:, :, None] == np.arange(groups)).any(axis=1)
                choice = np.where(is_kept.repeat(parts.shape[-1], axis=-1), choice, -np.inf)
            ids = np.argsort(-choice, axis=-1, kind="stable")[:, :k]
            weights = np.take_along_axis(scores, ids, axis=-1)
        if normalize:
            weights = weights / (weights.sum(axis=-1, keepdims=True) + norm_eps)
        weights = weights * scale
        if expert_scale is not None:
            weights = weights * expert_scale[ids]
        return np.concatenate([ids, weights], axis=-1).astype(self._dtype)

    def _expert_linear(
        self, x: Array, routes: Array, weight: list[Array], k: int, weighted: bool, bias: Array | None = None
    ) -> Array:
        n_in = weight[0].shape[1]
        slots = np.broadcast_to(x.reshape(len(x), -1, n_in), (len(x), k, n_in))
        out = np.empty((len(x), k, len(weight[0])), self._dtype)
        ids = routes[:, :k].astype(np.int64)
        for expert in np.unique(ids):
            chosen = ids == expert
            out[chosen] = slots[chosen] @ weight[expert].T
            if bias is not None:
                out[chosen] += bias[expert]
        if weighted:
            out *= routes[:, k:, None]
        return out.reshape(len(x), -1)

    def _expert_sum(self, x: Array, routes: Array, k: int, weighted: bool) -> Array:
        slots = x.reshape(len(x), k, -1)
        return (slots * routes[:, k:, None] if weighted else slots).sum(axis=1)

    def _state(self, state: StateLayer) -> Array:
        return self._states.setdefault(state, np.zeros(state.shape, self._dtype))

    def _causal_conv1d(
        self,
        x: Array,
        weight: Array,
        state: StateLayer,
        kernel: int,
        bias: Array | None = None,
    ) -> Array:
        seen = np.concatenate([self._state(state), x])
        self._states[state] = seen[len(x) :]
        out: Array = np.sum([seen[i : i + len(x)] * weight[:, i] for i in range(kernel)], axis=0)
        return out if bias is None else out + bias

    def _ssm_scan(
        self,
        x: Array,
        dt: Array,
        b: Array,
        c: Array,
        a: Array,
        d: Array,
        state: StateLayer,
        heads: int,
        groups: int,
        dt_min: float,
        dt_max: float,
        dt_bias: Array | None = None,
    ) -> Array:
        step = np.clip(_softplus(dt if dt_bias is None else dt + dt_bias), dt_min, dt_max)
        x = x.reshape(len(x), heads, -1)
        b, c = (part.reshape(len(x), groups, -1).repeat(heads // groups, axis=1) for part in (b, c))
        s, out = self._state(state), np.empty_like(x)
        for t in range(len(x)):
            decay = np.exp(step[t, :, None] * a)[:, None, :]
            s = decay * s + (step[t, :, None] * x[t])[:, :, None] * b[t, :, None, :]
            out[t] = np.einsum("hpn,hn->hp", s, c[t]) + d[:, None] * x[t]
        self._states[state] = s
        return out.reshape(len(x), -1)

    def _gated_delta_rule(
        self,
        q: Array,
        k: Array,
        v: Array,
        beta: Array,
        dt: Array,
        a: Array,
        dt_bias: Array,
        state: StateLayer,
        tiled: bool,
    ) -> Array:
        heads, dk, dv = state.shape
        k_heads = q.shape[1] // dk
        used = np.arange(heads) % k_heads if tiled else np.arange(heads) // (heads // k_heads)
        q, k = (part.reshape(len(q), k_heads, dk)[:, used] for part in (q, k))
        v = v.reshape(len(v), heads, dv)
        decay = np.exp(a[:, None] * _softplus(dt + dt_bias).reshape(len(dt), heads, -1))
        s, out = self._state(state), np.empty_like(v)
        for t in range(len(v)):
            s = decay[t, :, :, None] * s
            error = v[t] - np.einsum("hkv,hk->hv", s, k[t])
            s = s + k[t, :, :, None] * (beta[t, :, None] * error)[:, None, :]
            out[t] = np.einsum("hkv,hk->hv", s, q[t])
        self._states[state] = s
        return out.reshape(len(v), -1)

    def _add(self, a: Array, b: Array) -> Array:
        return a + b

    def _scale(self, x: Array, factor: float) -> Array:
        return x * factor

    def _softcap(self, x: Array, cap: float) -> Array:
        return cap * np.tanh(x / cap)

    def _take_rows(self, x: Array, index: Array) -> Array:
        return x[index]


def _is_place(operand: object) -> bool:
    """Whether an operand says where in memory something lies, which matters to kernels alone."""
    return isinstance(operand, Input) and operand.name in ("slots", "spans", "block_table", "state_slots")


def _distance(queries: int, keys: int) -> Array:
    """[queries, keys]: j - i for the last `queries` positions i and all positions j."""
    return np.arange(keys) - np.arange(keys - queries, keys)[:, None]


def _scores(q: Array, keys: Array) -> Array:
    """[kv_heads, group, queries, keys]: products of q [queries, heads * head_dim], keys [keys, kv_heads, head_dim]."""
    _, kv_heads, head_dim = keys.shape
    return np.einsum("tkgd,jkd->kgtj", q.reshape(len(q), kv_heads, -1, head_dim), keys)


def _mix(scores: Array, visible: Array, values: Array, sinks: Array | None) -> Array:
    """[queries, heads * v_head_dim] sums of values [keys, kv_heads, v_head_dim] by the softmax of visible scores."""
    scores = np.where(visible, scores, -np.inf)
    if sinks is not None:
        extra = np.broadcast_to(sinks.reshape(*scores.shape[:2], 1, 1), (*scores.shape[:3], 1))
        scores = np.concatenate([scores, extra], axis=-1)
    weights = _softmax(scores)[..., : len(values)]
    return np.einsum("kgtj,jkd->tkgd", weights, values).reshape(scores.shape[2], -1)


def _softmax(x: Array) -> Array:
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def _sparsemixer(logits: Array, k: int, jitter: float) -> tuple[Array, Array]:
    ids, weights = [], []
    left = logits
    for _ in range(k):
        best = left.max(axis=-1, keepdims=True)
        near = best - logits <= 2 * jitter * np.maximum(np.abs(logits), best)
        ids.append(left.argmax(axis=-1))
        weights.append(_softmax(np.where(near & (left > -np.inf), left, -np.inf)).max(axis=-1))
        left = np.where(np.arange(logits.shape[1]) == ids[-1][:, None], -np.inf, left)
    return np.stack(ids, axis=-1), np.stack(weights, axis=-1)


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.5 * x))


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, 0).astype(x.dtype)


def _silu(x: Array) -> Array:
    return x * _sigmoid(x)


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _gelu_erf(x: Array) -> Array:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)).astype(x.dtype))


_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "silu": _silu,
    "gelu_tanh": _gelu_tanh,
    "gelu_erf": _gelu_erf,
    "relu": lambda x: np.maximum(x, 0),
    "relu2": lambda x: np.maximum(x, 0) ** 2,
    "sigmoid": _sigmoid,
    "identity": lambda x: x,
}
