"""Runs steps of a model on a device: lowers and compiles a program per row class on first use."""

from __future__ import annotations

import threading
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..errors import DeviceError, FerruleError
from ..graph import Graph
from ..lowering import Plan, RowClass, lower
from ..lowering.plan import Launch
from ..lowering.targets import Target
from .devices import executor, mapped_files
from .kv_cache import KVCache
from .program import compile_plan
from .sampling import DRAW
from .step_inputs import Chunk, StepInputs, step_inputs

# Rows of a sequence above which it pays to expand keys and values from latents: for a position of the context, that
# costs as much as so many rows save. With latents of 512, and keys and values of 128, a position takes 131,072 products
# of each head, and a row saves 768 of them and the reading of wider keys and values; measured with 16 such heads, both
# forms are equal near 110 rows.
EXPANDED_ROWS = 128


class Runner:
    """One model on one target. `forward` may be called from several threads; steps run one at a time."""

    def __init__(
        self,
        graph: Graph,
        target: Target,
        cache: KVCache,
        *,
        threads: int,
        fuse: bool = True,
        huge_pages: bool = False,
    ) -> None:
        assert graph.output is not None
        self.graph, self.target, self.cache, self.threads = graph, target, cache, threads
        self.vocabulary = graph.output.width
        self.max_tokens = target.most_rows("many_rows")  # of one call of forward
        self._fuse = fuse
        self._executor = executor(target, graph, threads)
        files = mapped_files(weight.data for weight in graph.weights) if huge_pages else []
        self._huge_pages = _core.HugePages(files)
        self._programs: dict[tuple[RowClass, RowClass, bool, bool], tuple[Plan, _core.Program]] = {}
        self._has_latents = any(layer.kind == "latent" for layer in graph.caches)
        self._lock = threading.Lock()
        self._closed = False

    def forward(
        self,
        chunks: Seq[Chunk],
        out: NDArray[np.float32] | None = None,
        *,
        times: list[tuple[Launch, int]] | None = None,
    ) -> NDArray[np.float32]:
        """Appends every chunk to its sequence and returns the wanted logits [rows, vocabulary], in order.

        At most `max_tokens` tokens in all. `out` receives the logits where given, `times` every launch with its
        nanoseconds: launches then wait for one another. On a CPU the bits of a sequence's logits do not depend on
        what else is in the step, save that latents may be absorbed or expanded; on a GPU they may, by how much that is.

        Raises FerruleError after `close`, MemoryBudgetError when the cache is full, DeviceError when the GPU fails.
        """
        with self._lock:
            step, plan, program = self._prepare(chunks)
            if out is None:
                out = np.empty((step.rows, self.vocabulary), np.float32)
            arrays = [step.arrays[i.name] for i in plan.inputs]
            if times is None:
                program.run(step.tokens, step.rows, step.sequences, arrays, [out])
            else:
                nanoseconds = program.profile(step.tokens, step.rows, step.sequences, arrays, [out])
                times.extend(zip(plan.launches, nanoseconds, strict=True))
            if self.target.backend == "metal" and np.isnan(out.max(initial=0)):
                raise _no_numbers()
            for chunk in chunks:
                chunk.sequence.tokens.extend(chunk.tokens)
        return out

    @property
    def draws_tokens(self) -> bool:
        """Whether the device has a kernel that draws tokens, so that `start` works."""
        return "sample" in self.target.kernels

    def start(self, chunk: Chunk, draw: tuple[float, float, int, float], previous: DrawnToken | None) -> DrawnToken:
        """Begins to append the chunk to its sequence and to draw a token from its last logits, and returns at once.

        `draw` is a `sampling.DRAW`. With `previous` the chunk is one token, whatever stands in it: the one that is
        drawn there. Steps run in the order of their starts. Raises as `forward` does.
        """
        with self._lock:
            step, plan, program = self._prepare([chunk], draw=True)
            step.arrays["draws"] = np.array([draw], DRAW).view(np.uint32)
            if previous is not None:
                step.arrays["tokens"] = np.empty(0, np.int32)
            arrays = [step.arrays[i.name] for i in plan.inputs]
            before = previous.step if previous is not None else None
            started = program.start(step.tokens, step.rows, step.sequences, arrays, [4], before)
            chunk.sequence.tokens.extend(chunk.tokens)
        return DrawnToken(started)

    @property
    def bytes_in_huge_pages(self) -> int:
        """How much of the mapped files has been moved."""
        return self._huge_pages.moved

    def close(self) -> None:
        """Waits for the step in progress and lets go of weights, cache and threads."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._programs.clear()
                self.cache.close()
                del self.graph, self._executor, self._huge_pages

    def plan(self, tokens: int, rows: int) -> Plan:
        """What serves a step that begins a text with so many tokens and wants so many rows of logits."""
        with self._lock:
            return self._compiled(tokens, rows, self._expands([(tokens, tokens)]))[0]

    def _prepare(self, chunks: Seq[Chunk], *, draw: bool = False) -> tuple[StepInputs, Plan, _core.Program]:
        """Makes room for the chunks in the cache; what their step reads and what serves it."""
        if self._closed:
            raise FerruleError("the model is closed", hint="Load it again")
        for chunk in chunks:
            self.cache.grow(chunk.sequence, chunk.sequence.length + len(chunk.tokens))
        step = step_inputs(chunks)
        expand = self._expands([(chunk.sequence.length + len(chunk.tokens), len(chunk.tokens)) for chunk in chunks])
        return step, *self._compiled(step.tokens, step.rows, expand, draw=draw)

    def _expands(self, sizes: Seq[tuple[int, int]]) -> bool:
        """Whether the step has less work with keys and values expanded from latents than with latents alone.

        `sizes`: of each chunk, the length that its text then has, and its own.
        """
        if not self._has_latents or self.target.backend != "cpu":
            return False
        return sum(context * (rows - EXPANDED_ROWS) for context, rows in sizes) > 0

    def _compiled(self, tokens: int, rows: int, expand: bool, *, draw: bool = False) -> tuple[Plan, _core.Program]:
        token_class, logits = self.target.row_class(tokens), self.target.row_class(rows)
        key = token_class, logits, expand, draw
        if key not in self._programs:
            plan = lower(
                self.graph,
                self.target,
                token_class,
                logits=logits,
                expand=expand,
                kv_dtype=self.cache.dtype,
                fuse=self._fuse,
                sample=draw,
            )
            self._programs[key] = plan, compile_plan(plan, self._executor, self.cache)
        return self._programs[key]


@dataclass(frozen=True)
class DrawnToken:
    """A token that a step on its way draws."""

    step: _core.Step

    def wait(self) -> int:
        """The token. Raises DeviceError when the GPU fails or its logits are not numbers."""
        token = np.empty(1, np.int32)
        self.step.finish([token])
        if token[0] < 0:
            raise _no_numbers()
        return int(token[0])


def _no_numbers() -> DeviceError:
    return DeviceError("the GPU computed logits that are not numbers", hint='Use device="cpu"')
