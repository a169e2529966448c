"""Weight formats: how many bytes a block of values takes, and a NumPy decoder for each.

The decoders are the oracle for the kernels and are written from the formats' definitions, apart from the C++ ones in
`csrc/formats`; both are bit-exact with the `gguf` package, whose order of float32 operations they keep.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
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
        """Bytes of a row of n values; n must be a multiple of `block`."""
        if n % self.block:
            raise ValueError(f"a row of {self.name} has a multiple of {self.block} values, not {n}")
        return n // self.block * self.block_bytes

    def decode(self, data: U8, shape: tuple[int, ...]) -> F32:
        """The values, float32 of the given shape, of `data`, uint8 of as many rows as the shape has."""
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
