"""Every family's graph, interpreted in NumPy, against transformers in float32."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tiny_models
from ferrule import architectures
from ferrule.checkpoint import open_checkpoint
from ferrule.graph import TOKENS, Graph, Op
from ferrule.reference import Reference

TOLERANCE = 1e-3  # on logits of standard deviation 4; float32 against float32 differs by 1e-5, sums in another order
VARIANTS = tiny_models.variants()
LEGACY = [v for v in VARIANTS if tiny_models.description(v).get("legacy_config")]
CHUNKS = ((0, 13), (13, 14), (14, 31), (31, 40))


def record(path: Path) -> Graph:
    return architectures.record(open_checkpoint(path)).graph


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits(tiny_model: Callable[..., Path], variant: str) -> None:
    graph = record(tiny_model(variant))
    for golden in tiny_models.golden(variant).prompts.values():
        logits = Reference(graph, dtype=np.float32).forward(golden.ids)
        np.testing.assert_allclose(logits[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("variant", LEGACY)
def test_old_configs(tiny_model: Callable[..., Path], variant: str) -> None:
    golden = tiny_models.golden(variant).prompts[40]
    logits = Reference(record(tiny_model(variant, None, "legacy")), dtype=np.float32).forward(golden.ids)
    np.testing.assert_allclose(logits[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_chunks_and_steps(tiny_model: Callable[..., Path], variant: str) -> None:
    """A prompt read in chunks, then the greedy tokens one by one, over caches and states."""
    graph, golden = record(tiny_model(variant)), tiny_models.golden(variant).prompts[40]
    reference = Reference(graph, dtype=np.float32)
    parts = [reference.forward(golden.ids[begin:end], length=len(golden.ids)) for begin, end in CHUNKS]
    logits = np.concatenate(parts)
    np.testing.assert_allclose(logits[golden.positions], golden.logits, atol=TOLERANCE, rtol=0)

    rows, tokens = [logits[-1]], golden.ids.tolist()
    for token in golden.greedy[: golden.steps.max()].tolist():
        tokens.append(token)
        if len(tokens) - 1 in graph.reread_lengths:
            reference = Reference(graph, dtype=np.float32)
            rows.append(reference.forward(tokens, rows=[-1])[0])
        else:
            rows.append(reference.forward([token])[0])
    np.testing.assert_allclose(np.stack(rows)[golden.steps], golden.step_logits, atol=TOLERANCE, rtol=0)


SECTIONED = [v for v in VARIANTS if tiny_models.golden(v).mrope]


@pytest.mark.parametrize("variant", SECTIONED)
def test_positions_of_images(tiny_model: Callable[..., Path], variant: str) -> None:
    golden = tiny_models.golden(variant).mrope
    assert golden is not None
    graph = record(tiny_model(variant))
    logits = Reference(graph, dtype=np.float32).forward(golden.ids, axis_positions=golden.positions.T)
    np.testing.assert_allclose(logits, golden.logits, atol=TOLERANCE, rtol=0)
    as_text = Reference(graph, dtype=np.float32).forward(golden.ids)
    assert np.abs(as_text - golden.logits).max() > 30 * TOLERANCE


@pytest.mark.parametrize("variant", SECTIONED)
def test_positions_of_text_are_those_of_other_models(tiny_model: Callable[..., Path], variant: str) -> None:
    graph = record(tiny_model(variant))
    plain = replace(graph, ops=[without_sections(op, graph) for op in graph.ops])
    assert plain.ops != graph.ops
    ids = tiny_models.golden(variant).prompts[40].ids
    np.testing.assert_array_equal(Reference(plain).forward(ids), Reference(graph).forward(ids))


def without_sections(op: Op, graph: Graph) -> Op:
    """A sectioned_rope_table as a rope_table."""
    if op.kind != "sectioned_rope_table":
        return op
    operands = {"positions": graph.input("positions", (TOKENS,)), "frequencies": op.operands["frequencies"]}
    return replace(op, kind="rope_table", operands=operands)
