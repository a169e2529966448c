"""One timed run of ferrule: MODEL THREADS PROMPT GENERATE DEPTH -> a line of JSON."""

import json
import random
import resource
import sys
import time
from pathlib import Path

import ferrule
from ferrule.engine.kv_cache import Sequence
from ferrule.engine.step_inputs import Chunk

model_path, threads, prompt, generate, depth = Path(sys.argv[1]), *map(int, sys.argv[2:])
started = time.perf_counter()
model = ferrule.load(model_path, threads=threads, context=depth + prompt + generate + 64, progress=False)
load = time.perf_counter() - started
draw = random.Random(0)
tokens = [draw.randrange(10, 49000) for _ in range(depth + prompt)]
runner = model.runner


def prefill(sequence: Sequence, ids: list[int]) -> int:
    for begin in range(0, len(ids), runner.max_tokens):
        logits = runner.forward([Chunk(sequence, ids[begin : begin + runner.max_tokens])])
    return int(logits[0].argmax())


for warm in (tokens[:32], tokens[:1]):
    sequence = Sequence()
    prefill(sequence, warm)
    runner.cache.release(sequence)
sequence = Sequence()
if depth:
    prefill(sequence, tokens[:depth])
started = time.perf_counter()
token = prefill(sequence, tokens[depth:])
prefill_seconds = time.perf_counter() - started
started = time.perf_counter()
for _ in range(generate):
    token = prefill(sequence, [token])
decode_seconds = time.perf_counter() - started
print(
    json.dumps(
        {
            "prefill_tokens_per_second": prompt / prefill_seconds,
            "decode_tokens_per_second": generate / decode_seconds,
            "load_seconds": load,
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    )
)
