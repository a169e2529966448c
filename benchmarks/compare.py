"""Times ferrule against other engines on given files, in alternation, and prints ratios.

    python -m benchmarks.compare MODEL.gguf ... [-t 1,2] [-p 512] [-n 64] [-d 0] [-s 1] [-r 5] [--json FILE]
        [--openvino FOLDER] [--onnxruntime FOLDER] [--no-llama-cpp]

Every run is a fresh process; the order turns round from round to round (A B C, C B A, ...), so that drift hits all
alike. ferrule runs with activations of 16 and of 8 bits (llama.cpp's have 8), llama.cpp, through llama-cpp-python, with
its defaults and without repacking; ratios are to the better llama.cpp of the same round.
OpenVINO GenAI and ONNX Runtime GenAI, whose activations have 8 bits, read models that their own tools export. The table
calls them by the names of their folders, which should say the format. For a checkpoint in folder X:

    optimum-cli export openvino -m X --task text-generation-with-past --weight-format int8 X-int8-per-channel
    python -m onnxruntime_genai.models.builder -i X -o X-int4-block-32 -p int4 -e cpu --extra_options prune_lm_head=true

Each engine may live in another environment: name its Python.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

ENGINES = Path(__file__).parent / "engines"
METRICS = ("prefill_tokens_per_second", "decode_tokens_per_second", "load_seconds", "peak_rss_mb")

Command = list[str]
Runs = dict[str, list[dict[str, float]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("-t", "--threads", default="1,2", help="thread counts, comma-separated")
    parser.add_argument("-p", "--prompt", type=int, default=512, help="tokens of prefill")
    parser.add_argument("-n", "--generate", type=int, default=64, help="tokens of decode")
    parser.add_argument("-d", "--depth", type=int, default=0, help="tokens in the context before both")
    parser.add_argument("-s", "--sequences", type=int, default=1, help="texts that are decoded together")
    parser.add_argument("-r", "--rounds", type=int, default=5)
    parser.add_argument("--no-llama-cpp", action="store_true", help="leave out llama.cpp")
    parser.add_argument("--llama-python", default=sys.executable, help="a Python that has llama-cpp-python")
    parser.add_argument(
        "--openvino", metavar="FOLDER", action="append", default=[], type=Path, help="a model for OpenVINO GenAI"
    )
    parser.add_argument("--openvino-python", default=sys.executable, help="a Python that has openvino-genai")
    parser.add_argument(
        "--onnxruntime", metavar="FOLDER", action="append", default=[], type=Path, help="a model for ONNX Runtime GenAI"
    )
    parser.add_argument("--onnxruntime-python", default=sys.executable, help="a Python that has onnxruntime-genai")
    parser.add_argument("--json", type=Path, help="write every run to this file")
    args = parser.parse_args()

    records = []
    for model in args.models:
        ours, others = engines(args, model)
        commands = ours | {name: command for variants in others.values() for name, command in variants.items()}
        for threads in map(int, args.threads.split(",")):
            size = [str(n) for n in (threads, args.prompt, args.generate, args.depth, args.sequences)]
            runs: Runs = {name: [] for name in commands}
            for i in range(args.rounds):
                for name in list(commands)[:: 1 if i % 2 == 0 else -1]:
                    runs[name].append(run([*commands[name], *size]))
            print(f"\n{model.name}, {threads} thread{'s' * (threads > 1)}, {args.rounds} rounds")
            report(runs, list(ours), {other: list(variants) for other, variants in others.items()})
            records.append({"model": model.name, "threads": threads, "runs": runs})
    if args.json:
        args.json.write_text(json.dumps(records, indent=1))


def engines(args: argparse.Namespace, model: Path) -> tuple[dict[str, Command], dict[str, dict[str, Command]]]:
    """ferrule's variants, and the variants of every other engine: names and commands, sizes not yet appended."""
    ferrule = [sys.executable, str(ENGINES / "run_ferrule.py")]
    llama_cpp = [args.llama_python, str(ENGINES / "run_llama_cpp.py")]
    openvino = [args.openvino_python, str(ENGINES / "run_openvino.py")]
    onnxruntime = [args.onnxruntime_python, str(ENGINES / "run_onnxruntime.py")]
    others = {}
    if not args.no_llama_cpp:
        others["llama.cpp"] = {
            "llama.cpp": [*llama_cpp, "--repack", str(model)],
            "llama.cpp, no repack": [*llama_cpp, str(model)],
        }
    for title, command, folders in (
        ("OpenVINO GenAI", openvino, args.openvino),
        ("ONNX Runtime GenAI", onnxruntime, args.onnxruntime),
    ):
        for folder in folders:
            name = f"{title}, {folder.name}"
            others[name] = {name: [*command, str(folder)]}
    return {"ferrule": [*ferrule, str(model)], "ferrule, 8 bits": [*ferrule, "--8-bits", str(model)]}, others


def run(command: Command) -> dict[str, float]:
    """The figures that an engine prints as its last line."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def report(runs: Runs, ours: list[str], others: dict[str, list[str]]) -> None:
    """Medians per engine, and the medians over rounds of ferrule's ratios to each other engine's better variant."""
    headings = (metric.replace("_per_second", "/s").replace("_", " ") for metric in METRICS)
    print(" " * 62 + "".join(f"{heading:>18}" for heading in headings))
    for name, rounds in runs.items():
        row(name, [statistics.median(figures[metric] for figures in rounds) for metric in METRICS])
    for mine in ours:
        for other, variants in others.items():
            row(f"{mine} / {other}", [ratio(runs, mine, variants, metric) for metric in METRICS])


def ratio(runs: Runs, mine: str, variants: list[str], metric: str) -> float:
    better = max if metric.endswith("per_second") else min
    rounds = zip(*([figures[metric] for figures in runs[name]] for name in [mine, *variants]), strict=True)
    return statistics.median(own / better(other) for own, *other in rounds)


def row(name: str, values: list[float]) -> None:
    print(f"{name:62}" + "".join(f"{value:18.2f}" for value in values))


if __name__ == "__main__":
    main()
