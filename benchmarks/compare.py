"""Times ferrule against llama.cpp (through llama-cpp-python) on given files, in alternation, and prints ratios.

    python -m benchmarks.compare MODEL.gguf ... [-t 1,2] [-p 512] [-n 64] [-d 0] [-s 1] [-r 5] [--json FILE]

Every run is a fresh process; the order turns round from round to round (A B C, C B A, ...), so that drift hits all
alike. ferrule runs with activations of 16 and of 8 bits (llama.cpp's have 8), llama.cpp with its defaults and without
repacking; ratios are to the better llama.cpp of the same round.
llama-cpp-python may live in another environment: name its Python with --llama-python.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

ENGINES = Path(__file__).parent / "engines"
METRICS = ("prefill_tokens_per_second", "decode_tokens_per_second", "load_seconds", "peak_rss_mb")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("-t", "--threads", default="1,2", help="thread counts, comma-separated")
    parser.add_argument("-p", "--prompt", type=int, default=512, help="tokens of prefill")
    parser.add_argument("-n", "--generate", type=int, default=64, help="tokens of decode")
    parser.add_argument("-d", "--depth", type=int, default=0, help="tokens in the context before both")
    parser.add_argument("-s", "--sequences", type=int, default=1, help="texts that are decoded together")
    parser.add_argument("-r", "--rounds", type=int, default=5)
    parser.add_argument("--llama-python", default=sys.executable, help="a Python that has llama-cpp-python")
    parser.add_argument("--json", type=Path, help="write every run to this file")
    args = parser.parse_args()

    commands = {
        "ferrule": [sys.executable, str(ENGINES / "run_ferrule.py")],
        "ferrule, 8 bits": [sys.executable, str(ENGINES / "run_ferrule.py"), "--8-bits"],
        "llama.cpp": [args.llama_python, str(ENGINES / "run_llama_cpp.py"), "--repack"],
        "llama.cpp, no repack": [args.llama_python, str(ENGINES / "run_llama_cpp.py")],
    }
    records = []
    for model in args.models:
        for threads in map(int, args.threads.split(",")):
            size = [
                str(model),
                str(threads),
                str(args.prompt),
                str(args.generate),
                str(args.depth),
                str(args.sequences),
            ]
            runs: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
            for i in range(args.rounds):
                for name in list(commands)[:: 1 if i % 2 == 0 else -1]:
                    runs[name].append(run([*commands[name], *size]))
            report(model.name, threads, runs)
            records.append({"model": model.name, "threads": threads, "runs": runs})
    if args.json:
        args.json.write_text(json.dumps(records, indent=1))


def run(command: list[str]) -> dict[str, float]:
    """The figures that an engine prints as its last line."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def report(model: str, threads: int, runs: dict[str, list[dict[str, Any]]]) -> None:
    """Medians per engine, and the medians over rounds of ferrule's ratios to the better llama.cpp of the round."""
    print(f"\n{model}, {threads} thread{'s' * (threads > 1)}, {len(runs['ferrule'])} rounds")
    ours = [name for name in runs if name.startswith("ferrule")]
    print(f"{'':28}" + "".join(f"{name:>22}" for name in runs) + "".join(f"{'ratio':>8}" for _ in ours))
    for metric in METRICS:
        better = max if metric.endswith("per_second") else min
        best = [
            better(figures)
            for figures in zip(*([r[metric] for r in runs[n]] for n in runs if n not in ours), strict=True)
        ]
        medians = "".join(f"{statistics.median(r[metric] for r in runs[name]):22.2f}" for name in runs)
        ratios = [
            statistics.median(run[metric] / other for run, other in zip(runs[name], best, strict=True)) for name in ours
        ]
        print(f"{metric.replace('_', ' '):28}{medians}" + "".join(f"{ratio:8.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
