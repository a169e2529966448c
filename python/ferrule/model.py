"""The public face: `load` a model, then generate text, stream it, chat, or look at logits."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence as Seq
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .architectures import Architecture, record
from .checkpoint import open_checkpoint
from .checkpoint.base import Checkpoint
from .engine.generation import Completion, Stream
from .engine.kv_cache import KVCache, Sequence, cache_dtype
from .engine.runner import Runner
from .engine.sampling import GenerationOptions
from .engine.step_inputs import Chunk
from .errors import DeviceError, FerruleError, OptionError
from .lowering import cpu_target
from .tokenizer import Tokenizer, load_tokenizer

Message = Mapping[str, Any]


def load(
    model: str | Path | None = None,
    *,
    device: str = "auto",
    threads: int | None = None,
    context: int | None = None,
    kv_dtype: str = "auto",
    target: str | None = None,
    revision: str | None = None,
    chat_template: str | None = None,
    ignore_config_keys: Iterable[str] = (),
    progress: bool = True,
) -> Model:
    """Opens a model.

    `model`: a GGUF file, a Hugging Face directory or a hub repository id; None takes an installed model package.
    `device`: "cpu", "metal", or "auto" for the best that can run the model.
    `threads`: CPU threads, by default one per core that the process may use.
    `context`: most positions of one text, by default the model's own limit.
    `kv_dtype`: "f16" or "f32" for the cache; "auto" is f16 for quantised weights, f32 for float ones.
    `target`: forces a CPU instruction set ("avx2", "avx512_vnni", "generic", ...).
    `chat_template`: a Jinja template to use instead of the file's own.
    `ignore_config_keys`: config keys to disregard that ferrule would otherwise refuse as not understood.

    Raises ModelNotFound, CorruptFile, UnsupportedArchitecture, UnsupportedQuantization, DeviceError, OptionError.
    """
    if device not in ("auto", "cpu", "metal"):
        raise OptionError("device", expected="auto, cpu or metal", found=repr(device))
    if device == "metal":
        raise DeviceError("this build of ferrule has no Metal backend", hint='Use device="cpu"')
    if kv_dtype not in ("auto", "f16", "f32"):
        raise OptionError("kv_dtype", expected="auto, f16 or f32", found=repr(kv_dtype))
    if threads is not None and threads < 1:
        raise OptionError("threads", expected="at least 1", found=str(threads))
    checkpoint = open_checkpoint(model, progress=progress, revision=revision)
    architecture = record(checkpoint, ignore_config_keys=ignore_config_keys)
    limit = architecture.config.integer("max_position_embeddings", 4096)
    if context is not None and not 1 <= context <= limit:
        raise OptionError("context", expected=f"1 to {limit}, the model's limit", found=str(context))
    positions = context or limit
    graph = architecture.graph
    dtype = cache_dtype(graph) if kv_dtype == "auto" else kv_dtype
    cache = KVCache(graph.caches, dtype=dtype, positions=max(positions, MINIMUM_POOL))
    runner = Runner(graph, cpu_target(target), cache, threads=threads or len(os.sched_getaffinity(0)))
    return Model(checkpoint, architecture, runner, context=positions, chat_template=chat_template)


MINIMUM_POOL = 16 * 2048  # positions that all sequences together may keep, at least


class Model:
    """A loaded model. Its methods may be called from several threads; use it as a context manager or `close` it."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        architecture: Architecture,
        runner: Runner,
        *,
        context: int,
        chat_template: str | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.architecture = architecture
        self.context = context
        self.device = "cpu"
        self._runner: Runner | None = runner
        self._chat_template = chat_template

    @property
    def name(self) -> str:
        """The file's or directory's name."""
        return self.checkpoint.path.stem

    @property
    def runner(self) -> Runner:
        """What runs the model's steps. Raises FerruleError after `close`."""
        if self._runner is None:
            raise FerruleError("the model is closed", path=self.checkpoint.path)
        return self._runner

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The checkpoint's tokenizer, loaded when it is first needed."""
        return load_tokenizer(self.checkpoint)

    def generate(self, prompt: str | Seq[int], **options: Any) -> Completion:
        """Continues a text or a list of token ids. Options: see `GenerationOptions`."""
        return self.stream(prompt, **options).result()

    def stream(self, prompt: str | Seq[int], **options: Any) -> Stream:
        """Like `generate`, but yields chunks with `.text` and `.tokens` as they come."""
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else [self._checked(token) for token in prompt]
        chosen = GenerationOptions.create(self.checkpoint.generation_config, **options)
        return Stream(self.runner, self.tokenizer, ids, chosen, self.context)

    def chat(self, messages: Seq[Message], **options: Any) -> Completion:
        """Answers a conversation of {"role": ..., "content": ...} messages through the model's chat template."""
        return self.stream_chat(messages, **options).result()

    def stream_chat(self, messages: Seq[Message], **options: Any) -> Stream:
        """Like `chat`, but yields chunks as they come."""
        return self.stream(self.tokenizer.encode_chat(messages, chat_template=self._chat_template), **options)

    def logits(self, tokens: Seq[int]) -> NDArray[np.float32]:
        """Next-token logits after each of `tokens`, [len(tokens), vocabulary]."""
        runner, sequence = self.runner, Sequence()
        ids = [self._checked(token) for token in tokens]
        out = np.empty((len(ids), runner.vocabulary), np.float32)
        try:
            for begin in range(0, len(ids), runner.max_tokens):
                end = min(begin + runner.max_tokens, len(ids))
                runner.forward([Chunk(sequence, ids[begin:end], "all")], out[begin:end])
        finally:
            runner.cache.release(sequence)
        return out

    def info(self) -> dict[str, Any]:
        """What the model is and needs, as plain data."""
        runner, tokenizer, graph = self.runner, self.tokenizer, self.architecture.graph
        formats = Counter(tensor.format for tensor in self.checkpoint.tensors.values())
        weights = {w for op in graph.ops for w in op.operands.values() if hasattr(w, "data")}
        per_position = runner.cache.bytes_per_position
        return {
            "path": str(self.checkpoint.path),
            "architecture": self.architecture.family,
            "container": self.checkpoint.container,
            "parameters": sum(int(np.prod(w.shape)) for w in weights),
            "weights": dict(formats.most_common()),
            "weight_bytes": sum(w.data.nbytes for w in weights),
            "layers": len({op.layer for op in graph.ops if op.layer is not None}),
            "vocabulary": runner.vocabulary,
            "context": self.context,
            "kv_dtype": runner.cache.dtype,
            "cache_bytes_per_token": per_position,
            "cache_bytes_at_full_context": per_position * self.context,
            "tokenizer": tokenizer.kind,
            "bos_token": tokenizer.bos_id,
            "end_tokens": [tokenizer.id_to_token(i) for i in sorted(tokenizer.end_ids)],
            "chat_template": "yes" if self._chat_template or tokenizer.chat_template else "no",
            "device": self.device,
            "target": runner.target.name,
            "threads": runner.threads,
        }

    def close(self) -> None:
        """Frees the cache and lets go of the file. Further use raises FerruleError."""
        self._runner = None

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _checked(self, token: int) -> int:
        if not 0 <= token < self.runner.vocabulary:
            raise OptionError("token id", expected=f"0 to {self.runner.vocabulary - 1}", found=str(token))
        return int(token)
