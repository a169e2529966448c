"""Fixtures shared by all tests."""

import functools
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

import tiny_models


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="a test that would be skipped fails instead")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and item.config.getoption("--no-skips"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"skipped, which --no-skips forbids: {reason}"
    return report


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`tiny_model(variant, dtype=None, form="v5", shards=None)`: a checkpoint's directory, built once per run."""
    root = tmp_path_factory.mktemp("tiny")

    @functools.cache
    def directory(variant: str, dtype: str | None = None, form: str = "v5", shards: int | None = None) -> Path:
        return tiny_models.build(variant, root / f"{variant}-{dtype}-{form}-{shards}", dtype, form, shards)

    return directory
