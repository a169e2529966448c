"""kv_append against the rounding of NumPy and of gguf, to the bit."""

from dataclasses import dataclass

import numpy as np
import pytest
from cache_pools import BLOCK, GROUP, KV_DTYPES, Pool
from kernel_testing import Runner


@dataclass(frozen=True)
class Case:
    kv_heads: int
    head_dim: int
    v_head_dim: int
    slots: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.kv_heads}x{self.head_dim}x{self.v_head_dim}-{len(self.slots)}rows"


CASES = [
    Case(1, 256, 256, (0,)),
    Case(3, 64, 64, (70, 71, 127, 128, 3)),
    Case(2, 8, 8, (63, -1, 64)),
    Case(2, 40, 24, (5, 190, 66)),
    Case(1, 576, 512, (1, 65)),
    Case(1, 32, 0, (1, 65)),
    Case(2, 9, 5, (2, 3, 64)),
]


@pytest.mark.parametrize(
    "kv_dtype", [*KV_DTYPES, pytest.param("bf16", marks=pytest.mark.needs_kernel("kv_append_bf16"))]
)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_kv_append(runner: Runner, case: Case, kv_dtype: str) -> None:
    rng = np.random.default_rng(case.head_dim)
    rows = len(case.slots)
    k = rng.standard_normal((rows, case.kv_heads, case.head_dim)).astype(np.float32)
    v = rng.standard_normal((rows, case.kv_heads, case.v_head_dim)).astype(np.float32)
    k[0, 0, :4] = [70000.0, -1e-7, 65519.0, 1e-9]  # beyond float16, subnormal, its largest rounding, zero
    k[0, -1, :8] = [127, 0.5, -0.5, 1.5, -2.5, 0.49999997, 126.5, -126.5]  # codes in the middle of two
    if case.v_head_dim:
        v[0, -1, :GROUP] = 0
    pool = Pool.make(kv_dtype, 3, case.kv_heads, case.head_dim, case.v_head_dim)
    out = append(runner, pool, k, v, case.slots)
    for row, slot in enumerate(case.slots):
        if slot >= 0:
            pool.store(slot, k[row], v[row])
    np.testing.assert_array_equal(out, pool.data)


def append(runner: Runner, pool: Pool, k: np.ndarray, v: np.ndarray, slots: tuple[int, ...]) -> np.ndarray:
    """The pool's data after kv_append of k [rows, kv_heads, head_dim] and v [rows, kv_heads, v_head_dim]."""
    params = {"kv_heads": k.shape[1], "head_dim": pool.head_dim, "v_head_dim": pool.v_head_dim}
    operands = {"k": k, "v": v if v.size else None, "slots": np.array(slots, np.int32), "cache": pool.data}
    return np.asarray(runner.run(f"kv_append_{pool.kv_dtype}", operands, params, len(slots), {}))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_not_finite_makes_its_scale_so(runner: Runner, wrong: float) -> None:
    k = np.ones((1, 1, 96), np.float32)
    k[0, 0, 40] = wrong
    pool = Pool.make("q8_0", 1, 1, 96, 0)
    out = append(runner, pool, k, k[..., :0], (5,))
    scales = out[0, 0, BLOCK * 96 :].view(np.float16).reshape(3, BLOCK)[:, 5]
    assert list(np.isfinite(scales)) == [True, False, True]
