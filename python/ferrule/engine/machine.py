"""What the machine offers this process: cores and memory, a container's limits included."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_CPUS = Path("/sys/devices/system/cpu")


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


def _read(path: Path) -> str:
    """The text of a small file, "" where there is none."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
