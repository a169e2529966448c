"""Fixtures shared by all tests."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

import tiny_models


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`tiny_model(variant, dtype=None, form="v5", shards=None)`: a checkpoint's directory, built once per run."""
    root = tmp_path_factory.mktemp("tiny")

    @functools.cache
    def directory(variant: str, dtype: str | None = None, form: str = "v5", shards: int | None = None) -> Path:
        return tiny_models.build(variant, root / f"{variant}-{dtype}-{form}-{shards}", dtype, form, shards)

    return directory
