"""attention in one kernel, and in two by attention_split and attention_merge, against NumPy float64."""

import numpy as np
import pytest
import test_attention as cpu
from test_attention import test_attention

from metal.metal_runner import MetalRunner

__all__ = ["test_attention"]

FEW_ROWS = [case for case in cpu.CASES if sum(n_rows for _, n_rows in case.spans) <= 12]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("splits", [1, 3, 8])
@pytest.mark.parametrize("case", FEW_ROWS, ids=str)
def test_split_attention(runner: MetalRunner, case: cpu.Case, splits: int, dtype: type) -> None:
    problem = cpu.Problem.make(case, dtype)
    rows, v_head_dim = len(problem.q), problem.params["v_head_dim"]
    partials = runner.run(
        f"attention_split_f{8 * np.dtype(dtype).itemsize}",
        {
            "q": problem.q,
            "cache": problem.cache,
            "spans": problem.spans,
            "block_table": problem.block_table,
            "slopes": problem.slopes,
        },
        {**problem.params, "splits": splits},
        rows,
        {"partials": ((rows, case.heads, splits, v_head_dim + 2), np.float32)},
        dims=(rows, rows, len(problem.spans)),
    )
    out = runner.run(
        "attention_merge",
        {"partials": partials, "sinks": problem.sinks},
        {"heads": case.heads, "v_head_dim": v_head_dim, "splits": splits},
        rows,
        (rows, case.heads, v_head_dim),
    )
    expected, bound = problem.reference()
    assert (np.abs(out - expected) <= bound).all()


# Heads of a part of a tile, ranks that are no multiples of 8, positions selected in any order.
LATENT = [case for case in cpu.LATENT_CASES if case.latent]
LATENT += [cpu.Case(20, 1, 16, ((190, 9),), v_head_dim=24, latent=True, top=100)]


def run_absorbed(runner: MetalRunner, problem: cpu.Problem, splits: int) -> np.ndarray:
    """In one kernel or, with splits, in two."""
    rows, v_head_dim, suffix = len(problem.q), problem.params["v_head_dim"], f"_f{8 * problem.cache.itemsize}"
    operands = {
        "q": np.ascontiguousarray(problem.q[..., :v_head_dim]),
        "q_rotated": np.ascontiguousarray(problem.q[..., v_head_dim:]),
        "selected": problem.selected,
        "cache": problem.cache,
        "spans": problem.spans,
        "block_table": problem.block_table,
    }
    shape, dims = (rows, problem.case.heads, v_head_dim), (rows, rows, len(problem.spans))
    if not splits:
        kernel = f"absorbed_attention{suffix}"
        return np.asarray(runner.run(kernel, operands, problem.params, rows, shape, dims=dims))
    partials = runner.run(
        f"absorbed_attention_split{suffix}",
        operands,
        {**problem.params, "splits": splits},
        rows,
        {"partials": ((rows, problem.case.heads, splits, v_head_dim + 2), np.float32)},
        dims=dims,
    )
    params = {"heads": problem.case.heads, "v_head_dim": v_head_dim, "splits": splits}
    return np.asarray(runner.run("attention_merge", {"partials": partials}, params, rows, shape))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("splits", [0, 1, 3])
@pytest.mark.parametrize("case", LATENT, ids=str)
def test_absorbed_attention(runner: MetalRunner, case: cpu.Case, splits: int, dtype: type) -> None:
    problem = cpu.Problem.make(case, dtype)
    expected, bound = problem.reference()
    assert (np.abs(run_absorbed(runner, problem, splits) - expected) <= bound).all()
