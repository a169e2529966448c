"""One timed run of ferrule: [--8-bits] MODEL THREADS PROMPT GENERATE DEPTH SEQUENCES -> a line of JSON."""

import sys
import time

from common import print_result, random_tokens

import ferrule
from ferrule.engine.kv_cache import Sequence
from ferrule.engine.step_inputs import Chunk

bits = 8 if "--8-bits" in sys.argv else 16
model_path, *sizes = [argument for argument in sys.argv[1:] if argument != "--8-bits"]
threads, prompt, generate, depth, sequences = map(int, sizes)
context = depth + prompt + generate + 64
started = time.perf_counter()
model = ferrule.load(model_path, threads=threads, context=context, activation_bits=bits, progress=False)
load = time.perf_counter() - started
tokens = random_tokens(depth + prompt)
runner = model.runner


def feed(sequence: Sequence, ids: list[int]) -> int:
    """Appends ids and returns the likeliest next token."""
    for begin in range(0, len(ids), runner.max_tokens):
        logits = runner.forward([Chunk(sequence, ids[begin : begin + runner.max_tokens])])
    return int(logits[0].argmax())


for warm in (tokens[:32], tokens[:1]):
    sequence = Sequence()
    feed(sequence, warm)
    runner.cache.release(sequence)
texts = [Sequence() for _ in range(sequences)]
if depth:
    feed(texts[0], tokens[:depth])
started = time.perf_counter()
token = feed(texts[0], tokens[depth:])
prefill_seconds = time.perf_counter() - started
for text in texts[1:]:
    feed(text, tokens)
following = [token] * sequences
started = time.perf_counter()
for _ in range(generate):
    logits = runner.forward([Chunk(text, [token]) for text, token in zip(texts, following, strict=True)])
    following = [int(row.argmax()) for row in logits]
decode_seconds = time.perf_counter() - started
print_result(prefill=prompt / prefill_seconds, decode=generate * sequences / decode_seconds, load=load)
