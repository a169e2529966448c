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
        {**{name: value for name, value in problem.params.items() if name not in ("latent", "top")}, "splits": splits},
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
