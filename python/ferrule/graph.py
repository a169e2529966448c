"""The forward pass of a model, recorded once as a flat list of ops.

A `Graph` is device-independent: no kernel, layout or fusion is decided here. Its sizes are symbolic where they vary
from step to step (`TOKENS`, `ROWS`), its weights are references into the checkpoint, in their stored format.
`reference.py` interprets it in NumPy; `lowering/` turns it into a plan for a target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

TOKENS = "tokens"  # tokens of this step, over all sequences
ROWS = "rows"  # rows whose logits are wanted
SEQUENCES = "sequences"

Dim = int | str


@dataclass(frozen=True, eq=False)
class Value:
    """The result of an op: `shape[0]` is a symbolic dimension, the others are numbers.

    `dtype` is "f32" throughout a Graph; lowering adds values of other types, such as "q8" rows.
    """

    shape: tuple[Dim, ...]
    producer: str
    dtype: str = "f32"

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
    file. Vectors and constants are float32.
    """

    name: str
    shape: tuple[int, ...]
    format: str
    data: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class CacheLayer:
    """Keys and values of one attention layer; several attention ops may read one cache layer."""

    index: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    window: int  # 0: all earlier positions are visible


Operand = Value | Input | Weight | CacheLayer


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
    inputs: dict[str, Input] = field(default_factory=dict)
    output: Value | None = None
    _stage: str = ""
    _layer: int | None = None

    @contextmanager
    def layer(self, index: int) -> Iterator[None]:
        """Ops recorded inside belong to layer `index`."""
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

    def input(self, name: str, shape: tuple[Dim, ...], dtype: str = "i32") -> Input:
        """The named step input, declared on first use."""
        return self.inputs.setdefault(name, Input(name, shape, dtype))

    def constant(self, name: str, values: NDArray[np.floating[Any]]) -> Weight:
        """A float32 vector made at load, such as RoPE frequencies."""
        data = np.ascontiguousarray(values, np.float32)
        return Weight(name, data.shape, "F32", data.reshape(-1).view(np.uint8))

    def cache(self, kv_heads: int, head_dim: int, v_head_dim: int, window: int) -> CacheLayer:
        """A new cache layer."""
        layer = CacheLayer(len(self.caches), kv_heads, head_dim, v_head_dim, window)
        self.caches.append(layer)
        return layer

    def _record(self, kind: str, shape: tuple[Dim, ...] | None, operands: Mapping[str, Operand | None], **attributes: Any) -> Value:
        out = Value(shape or (), kind)
        present = {name: operand for name, operand in operands.items() if operand is not None}
        self.ops.append(Op(kind, present, attributes, out if shape else None, self._stage or kind, self._layer))
        return out

    def embedding(self, table: Weight, scale: float = 1.0) -> Value:
        """Rows of `table` [vocabulary, width] for the step's tokens, times `scale` -> [tokens, width]."""
        tokens = self.input("tokens", (TOKENS,))
        return self._record("embedding", (TOKENS, table.shape[1]), {"tokens": tokens, "table": table}, scale=scale)

    def rms_norm(self, x: Value, weight: Weight | None, eps: float, *, weight_offset: float = 0.0, groups: int = 1) -> Value:
        """Root mean square norm of each of `groups` equal parts of a row (Zhang & Sennrich 2019)."""
        return self._record("rms_norm", x.shape, {"x": x, "weight": weight}, eps=eps, weight_offset=weight_offset, groups=groups)

    def linear(self, x: Value, weight: Weight, bias: Weight | None = None) -> Value:
        """x [rows, n_in] times weight [n_out, n_in] transposed, plus bias [n_out]."""
        return self._record("linear", (x.shape[0], weight.shape[0]), {"x": x, "weight": weight, "bias": bias})

    def rope_table(self, frequencies: Weight, scale: float = 1.0) -> Value:
        """Cosines and sines of position * frequency, times `scale` -> [tokens, 2 * len(frequencies)]."""
        positions = self.input("positions", (TOKENS,))
        operands = {"positions": positions, "frequencies": frequencies}
        return self._record("rope_table", (TOKENS, 2 * frequencies.shape[0]), operands, scale=scale)

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
        """Causal attention of q [tokens, heads * head_dim] over the cache -> [tokens, heads * v_head_dim]."""
        heads = q.width // cache.head_dim
        operands = {
            "q": q,
            "cache": cache,
            "spans": self.input("spans", (SEQUENCES, 4), "u32"),
            "block_table": self.input("block_table", ("blocks",)),
            "sinks": sinks,
            "slopes": slopes,
        }
        shape = (q.shape[0], heads * cache.v_head_dim)
        return self._record("attention", shape, operands, heads=heads, scale=scale, window=window, softcap=softcap)

    def activation(self, x: Value, activation: str) -> Value:
        """`activation` is a name from `csrc/params/activation.h`."""
        return self._record("activation", x.shape, {"x": x}, activation=activation)

    def gated_activation(self, gate: Value, up: Value, activation: str) -> Value:
        """act(gate) * up (Shazeer 2020)."""
        return self._record("gated_activation", up.shape, {"gate": gate, "up": up}, activation=activation)

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
