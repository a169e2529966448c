"""Where whole plans run for tests: this process where its ferrule has a real GPU, else a process of its own.

The other process's ferrule has the Metal backend over the stand-in framework of tests/metal_host.
"""

from __future__ import annotations

import ctypes
import fcntl
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.machinery import PathFinder
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import pytest

from metal_host.host import CLANG, MetalHost, run_command

ROOT = Path(__file__).resolve().parents[2]
GNUSTEP = Path("/usr/include/GNUstep/Foundation/Foundation.h")
T = TypeVar("T")

_framework: ctypes.CDLL


class Settings(ctypes.Structure):
    """`tests/metal_host/framework/settings.h`."""

    _fields_ = (
        ("seed", ctypes.c_uint32),
        ("checked", ctypes.c_uint32),
        ("gpu_family", ctypes.c_uint32),
        ("max_threads", ctypes.c_uint32),
        ("max_buffer_bytes", ctypes.c_uint64),
    )


class MetalProcess:
    """Runs functions of `dispatch_steps` there. Their errors are raised here."""

    def __init__(self, pool: ProcessPoolExecutor | None) -> None:
        """Without a pool, in this process."""
        self._pool = pool

    def run(
        self,
        function: Callable[..., T],
        *arguments: Any,
        seed: int = 0,
        checked: bool = False,
        gpu_family: int = 9,
        max_threads: int = 0,
        max_buffer_bytes: int = 1 << 34,
        **options: Any,
    ) -> T:
        """`function(*arguments, **options)` on a device of these settings, which only the stand-in has."""
        settings = (seed, checked, gpu_family, max_threads, max_buffer_bytes)
        if self._pool is None:
            if settings != (0, False, 9, 0, 1 << 34):
                pytest.skip("a real GPU has no settings")
            return function(*arguments, **options)
        return self._pool.submit(_configured, partial(function, **options), arguments, settings).result()


def _begin(package: str, framework: str) -> None:
    global _framework
    sys.meta_path.insert(0, PathFinder)  # before that of an editable install, which knows one ferrule alone
    sys.path.insert(0, package)
    _framework = ctypes.CDLL(framework)


def _configured(function: Callable[..., T], arguments: tuple[Any, ...], settings: tuple[int, ...]) -> T:
    _framework.metal_host_configure(ctypes.byref(Settings(*settings)))
    return function(*arguments)


@pytest.fixture(scope="session")
def metal_process(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Iterator[MetalProcess]:
    """The process. Its module is brought up to date in pytest's cache directory; kernels are those of `metal_host`."""
    from ferrule import _core  # not by the other process, whose ferrule is not this one

    if _core.metal_backend() == "gpu":
        yield MetalProcess(None)
        return
    metal_host: MetalHost = request.getfixturevalue("metal_host")
    if not GNUSTEP.exists():
        pytest.skip(f"the stand-in for the Metal framework needs GNUstep: there is no {GNUSTEP}")
    directory = pytestconfig.cache.mkdir("metal_module")
    build = directory / "build"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (build / "build.ninja").exists():
            options = [f"-DCMAKE_CXX_COMPILER={CLANG}", f"-DPython_EXECUTABLE={sys.executable}"]
            options += ["-DFERRULE_METAL_HOST=ON", "-DFERRULE_PORTABLE_ONLY=ON", "-DFERRULE_WERROR=ON"]
            run_command("cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja", *options)
        run_command("cmake", "--build", str(build), "--target", "_core")
        package = directory / "package" / "ferrule"
        package.mkdir(parents=True, exist_ok=True)
        sources = [path for path in (ROOT / "python" / "ferrule").iterdir() if not path.name.startswith("_core")]
        links = {path.name: path for path in [*sources, *build.glob("_core*.so")]}
        links["ferrule.metallib"] = metal_host.directory / "kernels.so"
        links["ferrule.metallib.checked"] = metal_host.directory / "kernels_checked.so"
        # What is right stays: other test processes may be importing it.
        for old in package.iterdir():
            if links.get(old.name) != old.readlink():
                old.unlink()
        for name in links.keys() - {path.name for path in package.iterdir()}:
            (package / name).symlink_to(links[name])
    framework = build / "tests" / "metal_host" / "framework" / "libmetal_framework.so"
    paths = (str(package.parent), str(framework))
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin, initargs=paths) as pool:
        yield MetalProcess(pool)
