"""One timed run of ONNX Runtime GenAI with its defaults: FOLDER THREADS PROMPT GENERATE 0 1 -> a line of JSON."""

import json
import sys
import time

import numpy as np
import onnxruntime_genai
from common import print_result, random_tokens

folder, *sizes = sys.argv[1:]
threads, prompt, generate, depth, sequences = map(int, sizes)
if (depth, sequences) != (0, 1):
    sys.exit("ONNX Runtime GenAI is timed on one text in an empty context: leave out --depth and --sequences")
started = time.perf_counter()
config = onnxruntime_genai.Config(folder)
config.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}))
model = onnxruntime_genai.Model(config)
load = time.perf_counter() - started
tokens = np.array([random_tokens(prompt)], np.int32)
length = prompt + 1 + generate


def read(ids: np.ndarray) -> onnxruntime_genai.Generator:
    """A generator that has read ids and chosen the next token."""
    options = onnxruntime_genai.GeneratorParams(model)
    options.set_search_options(max_length=length, min_length=length, do_sample=False)
    generator = onnxruntime_genai.Generator(model, options)
    generator.append_tokens(ids)
    generator.generate_next_token()
    return generator


read(tokens[:, :32]).generate_next_token()
started = time.perf_counter()
text = read(tokens)
prefill_seconds = time.perf_counter() - started
started = time.perf_counter()
for _ in range(generate):
    text.generate_next_token()
decode_seconds = time.perf_counter() - started
print_result(prefill=prompt / prefill_seconds, decode=generate / decode_seconds, load=load)
