"""One timed run of OpenVINO GenAI with its defaults: FOLDER THREADS PROMPT GENERATE 0 1 -> a line of JSON.

Its defaults keep the blocks of earlier prompts for prompts that begin like them: the warm-up reads other tokens.
"""

import sys
import time

import numpy as np
import openvino
import openvino_genai
from common import print_result, random_tokens

folder, *sizes = sys.argv[1:]
threads, prompt, generate, depth, sequences = map(int, sizes)
if (depth, sequences) != (0, 1):
    sys.exit("OpenVINO GenAI is timed on one text in an empty context: leave out --depth and --sequences")
started = time.perf_counter()
pipeline = openvino_genai.LLMPipeline(folder, "CPU", INFERENCE_NUM_THREADS=threads)
load = time.perf_counter() - started
drawn = random_tokens(prompt + 32)
tokens, others = drawn[:prompt], drawn[prompt:]


def complete(ids: list[int], count: int) -> openvino_genai.PerfMetrics:
    """Reads ids in an empty context and generates count tokens."""
    batch = np.array([ids], np.int64)
    inputs = openvino_genai.TokenizedInputs(openvino.Tensor(batch), openvino.Tensor(np.ones_like(batch)))
    options = openvino_genai.GenerationConfig(max_new_tokens=count, ignore_eos=True, do_sample=False)
    return pipeline.generate(inputs, options).perf_metrics


complete(others, 2)
metrics = complete(tokens, 1 + generate)
print_result(prefill=prompt / metrics.get_ttft().mean * 1000, decode=1000 / metrics.get_tpot().mean, load=load)
