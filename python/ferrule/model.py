"""The public face: `load` a model, then generate text, stream it, chat, or look at logits."""

from __future__ import annotations

import operator
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .architectures import Architecture
from .checkpoint import Adapter, Checkpoint, open_adapter, open_checkpoint
from .engine import devices, kv_cache, machine, memory
from .engine.generation import Completion, Stream, check_length
from .engine.runner import Runner
from .engine.sampling import GenerationOptions, check_integer
from .engine.step_inputs import Chunk
from .errors import FerruleError, OptionError
from .lora import record_adapted
from .lowering.layout import KV_DTYPES
from .tokenizer import Tokenizer, load_tokenizer

Message = Mapping[str, Any]


def load(
    model: str | Path | None = None,
    *,
    adapter: str | Path | None = None,
    device: str = "auto",
    threads: int | None = None,
    context: int | None = None,
    kv_dtype: str = "auto",
    target: str | None = None,
    activation_bits: int = 16,
    huge_pages: bool = True,
    revision: str | None = None,
    chat_template: str | None = None,
    ignore_config_keys: Iterable[str] = (),
    progress: bool = True,
) -> Model:
    """Opens a model. Weights stay in the mapped file.

    Args:
        model: a GGUF file, a Hugging Face directory or a hub model (`org/name`, `org/name:Q4_K_M`,
            `org/name/file.gguf`); None takes an installed model package.
        adapter: a LoRA adapter to run the model with: a PEFT directory, or for a GGUF model also a GGUF file.
        device: "cpu", "metal", or "auto" for the best that can run the model.
        threads: CPU threads, by default one per physical core that the process may use.
        context: most tokens of one text, prompt and answer together; by default the model's own limit, or what fits
            into memory where that is less. Cache memory is taken only as texts grow.
        kv_dtype: "f16", "bf16", "f32" or "q8_0" for the cache; "auto" is f16 for quantised weights, f32 for float ones,
            and bf16 with 8 `activation_bits` where the CPU multiplies bfloat16: attention then rounds queries and its
            weights to bfloat16, too. "q8_0" takes about half of f16's memory, and rounds each key and value to 8 bits.
        target: forces a CPU instruction set of `ferrule._core.targets()`, such as "avx2".
        activation_bits: 16 or 8, what the CPU rounds activations to before products with quantised weights. 16 gives
            the distributions of exact arithmetic; 8 reads prompts up to twice as fast, as exactly as llama.cpp does.
            With 8, a CPU that multiplies bfloat16 (AVX512-BF16) also does so with F16 and BF16 weights, rounding both
            F16 weights and activations to it; 16 multiplies them in float32.
        huge_pages: on Linux, move weights from the mapped file into huge pages of memory while the model already
            answers, if they take at most half of what is free: the CPU then writes tokens up to half as fast again.
        revision: branch, tag or commit of a hub model.
        chat_template: a Jinja template to use instead of the file's own.
        ignore_config_keys: config keys to disregard that ferrule would otherwise refuse as not understood.
        progress: show downloads and other long preparations on standard error.

    Raises:
        ModelNotFound: there is no such file, directory, package or hub model.
        CorruptFile: the file is damaged or contradicts itself.
        AdapterError: the adapter does not fit the model, or is of a kind that is not supported.
        UnsupportedArchitecture, UnsupportedQuantization, UnsupportedOp: ferrule cannot compute this model.
        DeviceError: the device or target does not exist here.
        MemoryBudgetError: the cache of the `context` asked for does not fit into memory.
        OptionError: an argument is out of its range.
    """
    _check_types(
        paths={"model": model, "adapter": adapter},
        switches={"huge_pages": huge_pages, "progress": progress},
        texts={"target": target, "revision": revision, "chat_template": chat_template},
    )
    _check_choice("device", device, ("auto", "cpu", "metal"))
    _check_choice("kv_dtype", kv_dtype, ("auto", *KV_DTYPES))
    _check_choice("activation_bits", activation_bits, (16, 8))
    keys = _listed("ignore_config_keys", ignore_config_keys, lambda key: isinstance(key, str), "a list of keys")
    if threads is not None:
        check_integer("threads", threads, 1, 1024)
    checkpoint = open_checkpoint(model, progress=progress, revision=revision)
    lora = None if adapter is None else open_adapter(adapter)
    architecture = record_adapted(checkpoint, lora, ignore_config_keys=keys)
    graph = architecture.graph
    runs_on, reason = devices.choose(graph, device, target=target, activation_bits=activation_bits, kv_dtype=kv_dtype)
    dtype, weight_bytes = kv_cache.cache_dtype(graph, runs_on, kv_dtype), _mapped_bytes(checkpoint)
    positions, pool = memory.budget(
        checkpoint.path,
        limit=architecture.context,
        context=context,
        weight_bytes=weight_bytes,
        position_bytes=kv_cache.position_bytes(graph.caches, dtype),
    )
    cache = kv_cache.KVCache(graph.caches, dtype=dtype, positions=pool, states=graph.states)
    moves = huge_pages and runs_on.backend == "cpu" and 2 * weight_bytes <= machine.available_bytes()
    runner = Runner(graph, runs_on, cache, threads=threads or machine.cores(), huge_pages=moves)
    return Model(
        checkpoint,
        architecture,
        runner,
        context=positions,
        device_reason=reason,
        chat_template=chat_template,
        adapter=lora,
    )


