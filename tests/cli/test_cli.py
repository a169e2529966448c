"""The `ferrule` command, mostly in this process; what ends a process runs in one of its own."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

import tiny_adapters
from ferrule import _core
from ferrule.checkpoint import packages
from ferrule.cli import bench, info, options
from ferrule.cli.main import cli, main
from ferrule.engine import limits
from ferrule.engine.benchmark import StageTime, Timing
from ferrule.engine.runner import Runner
from ferrule.engine.step_inputs import Chunk
from ferrule.engine.work import Work

PROMPT = "Gravity is the force that"
CONTINUATION = " holds the universe together. It's"
SMOLLM2 = str(packages.PACKAGES[0].path(progress=False))
FULL_DISK = Path("/dev/full")
PLAINEST = _core.all_targets()[-1]  # "generic", on arm64 "neon"
COMMAND = [sys.executable, "-m", "ferrule"]


class Result(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def ferrule(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """`ferrule("run", "text", stdin=b"")` runs the command here."""

    def call(*arguments: str | Path, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "argv", ["ferrule", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = 0
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
        return Result(status, *capsys.readouterr())

    return call


def test_run_writes_prompt_and_continuation(ferrule: Callable[..., Result]) -> None:
    status, out, err = ferrule("run", PROMPT, "-n", 7, "-m", SMOLLM2)
    assert (status, out) == (0, PROMPT + CONTINUATION + "\n")
    assert err.startswith("[SmolLM2-135M-Instruct.Q4_1: prompt 6 tokens at")
    assert err.endswith("length]\n")


def test_run_reads_standard_input(ferrule: Callable[..., Result]) -> None:
    assert ferrule("run", "-", "-n", 7, stdin=f"{PROMPT}\n".encode()).out == PROMPT + CONTINUATION + "\n"
    status, out, err = ferrule("run", "-", stdin=b"\xff")
    assert (status, out, err) == (1, "", "Error: standard input is not UTF-8: invalid start byte at byte 0\n")


def test_run_passes_its_options_on(ferrule: Callable[..., Result]) -> None:
    assert ferrule("run", PROMPT, "--stop", "together", "--stop", "xyz").out == PROMPT + " holds the universe \n"
    sampling = ("--temperature", 1.5, "--top-k", 40, "--top-p", 0.9, "--min-p", 0.01, "--repetition-penalty", 1.1)
    texts = {ferrule("run", PROMPT, "-n", 8, "--seed", seed, *sampling).out for seed in (1, 1, 2)}
    assert len(texts) == 2
    assert (
        "prompt 6 tokens" in ferrule("run", PROMPT, "-n", 1, "--threads", 1, "--context", 10, "--target", PLAINEST).err
    )


def test_run_answers_through_the_chat_template(ferrule: Callable[..., Result]) -> None:
    status, out, err = ferrule("run", "--chat", "What is 2+2?", "-n", 40)
    assert status == 0
    assert "4" in out
    assert "What is" not in out
    assert err.endswith("stop]\n")


def test_chat(ferrule: Callable[..., Result]) -> None:
    status, out, err = ferrule(
        "chat", SMOLLM2, "--system", "Be brief.", "-n", 12, stdin=b"Hello!\nAnd you?\n\nUnread\n"
    )
    assert status == 0
    assert len(out.splitlines()) >= 2
    greeting = "SmolLM2-135M-Instruct.Q4_1. An empty line ends the conversation.\n"
    assert err.startswith(greeting)
    status, _, err = ferrule("chat", SMOLLM2, "-n", 2, stdin=b"Hello!")  # the input's end ends it
    assert (status, err) == (0, f"{greeting} [cut off; see --max-new-tokens and --context]")
    status, _, err = ferrule("chat", SMOLLM2, stdin=b"\xff\n")
    assert (status, err) == (1, f"{greeting}Error: standard input is not UTF-8: invalid start byte at byte 0\n")


def test_chat_reads_what_is_new(ferrule: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    forward, read = Runner.forward, list[int]()

    def counting(runner: Runner, chunks: list[Chunk]) -> Any:
        read.append(sum(len(chunk.tokens) for chunk in chunks))
        return forward(runner, chunks)

    monkeypatch.setattr(Runner, "forward", counting)
    system = "Answer in a few words, and never in more than a line."
    ferrule("chat", SMOLLM2, "--system", system, "-n", 4, stdin=b"Hello!\nAnd you?\nWhy?\n")
    first, *others = (count for count in read if count > 1)
    assert len(others) == 2
    assert max(others) < first


def test_chat_templates(ferrule: Callable[..., Result], tmp_path: Path) -> None:
    gemma = packages.PACKAGES[1].path(progress=False)
    status, _, err = ferrule("chat", gemma)  # before a line is written
    assert (status, err.count("\n")) == (1, 1)
    assert err.startswith("Error: the model has no chat template. Give one (chat_template=, --chat-template)")
    template = tmp_path / "template.jinja"
    template.write_text("{{ messages[0].content }}", encoding="utf-8")
    chosen = ("--chat-template", template)
    assert ferrule("run", PROMPT, "--chat", "-n", 7, "-m", SMOLLM2, *chosen).out == CONTINUATION + "\n"
    template.write_bytes(b"\xff")
    assert "template.jinja is not UTF-8" in ferrule("chat", SMOLLM2, *chosen).err


def test_info(ferrule: Callable[..., Result], tiny_model: Callable[..., Path]) -> None:
    out = ferrule("info").out
    for row in (
        "architecture   llama, 30 layers, 135 million parameters\n",
        "weights        210 Q4_1, 61 F32, 1 Q8_0 tensors\n",
        "context        8,192 tokens\n",
        "end tokens     <|endoftext|> <|im_end|>\n",
        "first token    <|im_start|>, not added\n",
        "memory         285 MB: 96.6 MB weights (mapped), 189 MB cache at full context\n",
    ):
        assert row in out
    assert (
        "context        100 tokens (the model's limit: 512)"
        in ferrule("info", tiny_model("qwen3"), "--context", 100).out
    )
    assert re.search(r"\ncache +f32, 0 bytes per token, \d.* kB per text\n", ferrule("info", tiny_model("mamba")).out)
    facts = json.loads(ferrule("info", tiny_model("qwen3"), "--json").out)
    on_gpu = info.as_text({**facts, "device": "metal", "target": "apple9"})
    assert on_gpu.endswith("\nruns on        metal (apple9)")  # threads are the CPU's
    assert (facts["architecture"], facts["container"], facts["layers"]) == ("qwen3", "safetensors", 2)


@pytest.mark.parametrize(
    ("n", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.00 kB"), (12_345, "12.3 kB"), (999_499, "999 kB"),
     (999_500, "1.00 MB"), (5_000_000_000_000_000, "5000 TB")],
)  # fmt: skip
def test_sizes(n: int, text: str) -> None:
    assert info._size(n) == text


def test_map(ferrule: Callable[..., Result], tiny_model: Callable[..., Path]) -> None:
    out = ferrule("map").out
    assert "-- layers 0-29 (30 times)" in out
    assert "matvec_q4_1" in out
    assert "bytes per token" in out
    assert "matmul_q4_1" in ferrule("map", "--rows", "many").out
    assert "attention_f32" in ferrule("map", tiny_model("qwen3")).out
    assert "attention_q8_0" in ferrule("map", tiny_model("qwen3"), "--kv-dtype", "q8_0").out
    assert "target apple9" in ferrule("map", SMOLLM2, "--backend", "metal").out
    assert "target apple7" in ferrule("map", SMOLLM2, "--backend", "metal", "--target", "apple7").out
    fused, separate = (
        json.loads(ferrule("map", tiny_model("qwen3"), "--json", flag).out) for flag in ("--fuse", "--no-fuse")
    )
    count = [sum(len(group["entries"]) for group in found["groups"]) for found in (fused, separate)]
    assert fused["bytes"] > 0
    assert count[0] < count[1]


def test_verify(ferrule: Callable[..., Result], tiny_model: Callable[..., Path]) -> None:
    status, out, _ = ferrule("verify", tiny_model("qwen3"), "--target", PLAINEST)
    assert status == 0
    assert f"cpu ({PLAINEST}), " in out
    assert "all agree" in out
    status, out, _ = ferrule("verify", tiny_model("qwen3"), "--target", PLAINEST, "--tolerance", "1e-12")
    assert status == 1
    assert "first divergence: " in out


def test_long_work_shows_its_state_on_a_terminal(
    ferrule: Callable[..., Result], tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_READ_BYTES", 8 << 20)
    bench = ("bench", tiny_model("qwen3"), "-p", 2, "-n", 1, "-r", 1, "--profile", "--device", "cpu")
    commands = {("verify", tiny_model("qwen3")): "NumPy in float64: 2 of ", bench: "prefill 2: 1 rounds\r"}
    assert [ferrule(*command).err for command in commands] == ["", ""]
    monkeypatch.setattr(options, "show_progress", lambda: True)
    for command, text in commands.items():
        err = ferrule(*command).err
        assert text in err
        assert err.endswith("\r")  # Click leaves the escape out here


def test_verify_reads_long_prompts_in_steps(ferrule: Callable[..., Result], tiny_model: Callable[..., Path]) -> None:
    prompt, options = "fox " * 140, ("--activation-bits", 8, "--kv-dtype", "q8_0", "--tolerance", 0.1)
    status, out, _ = ferrule("verify", tiny_model("qwen3"), "--prompt", prompt, *options)
    assert (status, "all agree" in out) == (0, True)


VERIFY_REFUSED = {
    "empty prompt": (("--prompt", ""), "the prompt is empty"),
    "long prompt": (("--prompt", "fox " * 300), "the prompt does not fit the context; expected at most 512 tokens"),
    "cache": (("--kv-dtype", "bf16", "--target", PLAINEST), f"kv_dtype: target {PLAINEST} does not multiply bfloat16"),
    "foreign target": (("--target", "sse9"), "there is no target 'sse9'; expected "),
}


@pytest.mark.parametrize("case", VERIFY_REFUSED)
def test_verify_says_what_it_cannot_do(
    ferrule: Callable[..., Result], tiny_model: Callable[..., Path], case: str
) -> None:
    arguments, message = VERIFY_REFUSED[case]
    status, _, err = ferrule("verify", tiny_model("qwen3"), *arguments)
    assert status == 1
    assert err.startswith(f"Error: {message}")


def test_bench(
    ferrule: Callable[..., Result], tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_READ_BYTES", 8 << 20)
    sizes = ("-p", "5", "-n", "2", "-d", "3", "-r", "2", "--profile", "--device", "cpu")
    status, out, _ = ferrule("bench", tiny_model("qwen3"), *sizes)
    assert status == 0
    assert "limits of this machine: read " in out
    for line in ("prefill 5 ", "decode 2 ", "prefill, a step of 5 tokens, ", "decode, a step, ", "ffn down "):
        assert f"\n{line}" in out
    found = json.loads(ferrule("bench", tiny_model("qwen3"), *sizes, "-s", "4", "--json").out)
    assert list(found["timings"]) == ["prefill 5 after 3", "decode 2 after 3, 4 texts"]
    assert [(timing["tokens"], len(timing["seconds"])) for timing in found["timings"].values()] == [(5, 2), (8, 2)]
    assert {stage["kernel"] for stages in found["profiles"].values() for stage in stages} >= {"matvec_bf16", "rms_norm"}


def test_without_limits_there_are_no_shares() -> None:
    timings = {"prefill 4": Timing(4, (2.0, 2.0), Work(1, 2, 3))}
    profiles = {"prefill": [StageTime("qkv", "matvec", 2, 0.5, Work(1, 2, 3))]}
    assert bench._as_text("model on apple9", None, timings, profiles) == (
        "model on apple9\n\n"
        "           tokens/s  fastest  slowest\n"
        "prefill 4       2.0      2.0      2.0\n\n"
        "prefill, 500.0 ms\n"
        "stage  kernel  launches      ms   share\n"
        "qkv    matvec         2  500.00  100.0%"
    )


def test_lora(ferrule: Callable[..., Result], tiny_model: Callable[..., Path], tmp_path: Path) -> None:
    model, lora = tiny_model("llama3"), ("--lora", tiny_adapters.build("llama3-patterns", tmp_path))
    texts = {ferrule("run", "Once", "-m", model, "-n", 8, "--temperature", 0, *more).out for more in ((), lora)}
    assert len(texts) == 2
    out = ferrule("info", model, *lora).out
    assert f"\nadapter        {tmp_path / 'adapter_model.safetensors'}, 10 matrices of rank 1, 3, 4, 8.26 kB\n" in out
    assert json.loads(ferrule("info", model, *lora, "--json").out)["adapter"]["ranks"] == [1, 3, 4]
    assert json.loads(ferrule("info", model, "--json").out)["adapter"] is None
    assert "  qkv lora  " in ferrule("map", model, *lora).out
    assert "all agree" in ferrule("verify", model, *lora, "--target", PLAINEST).out


HELP = {
    "bench": "--profile",
    "": "Commands:",
    "run": "--max-new-tokens N",
    "chat": "--system TEXT",
    "info": "--json",
    "map": "--rows [few|many]",
    "verify": "--tolerance X",
}


@pytest.mark.parametrize("command", HELP)
def test_help(ferrule: Callable[..., Result], command: str) -> None:
    status, out, err = ferrule(*command.split(), "--help")
    assert (status, err) == (0, "")
    assert HELP[command] in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("command", cli.commands)
def test_help_says_what_every_option_does_and_its_default(command: str) -> None:
    for option in cli.commands[command].params:
        if isinstance(option, click.Option):
            assert option.help, option.name
            takes_none = (option.is_flag and not option.secondary_opts) or option.multiple
            unset = option.name in ("adapter", "revision", "system", "chat_template")
            assert takes_none or unset or option.show_default or "default" in option.help.lower(), option.name


def test_config_keys_are_ignored_where_the_user_says_so(
    ferrule: Callable[..., Result], tiny_model: Callable[..., Path], tmp_path: Path
) -> None:
    model = shutil.copytree(tiny_model("qwen3"), tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"odd": 1, "strange": 2}))
    _, _, err = ferrule("info", model, "--ignore-config-key", "odd")
    assert err.endswith(
        "not understood: strange. If they are harmless, have them ignored (ignore_config_keys=[...], "
        "--ignore-config-key)\n"
    )
    for command in (("info", model), ("map", model), ("verify", model), ("run", "x", "-n", 1, "-m", model)):
        assert ferrule(*command, "--ignore-config-key", "odd", "--ignore-config-key", "strange").status == 0


WRONG = {
    "file": (("run", "x", "-m", "/no/such.gguf"), 1, "Error: /no/such.gguf: no such file or directory"),
    "adapter": (("run", "x", "--lora", "/no/such"), 1, "Error: /no/such: no such adapter. Give a PEFT directory or"),
    "kind of file": (("info", __file__), 1, "this is no GGUF file"),
    "target": (("run", "x", "--target", "sse9"), 1, "Error: there is no target 'sse9'; expected "),
    "target of a map": (("map", "--target", "avx1"), 1, "Error: unknown target 'avx1'"),
    "depth": (("bench", "--depth", "8100"), 1, "Error: the context is too short; expected at most 8192 tokens"),
    "activations": (("info", "--activation-bits", "4"), 2, "'4' is not one of '16', '8'"),
    "context": (("info", "--context", "99999"), 1, "whole number from 1 to 8192; found 99999"),
    "prompt": (("run", ""), 1, "Error: the prompt is empty"),
    "option's value": (("run", "x", "--top-p", "7"), 1, "Error: top_p is out of range"),
    "option": (("run", "x", "--temprature", "1"), 2, "'--temperature'"),
    "command": (("rnu", "x"), 2, "Did you mean 'run'?"),
    "no prompt": (("run",), 2, "Missing argument 'PROMPT'"),
}


def test_run_wants_a_text(ferrule: Callable[..., Result], tiny_model: Callable[..., Path], tmp_path: Path) -> None:
    model = tmp_path / "a model"
    shutil.copytree(tiny_model("llama3"), model)
    for prompt, quoted in ((SMOLLM2, SMOLLM2), (model, f"'{model}'")):
        status, out, err = ferrule("run", prompt)
        assert (status, out) == (1, "")
        command = f'`ferrule run -m {quoted} "Once upon a time"`'
        assert err == f"Error: {prompt}: PROMPT is a model; expected a text. {command} continues a text with it\n"
    for prompt in ("no.gguf", "config.json", str(tmp_path), "word " * 1000):
        assert ferrule("run", prompt, "-n", 1).status == 0
    assert ferrule("run", SMOLLM2, "-n", 1, "-m", SMOLLM2).status == 0


@pytest.mark.skipif(_core.metal_backend() == "gpu", reason="here Metal runs")
def test_a_device_that_is_not_there(ferrule: Callable[..., Result]) -> None:
    assert ferrule("run", "x", "--device", "metal") == (1, "", "Error: this build of ferrule has no Metal backend\n")


@pytest.mark.parametrize("case", WRONG)
def test_errors_are_a_line_on_stderr(ferrule: Callable[..., Result], case: str) -> None:
    arguments, expected, message = WRONG[case]
    status, out, err = ferrule(*arguments)
    assert (status, out) == (expected, "")
    assert message in err
    assert "Traceback" not in err
    assert expected == 2 or err.count("\n") == 1


def test_text_appears_as_it_is_written_and_an_interrupt_ends_it() -> None:
    command = [*COMMAND, "run", "Once upon a time", "-n", "4000", "--ignore-eos"]

    def heed_interrupts() -> None:  # which a shell's background jobs ignore, and pass that on
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, preexec_fn=heed_interrupts) as process:
        assert process.stdout is not None
        first = os.read(process.stdout.fileno(), 1000)
        later = os.read(process.stdout.fileno(), 1000)
        assert first.startswith(b"Once upon a time")
        assert 0 < len(later) < 100  # a token or a few, not a buffer's worth
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.split() == [b"Interrupted."]


def test_a_reader_that_leaves_is_no_error() -> None:
    command = [*COMMAND, "run", "Once upon a time", "-n", "4000", "--ignore-eos"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        os.read(process.stdout.fileno(), 10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1


@pytest.mark.skipif(not FULL_DISK.exists(), reason="needs Linux's device that is always full")
def test_a_full_disk_is_one_line() -> None:
    with FULL_DISK.open("wb") as full:
        result = subprocess.run([*COMMAND, "map"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (result.returncode, result.stderr) == (1, "Error: [Errno 28] No space left on device\n")


def test_version() -> None:
    result = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("ferrule, version ")
