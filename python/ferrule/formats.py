"""Weight formats: how many bytes a block of values takes, and a NumPy decoder for each.

The decoders are the oracle for the kernels and are written from the formats' definitions, apart from the C++ ones in
`csrc/formats`; both are bit-exact with the `gguf` package, whose order of float32 operations they keep.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]
Blocks = NDArray[np.void]  # a structured array: one record per block


@dataclass(frozen=True, eq=False)
class Format:
    """One weight format.

    `block` values are stored together in `block_bytes` bytes; `ggml_type` is the number that GGUF knows it by.
    """

    name: str
    ggml_type: int
    block: int
    fields: np.dtype[np.void]
    decode_blocks: Callable[[Any], F32]

    @property
    def block_bytes(self) -> int:
        """Bytes of one block."""
        return self.fields.itemsize

    def row_bytes(self, n: int) -> int:
        """Bytes of a row of n values. Raises ValueError where n is no multiple of `block`."""
        if n % self.block:
            raise ValueError(f"a row of {self.name} has a multiple of {self.block} values, not {n}")
        return n // self.block * self.block_bytes

    def decode(self, data: U8, shape: tuple[int, ...]) -> F32:
        """The values, float32 of the given shape, of `data`, uint8 of as many rows as the shape has.

        Raises ValueError where the bytes are not as many as the shape takes.
        """
        rows = math.prod(shape[:-1])
        raw = np.ascontiguousarray(data).reshape(-1)
        if raw.nbytes != rows * self.row_bytes(shape[-1]):
            raise ValueError(f"{raw.nbytes} bytes are not a {self.name} tensor of shape {shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            return self.decode_blocks(raw.view(self.fields)).reshape(shape)


def _halves(x: U8) -> U8:
    """[n, m] bytes -> [n, 2, m]: low nibbles, high nibbles."""
    return np.stack([x & 15, x >> 4], axis=1)


def _quarters(x: U8) -> U8:
    """[n, m] bytes -> [n, 4, m]: bits 0-1, 2-3, 4-5, 6-7."""
    return np.stack([x >> shift & 3 for shift in (0, 2, 4, 6)], axis=1)


def _bits(x: U8) -> U8:
    """[n, m] bytes -> [n, 8, m]: bit 0, 1, ... 7."""
    return np.stack([x >> bit & 1 for bit in range(8)], axis=1)


def _signed(codes: NDArray[Any], offset: int) -> F32:
    return (codes.astype(np.int16) - offset).astype(np.float32)


def _column(x: NDArray[Any]) -> F32:
    """Per-block numbers, as float32 that broadcast over the block's values."""
    return x.astype(np.float32)[..., None]


def _f32(b: Blocks) -> F32:
    return b["x"].copy()


def _f16(b: Blocks) -> F32:
    return b["x"].astype(np.float32)


def _bf16(b: Blocks) -> F32:
    return (b["x"].astype(np.uint32) << 16).view(np.float32)


def _fifth_bits(b: Blocks) -> NDArray[Any]:
    """Q5_0, Q5_1: [n, 32] codes 0..31; bit i of `high` belongs to value i."""
    high = np.unpackbits(b["high"], axis=1, bitorder="little")
    return _halves(b["low"]).reshape(-1, 32) | high << 4


def _q4_0(b: Blocks) -> F32:
    return _column(b["scale"]) * _signed(_halves(b["codes"]).reshape(-1, 32), 8)


def _q4_1(b: Blocks) -> F32:
    return _column(b["scale"]) * _halves(b["codes"]).reshape(-1, 32).astype(np.float32) + _column(b["minimum"])


def _q5_0(b: Blocks) -> F32:
    return _column(b["scale"]) * _signed(_fifth_bits(b), 16)


def _q5_1(b: Blocks) -> F32:
    return _column(b["scale"]) * _fifth_bits(b).astype(np.float32) + _column(b["minimum"])


def _q8_0(b: Blocks) -> F32:
    return _column(b["scale"]) * b["codes"].astype(np.float32)


