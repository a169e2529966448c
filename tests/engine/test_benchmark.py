"""What a step must read and compute, and the shape of timings."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ferrule
from ferrule.architectures import record
from ferrule.checkpoint import open_checkpoint
from ferrule.engine import benchmark, limits
from ferrule.engine.runner import Runner
from ferrule.engine.work import StepSizes, Work, launch_work, step_work
from ferrule.lowering import cpu_target, lower, metal_target
from ferrule.lowering.show import launch_bytes


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
    cpu, metal = (step_work(plan, StepSizes(2)).f32 for plan in plans)
    assert cpu == metal > 0


def work_by_op(path: Path, step: StepSizes, *, expand: bool = False) -> dict[str, Work]:
    """Op -> the work of its first launch, without what the step itself reads and writes."""
    graph = record(open_checkpoint(path)).graph
    plan = lower(graph, cpu_target(), "many_rows", expand=expand)
    found: dict[str, Work] = {}
    for launch in plan.launches:
        work, appended = launch_work(plan, launch, step), launch_bytes(plan, launch, step.tokens)
        found.setdefault(launch.op, Work(work.bytes - appended, work.int8, work.f32))
    return found


def test_work_of_recurrences(tiny_model: Callable[..., Path]) -> None:
    scan = work_by_op(tiny_model("mamba2"), StepSizes(5))
    # 8 heads of 16 channels with 16 values each; the convolution also takes b and c of 2 groups.
    assert scan["ssm_scan"] == Work(f32=5 * 8 * 16 * 16 * 5)
    assert scan["causal_conv1d"] == Work(f32=5 * (8 * 16 + 2 * 2 * 16) * 4 * 2)
    # 4 heads, keys and values of 16.
    assert work_by_op(tiny_model("qwen3_next"), StepSizes(5))["gated_delta_rule"] == Work(f32=5 * 4 * 16 * 16 * 7)


def test_work_of_latent_attention(tiny_model: Callable[..., Path]) -> None:
    step = StepSizes(3, begin=10)
    pairs, positions = 11 + 12 + 13, 13
    heads, plain, rotated, rank, v_dim = 4, 16, 16, 32, 16
    history = 10 * 4 * (rotated + rank)
    forms = [work_by_op(tiny_model("deepseek_v2"), step, expand=expand) for expand in (False, True)]
    absorbed = 2 * heads * pairs * (rotated + rank + rank)
    assert forms[0]["attention"] == Work(history, f32=absorbed)
    expanded = 2 * heads * (positions * rank * (plain + v_dim) + pairs * (plain + rotated + v_dim))
    assert forms[1]["latent_attention"] == Work(history, f32=expanded)


def test_selected_positions_alone_are_attended_to(tiny_model: Callable[..., Path]) -> None:
    found = work_by_op(tiny_model("deepseek_v32"), StepSizes(1, begin=99))
    heads, rotated, rank, top = 4, 16, 32, 12
    assert found["attention"] == Work((top - 1) * 4 * (rotated + rank), f32=2 * heads * top * (rotated + rank + rank))
    assert found["select_positions"] == Work(99 * 4 * 64, f32=2 * 16 * 100 * (64 + 1))


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
