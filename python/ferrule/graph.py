"""The forward pass of a model, recorded once as a flat list of ops.

A `Graph` is device-independent: no kernel, layout or fusion is decided here. Its sizes are symbolic where they vary
from step to step (`TOKENS`, `ROWS`), its weights are references into the checkpoint, in their stored format.
`reference.py` interprets it in NumPy; `lowering/` turns it into a plan for a target.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

TOKENS = "tokens"  # tokens of this step, over all sequences
ROWS = "rows"  # rows whose logits are wanted
SEQUENCES = "sequences"

Dim = int | str


@dataclass(frozen=True, eq=False)
class Value:
    """The result of an op: `shape[0]` is a symbolic dimension, the others are numbers.

    `dtype` is "f32" throughout a Graph; lowering adds "q16", "q8" and "bf16" values, each of whose rows is quantised in
    `parts` equal parts.
    """

    shape: tuple[Dim, ...]
    producer: str
    dtype: str = "f32"
    parts: int = 1

    @property
    def width(self) -> int:
        """Values in a row."""
        width = self.shape[-1]
        assert isinstance(width, int)
        return width


@dataclass(frozen=True, eq=False)
class Input:
    """What the host makes afresh for each step (`engine/step_inputs.py`)."""

    name: str
    shape: tuple[Dim, ...]
    dtype: str  # "i32" | "u32"


@dataclass(frozen=True, eq=False)
class Weight:
    """A parameter of the model.

    Matrices are [n_out, n_in] in their stored `format` (see `formats.py`); `data` is their bytes, mapped from the
    file. Vectors and constants are float32. `rows` says which rows of the stored matrix called `name` these are, where
    they are not all.
    """

    name: str
    shape: tuple[int, ...]
    format: str
    data: NDArray[np.uint8]
    rows: range | NDArray[np.intp] | None = None


@dataclass(frozen=True, eq=False)
class Experts:
    """One matrix [n_out, n_in] for each expert, all in one stored format: a table of pointers to a kernel.

    Whether a file holds a tensor per expert, one tensor of all, or gate and up together, the matrices are views of it.
    """

    matrices: tuple[Weight, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """[experts, n_out, n_in]."""
        return (len(self.matrices), self.matrices[0].shape[0], self.matrices[0].shape[1])

    @property
    def format(self) -> str:
        """Stored format of every matrix."""
        return self.matrices[0].format


@dataclass(frozen=True, eq=False)
class CacheLayer:
    """What one attention layer keeps of every position; several attention ops may read one cache layer.

    `keys_values`: keys [kv_heads, head_dim] and values [kv_heads, v_head_dim]. `latent`: one head, whose key is the
    rotated part shared by all heads and whose value is the latent that keys and values are expanded from
    (DeepSeek-AI 2024, section 2.1). `index`: keys [1, head_dim] alone, by which positions are selected.
    """

    index: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    window: int  # 0: all earlier positions are visible
    kind: Literal["keys_values", "latent", "index"] = "keys_values"


@dataclass(frozen=True, eq=False)
class StateLayer:
    """What one recurrent layer carries from token to token: an f32 array of `shape` per sequence, zero at its start."""

    index: int
    shape: tuple[int, ...]


Operand = Value | Input | Weight | Experts | CacheLayer | StateLayer
Operands = Mapping[str, Operand | None]  # None: an optional operand that is absent


@dataclass(frozen=True, eq=False)
class Op:
    """One step of the forward pass. `operands` are named as in `csrc/params/<kind>.h`."""

    kind: str
    operands: Mapping[str, Operand]
    attributes: Mapping[str, Any]
    out: Value | None
    stage: str
    layer: int | None


@dataclass(eq=False)
class Graph:
    """Records ops in order. Method arguments and shapes follow `csrc/params/`, one method per op."""

    ops: list[Op] = field(default_factory=list)
    caches: list[CacheLayer] = field(default_factory=list)
    states: list[StateLayer] = field(default_factory=list)
    inputs: dict[str, Input] = field(default_factory=dict)
    output: Value | None = None
    _stage: str = ""
    _layer: int | None = None

    @contextmanager
    def layer(self, index: int | None) -> Iterator[None]:
        """Ops recorded inside belong to layer `index`, or to none."""
        self._layer = index
        try:
            yield
        finally:
            self._layer = None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Ops recorded inside serve the named stage ("attention norm", "qkv", "ffn down" ...)."""
        outer, self._stage = self._stage, name
        try:
            yield
        finally:
            self._stage = outer

    @property
    def weights(self) -> list[Weight]:
        """Every weight once, in order of use; of experts, their matrices."""
        found: dict[Weight, None] = {}
        for op in self.ops:
            for operand in op.operands.values():
                matrices = operand.matrices if isinstance(operand, Experts) else (operand,)
                found.update((matrix, None) for matrix in matrices if isinstance(matrix, Weight))
        return list(found)

    @property
    def reread_lengths(self) -> set[int]:
        """Lengths past which a growing sequence must be read anew: the keys of a shorter one are rotated otherwise."""
        return {op.attributes["threshold"] for op in self.ops if op.kind == "long_rope_table"}

    @property
    def stretched_lengths(self) -> set[int]:
        """Lengths past which frequencies change with every token: a text that grew there holds keys of several."""
        return {op.attributes["threshold"] for op in self.ops if op.kind == "dynamic_rope_table"}

    def input(self, name: str, shape: tuple[Dim, ...], dtype: str = "i32") -> Input:
        """The named step input, declared on first use."""
        return self.inputs.setdefault(name, Input(name, shape, dtype))

    def constant(self, name: str, values: NDArray[np.floating[Any]]) -> Weight:
        """A float32 vector made at load, such as RoPE frequencies."""
        data = np.ascontiguousarray(values, np.float32)
        return Weight(name, data.shape, "F32", data.reshape(-1).view(np.uint8))

    def cache(self, kv_heads: int, head_dim: int, v_head_dim: int, window: int) -> CacheLayer:
        """A new cache layer of keys and values."""
        layer = CacheLayer(len(self.caches), kv_heads, head_dim, v_head_dim, window)
        self.caches.append(layer)
        return layer

    def latent_cache(self, rotated: int, rank: int) -> CacheLayer:
        """A new cache layer of rotated keys [rotated] and latents [rank], one of each for all heads."""
        layer = CacheLayer(len(self.caches), 1, rotated, rank, 0, "latent")
        self.caches.append(layer)
        return layer

    def index_cache(self, head_dim: int) -> CacheLayer:
        """A new cache layer of the keys [head_dim] by which positions are selected."""
        layer = CacheLayer(len(self.caches), 1, head_dim, 0, 0, "index")
        self.caches.append(layer)
        return layer

    def state(self, *shape: int) -> StateLayer:
        """A new recurrent state."""
        layer = StateLayer(len(self.states), shape)
        self.states.append(layer)
        return layer

    def _lengths(self) -> Operands:
        """The inputs that say how long sequences are, and where in them the step's tokens."""
        return {"positions": self.input("positions", (TOKENS,)), "lengths": self.input("lengths", (TOKENS,))}

    def _history(self, cache: CacheLayer) -> Operands:
        """A cache, and the inputs that say where in it the blocks of each sequence are."""
        spans, table = self.input("spans", (SEQUENCES, 4), "u32"), self.input("block_table", ("blocks",))
        return {"cache": cache, "spans": spans, "block_table": table}

    def _carried(self, state: StateLayer) -> Operands:
        """A state, and the inputs that say which tokens and which slot of it belong to a sequence."""
        spans, slots = self.input("spans", (SEQUENCES, 4), "u32"), self.input("state_slots", (SEQUENCES,))
        return {"state": state, "spans": spans, "state_slots": slots}

    def _record(self, kind: str, shape: tuple[Dim, ...] | None, operands: Operands, **attributes: Any) -> Value:
        out = Value(shape or (), kind)
        present = {name: operand for name, operand in operands.items() if operand is not None}
        self.ops.append(Op(kind, present, attributes, out if shape else None, self._stage or kind, self._layer))
        return out

    def embedding(
        self, table: Weight, scale: float = 1.0, *, index: Literal["tokens", "positions"] = "tokens"
    ) -> Value:
        """Rows of `table` [n, width] for the step's tokens or positions, times `scale` -> [tokens, width]."""
        rows = self.input(index, (TOKENS,))
        return self._record("embedding", (TOKENS, table.shape[1]), {"tokens": rows, "table": table}, scale=scale)

    def rms_norm(
        self, x: Value, weight: Weight | None, eps: float, *, weight_offset: float = 0.0, groups: int = 1
    ) -> Value:
        """Root mean square norm of each of `groups` equal parts of a row (Zhang & Sennrich 2019)."""
        return self._record(
            "rms_norm", x.shape, {"x": x, "weight": weight}, eps=eps, weight_offset=weight_offset, groups=groups
        )

    def layer_norm(
        self,
        x: Value,
        weight: Weight | None,
        bias: Weight | None,
        eps: float,
        *,
        weight_offset: float = 0.0,
        groups: int = 1,
    ) -> Value:
        """(x - mean) / sqrt(variance + eps) * (weight_offset + weight) + bias of each of `groups` parts of a row.

        Ba et al. 2016. Without a weight the factor is 1.
        """
        operands: Operands = {"x": x, "weight": weight, "bias": bias}
        return self._record("layer_norm", x.shape, operands, eps=eps, weight_offset=weight_offset, groups=groups)

    def linear(self, x: Value, weight: Weight, bias: Weight | None = None) -> Value:
        """x [rows, n_in] times weight [n_out, n_in] transposed, plus bias [n_out]."""
        return self._record("linear", (x.shape[0], weight.shape[0]), {"x": x, "weight": weight, "bias": bias})

    def rope_table(self, frequencies: Weight, scale: float = 1.0) -> Value:
        """Cosines and sines of position * frequency, times `scale` -> [tokens, 2 * len(frequencies)]."""
        positions = self.input("positions", (TOKENS,))
        operands: Operands = {"positions": positions, "frequencies": frequencies}
        return self._record("rope_table", (TOKENS, 2 * frequencies.shape[0]), operands, scale=scale)

    def sectioned_rope_table(self, frequencies: Weight, axes: Weight, scale: float = 1.0) -> Value:
        """As rope_table, pair i turning with the position on axis axes[i]: 0 time, 1 height, 2 width.

        Wang et al. 2024. The step input `axis_positions` [tokens, 3] holds a token's own position three times unless it
        shows an image.
        """
        positions = self.input("axis_positions", (TOKENS, 3))
        operands: Operands = {"axis_positions": positions, "frequencies": frequencies, "axes": axes}
        return self._record("sectioned_rope_table", (TOKENS, 2 * frequencies.shape[0]), operands, scale=scale)

    def long_rope_table(
        self, short: Weight, long: Weight, *, threshold: int, short_scale: float, long_scale: float
    ) -> Value:
        """As rope_table, with frequencies and scale `long` in sequences longer than `threshold`, else `short`.

        Ding et al. 2024. The step input `lengths` [tokens] is the length that the token's sequence has reached after
        this step or, while a prompt is read in chunks, will have when it is read.
        """
        operands: Operands = {**self._lengths(), "short_frequencies": short, "long_frequencies": long}
        scales = {"short_scale": short_scale, "long_scale": long_scale}
        return self._record("long_rope_table", (TOKENS, 2 * short.shape[0]), operands, threshold=threshold, **scales)

    def dynamic_rope_table(self, frequencies: Weight, *, factor: float, threshold: int) -> Value:
        """As rope_table, frequency i of n times s^(-i / (n - 1)), s = factor * length / threshold - (factor - 1).

        s is 1 for sequences up to `threshold`; `lengths` as in long_rope_table. NTK-aware scaling by length.
        """
        operands: Operands = {**self._lengths(), "frequencies": frequencies}
        shape = (TOKENS, 2 * frequencies.shape[0])
        return self._record("dynamic_rope_table", shape, operands, factor=factor, threshold=threshold)

    def rope(self, x: Value, table: Value, *, head_dim: int, pairing: str) -> Value:
        """Rotary position embedding (Su et al. 2021) of the first values of each head.

        `pairing`: "half" turns pairs (i, i + n), "adjacent" pairs (2i, 2i + 1), n being half the rotated width.
        """
        heads = x.width // head_dim
        return self._record("rope", x.shape, {"x": x, "table": table}, heads=heads, head_dim=head_dim, pairing=pairing)

    def kv_append(self, cache: CacheLayer, k: Value, v: Value) -> None:
        """Stores the step's keys [tokens, kv_heads * head_dim] and values [tokens, kv_heads * v_head_dim]."""
        slots = self.input("slots", (TOKENS,))
        self._record("kv_append", None, {"k": k, "v": v, "slots": slots, "cache": cache})

    def attention(
        self,
        q: Value,
        cache: CacheLayer,
        *,
        scale: float,
        window: int = 0,
        softcap: float = 0.0,
        sinks: Weight | None = None,
        slopes: Weight | None = None,
    ) -> Value:
        """Causal attention of q [tokens, heads * head_dim] over the cache -> [tokens, heads * v_head_dim].

        `window` > 0: position i sees j with i - j < window. `sinks` [heads] are scores without a value; `slopes`
        [heads] times (j - i) is added to scores (Press et al. 2022).
        """
        heads = q.width // cache.head_dim
        operands: Operands = {"q": q, **self._history(cache), "sinks": sinks, "slopes": slopes}
        shape = (q.shape[0], heads * cache.v_head_dim)
        return self._record("attention", shape, operands, heads=heads, scale=scale, window=window, softcap=softcap)

    def chunked_attention(self, q: Value, cache: CacheLayer, *, scale: float, chunk: int) -> Value:
        """As attention, where position i sees j only in its own chunk: j // chunk == i // chunk."""
        heads = q.width // cache.head_dim
        operands: Operands = {"q": q, **self._history(cache)}
        shape = (q.shape[0], heads * cache.v_head_dim)
        return self._record("chunked_attention", shape, operands, heads=heads, scale=scale, chunk=chunk)

    def index_append(self, cache: CacheLayer, k: Value) -> None:
        """Stores the step's keys [tokens, head_dim] in an index cache."""
        slots = self.input("slots", (TOKENS,))
        self._record("index_append", None, {"k": k, "slots": slots, "cache": cache})

    def select_positions(self, q: Value, weights: Value, cache: CacheLayer, *, top: int, scale: float) -> Value:
        """The positions that each query may attend to, by an index cache (DeepSeek-AI 2025) -> [tokens, top].

        q: [tokens, heads * head_dim]; weights: [tokens, heads]. Position j <= i scores
        sum_h weights_h max(0, scale q_h . k_j); a row holds the `top` best as exact numbers, -1 where there are fewer.
        """
        operands: Operands = {"q": q, "weights": weights, **self._history(cache)}
        attributes = {"heads": weights.width, "scale": scale, "top": top}
        return self._record("select_positions", (q.shape[0], top), operands, **attributes)

    def latent_attention(
        self,
        q: Value,
        q_rotated: Value,
        cache: CacheLayer,
        k_up: Experts,
        v_up: Experts,
        *,
        scale: float,
        selected: Value | None = None,
    ) -> Value:
        """Causal attention over a latent cache (DeepSeek-AI 2024) -> [tokens, heads * v_dim].

        q: [tokens, heads * d], q_rotated: [tokens, heads * rotated]. k_up holds for each head [rank, d], v_up
        [v_dim, rank]. With latent c_j and rotated key r_j of position j, head h scores
        scale * (q_h . (k_up_h^T c_j) + q_rotated_h . r_j) and sums v_up_h c_j: keys and values may be expanded once for
        all queries, or k_up_h applied to q_h and v_up_h to the weighted sum of latents. With `selected`, of
        select_positions, only those positions are seen.
        """
        heads, v_dim, _ = v_up.shape
        operands: Operands = {
            "q": q,
            "q_rotated": q_rotated,
            **self._history(cache),
            "k_up": k_up,
            "v_up": v_up,
            "selected": selected,
        }
        return self._record("latent_attention", (q.shape[0], heads * v_dim), operands, heads=heads, scale=scale)

    def activation(self, x: Value, activation: str) -> Value:
        """`activation` is a name from `csrc/params/activation.h`."""
        return self._record("activation", x.shape, {"x": x}, activation=activation)

    def gated_activation(self, gate: Value, up: Value, activation: str) -> Value:
        """act(gate) * up (Shazeer 2020)."""
        return self._record("gated_activation", up.shape, {"gate": gate, "up": up}, activation=activation)

    def clamped_swiglu(self, gate: Value, up: Value, *, alpha: float, limit: float) -> Value:
        """g * sigmoid(alpha * g) * (u + 1), g = min(gate, limit), u = up clamped to +-limit (OpenAI 2025, gpt-oss)."""
        return self._record("clamped_swiglu", up.shape, {"gate": gate, "up": up}, alpha=alpha, limit=limit)

    def xielu(self, x: Value, *, positive: float, negative: float, beta: float, eps: float) -> Value:
        """positive * x^2 + beta * x for x > 0, else negative * (expm1(min(x, eps)) - x) + beta * x (Huang 2024)."""
        attributes = {"positive": positive, "negative": negative, "beta": beta, "eps": eps}
        return self._record("xielu", x.shape, {"x": x}, **attributes)

    def clamp(self, x: Value, limit: float) -> Value:
        """x limited to [-limit, limit]; nothing is recorded for a limit of 0."""
        return x if limit == 0.0 else self._record("clamp", x.shape, {"x": x}, limit=limit)

    def root_mean_square(self, x: Value) -> Value:
        """The magnitude of each row -> [rows, 1]."""
        return self._record("root_mean_square", (x.shape[0], 1), {"x": x})

    def keep_outliers(self, x: Value, deviations: float) -> Value:
        """max(0, x - (mean + deviations * standard deviation)) of each row: the largest values of Gaussian ones."""
        return self._record("keep_outliers", x.shape, {"x": x}, deviations=deviations)

    def scale_columns(self, x: Value, factors: Weight) -> Value:
        """x [rows, width] * factors [width]."""
        return self._record("scale_columns", x.shape, {"x": x, "factors": factors})

    def scale_groups(self, x: Value, factors: Value) -> Value:
        """Each of `groups` equal parts of a row of x times its factor; factors: [rows, groups]."""
        return self._record("scale_groups", x.shape, {"x": x, "factors": factors}, groups=factors.width)

    def scale_by_position(self, x: Value, *, beta: float, period: float, offset: int) -> Value:
        """x * (1 + beta * log(1 + floor((position + offset) / period))): queries sharpened over long contexts."""
        operands: Operands = {"x": x, "positions": self.input("positions", (TOKENS,))}
        return self._record("scale_by_position", x.shape, operands, beta=beta, period=period, offset=offset)

    def mix_streams(
        self, x: Value, coefficients: Value | Weight, *, width: int, residual: Value | None = None
    ) -> Value:
        """residual + sums of the vectors in a row of x, by coefficients -> [rows, outputs * width].

        x: [rows, inputs * width]; coefficients: [rows, outputs * inputs], or [outputs * inputs] for every row; residual
        as the result, zero where absent.
        """
        outputs = int(coefficients.shape[-1]) // (x.width // width)
        operands: Operands = {"x": x, "coefficients": coefficients, "residual": residual}
        return self._record("mix_streams", (x.shape[0], outputs * width), operands, width=width)

    def take_columns(self, x: Value, begin: int, width: int) -> Value:
        """Columns [begin, begin + width) of x."""
        return self._record("take_columns", (x.shape[0], width), {"x": x}, begin=begin, width=width)

    def route(
        self,
        logits: Value,
        *,
        k: int,
        scoring: Literal["softmax", "sigmoid", "sparsemixer"],
        normalize: bool = False,
        norm_eps: float = 0.0,
        scale: float = 1.0,
        jitter: float = 0.0,
        groups: int = 1,
        top_groups: int = 1,
        group_score: Literal["max", "top2"] = "max",
        choice_bias: Weight | None = None,
        expert_scale: Weight | None = None,
    ) -> Value:
        """Chooses k of `experts` for each token: logits [tokens, experts] -> [tokens, 2 * k].

        A row holds k expert ids as exact small numbers, best first, then their k weights. Scores are the softmax over
        all experts or each logit's sigmoid. Choice is by score + choice_bias [experts] among the `top_groups` of
        `groups` equal groups whose greatest choice (`max`) or sum of the two greatest (`top2`) is largest; ties go to
        the lower id. A weight is the expert's score without bias, divided by (sum of the k + norm_eps) if `normalize`,
        times `scale` and expert_scale [experts]. DeepSeek-AI 2024.

        `sparsemixer` (Liu et al. 2023, inference form) chooses the greatest logit m and gives it the softmax over
        logits s with m - s <= 2 * jitter * max(|s|, m), then does the same without that expert.
        """
        operands: Operands = {"logits": logits, "choice_bias": choice_bias, "expert_scale": expert_scale}
        attributes = {
            "k": k,
            "scoring": scoring,
            "normalize": normalize,
            "norm_eps": norm_eps,
            "scale": scale,
            "jitter": jitter,
            "groups": groups,
            "top_groups": top_groups,
            "group_score": group_score,
        }
        return self._record("route", (logits.shape[0], 2 * k), operands, **attributes)

    def expert_linear(
        self, x: Value, routes: Value, weight: Experts, bias: Weight | None = None, *, weighted: bool = False
    ) -> Value:
        """x times the transposed matrix of each of the k chosen experts, plus its row of bias [experts, n_out].

        x: [tokens, n_in], the same for all slots, or [tokens, k * n_in], one part for each slot; routes: of route. With
        `weighted` a slot's result is multiplied by its weight. -> [tokens, k * n_out]
        """
        k, (_, n_out, _) = routes.width // 2, weight.shape
        operands: Operands = {"x": x, "routes": routes, "weight": weight, "bias": bias}
        return self._record("expert_linear", (x.shape[0], k * n_out), operands, k=k, weighted=weighted)

    def expert_sum(self, x: Value, routes: Value, *, weighted: bool = True) -> Value:
        """Sum over the k slots of x [tokens, k * n], each times its weight if `weighted` -> [tokens, n]."""
        k = routes.width // 2
        return self._record(
            "expert_sum", (x.shape[0], x.width // k), {"x": x, "routes": routes}, k=k, weighted=weighted
        )

    def causal_conv1d(self, x: Value, weight: Weight, bias: Weight | None, state: StateLayer) -> Value:
        """out[t, c] = bias[c] + sum_i weight[c, i] * x[t - kernel + 1 + i, c], each channel alone.

        x: [tokens, channels]; weight: [channels, kernel]; state [kernel - 1, channels]: the inputs before this step.
        """
        operands: Operands = {"x": x, "weight": weight, "bias": bias, **self._carried(state)}
        return self._record("causal_conv1d", x.shape, operands, kernel=weight.shape[1])

    def ssm_scan(
        self,
        x: Value,
        dt: Value,
        b: Value,
        c: Value,
        a: Weight,
        d: Weight,
        dt_bias: Weight | None,
        state: StateLayer,
        *,
        dt_min: float = 0.0,
        dt_max: float = math.inf,
    ) -> Value:
        """Selective state space recurrence (Gu & Dao 2023; Dao & Gu 2024) over the step's tokens, in order.

        x: [tokens, heads * p]; dt: [tokens, heads]; b, c: [tokens, groups * n], head h in group h // (heads / groups);
        a: [heads, n] or [heads, 1], negative; d: [heads]; dt_bias: [heads]; state S: [heads, p, n].
        With s = softplus(dt + dt_bias) limited to [dt_min, dt_max]:
        S[h] = exp(s a[h]) S[h] + s x[h] b^T, out[h] = S[h] c + d[h] x[h] -> [tokens, heads * p]
        """
        operands: Operands = {"x": x, "dt": dt, "b": b, "c": c, "a": a, "d": d, "dt_bias": dt_bias}
        operands = {**operands, **self._carried(state)}
        heads, _, n = state.shape
        attributes = {"heads": heads, "groups": b.width // n, "dt_min": dt_min, "dt_max": dt_max}
        return self._record("ssm_scan", x.shape, operands, **attributes)

    def gated_delta_rule(
        self,
        q: Value,
        k: Value,
        v: Value,
        beta: Value,
        dt: Value,
        a: Weight,
        dt_bias: Weight,
        state: StateLayer,
        *,
        tiled: bool = False,
    ) -> Value:
        """Gated delta rule (Yang et al. 2024) over the step's tokens, in order.

        q, k: [tokens, k_heads * dk]; v: [tokens, heads * dv]; beta: [tokens, heads]; dt, dt_bias: [.., heads] or, with
        a decay for every key dimension, [.., heads * dk]; a: [heads], negative; state S: [heads, dk, dv]. Head h of v
        uses head h // (heads / k_heads) of q and k or, if `tiled`, h % k_heads.
        S[h] = exp(a[h] softplus(dt + dt_bias)) S[h]; S[h] += k (beta (v - S[h]^T k))^T; out[h] = S[h]^T q
        -> [tokens, heads * dv]
        """
        operands: Operands = {"q": q, "k": k, "v": v, "beta": beta, "dt": dt, "a": a, "dt_bias": dt_bias}
        operands = {**operands, **self._carried(state)}
        return self._record("gated_delta_rule", v.shape, operands, tiled=tiled)

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        return self._record("add", a.shape, {"a": a, "b": b})

    def scale(self, x: Value, factor: float) -> Value:
        """factor * x; nothing is recorded for a factor of 1."""
        return x if factor == 1.0 else self._record("scale", x.shape, {"x": x}, factor=factor)

    def softcap(self, x: Value, cap: float) -> Value:
        """cap * tanh(x / cap); nothing is recorded for a cap of 0."""
        return x if cap == 0.0 else self._record("softcap", x.shape, {"x": x}, cap=cap)

    def take_rows(self, x: Value) -> Value:
        """The rows whose logits are wanted."""
        return self._record("take_rows", (ROWS, *x.shape[1:]), {"x": x, "index": self.input("rows", (ROWS,))})