def _q2_k(b: Blocks) -> F32:
    scale = (_column(b["scale"]) * (b["scales"] & 15).astype(np.float32))[..., None]
    minimum = (_column(b["minimum"]) * (b["scales"] >> 4).astype(np.float32))[..., None]
    codes = np.concatenate([_quarters(b["codes"][:, :32]), _quarters(b["codes"][:, 32:])], axis=1)
    return scale * codes.reshape(-1, 16, 16).astype(np.float32) - minimum


def _q3_k(b: Blocks) -> F32:
    low, high = _halves(b["scales"][:, :8]).reshape(-1, 16), _quarters(b["scales"][:, 8:]).reshape(-1, 16)
    scale = _column(b["scale"]) * _signed(low | high << 4, 32)
    low_codes = np.concatenate([_quarters(b["low"][:, :32]), _quarters(b["low"][:, 32:])], axis=1)
    codes = low_codes | _bits(b["high"]) << 2
    return scale[..., None] * _signed(codes, 4).reshape(-1, 16, 16)


def _scales_and_minimums(b: Blocks) -> tuple[F32, F32]:
    """Q4_K, Q5_K: eight 6-bit scales and minimums in 12 bytes, multiplied out, each [n, 8, 1].

    Bytes 0-3 are scales 0-3 and bytes 4-7 minimums 0-3 in their low six bits; bytes 8-11 are the low four bits of
    scales (low nibble) and minimums (high nibble) 4-7, whose upper two bits are the top bits of bytes 0-7.
    """
    first, second, third = b["scales"][:, 0:4], b["scales"][:, 4:8], b["scales"][:, 8:12]
    scale = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=1)
    minimum = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=1)
    return (
        (_column(b["scale"]) * scale.astype(np.float32))[..., None],
        (_column(b["minimum"]) * minimum.astype(np.float32))[..., None],
    )


def _nibbles_by_64(x: U8) -> U8:
    """[n, 128] bytes -> [n, 8, 32]: each 32 bytes hold 64 values, the low nibbles first."""
    return _halves(x.reshape(-1, 32)).reshape(-1, 8, 32)


def _q4_k(b: Blocks) -> F32:
    scale, minimum = _scales_and_minimums(b)
    return scale * _nibbles_by_64(b["codes"]).astype(np.float32) - minimum


def _q5_k(b: Blocks) -> F32:
    scale, minimum = _scales_and_minimums(b)
    codes = _nibbles_by_64(b["low"]) | _bits(b["high"]) << 4
    return scale * codes.astype(np.float32) - minimum


def _q6_k(b: Blocks) -> F32:
    scale = _column(b["scale"]) * b["scales"].astype(np.float32)
    low = np.concatenate([_halves(b["low"][:, :64]), _halves(b["low"][:, 64:])], axis=1).reshape(-1, 256)
    high = np.concatenate([_quarters(b["high"][:, :32]), _quarters(b["high"][:, 32:])], axis=1).reshape(-1, 256)
    return scale[..., None] * _signed(low | high << 4, 32).reshape(-1, 16, 16)


# The 16 values of the non-linear 4-bit formats.
_IQ4_VALUES = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
# FP4 (E2M1) values, doubled to be integers; the scales below are halved in return.
_FP4_VALUES = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)


def _iq4_nl(b: Blocks) -> F32:
    return _column(b["scale"]) * _IQ4_VALUES[_halves(b["codes"]).reshape(-1, 32)]


def _iq4_xs(b: Blocks) -> F32:
    low = np.stack([b["scales_low"] & 15, b["scales_low"] >> 4], axis=2).reshape(-1, 8)
    high = np.stack([b["scales_high"] >> 2 * i & 3 for i in range(8)], axis=1).astype(np.uint8)
    scale = _column(b["scale"]) * _signed(low | high << 4, 32)
    return scale[..., None] * _IQ4_VALUES[_halves(b["codes"].reshape(-1, 16)).reshape(-1, 8, 32)]


def _mxfp4(b: Blocks) -> F32:
    # 2^(exponent - 128): a subnormal float32 for exponents 0 and 1.
    scale = np.ldexp(np.float32(1), b["exponent"].astype(np.int32) - 128).astype(np.float32)
    return scale[:, None] * _FP4_VALUES[_halves(b["codes"]).reshape(-1, 32)]


