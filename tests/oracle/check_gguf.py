"""Compares llama.cpp on GGUF files of tiny models with the goldens of transformers.

    PYTHONPATH=tests python tests/oracle/check_gguf.py FILE.gguf...

Needs llama-cpp-python. Files are named <variant>.gguf. Only f32 files can agree to rounding: for other weight
types llama.cpp rounds the activations too, and its GELU comes from a float16 table.
"""

import argparse
import ctypes
from pathlib import Path

import llama_cpp as lib
import numpy as np

import tiny_models


def evaluate(context: ctypes.c_void_p, ids: np.ndarray, start: int) -> np.ndarray:
    """Logits [n, vocabulary] of tokens at positions start..start+n-1 of sequence 0."""
    batch = lib.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i] = int(token)
        batch.pos[i] = start + i
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = 0
        batch.logits[i] = 1
    status = lib.llama_decode(context, batch)
    if status:
        raise RuntimeError(f"llama_decode returned {status}")
    shape = (tiny_models.VOCABULARY,)
    rows = [np.ctypeslib.as_array(lib.llama_get_logits_ith(context, i), shape=shape).copy() for i in range(len(ids))]
    lib.llama_batch_free(batch)
    return np.stack(rows)


def differences(model: ctypes.c_void_p, prompt: tiny_models.PromptGolden) -> tuple[float, float, int]:
    """Largest differences of prompt and decode logits, and how many of the 16 greedy tokens differ."""
    options = lib.llama_context_default_params()
    options.n_ctx, options.n_batch, options.n_ubatch = 512, 128, 128
    options.n_threads = options.n_threads_batch = 2
    options.type_k = options.type_v = lib.GGML_TYPE_F32
    options.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
    context = lib.llama_init_from_model(model, options)
    logits = evaluate(context, prompt.ids, 0)
    steps = [logits[-1]]
    for i, token in enumerate(prompt.greedy[:-1]):
        steps.append(evaluate(context, [token], len(prompt.ids) + i)[0])
    lib.llama_free(context)
    prefill = np.abs(logits[prompt.positions] - prompt.logits).max()
    decode = np.abs(np.stack(steps)[prompt.steps] - prompt.step_logits).max()
    return prefill, decode, int((np.argmax(steps, -1) != prompt.greedy).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    silent = lib.llama_log_callback(lambda level, text, data: None)
    lib.llama_log_set(silent, ctypes.c_void_p(0))
    lib.llama_backend_init()
    for path in parser.parse_args().files:
        options = lib.llama_model_default_params()
        options.use_extra_bufts = False  # no repacked weights: they sum in another order
        model = lib.llama_model_load_from_file(str(path).encode(), options)
        if not model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        golden = tiny_models.golden(path.stem)
        results = [differences(model, prompt) for prompt in golden.prompts.values()]
        prefill, decode, wrong = np.max(results, axis=0)
        print(f"{path.name:32s} prefill {prefill:.2g} decode {decode:.2g} differing tokens {wrong:.0f}", flush=True)
        lib.llama_model_free(model)


if __name__ == "__main__":
    main()
