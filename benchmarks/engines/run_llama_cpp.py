"""One timed run of llama.cpp, through llama-cpp-python: [--repack] MODEL THREADS PROMPT GENERATE DEPTH."""

import json
import random
import resource
import sys
import time

import llama_cpp
import numpy as np

repack = "--repack" in sys.argv
model_path, threads, prompt, generate, depth = [a for a in sys.argv[1:] if a != "--repack"]
threads, prompt, generate, depth = int(threads), int(prompt), int(generate), int(depth)

silence = llama_cpp.llama_log_callback(lambda *_: None)  # kept alive as long as llama.cpp may call it
llama_cpp.llama_log_set(silence, None)
llama_cpp.llama_backend_init()
started = time.perf_counter()
settings = llama_cpp.llama_model_default_params()
settings.n_gpu_layers = 0
settings.use_extra_bufts = repack
model = llama_cpp.llama_model_load_from_file(model_path.encode(), settings)
options = llama_cpp.llama_context_default_params()
options.n_ctx = depth + prompt + generate + 64
options.n_batch, options.n_ubatch = 2048, 512
options.n_threads = options.n_threads_batch = threads
context = llama_cpp.llama_init_from_model(model, options)
load = time.perf_counter() - started
vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
draw = random.Random(0)
tokens = [draw.randrange(10, 49000) for _ in range(depth + prompt)]


def feed(ids: list[int]) -> int:
    """Appends ids and returns the likeliest next token."""
    for begin in range(0, len(ids), 2048):
        part = ids[begin : begin + 2048]
        array = (llama_cpp.llama_token * len(part))(*part)
        if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(array, len(part))):
            sys.exit("llama_decode failed")
    logits = llama_cpp.llama_get_logits_ith(context, -1)
    return int(np.ctypeslib.as_array(logits, shape=(vocabulary,)).argmax())


def clear() -> None:
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)


for warm in (tokens[:32], tokens[:1]):
    feed(warm)
    clear()
if depth:
    feed(tokens[:depth])
started = time.perf_counter()
token = feed(tokens[depth:])
prefill_seconds = time.perf_counter() - started
started = time.perf_counter()
for _ in range(generate):
    token = feed([token])
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
