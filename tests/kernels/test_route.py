"""route against NumPy float64."""

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_testing import EPSILON, Runner

SCORINGS = {"softmax": 0, "sigmoid": 1, "sparsemixer": 2}


@dataclass(frozen=True)
class Case:
    experts: int
    k: int
    scoring: str = "softmax"
    rows: int = 5
    normalize: bool = False
    norm_eps: float = 0.0
    scale: float = 1.0
    groups: int = 1
    top_groups: int = 1
    group_score: int = 0
    bias: bool = False
    expert_scale: bool = False

    def __str__(self) -> str:
        flags = [name for name in ("normalize", "bias", "expert_scale") if getattr(self, name)]
        return "-".join([f"{self.k}of{self.experts}", self.scoring, f"{self.top_groups}of{self.groups}", *flags])


CASES = [
    Case(8, 2),
    Case(8, 8),
    Case(1, 1),
    Case(60, 4, normalize=True),
    Case(128, 8, normalize=True, scale=2.5, expert_scale=True),
    Case(256, 8, "sigmoid", 5, True, 1e-20, 2.5, groups=8, top_groups=4, group_score=1, bias=True),
    Case(64, 6, groups=8, top_groups=3),
    Case(7, 3, "sigmoid", bias=True),
    Case(8, 1, "sigmoid"),
    Case(4, 3, groups=4, top_groups=2),  # fewer experts are left than wanted
    Case(16, 2, "sparsemixer"),
    Case(5, 2, "sparsemixer", rows=40),
]
JITTER = 0.01


def softmax(x: np.ndarray) -> np.ndarray:
    exponentials = np.exp(x - x.max())
    return exponentials / exponentials.sum()


def sparsemixer(logits: np.ndarray, k: int) -> tuple[list[int], list[float]]:
    ids, weights, left = [], [], logits.copy()
    for _ in range(k):
        best = int(left.argmax())
        near = left[best] - left <= 2 * JITTER * np.maximum(np.abs(left), left[best])
        ids.append(best)
        weights.append(softmax(np.where(near, left, -np.inf))[best])
        left[best] = -np.inf
    return ids, weights


def choose(case: Case, logits: np.ndarray, bias: np.ndarray | None) -> tuple[list[int], list[float]]:
    scores = softmax(logits) if case.scoring == "softmax" else 1 / (1 + np.exp(-logits))
    choice = scores if bias is None else scores + bias
    if case.top_groups < case.groups:
        parts = np.sort(choice.reshape(case.groups, -1))[:, ::-1]
        best = parts[:, 0] if case.group_score == 0 else parts[:, :2].sum(axis=1)
        kept = np.argsort(-best, kind="stable")[: case.top_groups]
        choice = np.where(np.isin(np.arange(case.groups), kept).repeat(parts.shape[1]), choice, -np.inf)
    ids = np.argsort(-choice, kind="stable")[: case.k]
    return ids.tolist(), scores[ids].tolist()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_route(runner: Runner, case: Case) -> None:
    rng = np.random.default_rng(case.experts)
    logits = rng.standard_normal((case.rows, case.experts)).astype(np.float32)
    if case.scoring == "sparsemixer":
        logits = (4 + logits / 40).astype(np.float32)  # so that several are near the greatest
    bias = (0.3 * rng.standard_normal(case.experts)).astype(np.float32) if case.bias else None
    expert_scale = rng.uniform(0.5, 2, case.experts).astype(np.float32) if case.expert_scale else None
    params = {
        "experts": case.experts,
        "k": case.k,
        "scoring": SCORINGS[case.scoring],
        "normalize": case.normalize,
        "groups": case.groups,
        "top_groups": case.top_groups,
        "group_score": case.group_score,
        "norm_eps": case.norm_eps,
        "scale": case.scale,
        "jitter": JITTER,
    }
    operands = {"logits": logits, "choice_bias": bias, "expert_scale": expert_scale}
    out = runner.run("route", operands, params, case.rows, (case.rows, 2, case.k))
    for row, (ids, weights) in zip(logits.astype(np.float64), out, strict=True):
        expected_ids, scores = sparsemixer(row, case.k) if case.scoring == "sparsemixer" else choose(case, row, bias)
        assert ids.tolist() == expected_ids
        expected = np.array(scores) / (sum(scores) + case.norm_eps if case.normalize else 1) * case.scale
        if expert_scale is not None:
            expected = expected * expert_scale[expected_ids]
        assert (np.abs(weights - expected) <= (case.experts + 20) * EPSILON * expected).all()


def test_equal_experts_go_to_the_lower_id(runner: Runner) -> None:
    params = {"experts": 6, "k": 4, "scoring": 0, "normalize": 0, "groups": 1, "top_groups": 1, "group_score": 0}
    params |= {"norm_eps": 0.0, "scale": 1.0, "jitter": 0.0}
    logits = np.array([[0, 1, 1, 0, 1, 0]], np.float32)
    out = runner.run("route", {"logits": logits}, params, 1, (1, 2, 4))
    assert out[0, 0].tolist() == [1, 2, 4, 0]


def test_ids_are_valid_whatever_the_logits(runner: Runner) -> None:
    params = {"experts": 6, "k": 4, "scoring": 0, "normalize": 1, "groups": 3, "top_groups": 2, "group_score": 1}
    params |= {"norm_eps": 0.0, "scale": 1.0, "jitter": 0.0}
    logits = np.full((4, 6), np.nan, np.float32)
    logits[1] = np.inf
    logits[2] = -np.inf
    logits[3, ::2] = 1.0
    for scoring in SCORINGS.values():
        out = runner.run("route", {"logits": logits}, {**params, "scoring": scoring}, 4, (4, 2, 4))
        assert np.isin(out[:, 0], np.arange(6)).all()
        params_of_all = {**params, "scoring": scoring, "groups": 1, "top_groups": 1}
        out = runner.run("route", {"logits": logits}, params_of_all, 4, (4, 2, 4))
        assert (out[0, 0] == 0).all()  # the lowest, as on the GPU
