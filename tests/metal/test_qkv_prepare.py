"""qkv_prepare against NumPy float64."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import test_qkv_prepare as cpu
from cache_pools import DTYPES, KV_DTYPES, Pool
from kernel_testing import EPSILON
from numpy.typing import NDArray
from test_rope import reference as rotate

from metal.metal_runner import MetalRunner

PAIRINGS = ["half", "adjacent"]


@dataclass(frozen=True)
class Case(cpu.Case):
    whole_rows: bool = False

    def __str__(self) -> str:
        return super().__str__() + "-whole" * self.whole_rows


CASES = [
    Case(4, 1, 256, 256, (64,), "qk", 128),
    Case(9, 3, 64, 64, (62, 63, 64, 3), "", 32, 1),
    Case(2, 2, 40, 24, (5, -1, 127), "qkv", 10),
    Case(2, 1, 16, 16, (1, 2), "qk", 8, 1, weights=False),
    Case(2, 1, 24, 8, (1, 2), "k"),
    Case(2, 1, 8, 8, (9,)),
    Case(3, 1, 100, 70, (9, 8), "v", 7),
    Case(2, 1, 24, 40, (1, -1, 70), limit=0.5),
    Case(4, 2, 40, 24, (5, 6), "qkv", 10, limit=0.7),
    Case(3, 1, 40, 24, (5, -1, 6), "qk", 11, norm_last=True),
    Case(2, 2, 16, 16, (5, 6), "qkv", 8, 1, weights=False, limit=0.7, norm_last=True),
    Case(5, 2, 40, 24, (5, -1, 6), "qkv", 11, whole_rows=True),
    Case(3, 1, 24, 24, (1, 2), "q", limit=0.7, whole_rows=True),
    Case(3, 0, 40, 0, (0, 0), "q", 11),
    Case(2, 0, 16, 0, (0,), "q", 8, limit=0.5, norm_last=True),
]


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_qkv_prepare(runner: MetalRunner, case: Case, kv_dtype: str) -> None:
    rng = np.random.default_rng(case.head_dim)
    rows, offset = len(case.slots), 1.0

    def values(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    x = {
        "q": values(rows, case.heads, case.head_dim),
        "k": values(rows, case.kv_heads, case.head_dim),
        "v": values(rows, case.kv_heads, case.v_head_dim),
    }
    heads = {"q": case.heads, "k": case.kv_heads} if case.whole_rows else {"q": 1, "k": 1}
    weights = {name: values(heads[name], case.head_dim) for name in "qk" if name in case.norms and case.weights}
    angles = rng.uniform(-10, 10, (rows, case.n_pairs))
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32) if case.n_pairs else None
    pool = Pool.make(kv_dtype, 3, case.kv_heads, case.head_dim, case.v_head_dim)
    is_alone = case.kv_heads == 0
    operands: dict[str, Any] = {
        **({"q": x["q"]} if is_alone else x),
        **{f"{name}_weight": weight for name, weight in weights.items()},
        "table": table,
        **({} if is_alone else {"slots": np.array(case.slots, np.int32), "cache": pool.data}),
    }
    params = {
        "heads": case.heads,
        "kv_heads": case.kv_heads,
        "head_dim": case.head_dim,
        "v_head_dim": case.v_head_dim,
        "n_pairs": case.n_pairs,
        "pairing": case.pairing,
        **{f"has_{name}_norm": name in case.norms for name in "qkv"},
        "eps": cpu.EPS,
        "weight_offset": offset,
        "limit": case.limit,
        "norm_last": case.norm_last,
        "whole_rows": case.whole_rows,
    }
    written = {"out": (x["q"].shape, np.float32)} if case.whole_rows else {}
    found = runner.run(f"qkv_prepare_{kv_dtype}", operands, params, rows, written)
    out = found if isinstance(found, dict) else {"q": found}
    if case.whole_rows:
        out = {**out, "q": out["out"]}

    def normalised(result: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        if name not in case.norms:
            return result
        axes = (1, 2) if case.whole_rows and name != "v" else (2,)
        result = result / np.sqrt((result**2).mean(axes, keepdims=True) + cpu.EPS)
        return result * (offset + weights[name].astype(np.float64) if name in weights else 1.0)

    def prepared(name: str) -> NDArray[np.float64]:
        result = x[name].astype(np.float64)
        if case.limit:
            result = result.clip(-case.limit, case.limit)
        if table is None or name == "v":
            return normalised(result, name)
        angles = table.astype(np.float64)
        if case.norm_last:
            return normalised(rotate(result, angles, PAIRINGS[case.pairing]), name)
        return rotate(normalised(result, name), angles, PAIRINGS[case.pairing])

    # A norm of squares summed in 32 lanes, its root, products; a rotation; the rounding to the cache's type.
    width = case.head_dim * (case.heads if case.whole_rows else 1)
    tolerance = (width / 32 + 12) * EPSILON
    np.testing.assert_allclose(out["q"], prepared("q"), rtol=0, atol=8 * tolerance)
    if is_alone:
        return
    if kv_dtype == "q8_0":  # the rounding of what is stored as f32
        exact = Pool.make("f32", 3, case.kv_heads, case.head_dim, case.v_head_dim)
        stored = runner.run("qkv_prepare_f32", {**operands, "cache": exact.data}, params, rows, written)["cache"]
    else:
        exact, stored = pool, out["cache"]
        tolerance += np.finfo(DTYPES[kv_dtype]).eps
    for row, slot in enumerate(case.slots):
        if slot >= 0:
            k, v = replace(exact, data=stored).load(slot)
            np.testing.assert_allclose(k, prepared("k")[row], rtol=tolerance, atol=8 * tolerance)
            np.testing.assert_allclose(v, prepared("v")[row], rtol=tolerance, atol=8 * tolerance)
            pool.store(slot, k, v)
    np.testing.assert_array_equal(out["cache"], pool.data)
