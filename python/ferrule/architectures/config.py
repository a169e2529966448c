"""A model's config as an architecture reads it: every key is either read, known to be harmless, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ..errors import CorruptFile, UnsupportedArchitecture

# Keys that never change the maths of a forward pass: training, generation, tokens, bookkeeping.
HARMLESS = frozenset(
    """
    architectures model_type transformers_version torch_dtype dtype use_cache initializer_range _name_or_path
    attention_dropout attn_pdrop embd_pdrop resid_pdrop hidden_dropout attention_probs_dropout_prob residual_dropout
    bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id decoder_start_token_id vocab_size
    max_position_embeddings tie_word_embeddings pretraining_tp output_attentions output_hidden_states return_dict
    auto_map is_llama_config rope_interleaved use_bfloat16 cache_implementation chunk_size_feed_forward
    is_encoder_decoder add_cross_attention id2label label2id problem_type gradient_checkpointing finetuning_task
    task_specific_params use_return_dict mm_tokens_per_image boi_token_index eoi_token_index image_token_index
    boi_token_id eoi_token_id image_token_id video_token_id vision_start_token_id vision_end_token_id vision_token_id
    audio_token_id vision_config audio_config unsloth_version unsloth_fixed router_aux_loss_coef output_router_logits
    attn_implementation language text_config_overrides mlp_only_layers_note tokenizer_class
    """.split()
)

_REQUIRED: Any = object()
T = TypeVar("T")


class Config(Mapping[str, Any]):
    """Read-only view of a config that remembers which keys were read.

    `container` is "gguf" or "safetensors": where the same model is stored differently, the architecture asks it.
    Raises CorruptFile for a value of the wrong type and for a key that is needed and absent, UnsupportedArchitecture
    for a value that is not implemented.
    """

    def __init__(self, values: Mapping[str, Any], *, container: str, path: str) -> None:
        self._values = dict(values)
        self._read: set[str] = set()
        self.container = container
        self.path = path

    def __getitem__(self, key: str) -> Any:
        return self.get(key, _REQUIRED)

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str, default: Any = None) -> Any:
        """The key's value, `default` where it is absent or null; without a default the key is required."""
        self._read.add(key)
        value = self._values.get(key)
        if value is not None:
            return value
        if default is _REQUIRED:
            raise CorruptFile(f"the config lacks {key!r}", path=self.path, hint="Is the model's config complete?")
        return default

    def integer(self, key: str, default: int = _REQUIRED) -> int:
        """A positive or zero integer."""
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise CorruptFile(
                f"config key {key!r}", path=self.path, expected="a non-negative integer", found=repr(value)
            )
        return value

    def number(self, key: str, default: float = _REQUIRED) -> float:
        """A real number."""
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise CorruptFile(f"config key {key!r}", path=self.path, expected="a number", found=repr(value))
        return float(value)

    def choice(self, key: str, options: Mapping[str, T], default: str = _REQUIRED) -> T:
        """The option that a string names; another string is refused by name."""
        return self._option(key, self.get(key, default), options)

    def choices(
        self, key: str, options: Mapping[str, T], default: list[str] | None = None, *, count: int | None = None
    ) -> list[T]:
        """The options that the strings of a list name, such as the kinds of layers; another string is refused by name.

        The default also stands for an empty list; without one the key is required. `count`: how many there must be.
        """
        names = self[key] if default is None else self.get(key) or default
        if not isinstance(names, list) or count not in (None, len(names)):
            expected = "a list of strings" if count is None else f"a list of {count} strings"
            raise CorruptFile(f"config key {key!r}", path=self.path, expected=expected, found=repr(names)[:200])
        return [self._option(key, name, options) for name in names]

    def expect(self, key: str, value: Any) -> None:
        """Refuses any other value than the only one implemented (absent counts as that value)."""
        found = self.get(key, value)
        if found != value:
            raise UnsupportedArchitecture(
                f"config key {key!r} changes the model in a way that is not implemented",
                path=self.path,
                expected=repr(value),
                found=repr(found),
            )

    def ignore(self, *keys: str) -> None:
        """Marks keys as read that have no part in this model's forward pass, or that its tensors answer."""
        self._read.update(keys)

    def limits(self, key: str, default: tuple[float, float]) -> tuple[float, float]:
        """A pair of numbers, either of which may be infinite."""
        values = self.get(key, default)
        low, high = (float(v["__float__"]) if isinstance(v, Mapping) else float(v) for v in values)
        return low, high

    def replaced(self, key: str, value: Any) -> Config:
        """The same config with another value of `key`; reading it counts as reading this one."""
        other = Config({**self._values, key: value}, container=self.container, path=self.path)
        other._read = self._read
        return other

    def section(self, key: str) -> Config:
        """A nested config, such as `text_config`."""
        values = self[key]
        if not isinstance(values, Mapping):
            raise CorruptFile(f"config key {key!r}", path=self.path, expected="an object", found=repr(values)[:40])
        return Config(values, container=self.container, path=self.path)

    def _option(self, key: str, name: Any, options: Mapping[str, T]) -> T:
        if not isinstance(name, str) or name not in options:
            raise UnsupportedArchitecture(
                f"config key {key!r}", path=self.path, expected=" or ".join(map(repr, options)), found=repr(name)
            )
        return options[name]

    def refuse_unread(self) -> None:
        """Raises for keys that nobody read and that are not known to be harmless."""
        unread = [
            key
            for key, value in self._values.items()
            if key not in self._read and key not in HARMLESS and not key.startswith("_") and value is not None
        ]
        if unread:
            raise UnsupportedArchitecture(
                f"config keys that may change the maths and are not understood: {', '.join(sorted(unread))}",
                path=self.path,
                hint="If they are harmless, have them ignored (ignore_config_keys=[...], --ignore-config-key)",
            )
