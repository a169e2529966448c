"""Whole models on several threads: not a bit differs from one thread. A thread sanitizer watches these plans in CI."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

import ferrule
import tiny_gguf
from ferrule.engine.kv_cache import Sequence
from ferrule.engine.step_inputs import Chunk

# Dense layers, experts, latents and every kind of recurrent state; float weights and two quantised formats.
MODELS = [
    ("llama3_f16", None),
    ("gemma3_text", "Q8_0"),
    ("mixtral", "Q4_0"),
    ("qwen3_next", None),
    ("deepseek_v3", None),
    ("jamba", "Q8_0"),
    ("mamba2", "Q4_0"),
]
STEPS = [256, 44, 7, *[1] * 6]  # tokens: a prompt longer than a step, few rows, decoding


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize(("variant", "kind"), MODELS, ids=lambda x: str(x))
def test_threads_do_not_change_a_bit(
    tiny_model: Callable[..., Path], tmp_path: Path, variant: str, kind: str | None, bits: int
) -> None:
    path = tiny_model(variant)
    if kind:
        source = tiny_gguf.build(variant, tmp_path / "source.gguf")
        path = tiny_gguf.quantised(source, tmp_path / "quantised.gguf", gguf.GGMLQuantizationType[kind])
    expected = logits(path, 1, bits)
    for threads in (2, 3):
        np.testing.assert_array_equal(logits(path, threads, bits), expected)


def logits(path: Path, threads: int, bits: int) -> np.ndarray:
    """After every token of STEPS."""
    with ferrule.load(path, threads=threads, activation_bits=bits, context=sum(STEPS)) as model:
        chance, sequence, rows = random.Random(0), Sequence(), []
        for count in STEPS:
            tokens = [chance.randrange(model.runner.vocabulary) for _ in range(count)]
            rows.append(model.runner.forward([Chunk(sequence, tokens, "all", sum(STEPS))]))
        return np.concatenate(rows)


FORK = """
import os, sys
import ferrule
model = ferrule.load(sys.argv[1], threads=3)
expected = model.generate([1, 2, 3], max_new_tokens=5).tokens
if os.fork():
    _, status = os.wait()
    sys.exit(os.waitstatus_to_exitcode(status) or model.generate([1, 2, 3], max_new_tokens=5).tokens != expected)
found = model.generate([1, 2, 3], max_new_tokens=5).tokens
model.close()
sys.exit(found != expected)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_has_no_threads_but_answers_and_closes(tiny_model: Callable[..., Path]) -> None:
    result = subprocess.run([sys.executable, "-c", FORK, str(tiny_model("llama3"))], check=False, timeout=60)
    assert result.returncode == 0
