"""The executor runs correct kernels in any order and names the fault of every faulty one."""

from typing import Any

import numpy as np
import pytest

from metal_host.host import MetalFaultError, MetalHost

TOO_EARLY = "data race|uninitialised threadgroup memory"  # by the order of threads
CHECKED_FAULTS = {
    "missing_barrier": TOO_EARLY,
    "missing_second_barrier": "data race",
    "barrier_of_the_simdgroup_only": TOO_EARLY,
    "barrier_for_other_memory": "data race",
    "read_past_the_end": "out-of-bounds device read of 4 bytes",
    "write_past_the_end": "out-of-bounds device write of 4 bytes",
    "write_to_read_only": "write through read-only parameter 'x'",
    "read_past_a_threadgroup_variable": "out-of-bounds threadgroup read",
    "uninitialised_threadgroup_memory": "read of uninitialised threadgroup memory",
    "two_threads_write_different_values": r"data race \(write after write\)",
    "race_between_threadgroups": "data race",
}
FAULTS = {
    "barrier_not_reached_by_all": "threadgroup_barrier not reached by every thread",
    "return_before_barrier": "threadgroup_barrier not reached by every thread",
    "different_simdgroup_operations": "divergent simdgroup operation",
    "simdgroup_operation_not_reached_by_all": "not reached by every",
    "too_much_threadgroup_memory": "the limit is 32768",
}
CORRECT = {
    "correct_reverse": np.arange(64, dtype=np.float32)[::-1],
    "correct_barrier_of_the_simdgroup": np.arange(64, dtype=np.float32).reshape(-1, 2)[:, ::-1].reshape(-1),
}
SEEDS = [0, 1, 2, 3]


def run(host: MetalHost, kernel: str, x: np.ndarray, *, threads: int = 64, **options: Any) -> None:
    """One threadgroup, two for races between them, with x and a y of the same size."""
    threadgroups = 2 if kernel == "race_between_threadgroups" else 1
    y = np.zeros_like(x)
    host.dispatch_faulty(kernel, [x.view(np.uint8), y.view(np.uint8)], threadgroups, threads, **options)


def numbers() -> np.ndarray:
    return np.arange(64, dtype=np.float32)


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kernel", CORRECT)
def test_correct(metal_host: MetalHost, kernel: str, seed: int, checked: bool) -> None:
    x = numbers()
    run(metal_host, kernel, x, seed=seed, checked=checked)
    np.testing.assert_array_equal(x, CORRECT[kernel])


@pytest.mark.parametrize("checked", [False, True])
def test_atomic(metal_host: MetalHost, checked: bool) -> None:
    x = np.zeros(64, np.float32)
    run(metal_host, "correct_atomic", x, seed=2, checked=checked)
    assert x.view(np.uint32)[0] == 63 * 64 // 2


def test_equal_writes_do_not_race(metal_host: MetalHost) -> None:
    run(metal_host, "correct_two_threads_write_one_value", numbers(), checked=True)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kernel", CHECKED_FAULTS)
def test_checked_fault(metal_host: MetalHost, kernel: str, seed: int) -> None:
    with pytest.raises(MetalFaultError, match=rf"({CHECKED_FAULTS[kernel]}).*bad/faults\.metal:\d+"):
        run(metal_host, kernel, numbers(), seed=seed, checked=True)


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("kernel", FAULTS)
def test_fault(metal_host: MetalHost, kernel: str, checked: bool) -> None:
    with pytest.raises(MetalFaultError, match=FAULTS[kernel]):
        run(metal_host, kernel, numbers(), shared_bytes=20000, checked=checked)


def test_unbound_buffer(metal_host: MetalHost) -> None:
    with pytest.raises(MetalFaultError, match="no buffer is bound at index 1 for parameter 'y'"):
        metal_host.dispatch_faulty("read_past_the_end", [numbers().view(np.uint8)], 1, 64)


def test_too_many_threads(metal_host: MetalHost) -> None:
    with pytest.raises(MetalFaultError, match="2048 threads per threadgroup; the kernel allows 1024"):
        run(metal_host, "correct_reverse", numbers(), threads=2048)


@pytest.mark.parametrize("kernel", ["missing_barrier", "barrier_of_the_simdgroup_only", "missing_second_barrier"])
def test_order_changes_the_result_of_a_race(metal_host: MetalHost, kernel: str) -> None:
    results = []
    for seed in SEEDS:
        x = numbers()
        run(metal_host, kernel, x, seed=seed)
        results.append(x.tobytes())
    assert len(set(results)) > 1
