"""One timed run of OpenVINO GenAI with its defaults: FOLDER THREADS PROMPT GENERATE 0 1 -> a line of JSON.

Its defaults keep the blocks of earlier prompts for prompts that begin like them: the warm-up reads other tokens.
"""

import json
import random
import resource
import sys
import time

import numpy as np
import openvino
import openvino_genai

folder, *sizes = sys.argv[1:]
threads, prompt, generate, depth, sequences = map(int, sizes)
if (depth, sequences) != (0, 1):
    sys.exit("OpenVINO GenAI is timed on one text in an empty context: leave out --depth and --sequences")
started = time.perf_counter()
pipeline = openvino_genai.LLMPipeline(folder, "CPU", INFERENCE_NUM_THREADS=threads)
load = time.perf_counter() - started
draw = random.Random(0)
tokens, others = ([draw.randrange(10, 49000) for _ in range(count)] for count in (prompt, 32))


def complete(ids: list[int], count: int) -> openvino_genai.PerfMetrics:
    """Reads ids in an empty context and generates count tokens."""
    batch = np.array([ids], np.int64)
    inputs = openvino_genai.TokenizedInputs(openvino.Tensor(batch), openvino.Tensor(np.ones_like(batch)))
    options = openvino_genai.GenerationConfig(max_new_tokens=count, ignore_eos=True, do_sample=False)
    return pipeline.generate(inputs, options).perf_metrics


complete(others, 2)
metrics = complete(tokens, 1 + generate)
print(
    json.dumps(
        {
            "prefill_tokens_per_second": prompt / metrics.get_ttft().mean * 1000,
            "decode_tokens_per_second": 1000 / metrics.get_tpot().mean,
            "load_seconds": load,
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    )
)
