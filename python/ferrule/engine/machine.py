"""What the machine offers this process: cores and memory, a container's limits included."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_CPUS = Path("/sys/devices/system/cpu")
_MEMINFO = Path("/proc/meminfo")


def cores() -> int:
    """Physical cores that the process may use; the hardware threads of one core count once."""
    if hasattr(os, "sched_getaffinity"):
        count = len(
            {_read(_CPUS / f"cpu{cpu}/topology/thread_siblings_list") or cpu for cpu in os.sched_getaffinity(0)}
        )
    else:
        count = os.cpu_count() or 1
    quota, _, period = _read(_CGROUP / "cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        count = min(count, int(quota) // int(period))
    return max(count, 1)


def memory_bytes() -> int:
    """Memory of the machine, or the container's limit where that is less."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = _read(_CGROUP / "memory.max")
    return min(physical, int(limit)) if limit.isdigit() else physical


def available_bytes() -> int:
    """Memory that is free, or that holds what can be read from files again; a container's limit included.

    All of `memory_bytes` where the system does not tell.
    """
    kilobytes = _counters(_MEMINFO).get("MemAvailable:")
    available = memory_bytes() if kilobytes is None else 1024 * kilobytes
    limit, used = _read(_CGROUP / "memory.max"), _read(_CGROUP / "memory.current")
    if limit.isdigit() and used.isdigit():
        counters = _counters(_CGROUP / "memory.stat")
        files = counters.get("active_file", 0) + counters.get("inactive_file", 0)
        available = min(available, int(limit) - int(used) + files)
    return max(available, 0)


def _counters(path: Path) -> dict[str, int]:
    """The numbers in a small file of lines that begin with a name and its number."""
    lines = (line.split() for line in _read(path).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


def _read(path: Path) -> str:
    """The text of a small file, "" where there is none."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
