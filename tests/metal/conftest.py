"""Metal kernels run on the host, see tests/metal_host, or on a GPU that `--metal-runner` names.

What tests of CPU kernels share comes from tests/kernels.
"""

import sys
from pathlib import Path

import pytest

from metal_host.host import metal_host

sys.path.append(str(Path(__file__).parents[1] / "kernels"))

from metal.metal_process import metal_process
from metal.metal_runner import MetalRunner
from metal_cuda.device import cuda_device

__all__ = ["cuda_device", "metal_host", "metal_process"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--metal-runner",
        choices=["host", "cuda", "cuda-sanitized"],
        default="host",
        help="where kernels run: on the CPU, or on an NVIDIA GPU, see tests/metal_cuda/README.md",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On a GPU, only tests of kernels have something to run."""
    if config.getoption("--metal-runner", "host") != "host":
        items[:] = [item for item in items if "runner" in getattr(item, "fixturenames", ())]


@pytest.fixture
def runner(request: pytest.FixtureRequest) -> MetalRunner:
    """In place of the CPU's runner."""
    on_host = request.config.getoption("--metal-runner", "host") == "host"
    return MetalRunner(request.getfixturevalue("metal_host" if on_host else "cuda_device"))
