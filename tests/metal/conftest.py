"""Metal kernels run on the host, see tests/metal_host. What tests of CPU kernels share comes from tests/kernels."""

import sys
from pathlib import Path

import pytest

from metal_host.host import MetalHost, metal_host

sys.path.append(str(Path(__file__).parents[1] / "kernels"))

from metal.metal_process import metal_process
from metal.metal_runner import MetalRunner

__all__ = ["metal_host", "metal_process"]


@pytest.fixture
def runner(metal_host: MetalHost) -> MetalRunner:
    """In place of the CPU's runner."""
    return MetalRunner(metal_host)
