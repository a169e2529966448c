"""Weights that move into huge pages while they are read."""

import mmap
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ferrule
from ferrule import _core
from ferrule.checkpoint import packages
from ferrule.engine import machine

HUGE_PAGE = 2 << 20
SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
EXIST = SETTING.exists() and "[never]" not in SETTING.read_text()


def moved(file: mmap.mmap) -> int:
    """Bytes of the huge pages that lie wholly in the mapping."""
    begin = np.frombuffer(file, np.uint8).ctypes.data
    first, last = -(-begin // HUGE_PAGE), (begin + len(file)) // HUGE_PAGE
    return max(last - first, 0) * HUGE_PAGE if EXIST else 0


@pytest.mark.parametrize("size", [100, HUGE_PAGE - 1, 3 * HUGE_PAGE + 5, 21 * HUGE_PAGE])
def test_bytes_and_addresses_stay(tmp_path: Path, size: int) -> None:
    content = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    (tmp_path / "file").write_bytes(content.tobytes())
    with (tmp_path / "file").open("rb") as opened:
        file = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    view = np.frombuffer(file, np.uint8)
    pages = _core.HugePages([view])
    while pages.moved < moved(file):
        np.testing.assert_array_equal(view, content)
    pages.wait()
    assert pages.moved == moved(file)
    np.testing.assert_array_equal(view, content)


def test_leaving_early_stops(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(64 * HUGE_PAGE))
    with (tmp_path / "file").open("rb") as opened:
        file = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    view = np.frombuffer(file, np.uint8)
    del file
    pages = _core.HugePages([view])
    del pages
    assert not view.any()


WITHOUT_THREADS = """
import mmap, resource, sys
import numpy as np
from ferrule import _core
with open(sys.argv[1], "rb") as opened:
    view = np.frombuffer(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (4 << 20)  # less than the stack of a thread
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
moving = _core.HugePages([view])
moving.wait()
assert moving.moved == 0 and view.all()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit address space")
def test_nothing_moves_where_no_thread_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * (8 * HUGE_PAGE))
    subprocess.run([sys.executable, "-c", WITHOUT_THREADS, str(tmp_path / "file")], check=True)


def test_logits_do_not_change_while_weights_move() -> None:
    path = packages.PACKAGES[0].path(progress=False)
    with ferrule.load(path, threads=2, huge_pages=False) as model:
        expected = model.logits(list(range(100, 140)))
        assert model.info()["bytes_in_huge_pages"] == 0
    with ferrule.load(path, threads=2) as model:
        for _ in range(3):
            np.testing.assert_array_equal(model.logits(list(range(100, 140))), expected)
        model.runner._huge_pages.wait()
        assert (model.info()["bytes_in_huge_pages"] > 0) == EXIST


def test_weights_stay_where_they_would_take_most_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    path = packages.PACKAGES[0].path(progress=False)
    monkeypatch.setattr(machine, "available_bytes", lambda: path.stat().st_size)
    with ferrule.load(path, threads=1) as model:
        assert model.logits([1]).size
        model.runner._huge_pages.wait()
        assert model.info()["bytes_in_huge_pages"] == 0
