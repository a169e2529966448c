"""Programs: results do not depend on threads, groups or memory reuse, and a wrong plan is refused with its reason."""

import gc
import resource
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ferrule import _core
from ferrule.errors import DeviceError

WIDTH = 300
TOKENS = 40
TENSOR = TOKENS * WIDTH * 4
SLOT = (TENSOR + 63) // 64 * 64

Launch = tuple[str, list[tuple[str, int, int, int]], bytes, str, bool]


def arena(slot: int) -> tuple[str, int, int, int]:
    return "arena", 0, slot * SLOT, TENSOR


def add(a: tuple[str, int, int, int], b: tuple[str, int, int, int], out: int, *, barrier: bool = True) -> Launch:
    return "add", [a, b, arena(out)], struct.pack("<I", WIDTH), "tokens", barrier


def scale(x: tuple[str, int, int, int], factor: float, out: int, *, barrier: bool = True) -> Launch:
    return "scale", [x, arena(out)], struct.pack("<If", WIDTH, factor), "tokens", barrier


X = ("input", 0, 0, 0)
ROWS = ("input", 1, 0, 0)
NORM = ("weight", 0, 4, WIDTH * 4)  # not at the start of its bytes
RMS_NORM = struct.pack("<IIffI", WIDTH, 1, 1e-6, 1.0, 0)

# Two independent launches side by side, then launches that overwrite what earlier ones read, then two rows.
LAUNCHES: list[Launch] = [
    add(X, X, 0),
    scale(X, 0.5, 1, barrier=False),
    add(arena(0), arena(1), 2),
    ("rms_norm", [arena(2), NORM, arena(0)], RMS_NORM, "tokens", True),
    scale(arena(2), 2.0, 1, barrier=False),
    add(arena(0), arena(1), 2),
    ("take_rows", [arena(2), ROWS, ("output", 0, 0, 0)], struct.pack("<I", WIDTH), "rows", True),
]


def program(executor: _core.Executor, launches: list[Launch] = LAUNCHES, **changes: Any) -> _core.Program:
    weight = np.random.default_rng(0).standard_normal(WIDTH + 1).astype(np.float32)
    arguments: dict[str, Any] = {
        "executor": executor,
        "launches": launches,
        "weights": [weight.view(np.uint8)],
        "cache": _core.Cache(4096),
        "arena_bytes": 3 * SLOT,
        "max_dims": (TOKENS, 4, 1),
        "n_inputs": 2,
        "n_outputs": 1,
    }
    return _core.Program(**arguments | changes)


