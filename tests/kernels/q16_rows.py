"""Rows of activations quantised to 16 bits in two planes of bytes (csrc/params/q16_row.h), in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_CODE = 127 * 128 + 63


def padded(k: int) -> int:
    return -(-k // 128) * 128


def row_bytes(k: int) -> int:
    return 2 * padded(k) + padded(k) // 32 * 8 + padded(k) // 16 * 4


@dataclass(frozen=True, eq=False)
class Q16Rows:
    """codes: int16 [rows, padded k]; scale, scaled_sum: float32 [rows, padded k / 32]; sum16: int32, per 16 codes."""

    k: int
    codes: NDArray[np.int16]
    scale: NDArray[np.float32]
    scaled_sum: NDArray[np.float32]
    sum16: NDArray[np.int32]

    @classmethod
    def quantize(cls, x: NDArray[np.float32]) -> Q16Rows:
        """Each group of 32 values, divided by its largest magnitude / MAX_CODE and rounded to nearest, ties to even."""
        rows, k = x.shape
        values = np.zeros((rows, padded(k)), np.float32)
        values[:, :k] = x
        groups = values.reshape(rows, -1, 32)
        scale = np.abs(groups).max(axis=2) / np.float32(MAX_CODE)
        divisor = np.where(scale == 0, np.float32(1), scale)[..., None]
        codes = np.clip(np.rint(groups / divisor), -MAX_CODE, MAX_CODE).astype(np.int16).reshape(rows, -1)
        sum16 = codes.reshape(rows, -1, 16).sum(axis=2, dtype=np.int32)
        scaled_sum = scale * sum16.reshape(rows, -1, 2).sum(axis=2).astype(np.float32)
        return cls(k, codes, scale, scaled_sum, sum16)

    @classmethod
    def from_bytes(cls, data: NDArray[np.uint8], k: int) -> Q16Rows:
        n, rows = padded(k), len(data)

        def part(begin: int, end: int, dtype: Any) -> NDArray[Any]:
            return np.ascontiguousarray(data[:, begin:end]).view(dtype).reshape(rows, -1)

        ends = [2 * n, 2 * n + n // 8, 2 * n + n // 4, 2 * n + n // 2]
        high, low = part(0, n, np.int8).astype(np.int16), part(n, ends[0], np.int8)
        return cls(
            k,
            128 * high + low,
            part(ends[0], ends[1], np.float32),
            part(ends[1], ends[2], np.float32),
            part(ends[2], ends[3], np.int32),
        )

    def to_bytes(self) -> NDArray[np.uint8]:
        """uint8 [rows, row_bytes(k)]."""
        high = (self.codes + 64) >> 7
        planes = (high.astype(np.int8), (self.codes - 128 * high).astype(np.int8))
        parts = (*planes, self.scale, self.scaled_sum, self.sum16)
        return np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in parts], axis=1)

    def values(self) -> NDArray[np.float64]:
        """What the rows stand for, float64 [rows, k]."""
        scaled = self.codes.astype(np.float64) * np.repeat(self.scale.astype(np.float64), 32, axis=1)
        return scaled[:, : self.k]
