"""embedding against the NumPy decoders: equal to the bit."""

import numpy as np
import pytest
from kernel_testing import EPSILON
from test_embedding import NO_NORM
from test_rms_norm import EPS, reference
from weights import FLOATS, make_matrix

from ferrule.formats import FORMATS
from metal.formats import METAL_FORMATS
from metal.metal_runner import MetalRunner


@pytest.mark.parametrize("name", METAL_FORMATS)
@pytest.mark.parametrize("scale", [1.0, 33.94112549695428])
def test_embedding(runner: MetalRunner, name: str, scale: float) -> None:
    n, k = 7, 517 if name in FLOATS else 512
    matrix = make_matrix(name, n, k, np.random.default_rng(FORMATS[name].ggml_type))
    tokens = np.array([6, 0, 3, 3], np.int32)
    out = runner.run(
        f"embedding_{name.lower()}",
        {"tokens": tokens, "table": matrix.data},
        {**NO_NORM, "k": k, "n": n, "scale": scale},
        len(tokens),
        (len(tokens), k),
        misalign={"table": 4},
    )
    np.testing.assert_array_equal(out, np.float32(scale) * matrix.values[tokens].astype(np.float32))


@pytest.mark.parametrize(("rows", "k", "has_weight"), [(1, 1, True), (3, 517, False), (2, 17000, True)])
def test_embedding_and_norm(runner: MetalRunner, rows: int, k: int, has_weight: bool) -> None:
    rng = np.random.default_rng(k)
    table, tokens = rng.standard_normal((5, k), np.float32), rng.integers(5, size=rows).astype(np.int32)
    weight = rng.standard_normal(k, np.float32) if has_weight else None
    params = {"k": k, "n": 5, "scale": 2.5, "eps": EPS, "weight_offset": 1.0}
    written = dict.fromkeys(("out", "next"), ((rows, k), np.float32))
    operands = {"tokens": tokens, "table": table, "next_weight": weight}
    found = runner.run("embedding_f32", operands, params, rows, written)

    np.testing.assert_array_equal(found["out"], np.float32(2.5) * table[tokens])
    expected = reference(found["out"], weight, 1.0)
    largest = 1.0 if weight is None else np.abs(weight) + 1.0
    bound = (k / 32 + 5) * EPSILON * largest * np.abs(reference(found["out"], None, 0.0))
    assert (np.abs(found["next"] - expected) <= bound).all()
