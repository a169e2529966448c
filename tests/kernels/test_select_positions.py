"""select_positions against NumPy float64, over paged caches whose unseen positions are NaN."""

import numpy as np
import pytest
from cache_pools import KV_DTYPES
from kernel_testing import Runner
from test_attention import Case, Problem

CASES = [
    (Case(3, 1, 16, ((0, 1),)), 4),
    (Case(2, 1, 16, ((0, 70), (100, 1), (63, 2))), 5),
    (Case(4, 1, 32, ((130, 3),)), 64),
    (Case(1, 1, 24, ((150, 2), (0, 9))), 200),
    (Case(1, 1, 8, ((1500, 2),)), 3),
]


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@pytest.mark.parametrize(("case", "top"), CASES, ids=str)
def test_select_positions(runner: Runner, case: Case, top: int, kv_dtype: str) -> None:
    problem = Problem.make(case, kv_dtype)
    rows, scale = len(problem.q), problem.params["scale"]
    keys_alone = np.ascontiguousarray(problem.pool.keys)
    weights = np.random.default_rng(top).standard_normal((rows, case.heads)).astype(np.float32)
    operands = {"q": problem.q, "weights": weights, "cache": keys_alone}
    operands |= {"spans": problem.spans, "block_table": problem.block_table}
    params = {"heads": case.heads, "head_dim": case.head_dim, "top": top, "scale": scale}
    dims = (rows, rows, len(case.spans))
    kernel = f"select_positions_{kv_dtype}"
    out = runner.run(kernel, operands, params, rows, (rows, top), dims=dims)
    for (row_begin, n_rows, begin, _), keys in zip(problem.spans, problem.keys, strict=True):
        for r in range(n_rows):
            seen = int(begin) + r + 1
            products = scale * problem.q[row_begin + r].astype(np.float64) @ keys[:seen, 0].astype(np.float64).T
            scores = weights[row_begin + r].astype(np.float64) @ np.maximum(products, 0)
            chosen = out[row_begin + r]
            found = chosen[chosen >= 0].astype(int)
            assert len(np.unique(found)) == len(found) == min(top, seen)
            assert (chosen[chosen < 0] == -1).all()
            left = np.setdiff1d(np.arange(seen), found)
            if len(left):
                assert scores[found].min() >= scores[left].max() - 1e-5


def test_of_equal_positions_the_lower_are_taken(runner: Runner) -> None:
    cache = np.ones((2, 8 * 64), np.float32)
    operands = {"q": np.ones((1, 8), np.float32), "weights": np.ones((1, 1), np.float32), "cache": cache}
    operands |= {"spans": np.array([[0, 1, 99, 0]], np.uint32), "block_table": np.array([1, 0], np.int32)}
    params = {"heads": 1, "head_dim": 8, "top": 6, "scale": 1.0}
    out = runner.run("select_positions_f32", operands, params, 1, (1, 6))
    assert sorted(out[0]) == [0, 1, 2, 3, 4, 5]