def _nvfp4(b: Blocks) -> F32:
    bits = b["scales"]  # unsigned E4M3, bias 7; 0x7f (NaN) decodes to 0
    exponent, mantissa = (bits >> 3 & 15).astype(np.int32), (bits & 7).astype(np.float32)
    normal = np.ldexp(1 + mantissa / 8, exponent - 8)
    scale = np.where(exponent == 0, np.ldexp(mantissa, -10), normal)
    scale = np.where((bits == 0) | (bits == 0x7F), 0, scale).astype(np.float32)
    return scale[..., None] * _FP4_VALUES[_halves(b["codes"].reshape(-1, 8)).reshape(-1, 4, 16)]


def _ternary(x: U8, digits: int) -> U8:
    """[n, m] bytes of base-3 fractions (byte / 256 = 0.d0 d1 d2 ...) -> [n, digits, m]."""
    powers = np.array([1, 3, 9, 27, 81], np.uint8)[:digits, None]
    shifted = x[:, None, :] * powers  # modulo 256: leaves the fraction
    return (shifted.astype(np.uint16) * 3 >> 8).astype(np.uint8)


def _tq1_0(b: Blocks) -> F32:
    n = len(b)
    parts = [_ternary(b["codes"][:, :32], 5), _ternary(b["codes"][:, 32:], 5), _ternary(b["rest"], 4)]
    codes = np.concatenate([part.reshape(n, -1) for part in parts], axis=1)
    return _column(b["scale"]) * _signed(codes, 1)


def _tq2_0(b: Blocks) -> F32:
    codes = np.concatenate([_quarters(b["codes"][:, :32]), _quarters(b["codes"][:, 32:])], axis=1)
    return _column(b["scale"]) * _signed(codes.reshape(-1, 256), 1)


@cache
def _codebook(name: str) -> U8:
    """[entries, 8] (IQ3: 4) small numbers."""
    from . import _core  # here, so that all other formats decode without the native module

    return np.frombuffer(_core.codebooks()[name], np.uint8).reshape(-1, 4 if name.startswith("IQ3") else 8)


def _signs(bits: NDArray[Any]) -> F32:
    """[...] numbers whose low 8 bits are signs -> [..., 8] of 1 or -1."""
    negative = bits[..., None].astype(np.uint32) >> np.arange(8, dtype=np.uint32) & 1
    return 1 - 2 * negative.astype(np.float32)


def _seven_signs(bits: NDArray[Any]) -> F32:
    """The same from 7 bits: the eighth makes the number of minus signs even."""
    signs = _signs(bits & 127)
    signs[..., 7] = signs[..., :7].prod(axis=-1)
    return signs


def _numbers(low: U8, high: NDArray[Any]) -> NDArray[Any]:
    """Entry numbers from their low 8 bits and what is above."""
    return low.astype(np.uint16) | high.astype(np.uint16) << 8


