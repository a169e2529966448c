"""attention in one kernel, and in two by attention_split and attention_merge, against NumPy float64."""

import numpy as np
import pytest
import test_attention as cpu
from cache_pools import KV_DTYPES
from kernel_testing import EPSILON
from test_attention import test_attention

from metal.metal_runner import MetalRunner

__all__ = ["test_attention"]

FEW_ROWS = [case for case in cpu.CASES if sum(n_rows for _, n_rows in case.spans) <= 12]
NO_NORM = {"normed": 0, "eps": 0.0, "weight_offset": 0.0}


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@pytest.mark.parametrize("splits", [1, 3, 8])
@pytest.mark.parametrize("case", FEW_ROWS, ids=str)
def test_split_attention(runner: MetalRunner, case: cpu.Case, splits: int, kv_dtype: str) -> None:
    problem = cpu.Problem.make(case, kv_dtype)
    rows, v_head_dim = len(problem.q), problem.params["v_head_dim"]
    partials = runner.run(
        f"attention_split_{kv_dtype}",
        {
            "q": problem.q,
            "cache": problem.pool.data,
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
        {"heads": case.heads, "v_head_dim": v_head_dim, "splits": splits, **NO_NORM},
        rows,
        (rows, case.heads, v_head_dim),
    )
    expected, bound = problem.reference()
    assert (np.abs(out - expected) <= bound).all()


@pytest.mark.parametrize("has_sinks", [False, True])
@pytest.mark.parametrize("has_weight", [False, True])
@pytest.mark.parametrize(("rows", "heads", "v_head_dim", "splits"), [(1, 1, 2, 1), (3, 5, 70, 3), (2, 20, 128, 16)])
def test_normed_merge(
    runner: MetalRunner, rows: int, heads: int, v_head_dim: int, splits: int, has_weight: bool, has_sinks: bool
) -> None:
    rng = np.random.default_rng(heads)
    values = rng.standard_normal((rows, heads, splits, v_head_dim), np.float32)
    maxima = rng.standard_normal((rows, heads, splits), np.float32)
    sums = rng.uniform(1, 50, (rows, heads, splits)).astype(np.float32)
    if splits > 1:  # a part without positions, whose values nobody writes
        values[:, :, 1], maxima[:, :, 1], sums[:, :, 1] = np.nan, -np.inf, 0
    partials = np.concatenate([values, maxima[..., None], sums[..., None]], axis=-1)
    sinks = rng.standard_normal(heads, np.float32) if has_sinks else None
    weight = rng.standard_normal(heads * v_head_dim, np.float32) if has_weight else None
    eps, offset = 1e-2, 1.0
    params = {"heads": heads, "v_head_dim": v_head_dim, "splits": splits}
    params |= {"normed": 1, "eps": eps, "weight_offset": offset}
    operands = {"partials": partials, "sinks": sinks, "weight": weight}
    out = runner.run("attention_merge", operands, params, rows, (rows, heads * v_head_dim))

    factors = np.exp(maxima.astype(np.float64))
    total = (sums * factors).sum(axis=-1) + (0 if sinks is None else np.exp(sinks.astype(np.float64)))
    parts = np.where(sums[..., None] > 0, values * factors[..., None], 0)
    merged = (parts.sum(axis=2) / total[..., None]).reshape(rows, -1)
    mean = (merged**2).mean(axis=1, keepdims=True)
    scaled = (1 if weight is None else np.abs(offset + weight.astype(np.float64))) / np.sqrt(mean + eps)
    # Roundings of a value: its exponentials and sums, relative to the sum of magnitudes; then those of the norm.
    magnitudes = (np.abs(parts).sum(axis=2) / total[..., None]).reshape(rows, -1)
    error = (4 * splits + 16) * EPSILON * magnitudes
    relative = np.sqrt((error**2).mean(axis=1, keepdims=True) / mean) + (merged.shape[1] / 32 + 8) * EPSILON
    signed = 1 if weight is None else np.sign(offset + weight)
    expected = merged * scaled * signed
    assert (np.abs(out - expected) <= error * scaled + relative * np.abs(expected)).all()


# Heads of a part of a tile, ranks that are no multiples of 8, positions selected in any order.
LATENT = [case for case in cpu.LATENT_CASES if case.latent]
LATENT += [cpu.Case(20, 1, 16, ((190, 9),), v_head_dim=24, latent=True, top=100)]


def run_absorbed(runner: MetalRunner, problem: cpu.Problem, splits: int) -> np.ndarray:
    """In one kernel or, with splits, in two."""
    rows, v_head_dim, suffix = len(problem.q), problem.params["v_head_dim"], f"_{problem.pool.kv_dtype}"
    operands = {
        "q": np.ascontiguousarray(problem.q[..., :v_head_dim]),
        "q_rotated": np.ascontiguousarray(problem.q[..., v_head_dim:]),
        "selected": problem.selected,
        "cache": problem.pool.data,
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
    params = {"heads": problem.case.heads, "v_head_dim": v_head_dim, "splits": splits, **NO_NORM}
    return np.asarray(runner.run("attention_merge", {"partials": partials}, params, rows, shape))


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@pytest.mark.parametrize("splits", [0, 1, 3])
@pytest.mark.parametrize("case", LATENT, ids=str)
def test_absorbed_attention(runner: MetalRunner, case: cpu.Case, splits: int, kv_dtype: str) -> None:
    problem = cpu.Problem.make(case, kv_dtype)
    expected, bound = problem.reference()
    assert (np.abs(run_absorbed(runner, problem, splits) - expected) <= bound).all()
