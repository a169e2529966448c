"""Cores and memory as systems of several kinds tell them."""

import os
from pathlib import Path

import pytest

from ferrule.engine import machine


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight hardware threads on four cores, of which the process may use six; no container."""
    for cpu in range(8):
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    monkeypatch.setattr(machine, "_CPUS", tmp_path)
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 4, 5, 6}, raising=False)
    return tmp_path


def test_threads_of_a_core_count_once(system: Path) -> None:
    assert machine.cores() == 3


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", 3), ("250000 100000", 2), ("50000 100000", 1)])
def test_a_container_has_its_quota(system: Path, quota: str, cores: int) -> None:
    (system / "cpu.max").write_text(quota + "\n")
    assert machine.cores() == cores


def test_a_system_without_topology(monkeypatch: pytest.MonkeyPatch, system: Path) -> None:
    monkeypatch.setattr(machine, "_CPUS", system / "nowhere")
    assert machine.cores() == 6
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 10)
    assert machine.cores() == 10


def test_memory(system: Path) -> None:
    physical = machine.memory_bytes()
    assert physical > 1 << 28
    (system / "memory.max").write_text("max\n")
    assert machine.memory_bytes() == physical
    (system / "memory.max").write_text(f"{1 << 28}\n")
    assert machine.memory_bytes() == 1 << 28


def test_available_memory(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_MEMINFO", system / "meminfo")
    assert machine.available_bytes() == machine.memory_bytes()
    (system / "meminfo").write_text("MemTotal: 900000 kB\nMemFree: 100000 kB\nMemAvailable: 300000 kB\n")
    assert machine.available_bytes() == 300000 << 10
    (system / "memory.current").write_text("90000000\n")
    (system / "memory.max").write_text("max\n")
    assert machine.available_bytes() == 300000 << 10
    (system / "memory.max").write_text("100000000\n")
    assert machine.available_bytes() == 10000000
    (system / "memory.stat").write_text("anon 20000000\nfile 60000000\ninactive_file 40000000\nactive_file 5000000\n")
    assert machine.available_bytes() == 55000000
    (system / "memory.current").write_text("200000000\n")
    assert machine.available_bytes() == 0
