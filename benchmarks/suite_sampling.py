"""asv suite: the choice of a token from the logits of a vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferrule.engine.sampling import GenerationOptions, Sampler

CHOICES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "temperature": {"temperature": 1.0},
    "top_k, top_p": {"temperature": 0.8, "top_k": 40, "top_p": 0.95},
    "min_p, repetition_penalty": {"temperature": 1.0, "min_p": 0.05, "repetition_penalty": 1.1},
}


class Sampling:
    """With a history of 1024 tokens."""

    params = (list(CHOICES), [49152, 262144])
    param_names = ("options", "vocabulary")

    def setup(self, options: str, vocabulary: int) -> None:
        draw = np.random.default_rng(0)
        self.logits = (3 * draw.standard_normal(vocabulary)).astype(np.float32)
        self.history = draw.integers(0, vocabulary, 1024)
        self.sampler = Sampler(GenerationOptions(seed=0, **CHOICES[options]), vocabulary)

    def time_sample(self, options: str, vocabulary: int) -> None:
        self.sampler.sample(self.logits, self.history)