def _grid(name: str, numbers: NDArray[Any], signs: F32, scale: F32) -> F32:
    """numbers: [n, 8 groups, entries]; signs: [n, 8, 4, 8]; scale: [n, 8] or, per half group, [n, 16]."""
    n = len(numbers)
    values = _codebook(name)[numbers].astype(np.float32).reshape(n, -1, 256 // scale.shape[1])
    result: F32 = scale[..., None] * values * signs.reshape(values.shape)
    return result


def _half_group_scales(b: Blocks, factor: float) -> F32:
    """IQ2: [n, 16] from a byte per group, the low nibble first."""
    nibbles = np.stack([b["scales"] & 15, b["scales"] >> 4], axis=2).reshape(-1, 16)
    return _column(b["scale"]) * (np.float32(0.5) + nibbles.astype(np.float32)) * np.float32(factor)


def _iq2_xxs(b: Blocks) -> F32:
    groups = b["groups"]
    signs = np.stack([groups["signs"] >> shift for shift in (0, 7, 14, 21)], axis=2)
    scale = _column(b["scale"]) * (np.float32(0.5) + (groups["signs"] >> 28).astype(np.float32)) * np.float32(0.25)
    return _grid("IQ2_XXS", groups["entries"], _seven_signs(signs), scale)


def _iq2_xs(b: Blocks) -> F32:
    entries = b["entries"].reshape(-1, 8, 4)
    return _grid("IQ2_XS", entries & 511, _seven_signs(entries >> 9), _half_group_scales(b, 0.25))


def _iq2_s(b: Blocks) -> F32:
    high = np.stack([b["high"] >> shift & 3 for shift in (0, 2, 4, 6)], axis=2)
    numbers = _numbers(b["low"].reshape(-1, 8, 4), high)
    return _grid("IQ2_S", numbers, _signs(b["signs"].reshape(-1, 8, 4)), _half_group_scales(b, 0.25))


def _iq3_xxs(b: Blocks) -> F32:
    signs = np.stack([b["signs"] >> shift for shift in (0, 7, 14, 21)], axis=2)
    scale = _column(b["scale"]) * (np.float32(0.5) + (b["signs"] >> 28).astype(np.float32)) * np.float32(0.5)
    return _grid("IQ3_XXS", b["entries"].reshape(-1, 8, 8), _seven_signs(signs), scale)


def _iq3_s(b: Blocks) -> F32:
    high = np.stack([b["high"] >> bit & 1 for bit in range(8)], axis=2)
    nibbles = np.stack([b["scales"] & 15, b["scales"] >> 4], axis=2).reshape(-1, 8)
    scale = _column(b["scale"]) * (1 + 2 * nibbles.astype(np.float32))
    return _grid("IQ3_S", _numbers(b["low"].reshape(-1, 8, 8), high), _signs(b["signs"].reshape(-1, 8, 4)), scale)


def _shifted_ternary(numbers: NDArray[Any], negative: NDArray[Any], scale: F32) -> F32:
    """numbers, negative (of the shift by 1/8): [n, 8 groups, 4]; scale: [n, 8] or, per half group, [n, 16]."""
    shift = np.where(negative, np.float32(-0.125), np.float32(0.125))[..., None]
    values = _codebook("IQ1_S")[numbers].astype(np.float32) - 1 + shift
    result: F32 = scale[..., None] * values.reshape(len(numbers), -1, 256 // scale.shape[1])
    return result


def _iq1_s(b: Blocks) -> F32:
    high = np.stack([b["high"] >> shift & 7 for shift in (0, 3, 6, 9)], axis=2)
    scale = _column(b["scale"]) * (2 * (b["high"] >> 12 & 7) + 1).astype(np.float32)
    negative = np.repeat(b["high"][..., None] >> 15 != 0, 4, axis=2)
    return _shifted_ternary(_numbers(b["low"].reshape(-1, 8, 4), high), negative, scale)


def _iq1_m(b: Blocks) -> F32:
    nibbles = np.stack([b["high"] & 15, b["high"] >> 4], axis=2).reshape(-1, 8, 4)
    # The block's f16 scale is spread over the top nibbles; below them, each word has four scales of three bits.
    whole = sum(b["scales"][:, i].astype(np.uint32) >> 12 << 4 * i for i in range(4))
    scale = np.asarray(whole, np.uint16).view(np.float16).astype(np.float32)[:, None]
    threes = np.stack([b["scales"] >> shift & 7 for shift in (0, 3, 6, 9)], axis=2).reshape(-1, 16)
    numbers = _numbers(b["low"].reshape(-1, 8, 4), nibbles & 7)
    return _shifted_ternary(numbers, nibbles & 8 != 0, scale * (2 * threes + 1).astype(np.float32))


_F16 = "<f2"
_ALL = [
    Format("F32", 0, 1, np.dtype([("x", "<f4")]), _f32),
    Format("F16", 1, 1, np.dtype([("x", _F16)]), _f16),
    Format("BF16", 30, 1, np.dtype([("x", "<u2")]), _bf16),
    Format("Q4_0", 2, 32, np.dtype([("scale", _F16), ("codes", "u1", 16)]), _q4_0),
    Format("Q4_1", 3, 32, np.dtype([("scale", _F16), ("minimum", _F16), ("codes", "u1", 16)]), _q4_1),
    Format("Q5_0", 6, 32, np.dtype([("scale", _F16), ("high", "u1", 4), ("low", "u1", 16)]), _q5_0),
    Format("Q5_1", 7, 32, np.dtype([("scale", _F16), ("minimum", _F16), ("high", "u1", 4), ("low", "u1", 16)]), _q5_1),
    Format("Q8_0", 8, 32, np.dtype([("scale", _F16), ("codes", "i1", 32)]), _q8_0),
    Format(
        "Q2_K",
        10,
        256,
        np.dtype([("scales", "u1", 16), ("codes", "u1", 64), ("scale", _F16), ("minimum", _F16)]),
        _q2_k,
    ),
    Format(
        "Q3_K",
        11,
        256,
        np.dtype([("high", "u1", 32), ("low", "u1", 64), ("scales", "u1", 12), ("scale", _F16)]),
        _q3_k,
    ),
    Format(
        "Q4_K",
        12,
        256,
        np.dtype([("scale", _F16), ("minimum", _F16), ("scales", "u1", 12), ("codes", "u1", 128)]),
        _q4_k,
    ),
    Format(
        "Q5_K",
        13,
        256,
        np.dtype([("scale", _F16), ("minimum", _F16), ("scales", "u1", 12), ("high", "u1", 32), ("low", "u1", 128)]),
        _q5_k,
    ),
    Format(
        "Q6_K",
        14,
        256,
        np.dtype([("low", "u1", 128), ("high", "u1", 64), ("scales", "i1", 16), ("scale", _F16)]),
        _q6_k,
    ),
    Format("IQ1_S", 19, 256, np.dtype([("scale", _F16), ("low", "u1", 32), ("high", "<u2", 8)]), _iq1_s),
    Format("IQ1_M", 29, 256, np.dtype([("low", "u1", 32), ("high", "u1", 16), ("scales", "<u2", 4)]), _iq1_m),
    Format(
        "IQ2_XXS",
        16,
        256,
        np.dtype([("scale", _F16), ("groups", np.dtype([("entries", "u1", 4), ("signs", "<u4")]), 8)]),
        _iq2_xxs,
    ),
    Format("IQ2_XS", 17, 256, np.dtype([("scale", _F16), ("entries", "<u2", 32), ("scales", "u1", 8)]), _iq2_xs),
    Format(
        "IQ2_S",
        22,
        256,
        np.dtype([("scale", _F16), ("low", "u1", 32), ("signs", "u1", 32), ("high", "u1", 8), ("scales", "u1", 8)]),
        _iq2_s,
    ),
    Format("IQ3_XXS", 18, 256, np.dtype([("scale", _F16), ("entries", "u1", 64), ("signs", "<u4", 8)]), _iq3_xxs),
    Format(
        "IQ3_S",
        21,
        256,
        np.dtype([("scale", _F16), ("low", "u1", 64), ("high", "u1", 8), ("signs", "u1", 32), ("scales", "u1", 4)]),
        _iq3_s,
    ),
    Format("IQ4_NL", 20, 32, np.dtype([("scale", _F16), ("codes", "u1", 16)]), _iq4_nl),
    Format(
        "IQ4_XS",
        23,
        256,
        np.dtype([("scale", _F16), ("scales_high", "<u2"), ("scales_low", "u1", 4), ("codes", "u1", 128)]),
        _iq4_xs,
    ),
    Format("TQ1_0", 34, 256, np.dtype([("codes", "u1", 48), ("rest", "u1", 4), ("scale", _F16)]), _tq1_0),
    Format("TQ2_0", 35, 256, np.dtype([("codes", "u1", 64), ("scale", _F16)]), _tq2_0),
    Format("MXFP4", 39, 32, np.dtype([("exponent", "u1"), ("codes", "u1", 16)]), _mxfp4),
    Format("NVFP4", 40, 64, np.dtype([("scales", "u1", 4), ("codes", "u1", 32)]), _nvfp4),
]

FORMATS: dict[str, Format] = {fmt.name: fmt for fmt in _ALL}
GGML_TYPES: dict[int, Format] = {fmt.ggml_type: fmt for fmt in _ALL}
