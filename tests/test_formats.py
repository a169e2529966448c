"""Decoders of weight formats against the `gguf` package, bit for bit."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from ferrule import _core
from ferrule.formats import FORMATS, GGML_TYPES


def random_rows(name: str, shape: tuple[int, int], seed: int = 0) -> NDArray[np.uint8]:
    fmt = FORMATS[name]
    rng = np.random.default_rng([seed, fmt.ggml_type])
    return rng.integers(0, 256, (shape[0], fmt.row_bytes(shape[1])), np.uint8)


def assert_bits_equal(got: NDArray[np.float32], want: NDArray[np.float32]) -> None:
    assert got.dtype == want.dtype == np.float32
    nan = np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), nan)
    np.testing.assert_array_equal(got[~nan].view(np.uint32), want[~nan].view(np.uint32))


@pytest.mark.parametrize("name", FORMATS)
def test_sizes_are_those_of_ggml(name: str) -> None:
    fmt = FORMATS[name]
    kind = GGMLQuantizationType[name]
    assert (fmt.ggml_type, (fmt.block, fmt.block_bytes)) == (kind.value, GGML_QUANT_SIZES[kind])
    assert GGML_TYPES[kind.value] is fmt


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_random_bytes_decode_as_in_gguf(name: str) -> None:
    data = random_rows(name, (60, 512))
    want = gguf.dequantize(data, GGMLQuantizationType[name])
    assert_bits_equal(FORMATS[name].decode(data, (60, 512)), want)


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4", "BF16"])
@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_quantised_values_decode_as_in_gguf(name: str) -> None:
    kind = GGMLQuantizationType[name]
    values = np.random.default_rng(1).standard_normal((8, 512), np.float32)
    data = gguf.quantize(values, kind).view(np.uint8)
    assert_bits_equal(FORMATS[name].decode(data, (8, 512)), gguf.dequantize(data, kind))


def test_the_native_table_is_the_same() -> None:
    assert _core.format_sizes() == {fmt.name: (fmt.ggml_type, fmt.block, fmt.block_bytes) for fmt in FORMATS.values()}


def test_a_size_that_does_not_fit_is_an_error() -> None:
    q4_k = FORMATS["Q4_K"]
    with pytest.raises(ValueError, match="multiple of 256"):
        q4_k.row_bytes(128)
    with pytest.raises(ValueError, match="not a Q4_K tensor"):
        q4_k.decode(np.zeros(144, np.uint8), (2, 256))
