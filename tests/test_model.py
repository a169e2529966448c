"""The public interface: what `load` and `Model` promise, on a real model and on tiny ones."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferrule
import tiny_models
from ferrule import _core, errors
from ferrule.checkpoint import packages
from ferrule.engine import machine

PROMPT = "Gravity is the force that"
CONTINUATION = " holds the universe together. It's a fundamental concept that underlies everything, from"
SMOLLM2, GEMMA = packages.PACKAGES
MESSAGES = [{"role": "user", "content": "What is 2+2?"}]


@pytest.fixture(scope="module")
def model() -> Iterator[ferrule.Model]:
    with ferrule.load(SMOLLM2.path(progress=False), threads=2) as model:
        yield model


@pytest.fixture
def tiny(tiny_model: Callable[..., Path]) -> Iterator[ferrule.Model]:
    with ferrule.load(tiny_model("llama3")) as model:
        yield model


def free_blocks(model: ferrule.Model) -> int:
    return len(model.runner.cache._free)


def test_generate(model: ferrule.Model) -> None:
    completion = model.generate(PROMPT, max_new_tokens=15)
    assert completion.text == CONTINUATION
    assert completion.text == model.tokenizer.decode(completion.tokens)
    assert completion.finish_reason == "length"
    assert (completion.timings.prompt_tokens, completion.timings.generated_tokens) == (6, 15)
    assert completion.timings.prompt_seconds > 0
    assert completion.timings.generation_seconds > 0
    assert model.generate(model.tokenizer.encode(PROMPT), max_new_tokens=15).tokens == completion.tokens
    assert model.generate(np.array(model.tokenizer.encode(PROMPT)), max_new_tokens=15).tokens == completion.tokens


def test_greedy_tokens_are_the_likeliest(model: ferrule.Model) -> None:
    prompt = model.tokenizer.encode(PROMPT)
    tokens = model.generate(prompt, max_new_tokens=8).tokens
    logits = model.logits([*prompt, *tokens])
    assert logits.shape == (14, model.runner.vocabulary)
    assert logits.dtype == np.float32
    assert tuple(logits[5:13].argmax(axis=-1)) == tokens


def test_stop_strings(model: ferrule.Model) -> None:
    completion = model.generate(PROMPT, max_new_tokens=40, stop=["fundamental", "concept"])
    assert completion.text == " holds the universe together. It's a "
    assert completion.finish_reason == "stop"


def test_the_same_seed_gives_the_same_text(model: ferrule.Model) -> None:
    def sampled(seed: int) -> str:
        return model.generate("Once", max_new_tokens=12, temperature=1.2, top_k=50, top_p=0.95, seed=seed).text

    assert sampled(7) == sampled(7)
    assert sampled(7) != sampled(8)


def test_an_unset_seed_is_told(model: ferrule.Model) -> None:
    first = model.generate("Once", max_new_tokens=12, temperature=1.2)
    assert model.generate("Once", max_new_tokens=12, temperature=1.2, seed=first.seed).tokens == first.tokens


def test_a_repetition_penalty_counts_the_prompt(tiny: ferrule.Model) -> None:
    plain = tiny.generate([1, 2, 3], max_new_tokens=20, ignore_eos=True).tokens
    penalised = tiny.generate([1, 2, 3], max_new_tokens=20, ignore_eos=True, repetition_penalty=1e6).tokens
    assert len(set(plain)) < 20
    assert len({1, 2, 3, *penalised}) == 23


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 3}, {"stop": "concept that"}], ids=str)
def test_a_stream_is_the_completion_in_pieces(model: ferrule.Model, options: dict[str, Any]) -> None:
    whole = model.generate(PROMPT, max_new_tokens=20, **options)
    stream = model.stream(PROMPT, max_new_tokens=20, **options)
    chunks = list(stream)
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert tuple(token for chunk in chunks for token in chunk.tokens) == whole.tokens
    assert stream.finish_reason == whole.finish_reason
    assert len(chunks) > 5


def test_chat(model: ferrule.Model) -> None:
    completion = model.chat(MESSAGES, max_new_tokens=40)
    assert "four" in completion.text.lower() or "4" in completion.text
    assert completion.finish_reason == "stop"
    prompt = model.tokenizer.apply_chat_template(MESSAGES)
    assert model.generate(prompt, max_new_tokens=40).tokens == completion.tokens
    assert "".join(chunk.text for chunk in model.stream_chat(MESSAGES, max_new_tokens=40)) == completion.text


def test_messages_may_come_but_once(tiny: ferrule.Model) -> None:
    expected = tiny.chat(MESSAGES, max_new_tokens=5, ignore_eos=True)
    assert tiny.chat(iter(MESSAGES), max_new_tokens=5, ignore_eos=True).tokens == expected.tokens  # type: ignore[arg-type]


def test_a_stream_that_several_threads_read_is_the_same(tiny: ferrule.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = tiny.runner.forward
    monkeypatch.setattr(tiny.runner, "forward", lambda chunks: (time.sleep(0.001), forward(chunks))[1])  # others' turn
    expected = tiny.generate([1, 2, 3], max_new_tokens=50, ignore_eos=True).tokens
    stream = tiny.stream([1, 2, 3], max_new_tokens=50, ignore_eos=True)
    with ThreadPoolExecutor(4) as pool:
        pieces = pool.map(lambda _: [chunk.tokens for chunk in stream], range(4))
    found = [token for piece in pieces for tokens in piece for token in tokens]
    assert sorted(found) == sorted(expected)


def test_a_given_chat_template_replaces_the_models(tiny_model: Callable[..., Path]) -> None:
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    with ferrule.load(tiny_model("llama3"), chat_template=template) as model:
        expected = model.generate("user: hi\n", max_new_tokens=5, ignore_eos=True)
        assert (
            model.chat([{"role": "user", "content": "hi"}], max_new_tokens=5, ignore_eos=True).tokens == expected.tokens
        )
        assert model.info()["chat_template"] == template


def test_bos_comes_once() -> None:
    with ferrule.load(GEMMA.path(progress=False), threads=2) as model:
        bos = model.tokenizer.bos_id
        written, plain = model.stream("<bos>Hello there"), model.stream("Hello there")
        assert written.timings.prompt_tokens == plain.timings.prompt_tokens
        assert model.tokenizer.encode("Hello there").count(bos) == 1
        # Ids are taken as they are, so the sequence without BOS reads otherwise.
        ids = model.tokenizer.encode("Hello there")
        assert model.stream(ids[1:]).timings.prompt_tokens == len(ids) - 1


def test_threads_generate_as_if_alone(model: ferrule.Model) -> None:
    prompts = ["Once upon a time", "The capital of France", "def main():"]
    options = {"max_new_tokens": 12, "temperature": 0.9, "seed": 5}
    expected = [model.generate(prompt, **options).text for prompt in prompts]
    found: dict[int, str] = {}

    def work(index: int) -> None:
        found[index] = model.generate(prompts[index], **options).text

    workers = [threading.Thread(target=work, args=(i,)) for i in range(len(prompts))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [found[i] for i in range(len(prompts))] == expected


def test_streams_may_take_turns(model: ferrule.Model) -> None:
    prompts = ["Once upon a time", "The capital of France"]
    expected = [model.generate(prompt, max_new_tokens=10).text for prompt in prompts]
    streams = [model.stream(prompt, max_new_tokens=10) for prompt in prompts]
    texts = ["", ""]
    while any(stream.finish_reason is None for stream in streams):
        for i, stream in enumerate(streams):
            if (chunk := next(stream, None)) is not None:
                texts[i] += chunk.text
    assert texts == expected


def test_logits_of_a_long_text(tiny: ferrule.Model) -> None:
    """More tokens than one step holds, up to the context and not beyond."""
    ids = [i % 384 for i in range(tiny.context)]
    logits = tiny.logits(ids)
    assert np.isfinite(logits).all()
    np.testing.assert_array_equal(logits[:40], tiny.logits(ids[:40]))
    with pytest.raises(errors.ContextLengthError, match="at most 512 tokens; found 513"):
        tiny.logits([*ids, 1])


def test_the_cache_is_whole_after_everything(tiny: ferrule.Model) -> None:
    blocks = free_blocks(tiny)
    tiny.generate([1, 2, 3], max_new_tokens=5)
    tiny.logits([1] * 200)
    next(tiny.stream([1] * 100, ignore_eos=True))
    with pytest.raises(errors.OptionError):
        tiny.generate([1], top_p=2)
    with pytest.raises(errors.ContextLengthError):
        tiny.generate([1] * 600)
    assert free_blocks(tiny) == blocks


@pytest.mark.parametrize(("variant", "context"), [("gpt2", 128), ("mpt", 128), ("kimi_linear", 512)])
def test_contexts_are_those_of_the_config(tiny_model: Callable[..., Path], variant: str, context: int) -> None:
    with ferrule.load(tiny_model(variant)) as model:
        assert model.context == context
        assert np.isfinite(model.logits([1] * context)).all()


def test_answers_end_where_the_context_is_full(tiny_model: Callable[..., Path]) -> None:
    with ferrule.load(tiny_model("llama3"), context=50) as model:
        completion = model.generate([1] * 40, ignore_eos=True)
        assert (len(completion.tokens), completion.finish_reason) == (10, "length")
        with pytest.raises(errors.ContextLengthError, match="at most 49 tokens; found 50"):
            model.generate([1] * 50)


REFUSED = {
    "empty text": (lambda m: m.generate(""), errors.ContextLengthError, "the prompt is empty"),
    "empty ids": (lambda m: m.generate([]), errors.ContextLengthError, "the prompt is empty"),
    "no ids for logits": (lambda m: m.logits([]), errors.ContextLengthError, "the prompt is empty"),
    "id too large": (lambda m: m.generate([1, 384]), errors.OptionError, "expected 0 to 383; found 384"),
    "negative id": (lambda m: m.logits([-1]), errors.OptionError, "expected 0 to 383; found -1"),
    "float id": (lambda m: m.generate([1.0]), errors.OptionError, "no token ids; expected whole numbers"),
    "bytes": (lambda m: m.generate(b"text"), errors.OptionError, "found b'text'"),
    "None": (lambda m: m.generate(None), errors.OptionError, "found None"),
    "text for logits": (lambda m: m.logits("text"), errors.OptionError, "found 'text'"),
    "lone surrogate": (lambda m: m.generate("\ud800"), errors.TokenizerError, "surrogate"),
    "unknown option": (lambda m: m.generate([1], temprature=1), TypeError, "did you mean 'temperature'"),
    "temperature": (lambda m: m.generate([1], temperature=-1), errors.OptionError, "temperature is out of range"),
    "type": (lambda m: m.generate([1], top_k="5"), errors.OptionError, "top_k is out of range.*found '5'"),
    "no tokens": (lambda m: m.generate([1], max_new_tokens=0), errors.OptionError, "max_new_tokens"),
    "stop": (lambda m: m.generate([1], stop=5), errors.OptionError, "stop is out of range"),
    "empty stop": (lambda m: m.stream([1], stop=[""]), errors.OptionError, "none empty"),
    "sequence": (lambda m: m.generate([1], sequence=m.sequence()), errors.OptionError, "`with model.sequence\\(\\) as"),
    "messages": (lambda m: m.chat("hello"), errors.OptionError, "messages of the wrong form"),
    "no messages": (lambda m: m.chat(None), errors.OptionError, "messages of the wrong form"),
    "no role": (lambda m: m.chat([{"content": "hello"}]), errors.OptionError, "messages of the wrong form"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_call_says_what_is_wrong(tiny: ferrule.Model, case: str) -> None:
    call, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        call(tiny)


LOAD_REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "device": ({"device": "tpu"}, errors.OptionError, "device is unknown; expected 'auto' or 'cpu' or 'metal'"),
    "metal": ({"device": "metal"}, errors.DeviceError, "no Metal backend"),
    "kv_dtype": ({"kv_dtype": "q8"}, errors.OptionError, "kv_dtype is unknown"),
    "type of kv_dtype": ({"kv_dtype": np.zeros(2)}, errors.OptionError, "kv_dtype is unknown"),
    "activation_bits": ({"activation_bits": 4}, errors.OptionError, "activation_bits is unknown; expected 16 or 8"),
    "type of activation_bits": ({"activation_bits": 8.0}, errors.OptionError, "activation_bits is unknown.*found 8.0"),
    "huge_pages": ({"huge_pages": "no"}, errors.OptionError, "huge_pages is out of range; expected True or False"),
    "progress": ({"progress": 1}, errors.OptionError, "progress is out of range; expected True or False; found 1"),
    "chat_template": ({"chat_template": 5}, errors.OptionError, "chat_template is no text; expected str; found int"),
    "revision": ({"revision": b"main"}, errors.OptionError, "revision is no text; expected str; found bytes"),
    "type of target": ({"target": 2}, errors.OptionError, "target is no text; expected str; found int"),
    "ignored keys": ({"ignore_config_keys": "key"}, errors.OptionError, "ignore_config_keys of the wrong form"),
    "type of ignored keys": (
        {"ignore_config_keys": [["a"]]},
        errors.OptionError,
        "ignore_config_keys of the wrong form",
    ),
    "threads": ({"threads": 0}, errors.OptionError, "threads is out of range"),
    "type of threads": ({"threads": "2"}, errors.OptionError, "threads is out of range"),
    "context": ({"context": 513}, errors.OptionError, "whole number from 1 to 512; found 513"),
    "target": ({"target": "sse9"}, errors.DeviceError, f"there is no target 'sse9'; expected {_core.targets()[0]}"),
    "cache": (
        {"target": _core.all_targets()[-1], "kv_dtype": "bf16"},
        errors.UnsupportedOp,
        f"target {_core.all_targets()[-1]} does not multiply bfloat16; expected f16, f32 or q8_0; found bf16",
    ),
    "model": ({"model": 5}, errors.OptionError, "model is no path or name"),
}


@pytest.mark.parametrize("case", LOAD_REFUSED)
def test_a_wrong_load_says_what_is_wrong(tiny_model: Callable[..., Path], case: str) -> None:
    arguments, kind, message = LOAD_REFUSED[case]
    with pytest.raises(kind, match=message):
        ferrule.load(**{"model": tiny_model("llama3"), **arguments})


@pytest.mark.parametrize("supported", [True, False])
def test_targets_that_this_processor_lacks_are_refused(
    tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, supported: bool
) -> None:
    best, last = _core.targets()[0], _core.targets()[-1]
    monkeypatch.setattr(_core, "targets", lambda: [best, last] if supported else [last])
    if supported:
        with ferrule.load(tiny_model("llama3"), target=best) as model:
            assert model.info()["target"] == best
    elif best != last:
        with pytest.raises(errors.DeviceError, match=f"this processor cannot run target '{best}'; expected {last}"):
            ferrule.load(tiny_model("llama3"), target=best)


def test_threads_default_to_the_cores(tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 3)
    with ferrule.load(tiny_model("llama3")) as model:
        assert model.info()["threads"] == 3


def test_the_memory_budget(tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_model("llama3")
    with ferrule.load(path) as model:
        weights, per_token = model.info()["weight_bytes"], model.info()["cache_bytes_per_token"]
    monkeypatch.setattr(machine, "memory_bytes", lambda: weights + 300 * per_token)
    with pytest.raises(errors.MemoryBudgetError, match=r"a context of 400 does not fit.*Load with context=300 or less"):
        ferrule.load(path, context=400)
    with ferrule.load(path) as model:  # no context asked for: what fits
        assert model.context == 300
        assert model.generate([1] * 290, ignore_eos=True).finish_reason == "length"
    monkeypatch.setattr(machine, "memory_bytes", lambda: 200 * 4 * per_token)  # less than the weights
    with pytest.warns(RuntimeWarning, match="every token will read weights from disk"), ferrule.load(path) as model:
        assert model.context == 200


def test_a_closed_model_says_so(tiny_model: Callable[..., Path]) -> None:
    model = ferrule.load(tiny_model("llama3"))
    stream = model.stream([1, 2, 3], ignore_eos=True)
    next(stream)
    model.close()
    model.close()
    for use in (
        lambda: model.generate("text"),
        lambda: model.generate([1]),
        lambda: model.stream([1]),
        lambda: model.chat(MESSAGES),
        lambda: model.logits([1]),
        lambda: model.info(),
        lambda: model.sequence().__enter__(),
        lambda: next(stream),
    ):
        with pytest.raises(errors.FerruleError, match="the model is closed"):
            use()
    assert "closed" in repr(model)


def test_close_lets_go_of_the_file(tmp_path: Path) -> None:
    path = tiny_models.build("llama3", tmp_path)

    def mapped() -> bool:
        return str(path) in Path("/proc/self/maps").read_text()

    if not Path("/proc/self/maps").exists():
        pytest.skip("needs a list of this process's mappings")
    with ferrule.load(path) as model:
        model.generate([1, 2, 3], max_new_tokens=2)
        stream = model.stream([1, 2, 3])
        next(stream)
        assert mapped()
    assert not mapped()
    del stream


def test_nothing_is_printed(tiny_model: Callable[..., Path], capfd: pytest.CaptureFixture[str]) -> None:
    with ferrule.load(tiny_model("llama3"), progress=False) as model:
        model.generate([1] * 400, max_new_tokens=5)
        model.chat(MESSAGES, max_new_tokens=5)
        model.info()
    assert capfd.readouterr() == ("", "")


INTERRUPTED = """
import signal, sys
import ferrule