class Model:
    """A loaded model. Its methods may be called from several threads; use it as a context manager or `close` it.

    Attributes:
        path: the file or directory.
        context: most tokens of one text.
        device: where it runs, "cpu" or "metal".
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        architecture: Architecture,
        runner: Runner,
        *,
        context: int,
        device_reason: str,
        chat_template: str | None = None,
        adapter: Adapter | None = None,
    ) -> None:
        self.path = checkpoint.path
        self.context = context
        self.device = runner.target.backend
        self._device_reason = device_reason
        self._opened: tuple[Checkpoint, Architecture, Runner] | None = checkpoint, architecture, runner
        self._chat_template = chat_template
        self._adapter = adapter
        self._sequences = set[kv_cache.Sequence]()  # within their `with`

    def __repr__(self) -> str:
        state = "closed" if self._opened is None else f"{self.architecture.family} on {self.runner.target.name}"
        return f"<ferrule.Model {self.name}: {state}>"

    @property
    def name(self) -> str:
        """The file's or directory's name."""
        return self.path.stem if self.path.suffix == ".gguf" else self.path.name

    @property
    def checkpoint(self) -> Checkpoint:
        """Config and tensors of the file. Raises FerruleError after `close`."""
        return self._parts()[0]

    @property
    def architecture(self) -> Architecture:
        """The recorded graph and who recorded it. Raises FerruleError after `close`."""
        return self._parts()[1]

    @property
    def runner(self) -> Runner:
        """What runs the model's steps. Raises FerruleError after `close`."""
        return self._parts()[2]

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The checkpoint's tokenizer, loaded when it is first needed."""
        return load_tokenizer(self.checkpoint)

    def generate(self, prompt: str | Sequence[int], **options: Any) -> Completion:
        """Continues a text or a list of token ids.

        A text is encoded with the beginning-of-sequence token that the model wants, once; ids are taken as they are.
        Options are those of `ferrule.engine.sampling.GenerationOptions`: max_new_tokens, temperature, top_k, top_p,
        min_p, repetition_penalty, seed, stop, ignore_eos. The answer also ends where the context is full.
        `sequence`, of `Model.sequence`, keeps what is read for the next generation, which then reads only what is new.

        Raises:
            ContextLengthError: the prompt is empty or leaves no room in the context.
            OptionError: a prompt or option out of its range or of the wrong type.
            TypeError: an option that does not exist.
            MemoryBudgetError: other texts fill the cache.
        """
        return self.stream(prompt, **options).result()

    def stream(
        self, prompt: str | Sequence[int], *, sequence: kv_cache.Sequence | None = None, **options: Any
    ) -> Stream:
        """Like `generate`, but yields chunks with `.text` and `.tokens` as they come.

        The chunks together are the completion that `generate` returns. No chunk ends within a character or holds a
        part of a stop string.
        """
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else self._token_ids(prompt)
        return self._stream(ids, sequence, options)

    def chat(self, messages: Sequence[Message], **options: Any) -> Completion:
        """Answers a conversation of {"role": ..., "content": ...} messages through the model's chat template.

        Options and errors are those of `generate`. Each turn gets all messages; with a `sequence` the model reads only
        those that are new.

        Raises:
            ChatTemplateError: the model has no template, or it refuses these messages.
        """
        return self.stream_chat(messages, **options).result()

    def stream_chat(
        self, messages: Sequence[Message], *, sequence: kv_cache.Sequence | None = None, **options: Any
    ) -> Stream:
        """Like `chat`, but yields chunks as they come."""
        form = 'a list of {"role": ..., "content": ...}'
        messages = _listed("messages", messages, lambda m: isinstance(m, Mapping) and "role" in m, form)
        ids = self.tokenizer.encode_chat(messages, chat_template=self._chat_template)
        return self._stream(ids, sequence, options)

    @contextmanager
    def sequence(self) -> Iterator[kv_cache.Sequence]:
        """A place in the cache that outlives a generation, for a conversation or for prompts with a common beginning.

        `with model.sequence() as sequence:`, a generation with `sequence=sequence` reads only what is new: the tokens
        that its prompt has in common with the prompt and answer before stay, the rest is given back. Models with
        recurrent layers cannot go back: they read all anew unless the prompt goes on from everything that was read. So
        do those with rotations by length, where that of the prompt changes them. Answers are those without a sequence,
        up to rounding where it depends on how a prompt is cut. One generation at a time may use it; an error empties
        it, the end of the `with` gives its memory back.
        """
        runner, sequence = self.runner, kv_cache.Sequence()
        self._sequences.add(sequence)
        try:
            yield sequence
        finally:
            self._sequences.discard(sequence)
            runner.cache.release(sequence)

    def logits(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Next-token logits after each of `tokens`: float32 [len(tokens), vocabulary].

        Raises ContextLengthError for no tokens or more than the context, OptionError for an id out of range.
        """
        runner, ids = self.runner, self._token_ids(tokens)
        check_length(ids, self.context)
        out = np.empty((len(ids), runner.vocabulary), np.float32)
        with self.sequence() as sequence:
            for begin in range(0, len(ids), runner.max_tokens):
                end = min(begin + runner.max_tokens, len(ids))
                runner.forward([Chunk(sequence, ids[begin:end], "all", len(ids))], out[begin:end])
        return out

    def info(self) -> dict[str, Any]:
        """What the model is and needs, as plain data; sizes are in bytes.

        `expanded_cache_bytes_per_token` is what a token would take if the cache kept keys and values instead of the
        latents that they are made from; None for models without latents.
        """
        checkpoint, architecture, runner = self._parts()
        tokenizer, graph = self.tokenizer, architecture.graph
        formats = Counter(tensor.format for tensor in checkpoint.tensors.values())
        return {
            "name": self.name,
            "path": str(self.path),
            "container": checkpoint.container,
            "architecture": architecture.family,
            "adapter": None if self._adapter is None else self._adapter.info(),
            "parameters": sum(int(np.prod(w.shape, dtype=np.int64)) for w in graph.weights),
            "weights": dict(formats.most_common()),
            "weight_bytes": _mapped_bytes(checkpoint),
            "layers": len({op.layer for op in graph.ops if op.layer is not None}),
            "vocabulary": runner.vocabulary,
            "context": self.context,
            "model_context": architecture.context,
            "kv_dtype": runner.cache.dtype,
            "cache_bytes_per_token": runner.cache.bytes_per_position,
            "expanded_cache_bytes_per_token": kv_cache.expanded_bytes(graph, runner.cache.dtype),
            "cache_bytes_at_full_context": runner.cache.bytes_per_position * self.context,
            "state_bytes_per_text": runner.cache.bytes_per_sequence,
            "tokenizer": tokenizer.kind,
            "bos_token": tokenizer.id_to_token(tokenizer.bos_id) if tokenizer.bos_id is not None else None,
            "adds_bos": tokenizer.adds_bos,
            "end_tokens": [tokenizer.id_to_token(i) for i in sorted(tokenizer.end_ids)],
            "chat_template": self._chat_template or tokenizer.chat_template,
            "device": self.device,
            "device_reason": self._device_reason,
            "target": runner.target.name,
            "activation_bits": runner.target.activation_bits,
            "bytes_in_huge_pages": runner.bytes_in_huge_pages,
            "threads": runner.threads,
        }

    def close(self) -> None:
        """Waits for the step in progress, frees the cache and lets go of the file. Further use raises FerruleError."""
        if self._opened is not None:
            self._opened[2].close()
            self._opened = None

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _parts(self) -> tuple[Checkpoint, Architecture, Runner]:
        if self._opened is None:
            raise FerruleError("the model is closed", path=self.path, hint="Load it again")
        return self._opened

    def _stream(self, prompt: list[int], sequence: kv_cache.Sequence | None, options: Mapping[str, Any]) -> Stream:
        is_held = isinstance(sequence, kv_cache.Sequence) and sequence in self._sequences
        if sequence is not None and not is_held:
            expected = "what `with model.sequence() as sequence:` gives, until its end"
            raise OptionError("no sequence of this model", expected=expected, found=type(sequence).__name__)
        chosen = GenerationOptions.create(self.checkpoint.generation_config, **options)
        return Stream(self.runner, self.tokenizer, prompt, chosen, context=self.context, sequence=sequence)

    def _token_ids(self, tokens: Sequence[int]) -> list[int]:
        try:
            ids = [operator.index(token) for token in tokens] if not isinstance(tokens, str | bytes) else None
        except TypeError:
            ids = None
        if ids is None:
            raise OptionError("no token ids", expected="whole numbers", found=repr(tokens)[:60])
        vocabulary = self.runner.vocabulary
        for token in ids:
            if not 0 <= token < vocabulary:
                raise OptionError("a token id is out of range", expected=f"0 to {vocabulary - 1}", found=str(token))
        return ids


def _check_types(*, paths: Mapping[str, object], switches: Mapping[str, object], texts: Mapping[str, object]) -> None:
    for name, path in paths.items():
        if path is not None and not isinstance(path, str | os.PathLike):
            raise OptionError(f"{name} is no path or name", expected="str or Path", found=type(path).__name__)
    for name, switch in switches.items():
        if not isinstance(switch, bool):
            raise OptionError(f"{name} is out of range", expected="True or False", found=repr(switch))
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise OptionError(f"{name} is no text", expected="str", found=type(text).__name__)


def _check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    # 8.0 is equal to 8 but no number of bits, and an array has no one answer.
    if not isinstance(value, str | int | np.integer) or value not in choices:
        raise OptionError(f"{name} is unknown", expected=" or ".join(map(repr, choices)), found=repr(value))


def _listed(name: str, values: object, fits: Callable[[Any], bool], expected: str) -> list[Any]:
    """The values, which may come but once, as a list."""
    listed = list(values) if isinstance(values, Iterable) and not isinstance(values, str | Mapping) else None
    if listed is None or not all(map(fits, listed)):
        raise OptionError(f"{name} of the wrong form", expected=expected, found=repr(values)[:60])
    return listed


def _mapped_bytes(checkpoint: Checkpoint) -> int:
    return sum(tensor.data.nbytes for tensor in checkpoint.tensors.values())
