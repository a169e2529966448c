"""Pools of blocks of the key/value cache (`csrc/params/kv_cache.h`), laid out and rounded by NumPy and gguf."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from kernel_testing import POISON
from numpy.typing import NDArray
from quantized_rows import round_to_bf16

BLOCK = 64
GROUP = 32
DTYPES = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16)}
KV_DTYPES = (*DTYPES, "q8_0")  # and bf16, which not every kernel has


def rounded(x: NDArray[np.float32], kv_dtype: str) -> NDArray[np.float32]:
    """What a cache of that type gives back of vectors [..., width]."""
    if kv_dtype == "bf16":
        return round_to_bf16(x)
    if kv_dtype != "q8_0":
        return x.astype(DTYPES[kv_dtype]).astype(np.float32)
    restored = dequantize(_blocks(x), GGMLQuantizationType.Q8_0).reshape(*x.shape[:-1], -1)
    return restored[..., : x.shape[-1]]


@dataclass(frozen=True)
class Pool:
    """`data`: uint8 [blocks, kv_heads, bytes], whatever was not stored being poison: NaN, or NaN as scale."""

    kv_dtype: str
    head_dim: int
    v_head_dim: int
    data: NDArray[np.uint8]

    @classmethod
    def make(cls, kv_dtype: str, blocks: int, kv_heads: int, head_dim: int, v_head_dim: int) -> Pool:
        size = sum(BLOCK * _vector_bytes(width, kv_dtype) for width in (head_dim, v_head_dim))
        return cls(kv_dtype, head_dim, v_head_dim, np.full((blocks, kv_heads, size), POISON, np.uint8))

    @property
    def keys(self) -> NDArray[np.uint8]:
        """The part of every block and head that holds keys."""
        return self.data[..., : BLOCK * _vector_bytes(self.head_dim, self.kv_dtype)]

    def store(self, slot: int, k: NDArray[np.float32], v: NDArray[np.float32]) -> None:
        """Writes one position's keys [kv_heads, head_dim] and values [kv_heads, v_head_dim]."""
        block, position = divmod(slot, BLOCK)
        for head, (key, value) in enumerate(zip(k, v, strict=True)):
            place = self.data[block, head]
            _store(place[: self.keys.shape[-1]], self.kv_dtype, position, key, transposed=True)
            if self.v_head_dim:
                _store(place[self.keys.shape[-1] :], self.kv_dtype, position, value, transposed=False)

    def load(self, slot: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """One position's keys and values of a pool of floats, as `store` takes them."""
        values = self.data[slot // BLOCK].view(DTYPES[self.kv_dtype]).astype(np.float32)
        k, v = np.split(values, [BLOCK * self.head_dim], axis=1)
        keys, rows = k.reshape(len(k), self.head_dim, BLOCK), v.reshape(len(v), BLOCK, self.v_head_dim)
        return keys[:, :, slot % BLOCK], rows[:, slot % BLOCK]


def _vector_bytes(width: int, kv_dtype: str) -> int:
    if kv_dtype == "bf16":
        return 2 * -(-width // 16) * 16
    return width + 2 * -(-width // GROUP) if kv_dtype == "q8_0" else width * DTYPES[kv_dtype].itemsize


def _blocks(x: NDArray[np.float32]) -> NDArray[np.uint8]:
    """GGUF's blocks [..., groups, 34] of vectors [..., width], filled up with zeros."""
    padding = [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % GROUP)]
    blocks = quantize(np.pad(x, padding), GGMLQuantizationType.Q8_0)
    return blocks.reshape(*x.shape[:-1], -1, 2 + GROUP)


def _store(place: NDArray[np.uint8], kv_dtype: str, position: int, x: NDArray[np.float32], transposed: bool) -> None:
    if kv_dtype == "bf16":
        stored = (round_to_bf16(x).view(np.uint32) >> 16).astype(np.uint16)
        if transposed:
            pairs = np.pad(stored, (0, len(x) % 2)).reshape(-1, 2)
            place.view(np.uint16).reshape(-1, BLOCK, 2)[: len(pairs), position] = pairs
        else:
            place.view(np.uint16).reshape(BLOCK // 2, -1, 2)[position // 2, : len(x), position % 2] = stored
        return
    if kv_dtype == "q8_0":
        blocks, n_codes = _blocks(x), BLOCK * len(x)
        place[n_codes:].view(np.float16).reshape(-1, BLOCK)[:, position] = blocks[:, :2].view(np.float16)[:, 0]
        place, stored = place[:n_codes], blocks[:, 2:].reshape(-1)[: len(x)]
    else:
        with np.errstate(over="ignore"):
            place, stored = place.view(DTYPES[kv_dtype]), x.astype(DTYPES[kv_dtype])
    if transposed:
        place.reshape(len(x), BLOCK)[:, position] = stored
    else:
        place.reshape(BLOCK, len(x))[position] = stored
