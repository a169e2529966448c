"""What a step must read and compute, and the shape of timings."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ferrule
from ferrule.engine import benchmark, limits
from ferrule.engine.runner import Runner
from ferrule.lowering import lower, metal_target


@pytest.fixture(scope="module")
def runner(tiny_model: Callable[..., Path]) -> Iterator[Runner]:
    with ferrule.load(tiny_model("mistral_swa"), threads=2) as model:
        yield model.runner


def matrices(runner: Runner) -> int:
    """Values of the matrices that every token is multiplied with."""
    products = [op for op in runner.graph.ops if op.kind == "linear"]
    return sum(op.operands["weight"].shape[0] * op.operands["weight"].shape[1] for op in products)  # type: ignore[union-attr]


def test_decode_reads_every_weight_once_and_the_window_of_the_cache(runner: Runner) -> None:
    cache = runner.graph.caches[0]
    near, far, farther = (
        benchmark.decode(runner, 1, depth=depth, rounds=1).work for depth in (1, cache.window - 1, cache.window + 40)
    )
    assert 2 * matrices(runner) < near.bytes < 3 * matrices(runner)  # bfloat16
    position = 4 * cache.kv_heads * (cache.head_dim + cache.v_head_dim)
    assert far.bytes - near.bytes == len(runner.graph.caches) * (cache.window - 2) * position
    assert farther == far
    assert near.int8 == 0  # float weights


def test_products_of_a_prefill(runner: Runner) -> None:
    once, twice = (benchmark.prefill(runner, tokens, depth=0, rounds=1).work for tokens in (1, 2))
    logits = 2 * runner.vocabulary * runner.graph.ops[-1].operands["weight"].shape[1]  # type: ignore[union-attr]
    heads = next(op for op in runner.graph.ops if op.kind == "attention").attributes["heads"]
    cache = runner.graph.caches[0]
    position = 2 * len(runner.graph.caches) * heads * (cache.head_dim + cache.v_head_dim)
    assert once.f32 == 2 * matrices(runner) + position
    assert twice.f32 - once.f32 == 2 * matrices(runner) - logits + 2 * position  # the second token sees two


def test_products_are_the_same_on_metal(runner: Runner) -> None:
    plans = [lower(runner.graph, target, "few_rows") for target in (runner.target, metal_target())]
    cpu, metal = (benchmark._step_work(plan, 2, 1, 0).f32 for plan in plans)
    assert cpu == metal > 0


def test_several_texts_share_the_weights_alone(runner: Runner) -> None:
    one, four = (benchmark.decode(runner, 1, depth=20, rounds=1, sequences=n).work for n in (1, 4))
    assert four.f32 == 4 * one.f32
    assert four.bytes < 2 * one.bytes


def test_a_profile_names_every_launch(runner: Runner) -> None:
    stages = benchmark.profile(runner, 3, depth=2, rounds=2)
    assert sum(stage.launches for stage in stages) == len(runner.plan(3, 1).launches)
    assert [stage.seconds for stage in stages] == sorted((stage.seconds for stage in stages), reverse=True)


def test_limits_of_the_machine(monkeypatch: pytest.MonkeyPatch, runner: Runner) -> None:
    monkeypatch.setattr(limits, "_READ_BYTES", 8 << 20)
    monkeypatch.setattr(limits, "_PRODUCTS", 1 << 12)
    found = limits.measure(runner.target, 1)
    assert min(found.read, found.int8, found.f32) > 1e8
