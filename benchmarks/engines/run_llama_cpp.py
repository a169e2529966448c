"""One timed run of llama.cpp, through llama-cpp-python: [--repack] MODEL THREADS PROMPT GENERATE DEPTH SEQUENCES."""

import sys
import time

import llama_cpp
import numpy as np
from common import print_result, random_tokens

repack = "--repack" in sys.argv
model_path, *sizes = [argument for argument in sys.argv[1:] if argument != "--repack"]
threads, prompt, generate, depth, sequences = map(int, sizes)

silence = llama_cpp.llama_log_callback(lambda *_: None)  # kept alive as long as llama.cpp may call it
llama_cpp.llama_log_set(silence, None)
llama_cpp.llama_backend_init()
started = time.perf_counter()
settings = llama_cpp.llama_model_default_params()
settings.n_gpu_layers = 0
settings.use_extra_bufts = repack
model = llama_cpp.llama_model_load_from_file(model_path.encode(), settings)
options = llama_cpp.llama_context_default_params()
options.n_ctx = sequences * (depth + prompt + generate + 64)
options.n_seq_max = sequences
options.n_batch, options.n_ubatch = 2048, 512
options.n_threads = options.n_threads_batch = threads
context = llama_cpp.llama_init_from_model(model, options)
load = time.perf_counter() - started
vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
tokens = random_tokens(depth + prompt)


batch = llama_cpp.llama_batch_init(2048, 0, 1)


def step(entries: list[tuple[int, int, int, bool]]) -> None:
    """Appends tokens: (token, sequence, position, whether its logits are wanted)."""
    batch.n_tokens = len(entries)
    for i, (token, sequence, position, wanted) in enumerate(entries):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position, 1, wanted
        batch.seq_id[i][0] = sequence
    if llama_cpp.llama_decode(context, batch):
        sys.exit("llama_decode failed")


def likeliest(row: int) -> int:
    logits = llama_cpp.llama_get_logits_ith(context, row)
    return int(np.ctypeslib.as_array(logits, shape=(vocabulary,)).argmax())


def feed(ids: list[int], sequence: int = 0, position: int = 0) -> int:
    """Appends ids and returns the likeliest next token."""
    for begin in range(0, len(ids), 2048):
        part = ids[begin : begin + 2048]
        last = len(ids) - 1 - begin
        step([(token, sequence, position + begin + i, i == last) for i, token in enumerate(part)])
    return likeliest(-1)


def clear() -> None:
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)


for warm in (tokens[:32], tokens[:1]):
    feed(warm)
    clear()
if depth:
    feed(tokens[:depth])
started = time.perf_counter()
token = feed(tokens[depth:], position=depth)
prefill_seconds = time.perf_counter() - started
for sequence in range(1, sequences):
    feed(tokens, sequence)
following = [token] * sequences
started = time.perf_counter()
for i in range(generate):
    step([(token, sequence, depth + prompt + i, True) for sequence, token in enumerate(following)])
    following = [likeliest(row) for row in range(sequences)]
decode_seconds = time.perf_counter() - started
print_result(prefill=prompt / prefill_seconds, decode=generate * sequences / decode_seconds, load=load)
