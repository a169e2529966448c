"""Kernel tests run for every target that this processor has, or for those of `--kernel-runner`."""

from pathlib import Path

import pytest
from kernel_testing import InProcess, OtherProcess, Runner

from ferrule import _core


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kernel-runner",
        metavar="COMMAND",
        help='of another build, such as "qemu-aarch64 -L /usr/aarch64-linux-gnu build-arm64/kernel_runner"',
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "runner" in metafunc.fixturenames:
        metafunc.parametrize("runner", _process(metafunc.config).targets(), indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a kernel that not every target has run for those that have it."""
    items[:] = [item for item in items if _has_kernel(item)]


def _has_kernel(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("needs_kernel")
    if marker is None or not item.path.is_relative_to(Path(__file__).parent):
        return True
    assert isinstance(item, pytest.Function)
    target = item.callspec.params["runner"]
    return target in _core.all_targets() and marker.args[0] in _core.kernels(target)


@pytest.fixture
def runner(request: pytest.FixtureRequest) -> Runner:
    """Runs kernels of one target, see `kernel_testing.Runner`."""
    return Runner(_process(request.config), request.param)


_PROCESS = pytest.StashKey[InProcess | OtherProcess]()


def _process(config: pytest.Config) -> InProcess | OtherProcess:
    if _PROCESS not in config.stash:
        command = config.getoption("--kernel-runner", None)
        config.stash[_PROCESS] = OtherProcess(command) if command else InProcess()
    return config.stash[_PROCESS]