def inputs(tokens: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(tokens).standard_normal((tokens, WIDTH)).astype(np.float32)
    return x, np.array([0, tokens - 1], np.int32)


def run(program: _core.Program, tokens: int) -> np.ndarray:
    x, rows = inputs(tokens)
    out = np.full((2, WIDTH), np.nan, np.float32)
    program.run(tokens, 2, 1, [x, rows], [out])
    return out


def expected(tokens: int) -> np.ndarray:
    x, rows = inputs(tokens)
    weight = np.random.default_rng(0).standard_normal(WIDTH + 1).astype(np.float32)[1:]
    x = 2.5 * x.astype(np.float64)
    return (x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * (1 + weight) + 2 * x)[rows]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("target", _core.targets())
def test_result(target: str, threads: int) -> None:
    step = program(_core.Executor(target, threads))
    for tokens in (1, 7, TOKENS):
        np.testing.assert_allclose(run(step, tokens), expected(tokens), rtol=2e-6, atol=2e-6)


def test_threads_do_not_change_a_bit() -> None:
    target = _core.targets()[0]
    results = [run(program(_core.Executor(target, threads)), TOKENS) for threads in (1, 2, 3)]
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


def test_many_quick_steps() -> None:
    """Steps follow each other faster than threads fall asleep, and slower."""
    step = program(_core.Executor(_core.targets()[0], 3))
    one, many = run(step, 1), run(step, TOKENS)
    for i in range(3000):
        np.testing.assert_array_equal(run(step, 1), one)
        if i % 100 == 0:
            time.sleep(0.001)
            np.testing.assert_array_equal(run(step, TOKENS), many)


@pytest.mark.parametrize("threads", [2, 4])
def test_launches_wait_for_earlier_ones(threads: int) -> None:
    """A chain in which every launch reads, in reverse, rows that other threads have just written."""
    rows, width, length = 64, 2000, 61
    tensor = rows * width * 4
    places = [("arena", 0, 0, tensor), ("arena", 0, tensor, tensor)]
    params = struct.pack("<I", width)
    operands = [[places[i % 2], ROWS, places[(i + 1) % 2]] for i in range(length)]
    operands[0][0] = X
    operands[-1][2] = ("output", 0, 0, 0)
    launches: list[Launch] = [("take_rows", each, params, "tokens", True) for each in operands]
    step = program(_core.Executor(_core.targets()[0], threads), launches, arena_bytes=2 * tensor, max_dims=(rows, 0, 0))
    reverse = np.arange(rows, dtype=np.int32)[::-1].copy()
    for seed in range(30):
        x = np.random.default_rng(seed).standard_normal((rows, width), np.float32)
        out = np.full_like(x, np.nan)
        step.run(rows, 0, 0, [x, reverse], [out])
        np.testing.assert_array_equal(out, x[reverse])


def test_programs_share_an_executor_and_a_cache_between_python_threads() -> None:
    executor, cache = _core.Executor(_core.targets()[0], 2), _core.Cache(TENSOR)
    result = expected(TOKENS)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            step = program(executor, cache=cache)
            for _ in range(200):
                np.testing.assert_allclose(run(step, TOKENS), result, rtol=2e-6, atol=2e-6)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_the_gil_is_released() -> None:
    """Another Python thread gets on while a long step runs: it can start and stop before the step ends."""
    n = 1 << 22
    launches: list[Launch] = [
        ("scale", [X, ("output", 0, 0, 0)], struct.pack("<If", n, 2.0), "one", True) for _ in range(100)
    ]
    step = program(_core.Executor(_core.targets()[0], 1), launches, n_inputs=1)
    x, out = np.ones(n, np.float32), np.empty(n, np.float32)
    done = threading.Event()
    worker = threading.Thread(target=lambda: (step.run(1, 1, 1, [x], [out]), done.set()))
    worker.start()
    turns = 0
    while not done.is_set():
        turns += 1
    worker.join()
    assert turns > 1
    assert (out == 2).all()


def test_arrays_outlive_their_names() -> None:
    step = program(_core.Executor(_core.targets()[0], 2))
    gc.collect()
    np.testing.assert_allclose(run(step, 7), expected(7), rtol=2e-6, atol=2e-6)


def test_an_idle_pool_uses_no_cpu() -> None:
    step = program(_core.Executor(_core.targets()[0], 4))
    run(step, TOKENS)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.02


def test_no_rows_wanted() -> None:
    """A step of a prompt's earlier part: launches over `rows` have nothing to do."""
    step = program(_core.Executor(_core.targets()[0], 2))
    x, rows = inputs(TOKENS)
    out = np.full((2, WIDTH), np.nan, np.float32)
    step.run(TOKENS, 0, 1, [x, rows], [out])
    assert np.isnan(out).all()


def test_cache_is_memory_of_its_size() -> None:
    cache = _core.Cache(1 << 40)  # reserved, not taken
    assert cache.bytes == cache.array.size == 1 << 40
    cache.array[1 << 39] = 7
    assert cache.array[(1 << 39) - 1 : (1 << 39) + 2].tolist() == [0, 7, 0]


def test_cache_operand() -> None:
    cache = _core.Cache(2 * SLOT)
    launches: list[Launch] = [
        ("scale", [X, ("cache", 0, SLOT, TENSOR)], struct.pack("<If", WIDTH, 3.0), "tokens", True)
    ]
    x, rows = inputs(TOKENS)
    step = program(_core.Executor(_core.targets()[0], 2), launches, cache=cache, n_outputs=0)
    step.run(TOKENS, 0, 1, [x, rows], [])
    np.testing.assert_array_equal(cache.array[SLOT : SLOT + TENSOR].view(np.float32).reshape(x.shape), 3 * x)


def test_profile() -> None:
    step = program(_core.Executor(_core.targets()[0], 2))
    x, rows = inputs(TOKENS)
    out = np.full((2, WIDTH), np.nan, np.float32)
    nanoseconds = step.profile(TOKENS, 2, 1, [x, rows], [out])
    assert len(nanoseconds) == len(LAUNCHES)
    assert min(nanoseconds) >= 0
    np.testing.assert_allclose(out, expected(TOKENS), rtol=2e-6, atol=2e-6)


def changed(index: int, **parts: Any) -> list[Launch]:
    names = ("kernel", "operands", "params", "rows", "barrier")
    launch = {**dict(zip(names, LAUNCHES[index], strict=True)), **parts}
    return [*LAUNCHES[:index], tuple(launch[name] for name in names), *LAUNCHES[index + 1 :]]  # type: ignore[list-item]


REFUSED = {
    "unknown kernel": (
        changed(0, kernel="sub"),
        "target {target} has no kernel named sub",
    ),
    "operand missing from the list": (
        changed(0, operands=[X, X]),
        "launch 0 (add): 2 operands; add has 3",
    ),
    "params": (
        changed(3, params=b"1234"),
        "launch 3 (rms_norm): 4 bytes of parameters; rms_norm has 20",
    ),
    "absent": (
        changed(3, operands=[("none", 0, 0, 0), NORM, arena(0)]),
        "launch 3 (rms_norm): operand x: absent, but not optional",
    ),
    "arena range": (
        changed(1, operands=[X, ("arena", 0, 2 * SLOT + 64, TENSOR)]),
        "launch 1 (scale): operand out: 48000 bytes from byte 96064 lie outside the arena of 144000 bytes",
    ),
    "arena range that wraps": (
        changed(1, operands=[X, ("arena", 0, 64, 2**64 - 1)]),
        "launch 1 (scale): operand out: 18446744073709551615 bytes from byte 64 lie outside the arena of 144000 bytes",
    ),
    "alignment": (
        changed(1, operands=[X, ("arena", 0, 4, TENSOR)]),
        "launch 1 (scale): operand out: offset 4 is not a multiple of 64",
    ),
    "weight range": (
        changed(3, operands=[arena(2), ("weight", 0, 8, WIDTH * 4), arena(0)]),
        "launch 3 (rms_norm): operand weight: 1200 bytes from byte 8 lie outside the weight of 1204 bytes",
    ),
    "weight index": (
        changed(3, operands=[arena(2), ("weight", 1, 0, WIDTH * 4), arena(0)]),
        "launch 3 (rms_norm): operand weight: weight 1 does not exist; the plan has 1",
    ),
    "cache range": (
        changed(1, operands=[X, ("cache", 0, 0, TENSOR)]),
        "launch 1 (scale): operand out: 48000 bytes from byte 0 lie outside the cache of 4096 bytes",
    ),
    "input index": (
        changed(0, operands=[X, ("input", 2, 0, 0), arena(0)]),
        "launch 0 (add): operand b: input 2 does not exist; the plan has 2",
    ),
    "output index": (
        changed(0, operands=[X, X, ("output", 1, 0, 0)]),
        "launch 0 (add): operand out: output 1 does not exist; the plan has 1",
    ),
    "written weight": (
        changed(0, operands=[X, X, ("weight", 0, 0, WIDTH * 4)]),
        "launch 0 (add): operand out: written, so it cannot be a weight",
    ),
    "written input": (
        changed(0, operands=[X, X, X]),
        "launch 0 (add): operand out: written, so it cannot be an input",
    ),
    "row dimension": (changed(0, rows="columns"), "no row dimension is named columns"),
    "operand kind": (changed(0, operands=[X, X, ("heap", 0, 0, 0)]), "no operand kind is named heap"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_plan_is_refused(case: str) -> None:
    launches, message = REFUSED[case]
    target = _core.targets()[0]
    with pytest.raises(ValueError) as error:
        program(_core.Executor(target, 1), launches)
    assert str(error.value) == message.format(target=target)


def test_a_wrong_step_is_refused() -> None:
    step = program(_core.Executor(_core.targets()[0], 2))
    x, rows = inputs(TOKENS)
    out = np.empty((2, WIDTH), np.float32)
    with pytest.raises(ValueError, match=r"^41 tokens in a step; the plan holds at most 40$"):
        step.run(TOKENS + 1, 2, 1, [x, rows], [out])
    with pytest.raises(ValueError, match=r"^5 rows in a step; the plan holds at most 4$"):
        step.run(TOKENS, 5, 1, [x, rows], [out])
    with pytest.raises(ValueError, match=r"^1 inputs; the plan has 2$"):
        step.run(TOKENS, 2, 1, [x], [out])
    with pytest.raises(ValueError, match=r"^0 outputs; the plan has 1$"):
        step.run(TOKENS, 2, 1, [x, rows], [])
    with pytest.raises(TypeError):  # a strided output would be a copy
        step.run(TOKENS, 2, 1, [x, rows], [np.empty((WIDTH, 2), np.float32).T])


def test_a_wrong_executor_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^threads must be 1 to 1024, not 0$"):
        _core.Executor(_core.targets()[0], 0)
    with pytest.raises(ValueError, match=r"^no target is named sse9; this build has "):
        _core.Executor("sse9", 1)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit address space")
def test_threads_that_the_system_does_not_start_are_an_error() -> None:
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (256 << 20), limits[1]))
    try:
        with pytest.raises(DeviceError, match=r"^the system starts no 1024 threads: .*\. Load with fewer$"):
            _core.Executor(_core.targets()[0], 1024)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
