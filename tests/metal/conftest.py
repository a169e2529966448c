"""Metal kernels and plans run on the Mac's GPU where there is one, else on the host, see tests/metal_host.

`--metal-runner` names another place for kernels.

What tests of CPU kernels share comes from tests/kernels.
"""

import sys
from pathlib import Path

import pytest

from metal_host.host import metal_host

sys.path.append(str(Path(__file__).parents[1] / "kernels"))

from ferrule import _core
from metal.gpu import Gpu
from metal.metal_process import metal_process
from metal.metal_runner import MetalRunner
from metal_cuda.device import cuda_device

__all__ = ["cuda_device", "metal_host", "metal_process"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--metal-runner",
        choices=["gpu", "host", "cuda", "cuda-sanitized"],
        default="gpu" if _core.metal_backend() == "gpu" else "host",
        help="where kernels run: the Mac's GPU, the CPU, or an NVIDIA GPU, see tests/metal_cuda/README.md",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`-m metal` selects the tests of this directory, less those of kernels that Metal lacks.

    On an NVIDIA GPU, only those of kernels have something to run.
    """
    kernels, lacking = _core.metal_kernels(), set()
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("metal")
            marker = item.get_closest_marker("needs_kernel")
            if marker is not None and marker.args[0] not in kernels:
                lacking.add(item)
    items[:] = [item for item in items if item not in lacking]
    if config.getoption("--metal-runner", "host").startswith("cuda"):
        items[:] = [item for item in items if "runner" in getattr(item, "fixturenames", ())]


@pytest.fixture(scope="session")
def gpu() -> Gpu:
    """The Mac's."""
    return Gpu()


@pytest.fixture
def runner(request: pytest.FixtureRequest) -> MetalRunner:
    """In place of the CPU's runner."""
    where = request.config.getoption("--metal-runner")
    return MetalRunner(request.getfixturevalue({"gpu": "gpu", "host": "metal_host"}.get(where, "cuda_device")))
