"""Places in the arena: values share memory when no launch that may still run needs both."""

from __future__ import annotations

from collections.abc import Mapping, Set

from .. import _core
from ..graph import CacheLayer, Value
from .plan import Launch

ALIGNMENT = 64
KV_DTYPES = ("f16", "bf16", "f32", "q8_0")  # of the cache, see csrc/params/kv_cache.h


def planes(value: Value) -> int:
    """Planes of bytes that a quantised value's codes lie in (`csrc/params/quantized_row.h`), 0 for others."""
    return {"f32": 0, "bf16": 0, "q8": 1, "q16": 2}[value.dtype]


def row_bytes(value: Value) -> int:
    """Bytes of one row of a value."""
    if value.dtype != "f32":
        return value.parts * _core.quantized_row_bytes(value.width // value.parts, planes(value))
    return 4 * value.width


def vector_bytes(width: int, kv_dtype: str) -> int:
    """Bytes of a key or value vector in the cache."""
    if kv_dtype == "q8_0":
        return _core.quantized_vector_bytes(width)
    if kv_dtype == "bf16":
        return _core.rounded_vector_bytes(width)
    return {"f16": 2, "f32": 4}[kv_dtype] * width


def cache_bytes(cache: CacheLayer, kv_dtype: str) -> int:
    """Bytes that a cache layer keeps of one position."""
    return cache.kv_heads * (vector_bytes(cache.head_dim, kv_dtype) + vector_bytes(cache.v_head_dim, kv_dtype))


def assign(launches: list[Launch], outputs: Set[Value], max_dims: Mapping[str, int]) -> tuple[dict[Value, int], int]:
    """(offset of every value but the outputs, bytes of the arena).

    Launches between two barriers may run at once, so lifetimes are counted in barriers, not launches: first fit over
    values in order of birth.
    """
    birth: dict[Value, int] = {}
    death: dict[Value, int] = {}
    epoch = 0
    for launch in launches:
        epoch += launch.barrier
        for operand in launch.operands.values():
            if isinstance(operand, Value) and operand not in outputs:
                birth.setdefault(operand, epoch)
                death[operand] = epoch

    offsets: dict[Value, int] = {}
    size = {value: -(-row_bytes(value) * max_dims[str(value.shape[0])] // ALIGNMENT) * ALIGNMENT for value in birth}
    total = 0
    alive: list[Value] = []
    for value in birth:  # in order of birth
        alive = [other for other in alive if death[other] >= birth[value]]
        offset = 0
        for begin, end in sorted((offsets[other], offsets[other] + size[other]) for other in alive):
            if offset + size[value] <= begin:
                break
            offset = max(offset, end)
        offsets[value] = offset
        alive.append(value)
        total = max(total, offset + size[value])
    return offsets, total
