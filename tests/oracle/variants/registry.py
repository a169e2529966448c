"""How a tiny model is described: `variant(name, model type, tokenizer, **config)`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

VOCABULARY = 384
Config = dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """A model to build: `gains` multiply the deviation of tensors whose name contains the key, `legacy` makes the older
    form of the config, `mxfp4` stores the experts as MXFP4 blocks, `renames` are regular expressions
    for tensors that transformers writes under another name than the hub, `model_class` is for multimodal wrappers,
    `attention` is the implementation in transformers that computes the model."""

    model_type: str
    tokenizer: str
    config: Config
    model_class: str | None = None
    dtype: str = "bf16"
    shards: int = 1
    gains: dict[str, float] = field(default_factory=dict)
    legacy: Callable[[Config], Config] | None = None
    mxfp4: bool = False
    renames: dict[str, str] = field(default_factory=dict)
    attention: str = "eager"
    note: str = ""


VARIANTS: dict[str, Variant] = {}
BUILD_OPTIONS = ("model_class", "dtype", "shards", "gains", "legacy", "mxfp4", "renames", "attention", "note")


def variant(name: str, model_type: str, tokenizer: str = "qwen", **arguments: Any) -> None:
    """Registers a variant; arguments that are not build options belong to its config."""
    options = {key: arguments.pop(key) for key in BUILD_OPTIONS if key in arguments}
    VARIANTS[name] = Variant(model_type, tokenizer, arguments, **options)


def base(**changes: Any) -> Config:
    """The common small config with `changes`; `...` drops a default."""
    config = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
    }
    return {key: value for key, value in {**config, **changes}.items() if value is not ...}


def rope(theta: float = 10000.0, kind: str = "default", **scaling: Any) -> Config:
    return dict(rope_theta=theta, rope_type=kind, **scaling)


LLAMA3_ROPE = rope(
    500000.0, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32
)
YARN_ROPE = rope(150000.0, "yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0, original_max_position_embeddings=32)