model = ferrule.load(sys.argv[1], threads=2)
runner, forward, steps = model.runner, model.runner.forward, []
blocks = len(runner.cache._free)
expected = model.generate("Once upon a time", max_new_tokens=5).text

def counted(*arguments):
    steps.append(1)
    return forward(*arguments)

def interrupt(*_):
    at.append(len(steps))
    raise KeyboardInterrupt

runner.forward = counted
signal.signal(signal.SIGALRM, interrupt)
for prompt in ("Once upon a time", "word " * 4000):  # while it decodes, while it reads the prompt
    at = []
    signal.setitimer(signal.ITIMER_REAL, 0.7)
    try:
        model.generate(prompt, max_new_tokens=4000, ignore_eos=True)
    except KeyboardInterrupt:
        pass
    assert at == [len(steps)], (at, len(steps))
    assert len(runner.cache._free) == blocks
    assert model.generate("Once upon a time", max_new_tokens=5).text == expected
print("done")
"""


def test_an_interrupt_ends_the_step_and_leaves_the_model_usable() -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(SMOLLM2.path())]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr, result.returncode) == ("done\n", "", 0)


def test_info(model: ferrule.Model) -> None:
    facts = model.info()
    assert facts["architecture"] == "llama"
    assert 134e6 < facts["parameters"] < 135e6
    assert facts["weights"] == {"Q4_1": 210, "F32": 61, "Q8_0": 1}
    assert facts["end_tokens"] == ["<|endoftext|>", "<|im_end|>"]
    assert facts["cache_bytes_per_token"] == 30 * 3 * (64 + 64) * 2
    assert facts["context"] == facts["model_context"] == 8192


def test_a_cache_in_q8_0_takes_about_half() -> None:
    prompt, answer = "The capital of France is", " Paris"
    with ferrule.load(SMOLLM2.path(), kv_dtype="q8_0") as model:
        facts = model.info()
        assert (facts["kv_dtype"], facts["cache_bytes_per_token"]) == ("q8_0", 30 * 3 * 2 * (64 + 2 * 2))
        assert model.generate(prompt, max_new_tokens=8, temperature=0).text.startswith(answer)
