"""asv suite: products of every weight format and attention, one thread, as GB/s of weights or cache and as GOP/s."""

from __future__ import annotations

import time

import numpy as np

from ferrule import _core
from ferrule.engine.program import pack_params
from ferrule.formats import FORMATS

N, K = 4096, 2048
HEADS, KV_HEADS, HEAD_DIM = 16, 8, 128
BLOCK = 64  # positions of the cache (csrc/params/kv_cache.h)
ROUNDS = 5
NONE = ("none", 0, 0, 0)


def seconds(launch: tuple, weights: list[np.ndarray], inputs: list[np.ndarray], rows: int, out: np.ndarray) -> float:
    """The fastest of a few runs of one launch."""
    executor = _core.Executor(_core.targets()[0], 1)
    dims = (rows, 1, 1)
    program = _core.Program(executor, [launch], weights, _core.Cache(1 << 26), 0, dims, len(inputs), 1)
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        program.run(*dims, inputs, [out])
        best = min(best, time.perf_counter() - started)
    return best


class Products:
    """matvec of one row and matmul of 512."""

    params = (list(FORMATS), [16, 8])
    param_names = ("format", "activation bits")

    def setup(self, name: str, bits: int) -> None:
        self.planes = 0 if FORMATS[name].block == 1 else bits // 8
        if self.planes == 0 and bits == 8:
            raise NotImplementedError  # asv's way to leave out a case
        self.weight = np.ones(N * FORMATS[name].row_bytes(K), np.uint8)

    def product(self, name: str, kernel: str, rows: int) -> float:
        row_bytes = _core.quantized_row_bytes(K, self.planes) if self.planes else 4 * K
        x, out = np.zeros((rows, row_bytes), np.uint8), np.empty((rows, N), np.float32)
        operands = [("input", 0, 0, 0), ("weight", 0, 0, self.weight.nbytes), NONE, NONE]
        params = pack_params("matmul", {"k": K, "n": N, "scale": 1.0, "planes": self.planes})
        launch = (f"{kernel}_{name.lower()}", [*operands, ("output", 0, 0, 0)], params, "tokens", True)
        return seconds(launch, [self.weight], [x], rows, out)

    def track_decode(self, name: str, bits: int) -> float:
        return self.weight.nbytes / self.product(name, "matvec", 1) / 1e9

    def track_prefill(self, name: str, bits: int) -> float:
        return 2 * K * N * 512 / self.product(name, "matmul", 512) / 1e9

    track_decode.unit = "GB/s"  # type: ignore[attr-defined]
    track_prefill.unit = "GOP/s"  # type: ignore[attr-defined]


class Attention:
    """Attention of 16 heads on 8 of 128, over a cache in f16."""

    params = ([0, 4096],)
    param_names = ("depth",)

    def attend(self, depth: int, rows: int) -> float:
        blocks = -(-(depth + rows) // BLOCK)
        q, out = np.ones((rows, HEADS * HEAD_DIM), np.float32), np.empty((rows, HEADS * HEAD_DIM), np.float32)
        spans, table = np.array([[0, rows, depth, 0]], np.uint32), np.arange(blocks, dtype=np.int32)
        cache = ("cache", 0, 0, blocks * BLOCK * KV_HEADS * 2 * HEAD_DIM * 2)
        operands = [("input", 0, 0, 0), NONE, cache, ("input", 1, 0, 0), ("input", 2, 0, 0), *[NONE] * 3]
        sizes = {"heads": HEADS, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM, "v_head_dim": HEAD_DIM}
        absent = {"window": 0, "chunk": 0, "latent": 0, "top": 0, "softcap": 0.0}
        params = pack_params("attention", {**sizes, **absent, "scale": 1.0})
        launch = ("attention_f16", [*operands, ("output", 0, 0, 0)], params, "tokens", True)
        return seconds(launch, [], [q, spans, table], rows, out)

    def track_decode(self, depth: int) -> float:
        return 2 * (depth + 1) * KV_HEADS * 2 * HEAD_DIM / self.attend(depth, 1) / 1e9

    def track_prefill(self, depth: int) -> float:
        rows = 512
        return 4 * rows * (depth + (rows + 1) / 2) * HEADS * HEAD_DIM / self.attend(depth, rows) / 1e9

    track_decode.unit = "GB/s"  # type: ignore[attr-defined]
    track_prefill.unit = "GFLOP/s"  # type: ignore[attr-defined]
