"""Rows of activations quantised to 8 or 16 bits, in planes of bytes, or rounded to bfloat16, in NumPy.

`csrc/params/quantized_row.h` describes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_CODES = {1: 127, 2: 127 * 128 + 63}  # by number of planes


def padded(k: int) -> int:
    return -(-k // 128) * 128


def row_bytes(k: int, planes: int) -> int:
    return planes * padded(k) + padded(k) // 32 * 8 + padded(k) // 16 * 4 if planes else 2 * padded(k)


def by_halves(x: NDArray[Any], run: int) -> NDArray[Any]:
    """x [rows, ...], runs for halves of groups in order, as they lie in a row: by chunks of four groups, by halves."""
    return x.reshape(len(x), -1, 4, 2, run).swapaxes(2, 3).reshape(x.shape)


def by_groups(x: NDArray[Any], run: int) -> NDArray[Any]:
    """The inverse of `by_halves`."""
    return x.reshape(len(x), -1, 2, 4, run).swapaxes(2, 3).reshape(x.shape)


def quantized_bytes(x: NDArray[np.float32], planes: int) -> NDArray[np.uint8]:
    """uint8 [rows, row_bytes(k, planes)] of x [rows, k]."""
    if planes:
        return QuantizedRows.quantize(x, planes).to_bytes()
    rows, k = x.shape
    values = np.zeros((rows, padded(k)), np.uint16)
    values[:, :k] = round_to_bf16(x).view(np.uint32) >> 16
    return values.view(np.uint8)


def round_to_bf16(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Every number that is no NaN to the nearest with 8 significant bits, ties to even."""
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) & np.uint64(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32)


@dataclass(frozen=True, eq=False)
class QuantizedRows:
    """codes: int16 [rows, padded k]; scale, scaled_sum: float32 [rows, padded k / 32]; sum16: int32, per 16 codes."""

    k: int
    planes: int
    codes: NDArray[np.int16]
    scale: NDArray[np.float32]
    scaled_sum: NDArray[np.float32]
    sum16: NDArray[np.int32]

    @classmethod
    def quantize(cls, x: NDArray[np.float32], planes: int) -> QuantizedRows:
        """Each group of 32 values, divided by its largest magnitude / max_code and rounded to nearest, ties to even."""
        max_code = MAX_CODES[planes]
        rows, k = x.shape
        values = np.zeros((rows, padded(k)), np.float32)
        values[:, :k] = x
        groups = values.reshape(rows, -1, 32)
        scale = np.abs(groups).max(axis=2) / np.float32(max_code)
        divisor = np.where(scale == 0, np.float32(1), scale)[..., None]
        codes = np.clip(np.rint(groups / divisor), -max_code, max_code).astype(np.int16).reshape(rows, -1)
        sum16 = codes.reshape(rows, -1, 16).sum(axis=2, dtype=np.int32)
        scaled_sum = scale * sum16.reshape(rows, -1, 2).sum(axis=2).astype(np.float32)
        return cls(k, planes, codes, scale, scaled_sum, sum16)

    @classmethod
    def from_bytes(cls, data: NDArray[np.uint8], k: int, planes: int) -> QuantizedRows:
        n, rows = padded(k), len(data)

        def part(begin: int, end: int, dtype: Any) -> NDArray[Any]:
            return np.ascontiguousarray(data[:, begin:end]).view(dtype).reshape(rows, -1)

        end = planes * n
        ends = [end, end + n // 8, end + n // 4, end + n // 2]
        codes = part(0, n, np.int8).astype(np.int16)
        return cls(
            k,
            planes,
            by_groups(codes if planes == 1 else 128 * codes + part(n, end, np.int8), 16),
            part(ends[0], ends[1], np.float32),
            part(ends[1], ends[2], np.float32),
            by_groups(part(ends[2], ends[3], np.int32), 1),
        )

    def to_bytes(self) -> NDArray[np.uint8]:
        """uint8 [rows, row_bytes(k, planes)]."""
        codes = by_halves(self.codes, 16)
        high = (codes + 64) >> 7 if self.planes == 2 else codes
        planes = (high.astype(np.int8), (codes - 128 * high).astype(np.int8))
        parts = (*planes[: self.planes], self.scale, self.scaled_sum, by_halves(self.sum16, 1))
        return np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in parts], axis=1)

    def values(self) -> NDArray[np.float64]:
        """What the rows stand for, float64 [rows, k]."""
        scaled = self.codes.astype(np.float64) * np.repeat(self.scale.astype(np.float64), 32, axis=1)
        return scaled[:, : self.k]
