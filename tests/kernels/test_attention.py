"""attention against NumPy float64, over paged caches whose unseen positions are NaN."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from cache_pools import BLOCK, DTYPES, KV_DTYPES, Pool, rounded
from kernel_testing import EPSILON, Runner
from quantized_rows import round_to_bf16


@dataclass(frozen=True)
class Case:
    heads: int
    kv_heads: int
    head_dim: int
    spans: tuple[tuple[int, int], ...]  # (position_begin, n_rows) of each sequence
    v_head_dim: int = 0  # 0: as head_dim
    window: int = 0
    chunk: int = 0
    latent: bool = False  # a key is its value, then the cached key
    top: int = 0  # positions selected for each row
    softcap: float = 0.0
    sinks: float = 0.0  # their magnitude
    slopes: bool = False
    magnitude: float = 1.0  # of q

    def __str__(self) -> str:
        extras = ["slopes"] if self.slopes else []
        extras += [
            f"{name}{getattr(self, name):g}"
            for name in ("v_head_dim", "window", "chunk", "latent", "top", "softcap", "sinks")
            if getattr(self, name)
        ]
        spans = "+".join(f"{n_rows}@{begin}" for begin, n_rows in self.spans)
        return "-".join([f"{self.heads}/{self.kv_heads}x{self.head_dim}", spans, *extras])


FLOATS = [*DTYPES, pytest.param("bf16", marks=pytest.mark.needs_kernel("attention_bf16"))]
UNIT = 2.0**-9  # the relative error of rounding to bfloat16

CASES = [
    # One row, from the first position to several blocks; grouped-query ratios 1, 3, 4, 8.
    Case(1, 1, 16, ((0, 1),)),
    Case(3, 3, 32, ((63, 1),)),
    Case(9, 3, 64, ((64, 1),)),
    Case(4, 1, 256, ((300, 1),)),
    Case(8, 1, 128, ((129, 1),)),
    # Many rows: whole prompts, chunks that begin inside a block, tiles that end early.
    Case(2, 2, 16, ((0, 40),)),
    Case(9, 3, 64, ((0, 131),)),
    Case(4, 1, 256, ((70, 33),)),
    Case(8, 1, 64, ((5, 70),)),
    Case(6, 2, 40, ((190, 21),)),
    # Several sequences, decoding beside prefill.
    Case(4, 2, 32, ((100, 1), (0, 1), (10, 7), (63, 2), (200, 1))),
    Case(3, 1, 16, ((0, 50), (127, 1), (64, 64))),
    # Windows: shorter than a block, whole blocks, longer than the context.
    Case(4, 1, 64, ((300, 1), (0, 90)), window=16),
    Case(2, 1, 32, ((0, 150),), window=64),
    Case(2, 1, 32, ((500, 40),), window=130),
    Case(2, 2, 32, ((40, 8),), window=1),
    Case(2, 2, 32, ((40, 8),), window=512),
    # Chunks: within a block, whole blocks, across borders of blocks, longer than the context.
    Case(2, 1, 32, ((300, 1), (0, 90), (47, 2)), chunk=16),
    Case(2, 2, 32, ((0, 150),), chunk=64),
    Case(4, 1, 32, ((190, 40), (299, 1), (300, 1)), chunk=100),
    Case(2, 2, 32, ((40, 8),), chunk=512),
    # Widths.
    Case(2, 1, 576, ((70, 3),), v_head_dim=512),
    Case(2, 1, 24, ((70, 40),), v_head_dim=8),
    Case(2, 1, 72, ((70, 1),), v_head_dim=40),
    Case(4, 2, 100, ((62, 9), (3, 1)), v_head_dim=12),
    Case(2, 1, 7, ((60, 20),), v_head_dim=5, window=30),
    # What changes the scores.
    Case(4, 2, 32, ((30, 50),), softcap=2.0),
    Case(4, 2, 32, ((30, 50), (100, 1)), sinks=1.0),
    Case(4, 2, 32, ((30, 50), (100, 1)), sinks=100.0),
    Case(4, 2, 32, ((30, 50), (100, 1)), slopes=True),
    Case(4, 2, 64, ((30, 90),), softcap=5.0, sinks=1.0, slopes=True, window=32),
    Case(2, 1, 64, ((0, 100),), magnitude=20.0),  # weights that underflow
    Case(33, 1, 16, ((20, 3),)),  # more heads than a tile holds
]


LATENT_CASES = [
    Case(16, 1, 64, ((70, 3), (0, 1)), v_head_dim=512, latent=True),
    Case(4, 1, 8, ((0, 90), (130, 1)), v_head_dim=16, latent=True),
    Case(3, 1, 4, ((66, 5),), v_head_dim=20, latent=True),
    Case(4, 1, 8, ((0, 90), (300, 1)), v_head_dim=16, latent=True, top=7),
    Case(2, 2, 32, ((130, 40),), top=50),
]


def first_visible(case: Case, position: int) -> int:
    """The first position that a query at `position` sees."""
    if case.chunk:
        return position // case.chunk * case.chunk
    return max(0, position + 1 - case.window) if case.window else 0


def select(case: Case, position: int, rng: np.random.Generator) -> np.ndarray:
    """[top] positions that a query at `position` may see, in any order, with -1 where there are fewer."""
    chosen = rng.permutation(position + 1)[: case.top].astype(np.float32)
    return rng.permutation(np.append(chosen, np.full(case.top - len(chosen), -1, np.float32)))


@dataclass(frozen=True)
class Problem:
    """Random operands of a case; `keys` and `values` hold each sequence's [context, kv_heads, dim] as cached."""

    case: Case
    q: np.ndarray  # [rows, heads, head_dim or, of a latent case, v_head_dim + head_dim]
    selected: np.ndarray | None  # [rows, top]
    keys: list[np.ndarray]
    values: list[np.ndarray]
    sinks: np.ndarray | None
    slopes: np.ndarray | None
    pool: Pool
    spans: np.ndarray
    block_table: np.ndarray
    params: dict[str, Any]

    @classmethod
    def make(cls, case: Case, kv_dtype: str) -> Problem:
        rng = np.random.default_rng(case.head_dim + len(case.spans))
        v_head_dim = case.v_head_dim or case.head_dim
        contexts = [begin + n_rows for begin, n_rows in case.spans]
        rows = sum(n_rows for _, n_rows in case.spans)
        keys = [rng.standard_normal((n, case.kv_heads, case.head_dim)).astype(np.float32) for n in contexts]
        values = [rng.standard_normal((n, case.kv_heads, v_head_dim)).astype(np.float32) for n in contexts]

        # Blocks in random order; what no row sees stays NaN, and blocks that no row sees have no place in the cache.
        n_blocks = [-(-n // BLOCK) for n in contexts]
        order = rng.permutation(sum(n_blocks) + 2)
        pool = Pool.make(kv_dtype, len(order), case.kv_heads, case.head_dim, v_head_dim)
        spans, block_table = [], []
        row = 0
        for sequence, (begin, n_rows) in enumerate(case.spans):
            spans.append((row, n_rows, begin, len(block_table)))
            row += n_rows
            first_seen = first_visible(case, begin)
            for block in range(n_blocks[sequence]):
                seen = slice(max(first_seen, block * BLOCK), min(contexts[sequence], (block + 1) * BLOCK))
                if seen.start >= seen.stop:
                    block_table.append(-1)
                    continue
                for position in range(seen.start, seen.stop):
                    slot = order[len(block_table)] * BLOCK + position % BLOCK
                    pool.store(slot, keys[sequence][position], values[sequence][position])
                block_table.append(order[len(block_table)])
        key_dim = case.head_dim + v_head_dim * case.latent
        q = (case.magnitude * rng.standard_normal((rows, case.heads, key_dim))).astype(np.float32)
        positions = [begin + i for begin, n_rows in case.spans for i in range(n_rows)]
        return cls(
            case,
            q,
            np.stack([select(case, i, rng) for i in positions]) if case.top else None,
            [rounded(k, kv_dtype) for k in keys],
            [rounded(v, kv_dtype) for v in values],
            (case.sinks * rng.standard_normal(case.heads)).astype(np.float32) if case.sinks else None,
            (2.0 ** -rng.uniform(1, 8, case.heads)).astype(np.float32) if case.slopes else None,
            pool,
            np.array(spans, np.uint32),
            np.array(block_table, np.int32),
            {
                "heads": case.heads,
                "kv_heads": case.kv_heads,
                "head_dim": case.head_dim,
                "v_head_dim": v_head_dim,
                "window": case.window,
                "chunk": case.chunk,
                "latent": case.latent,
                "top": case.top,
                "scale": float(np.float32(key_dim**-0.5)),
                "softcap": case.softcap,
            },
        )

    def run(self, runner: Runner) -> np.ndarray:
        latents = self.params["v_head_dim"] if self.case.latent else self.q.shape[-1]
        operands = {
            "q": np.ascontiguousarray(self.q[..., :latents]),
            "q_rotated": np.ascontiguousarray(self.q[..., latents:]) if self.case.latent else None,
            "selected": self.selected,
            "cache": self.pool.data,
            "spans": self.spans,
            "block_table": self.block_table,
            "sinks": self.sinks,
            "slopes": self.slopes,
        }
        rows = len(self.q)
        kernel = f"attention_{self.pool.kv_dtype}"
        shape = (rows, self.case.heads, self.params["v_head_dim"])
        dims = (rows, rows, len(self.spans))
        return np.asarray(runner.run(kernel, operands, self.params, rows, shape, dims=dims))

    def row(self, row: int) -> Problem:
        """The problem of one row alone, which must give the same result as the row among others."""
        (span,) = (s for s in self.spans if s[0] <= row < s[0] + s[1])
        alone = np.array([[0, 1, span[2] + row - span[0], span[3]]], np.uint32)
        selected = None if self.selected is None else self.selected[row : row + 1]
        return replace(self, q=self.q[row : row + 1], selected=selected, spans=alone)

    def reference(self) -> tuple[np.ndarray, np.ndarray]:
        """The result in float64 and a bound of the error of its computation in float32."""
        case = self.case
        out = np.empty((len(self.q), case.heads, self.params["v_head_dim"]))
        bound = np.empty_like(out)
        for (row_begin, n_rows, begin, _), keys, values in zip(self.spans, self.keys, self.values, strict=True):
            for r in range(n_rows):
                i = int(begin) + r
                positions = np.arange(first_visible(case, i), i + 1)
                if self.selected is not None:
                    positions = np.intersect1d(positions, self.selected[row_begin + r].astype(int))
                for h in range(case.heads):
                    kv_head = h // (case.heads // case.kv_heads)
                    k = keys[positions, kv_head].astype(np.float64)
                    v = values[positions, kv_head].astype(np.float64)
                    if case.latent:
                        k = np.concatenate([v, k], axis=1)
                    q = self.q[row_begin + r, h].astype(np.float64)
                    out[row_begin + r, h], bound[row_begin + r, h] = self._one(q, k, v, h, positions - i)
        return out, bound

    def _one(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, head: int, distance: np.ndarray) -> Any:
        case, rounds = self.case, self.pool.kv_dtype == "bf16"
        q = self.params["scale"] * q
        if rounds:
            q = round_to_bf16(q.astype(np.float32)).astype(np.float64)
        scores = k @ q
        # Of a score: as many products and sums as q has values, one rounding of scale * q.
        score_error = 1.01 * (len(q) + 1) * EPSILON * (np.abs(k) @ np.abs(q))
        if case.softcap:
            scores = case.softcap * np.tanh(scores / case.softcap)
            score_error += 8 * EPSILON * np.abs(scores)
        if self.slopes is not None:
            scores = scores + np.float64(self.slopes[head]) * distance
            score_error += EPSILON * np.abs(scores)
        all_scores = scores if self.sinks is None else np.append(scores, np.float64(self.sinks[head]))
        maximum = all_scores.max()
        weights = np.exp(scores - maximum) / np.exp(all_scores - maximum).sum()
        # Of a weight: its own and the maximum's score, the rounding of their difference, the exponential; of all
        # weights through the denominator; per block a rescaling of both sums; the sums over positions.
        n = len(scores)
        n_blocks = n / BLOCK + 2
        relative = 2 * score_error.max() + EPSILON * (2 * np.abs(scores - maximum).max() + 2 * n + 16 * n_blocks)
        if rounds:  # weights, which are divided by the sum of the rounded ones
            relative += 2 * UNIT
        magnitudes = weights @ np.abs(v)
        # Weights below the smallest normal number lose their relative precision.
        return weights @ v, np.expm1(relative) * magnitudes + n * 2.0**-126 * np.abs(v).max()


@pytest.mark.parametrize("kv_dtype", [*FLOATS, "q8_0"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention(runner: Runner, case: Case, kv_dtype: str) -> None:
    problem = Problem.make(case, kv_dtype)
    expected, bound = problem.reference()
    assert (np.abs(problem.run(runner) - expected) <= bound).all()


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@pytest.mark.parametrize("case", LATENT_CASES, ids=str)
def test_latents_and_selected_positions(runner: Runner, case: Case, kv_dtype: str) -> None:
    test_attention(runner, case, kv_dtype)


@pytest.mark.parametrize("kv_dtype", [*FLOATS, "q8_0"])
@pytest.mark.parametrize("case", [c for c in CASES if sum(n for _, n in c.spans) > 1], ids=str)
def test_a_row_alone_gives_the_same_bits(runner: Runner, case: Case, kv_dtype: str) -> None:
    problem = Problem.make(case, kv_dtype)
    batch = problem.run(runner)
    rows = {
        int(row) for begin, n_rows, _, _ in problem.spans for row in (begin, begin + n_rows // 2, begin + n_rows - 1)
    }
    for row in rows:
        np.testing.assert_array_equal(problem.row(row).run(runner)[0], batch[row])


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@pytest.mark.parametrize("case", LATENT_CASES, ids=str)
def test_a_row_of_latents_alone_gives_the_same_bits(runner: Runner, case: Case, kv_dtype: str) -> None:
    test_a_row_alone_gives_the_same_bits(runner, case, kv_dtype)


@pytest.mark.parametrize("kv_dtype", FLOATS)
def test_infinite_values_stay_with_the_rows_that_see_them(runner: Runner, kv_dtype: str) -> None:
    problem = Problem.make(Case(2, 1, 16, ((0, 80),)), kv_dtype)
    before = problem.run(runner)
    infinite = np.full((1, 16), np.inf, np.float32)
    problem.pool.store(problem.block_table[0] * BLOCK + 37, problem.keys[0][37], infinite)
    after = problem.run(runner)
    np.testing.assert_array_equal(after[:37], before[:37])
    assert np.isinf(after[37:]).all()
