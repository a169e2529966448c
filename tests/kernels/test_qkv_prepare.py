"""qkv_prepare must equal clamp, rms_norm, rope and kv_append in sequence, which have tests of their own, to the bit."""

from dataclasses import dataclass

import numpy as np
import pytest
from cache_pools import KV_DTYPES, Pool
from kernel_testing import Runner

EPS = 1e-6


@dataclass(frozen=True)
class Case:
    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    slots: tuple[int, ...]
    norms: str = ""  # of "qkv"
    n_pairs: int = 0
    pairing: int = 0
    weights: bool = True
    limit: float = 0.0
    norm_last: bool = False

    def __str__(self) -> str:
        rope = f"-rope{self.n_pairs}{'ha'[self.pairing]}" if self.n_pairs else ""
        norms = (
            f"-norm{'last' * self.norm_last}-{self.norms}{'' if self.weights else '-unweighted'}" if self.norms else ""
        )
        limit = f"-limit{self.limit:g}" if self.limit else ""
        return (
            f"{self.heads}/{self.kv_heads}x{self.head_dim}x{self.v_head_dim}-{len(self.slots)}rows{norms}{rope}{limit}"
        )


CASES = [
    Case(4, 1, 256, 256, (64,), "qk", 128),
    Case(9, 3, 64, 64, (62, 63, 64, 3), "", 32, 1),
    Case(2, 2, 40, 24, (5, -1, 127), "qkv", 10),
    Case(2, 1, 16, 16, (1, 2), "qk", 8, weights=False),
    Case(2, 1, 24, 8, (1, 2), "k"),
    Case(2, 1, 8, 8, (9,)),
    Case(2, 1, 24, 40, (1, -1, 70), limit=0.5),
    Case(4, 2, 40, 24, (5, 6), "qkv", 10, limit=0.7),
    Case(3, 1, 40, 24, (5, -1, 6), "qkv", 11, norm_last=True),
    Case(3, 0, 40, 0, (0, 0), "q", 10),
]


@pytest.mark.parametrize("kv_dtype", [*KV_DTYPES, "bf16"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_qkv_prepare(runner: Runner, case: Case, kv_dtype: str) -> None:
    rng = np.random.default_rng(case.head_dim)
    rows = len(case.slots)

    def values(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    q = values(rows, case.heads, case.head_dim)
    k = values(rows, case.kv_heads, case.head_dim)
    v = values(rows, case.kv_heads, case.v_head_dim)
    q_weight, k_weight = (values(case.head_dim) if case.weights else None for _ in "qk")
    table = values(rows, 2 * case.n_pairs) if case.n_pairs else None
    slots = np.array(case.slots, np.int32)
    pool = Pool.make(kv_dtype, 2, case.kv_heads, case.head_dim, case.v_head_dim)
    norm_params = {"eps": EPS, "weight_offset": 1.0}
    rope_params = {"head_dim": case.head_dim, "n_pairs": case.n_pairs, "pairing": case.pairing}
    cache_params = {"kv_heads": case.kv_heads, "head_dim": case.head_dim, "v_head_dim": case.v_head_dim}

    appended = {"k": k, "v": v, "slots": slots, "cache": pool.data} if case.kv_heads else {}
    out = runner.run(
        f"qkv_prepare_{kv_dtype}",
        {
            "q": q,
            **appended,
            "q_weight": q_weight if "q" in case.norms else None,
            "k_weight": k_weight if "k" in case.norms else None,
            "table": table,
        },
        {
            **{f"has_{name}_norm": name in case.norms for name in "qkv"},
            **norm_params,
            **rope_params,
            **cache_params,
            "heads": case.heads,
            "limit": case.limit,
            "norm_last": case.norm_last,
            "whole_rows": 0,
        },
        rows,
        {},
    )

    def limited(x: np.ndarray) -> np.ndarray:
        if case.limit == 0:
            return x
        params = {"width": x[0].size, "limit": case.limit}
        return np.asarray(runner.run("clamp", {"x": x}, params, rows, x.shape))

    def norm(x: np.ndarray, name: str, weight: np.ndarray | None) -> np.ndarray:
        if name not in case.norms:
            return x
        params = {"width": x.shape[2], "groups": x.shape[1], "planes": 0, **norm_params}
        return np.asarray(runner.run("rms_norm", {"x": x, "weight": weight}, params, rows, x.shape))

    def rope(x: np.ndarray) -> np.ndarray:
        if table is None:
            return x
        params = {"heads": x.shape[1], **rope_params}
        return np.asarray(runner.run("rope", {"x": x, "table": table}, params, rows, x.shape))

    def norm_and_rope(x: np.ndarray, name: str, weight: np.ndarray | None) -> np.ndarray:
        return norm(rope(x), name, weight) if case.norm_last else rope(norm(x, name, weight))

    expected_q = norm_and_rope(limited(q), "q", q_weight)
    if not case.kv_heads:
        np.testing.assert_array_equal(out, expected_q)
        return
    np.testing.assert_array_equal(out["q"], expected_q)
    expected_k, expected_v = norm_and_rope(limited(k), "k", k_weight), norm(limited(v), "v", None)
    operands = {"k": expected_k, "v": expected_v, "slots": slots, "cache": pool.data}
    expected_cache = runner.run(f"kv_append_{kv_dtype}", operands, cache_params, rows, {})
    np.testing.assert_array_equal(out["cache"], expected_cache)
