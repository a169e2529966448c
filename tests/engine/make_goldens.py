"""Makes tests/data/sampling.npz: what transformers' logits processors leave of some logits.

python tests/engine/make_goldens.py

Needs torch and transformers.
"""

import json
from pathlib import Path

import numpy as np
import torch
from sampling_cases import CASES
from transformers.generation import logits_process

logits = np.random.default_rng(3).normal(0, 2, 200).astype(np.float32)
history = np.array([int(np.argmax(logits)), 3, 3, 17, int(np.argmin(logits))])


def probabilities(case: dict[str, float]) -> np.ndarray:
    processors = [
        logits_process.RepetitionPenaltyLogitsProcessor(case.get("repetition_penalty", 1.0)),
        logits_process.TemperatureLogitsWarper(case["temperature"]),
    ]
    if "top_k" in case:
        processors.append(logits_process.TopKLogitsWarper(int(case["top_k"])))
    if "top_p" in case:
        processors.append(logits_process.TopPLogitsWarper(case["top_p"]))
    if "min_p" in case:
        processors.append(logits_process.MinPLogitsWarper(case["min_p"]))
    scores = torch.from_numpy(logits)[None]
    for processor in processors:
        scores = processor(torch.from_numpy(history)[None], scores)
    return torch.softmax(scores.double(), -1)[0].numpy()


np.savez_compressed(
    Path(__file__).parents[1] / "data" / "sampling.npz",
    logits=logits,
    history=history,
    cases=json.dumps(CASES),
    probabilities=np.stack([probabilities(case) for case in CASES]).astype(np.float32),
)
