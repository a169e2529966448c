"""latent_attention against NumPy float64, over paged caches whose unseen positions are NaN."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from cache_pools import BLOCK, KV_DTYPES
from kernel_testing import EPSILON, Runner, dot_bound
from numpy.typing import NDArray
from test_attention import Case as CacheCase
from test_attention import Problem
from weights import make_matrix

from ferrule.formats import FORMATS


@dataclass(frozen=True)
class Case:
    heads: int
    plain: int
    rotated: int
    rank: int
    v_dim: int
    spans: tuple[tuple[int, int], ...]  # (position_begin, n_rows) of each sequence
    k_format: str = "F32"
    v_format: str = "F32"

    def __str__(self) -> str:
        spans = "+".join(f"{n_rows}@{begin}" for begin, n_rows in self.spans)
        formats = f"{self.k_format}-{self.v_format}"
        return f"{self.heads}x({self.plain}+{self.rotated})-{self.rank}-{self.v_dim}-{spans}-{formats}"


CASES = [
    Case(1, 16, 8, 32, 16, ((0, 1),)),
    Case(2, 16, 8, 32, 16, ((0, 40), (70, 1), (63, 2))),
    Case(2, 24, 16, 40, 20, ((60, 150),), "BF16", "F16"),  # more than one tile, widths that are no multiple of 16
    Case(3, 5, 4, 18, 7, ((130, 9),)),
    Case(1, 128, 64, 512, 128, ((190, 70),), "Q4_0", "Q8_0"),
    *(Case(1, 256, 8, 256, 3, ((60, 9),), name, name) for name in FORMATS),
]


@dataclass(frozen=True)
class Matrices:
    """One matrix for each head; `values`: float64 [heads, n, k]."""

    data: list[NDArray[Any] | None]
    values: NDArray[np.float64]

    @classmethod
    def make(cls, name: str, heads: int, n: int, k: int, rng: np.random.Generator) -> Matrices:
        parts = [make_matrix(name, n, k, rng) for _ in range(heads)]
        return cls([part.data for part in parts], np.stack([part.values for part in parts]))


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_latent_attention(runner: Runner, case: Case, kv_dtype: str) -> None:
    rng = np.random.default_rng(case.rank + len(case.spans))
    cached = Problem.make(CacheCase(1, 1, case.rotated, case.spans, v_head_dim=case.rank), kv_dtype)
    rows = sum(n_rows for _, n_rows in case.spans)
    q, q_rotated = (
        rng.standard_normal((rows, case.heads, n), np.float32).astype(np.float32) for n in (case.plain, case.rotated)
    )
    k_up = Matrices.make(case.k_format, case.heads, case.rank, case.plain, rng)
    v_up = Matrices.make(case.v_format, case.heads, case.v_dim, case.rank, rng)
    spread = np.sqrt(case.plain * case.rank) * np.sqrt(np.mean(k_up.values**2))
    scale = float(np.float32(2 / (spread + np.sqrt(case.rotated))))
    params = {
        "heads": case.heads,
        "plain": case.plain,
        "rotated": case.rotated,
        "rank": case.rank,
        "v_dim": case.v_dim,
        "k_format": FORMATS[case.k_format].ggml_type,
        "v_format": FORMATS[case.v_format].ggml_type,
        "scale": scale,
    }
    operands = {
        "q": q,
        "q_rotated": q_rotated,
        "cache": cached.pool.data,
        "spans": cached.spans,
        "block_table": cached.block_table,
        "k_up": k_up.data,
        "v_up": v_up.data,
    }
    kernel = f"latent_attention_{kv_dtype}"
    shape = (rows, case.heads, case.v_dim)
    dims, misalign = (rows, rows, len(case.spans)), {"k_up": 2, "v_up": 2}
    out = runner.run(kernel, operands, params, rows, shape, dims=dims, misalign=misalign)

    ends = list(accumulate(n_rows for _, n_rows in case.spans))
    for (begin, n_rows), end, latents, rotated in zip(case.spans, ends, cached.values, cached.keys, strict=True):
        c, r = latents[:, 0].astype(np.float64), rotated[:, 0].astype(np.float64)
        for h in range(case.heads):
            part = slice(end - n_rows, end)
            expected, bound = attend(
                q[part, h].astype(np.float64),
                q_rotated[part, h].astype(np.float64),
                c,
                r,
                k_up.values[h],
                v_up.values[h],
                scale,
                begin,
            )
            assert (np.abs(out[part, h] - expected) <= bound).all()


def attend(
    q: NDArray[np.float64],
    q_rotated: NDArray[np.float64],
    latents: NDArray[np.float64],
    rotated: NDArray[np.float64],
    k_up: NDArray[np.float64],
    v_up: NDArray[np.float64],
    scale: float,
    begin: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """One head's result [rows, v_dim] and its largest error."""
    keys = np.concatenate([latents @ k_up, rotated], axis=1)
    values = latents @ v_up.T
    rank, magnitudes = len(k_up), np.abs(latents)
    key_error = np.concatenate([dot_bound(rank, magnitudes @ np.abs(k_up)), np.zeros_like(rotated)], axis=1)
    value_error = dot_bound(rank, magnitudes @ np.abs(v_up).T)
    queries = np.concatenate([q, q_rotated], axis=1)
    visible = np.arange(len(keys)) <= begin + np.arange(len(q))[:, None]
    scores = scale * queries @ keys.T
    # Of a score: its keys' errors, as many products and sums as q has values, one rounding of scale * q.
    sizes = np.abs(keys) + key_error
    score_error = scale * (np.abs(queries) @ key_error.T) + dot_bound(
        queries.shape[1] + 1, scale * np.abs(queries) @ sizes.T
    )
    scores = np.where(visible, scores, -np.inf)
    below = scores - scores.max(axis=1, keepdims=True)
    weights = np.exp(below)
    weights /= weights.sum(axis=1, keepdims=True)
    # As in attention: of a weight, its own score's error and the maximum's, and through the denominator that of all.
    # Far below the maximum a weight is nothing, whatever its error.
    near = below > -100
    n, n_blocks = len(keys), len(keys) / BLOCK + 2
    relative = 2 * np.where(visible & near, score_error, 0).max(axis=1) + EPSILON * (200 + 2 * n + 16 * n_blocks)
    sizes = np.abs(values) + value_error
    error = np.expm1(2 * relative)[:, None] * (weights @ sizes) + weights @ value_error
    return weights @ values, error + n * 2.0**-126 * sizes.max()
