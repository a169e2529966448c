"""kv_append against NumPy's rounding."""

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_testing import Runner

BLOCK = 64


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
]


def append(pool: np.ndarray, k: np.ndarray, v: np.ndarray, slots: tuple[int, ...]) -> None:
    """Writes k [rows, kv_heads, head_dim] and v [rows, kv_heads, v_head_dim] into pool [blocks, kv_heads, values]."""
    head_dim = k.shape[2]
    for row, slot in enumerate(slots):
        if slot < 0:
            continue
        for head in range(k.shape[1]):
            block = pool[slot // BLOCK, head]
            block[: head_dim * BLOCK].reshape(head_dim, BLOCK)[:, slot % BLOCK] = k[row, head]
            block[head_dim * BLOCK :].reshape(BLOCK, v.shape[2])[slot % BLOCK] = v[row, head]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_kv_append(runner: Runner, case: Case, dtype: type) -> None:
    rng = np.random.default_rng(case.head_dim)
    rows = len(case.slots)
    k = rng.standard_normal((rows, case.kv_heads, case.head_dim)).astype(np.float32)
    v = rng.standard_normal((rows, case.kv_heads, case.v_head_dim)).astype(np.float32)
    k[0, 0, :4] = [70000.0, -1e-7, 65519.0, 1e-9]  # beyond float16, subnormal, its largest rounding, zero
    pool = np.full((3, case.kv_heads, BLOCK * (case.head_dim + case.v_head_dim)), np.nan, dtype)
    params = {"kv_heads": case.kv_heads, "head_dim": case.head_dim, "v_head_dim": case.v_head_dim}
    operands = {"k": k, "v": v if case.v_head_dim else None, "slots": np.array(case.slots, np.int32), "cache": pool}
    out = runner.run(f"kv_append_f{8 * np.dtype(dtype).itemsize}", operands, params, rows, {})

    with np.errstate(over="ignore"):
        append(pool, k.astype(dtype), v.astype(dtype), case.slots)
    np.testing.assert_array_equal(out, pool)
