"""asv suite: loading, prefill, decode, overhead per token and memory of the models that installed packages carry."""

from __future__ import annotations

import resource

import ferrule
from ferrule.checkpoint import packages
from ferrule.engine.kv_cache import Sequence
from ferrule.engine.step_inputs import Chunk, step_inputs

MODELS = {package.name: package.path(progress=False) for package in packages.installed_models()}
THREADS = [1, 2]


class Load:
    """Opening a file until it can answer."""

    params = list(MODELS)
    param_names = ("model",)

    def time_load(self, model: str) -> None:
        ferrule.load(MODELS[model], progress=False).close()

    def time_load_with_tokenizer(self, model: str) -> None:
        with ferrule.load(MODELS[model], progress=False) as m:
            m.tokenizer.encode("Gravity")


class Steps:
    """Steps of a loaded model."""

    params = (list(MODELS), THREADS)
    param_names = ("model", "threads")

    def setup(self, model: str, threads: int) -> None:
        self.model = ferrule.load(MODELS[model], threads=threads, progress=False)
        self.decoding = Sequence()
        self.tokens = list(range(100, 612))
        self.read(self.decoding)
        self.model.runner.cache.grow(self.decoding, self.decoding.length + 1)  # what a step does before its inputs

    def teardown(self, model: str, threads: int) -> None:
        self.model.close()

    def read(self, sequence: Sequence) -> None:
        size = self.model.runner.max_tokens
        for begin in range(0, len(self.tokens), size):
            self.model.runner.forward([Chunk(sequence, self.tokens[begin : begin + size])])

    def time_prefill_512(self, model: str, threads: int) -> None:
        sequence = Sequence()
        self.read(sequence)
        self.model.runner.cache.release(sequence)

    def time_decode(self, model: str, threads: int) -> None:
        self.model.runner.forward([Chunk(self.decoding, [100])])

    def time_step_inputs(self, model: str, threads: int) -> None:
        step_inputs([Chunk(self.decoding, [100])])


class Memory:
    """Peak resident memory of a process that loads a model and decodes."""

    params = list(MODELS)
    param_names = ("model",)

    def track_peak_rss_mb(self, model: str) -> float:
        with ferrule.load(MODELS[model], progress=False) as m:
            m.generate([100, 200], max_new_tokens=2, ignore_eos=True)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    track_peak_rss_mb.unit = "MB"  # type: ignore[attr-defined]
