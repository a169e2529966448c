"""embedding: the CPU's tests, and with a norm against NumPy float64."""

import numpy as np
import pytest
from kernel_testing import EPSILON
from test_embedding import test_a_token_outside_the_table_gives_nan, test_embedding
from test_rms_norm import EPS, reference

from metal.metal_runner import MetalRunner

__all__ = ["test_a_token_outside_the_table_gives_nan", "test_embedding"]


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
