"""The committed maps equal what the lowering makes today: a vanished fusion is as red as a new one."""

import platform

import pytest

import maps


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the committed CPU maps are x86-64's")
def test_committed_maps_are_current() -> None:
    made = dict(maps.maps())
    committed = {path.name: path.read_text() for path in maps.MAPS.glob("*.txt")}
    hint = "run `python tests/maps.py` and review the difference"
    assert sorted(made) == sorted(committed), hint
    for name, text in made.items():
        assert committed[name] == text, f"{name}: {hint}"
