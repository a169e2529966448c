"""The committed maps equal what the lowering makes today: a vanished fusion is as red as a new one."""

import platform
from collections import Counter

import pytest

import maps
from ferrule.engine.kv_cache import cache_dtype
from ferrule.graph import CacheLayer, Experts, StateLayer
from ferrule.lowering import lower, metal_target

MOST_LAUNCHES = 10
# Launches of a layer that has more than norms, attention and FFN, each of which needs what the one before makes:
LONGER_LAYERS = {
    # after a layer of 9, a product that gates the token's per-layer embedding, its projection, and that one's norm;
    "gemma4": {12},
    # and, to predict and correct four streams by each other (AltUp), twice a router's norm, two products and tanh, a
    # mixture and the active stream of it; a side path (Laurel). Sparse gates take 2 more.
    "gemma3n": {32, 33, 34},
}


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the committed CPU maps are x86-64's")
def test_committed_maps_are_current() -> None:
    made = dict(maps.maps())
    committed = {path.name: path.read_text() for path in maps.MAPS.glob("*.txt")}
    hint = "run `python tests/maps.py` and review the difference"
    assert sorted(made) == sorted(committed), hint
    for name, text in made.items():
        assert committed[name] == text, f"{name}: {hint}"


def test_a_dense_layer_takes_at_most_ten_launches_per_token_on_metal() -> None:
    n_models = 0
    for name, family, graph in maps.graphs():
        operands = [operand for op in graph.ops for operand in op.operands.values()]
        latent = any(isinstance(o, CacheLayer) and o.kind == "latent" for o in operands)
        if latent or any(isinstance(o, Experts | StateLayer) for o in operands):
            continue
        plan = lower(graph, metal_target(), "one_row", kv_dtype=cache_dtype(graph, metal_target()), allow_missing=True)
        counts = Counter(launch.layer for launch in plan.launches if launch.layer is not None)
        if family in LONGER_LAYERS:
            assert set(counts.values()) == LONGER_LAYERS[family], f"{name}: {counts}"
        else:
            assert max(counts.values()) <= MOST_LAUNCHES, f"{name}: {counts}"
        n_models += 1
    assert n_models >= 30
