"""Times kernels of metal/ on an NVIDIA GPU and prints tables in Markdown.

    python tests/metal_cuda/benchmark.py

A measurement is one CUDA graph of many launches, each over other weights or another cache, 1 GB of them in all, so that
none are found in the second-level cache; the median of seven replays counts, divided by the number of launches.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS), str(TESTS / "kernels")]

from kernel_testing import pack_params  # noqa: E402

from ferrule import _core  # noqa: E402
from ferrule.formats import FORMATS  # noqa: E402
from metal_cuda.compiler import Compiler  # noqa: E402
from metal_cuda.device import CudaDevice  # noqa: E402

ROTATED_BYTES = 1 << 30
READ_THREADS = 256
REGISTERS = (0, 64, 96)  # as the driver likes, and at most so many
FEW_ROWS = (16, 32, 64)
BLOCK = 64  # positions of a cache block
# Parameters of one matrix whose product is the result.
PRODUCT = {"n_b": 0, "n_c": 0, "scale": 1.0, "activated": 0, "gated": 0, "activation": 0, "up_stride": 0, "up_begin": 0}
PRODUCT |= {"split": 0}


class Benchmark:
    """`weights` is memory that stands for weights and caches: random bytes, whatever they mean."""

    def __init__(self, directory: Path) -> None:
        self.device = CudaDevice(directory)
        self.driver = self.device.driver
        self.compiler = Compiler(directory)
        self.weights = self.driver.allocate(2 * ROTATED_BYTES)
        noise = np.random.default_rng(0).integers(0, 256, 1 << 26, np.uint8)
        # No exponent of all ones: neither NaN nor infinity, in f16 and in f32.
        noise[1::2] &= 0x3F
        for begin in range(0, 2 * ROTATED_BYTES, noise.nbytes):
            self.driver.upload(self.weights + begin, noise)
        self.other = self.driver.allocate(1 << 28)  # inputs, results
        self.driver.upload(self.other, np.zeros(1 << 28, np.uint8))

    def read_bandwidth(self, size: int) -> float:
        """GB/s of reading `size` bytes in one launch."""
        function = self.driver.load(self.compiler.ptx("read_all", {}))
        n_launches = max(1, 2 * ROTATED_BYTES // size)
        launches = [
            self.device.arguments([self.weights + i * size, self.other], (size // 16).to_bytes(4, "little"), 1, 1)
            for i in range(n_launches)
        ]
        blocks = min(132 * 8 * 4, size // 16 // READ_THREADS)

        def enqueue() -> None:
            for arguments in launches:
                self.driver.launch(function, (blocks, 1, 1, READ_THREADS, 0), arguments)

        return n_launches * size / self.driver.seconds(enqueue) / 1e9

    def seconds(
        self, calls: Sequence[tuple[str, dict[str, float], Sequence[str | int], int]], bytes_read: int
    ) -> float:
        """Seconds of the calls after each other, the fastest of all limits on registers.

        A call is (kernel, params, operands, rows). An operand is "rotated" (other `bytes_read` bytes each time), "" if
        absent, or an offset into `other`.
        """
        times = []
        n_rounds = max(1, ROTATED_BYTES // bytes_read)
        stride = -(-bytes_read // 256) * 256
        for registers in REGISTERS:
            launches = []
            for i in range(n_rounds):
                for kernel, values, operands, rows in calls:
                    params = pack_params(self.device.table()[kernel], values)
                    addresses = [
                        self.weights + i * stride
                        if operand == "rotated"
                        else self.other + operand
                        if operand != ""
                        else 0
                        for operand in operands
                    ]
                    function = self.device.function(kernel, [a > 0 for a in addresses], params, registers)
                    geometry = self.device.geometry(kernel, params, rows, 1)
                    launches.append((function, geometry, self.device.arguments(addresses, params, rows, 1)))

            def enqueue(launches: list[tuple[ctypes.c_void_p, tuple[int, ...], ctypes.Structure]] = launches) -> None:
                for launch in launches:
                    self.driver.launch(*launch)

            times.append(self.driver.seconds(enqueue) / n_rounds)
        return min(times)

    def product(self, kernel: str, name: str, rows: int, n: int, k: int) -> tuple[float, int]:
        """Seconds of a matvec or matmul, and bytes of its weights."""
        weight_bytes = n * FORMATS[name].row_bytes(k)
        operands = [0, "rotated", "", "", 1 << 27, *[""] * 8]  # one matrix of the three that `linears` may take
        call = (f"{kernel}_{name.lower()}", {**PRODUCT, "k": k, "n": n}, operands, rows)
        return self.seconds([call], weight_bytes), weight_bytes

    def split_product(self, name: str, rows: int, n: int, k: int) -> float:
        """Seconds of a matmul whose sums are split among threadgroups, linears_merge included."""
        params = {**PRODUCT, "k": k, "n": n, "split": 1}
        partials, out = 1 << 26, 1 << 27
        calls = [
            (f"matmul_{name.lower()}", params, [0, "rotated", "", "", out, *[""] * 7, partials], rows),
            ("linears_merge", params, [partials, "", "", out, *[""] * 5], rows),
        ]
        return self.seconds(calls, n * FORMATS[name].row_bytes(k))

    def attention(
        self, kv_dtype: str, context: int, splits: int, heads: int, kv_heads: int, head_dim: int
    ) -> tuple[float, int]:
        """Seconds of one token's attention, split and merged, and bytes of keys and values."""
        vector_bytes = {"f16": 2 * head_dim, "q8_0": _core.quantized_vector_bytes(head_dim)}[kv_dtype]
        cache_bytes = context * kv_heads * 2 * vector_bytes
        q, spans, blocks, partials, out = 0, 1 << 24, 1 << 25, 1 << 26, 1 << 27
        self.driver.upload(self.other + spans, np.array([0, 1, context - 1, 0], np.uint32))
        self.driver.upload(self.other + blocks, np.arange(context // BLOCK, dtype=np.int32))
        shared = {"heads": heads, "v_head_dim": head_dim, "splits": splits}
        split = {
            **shared,
            "kv_heads": kv_heads,
            "head_dim": head_dim,
            "window": 0,
            "chunk": 0,
            "latent": 0,
            "top": 0,
            "scale": 0.1,
            "softcap": 0.0,
        }
        calls = [
            (f"attention_split_{kv_dtype}", split, [q, "", "rotated", spans, blocks, "", "", partials], 1),
            ("attention_merge", {**shared, "normed": 0, "eps": 0.0, "weight_offset": 0.0}, [partials, "", "", out], 1),
        ]
        return self.seconds(calls, cache_bytes), cache_bytes


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        benchmark = Benchmark(Path(directory))
        print(f"{benchmark.driver.name()}\n")
        print("| read in one launch | GB/s |\n|---:|---:|")
        for megabytes in (8, 32, 128, 1024, 2048):
            bandwidth = benchmark.read_bandwidth(megabytes << 20)
            print(f"| {megabytes} MiB | {bandwidth:.0f} |", flush=True)

        shapes = ((4096, 4096), (11008, 4096))
        print("\n| matvec |" + "".join(f" {n} x {k}: µs | GB/s | share |" for n, k in shapes))
        print("|---|" + "---:|---:|---:|" * len(shapes))
        for name in FORMATS:
            cells = ""
            for n, k in shapes:
                seconds, size = benchmark.product("matvec", name, 1, n, k)
                rate = size / seconds / 1e9
                cells += f" {1e6 * seconds:.1f} | {rate:.0f} | {rate / bandwidth:.0%} |"
            print(f"| {name} |{cells}", flush=True)

        kv_dtypes = ("f16", "q8_0")
        columns = "".join(f" {kv_dtype}: µs | GB/s | share |" for kv_dtype in kv_dtypes)
        print(f"\n| decode attention, 32 heads on 8 of 128 | parts |{columns}")
        print("|---|---:|" + "---:|---:|---:|" * len(kv_dtypes))
        for context in (4096, 32768):
            for splits in (16, 32, 64, 128):
                cells = ""
                for kv_dtype in kv_dtypes:
                    seconds, size = benchmark.attention(kv_dtype, context, splits, 32, 8, 128)
                    rate = size / seconds / 1e9
                    cells += f" {1e6 * seconds:.1f} | {rate:.0f} | {rate / bandwidth:.0%} |"
                print(f"| {context} positions | {splits} |{cells}", flush=True)

        print("\n| matmul 1024 x 4096 |" + "".join(f" {rows} rows: µs | split: µs |" for rows in FEW_ROWS))
        print("|---|" + "---:|---:|" * len(FEW_ROWS))
        for name in ("F16", "Q4_K"):
            cells = ""
            for rows in FEW_ROWS:
                whole, _ = benchmark.product("matmul", name, rows, 1024, 4096)
                cells += f" {1e6 * whole:.0f} | {1e6 * benchmark.split_product(name, rows, 1024, 4096):.0f} |"
            print(f"| {name} |{cells}", flush=True)

        print("\n| matmul 4096 x 4096 | 512 rows: µs | TFLOP/s | 8 rows, matvec_rows: µs |\n|---|---:|---:|---:|")
        for name in FORMATS:
            seconds, _ = benchmark.product("matmul", name, 512, 4096, 4096)
            few, _ = benchmark.product("matvec_rows", name, 8, 4096, 4096)
            rate = 2 * 512 * 4096 * 4096 / seconds / 1e12
            print(f"| {name} | {1e6 * seconds:.0f} | {rate:.1f} | {1e6 * few:.0f} |", flush=True)


if __name__ == "__main__":
    main()
