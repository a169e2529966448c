"""GGUF's names in Hugging Face's spelling: tensors, and metadata as a config.

One shared table serves every family; `gguf_families/` holds what differs. A name that is in no table keeps its GGUF
spelling, so that whoever builds the model sees it and can refuse it: nothing is dropped silently. The config comes out
in the flat form (`rope_theta`, `rope_scaling`, `rope_local_base_freq`). Facts that GGUF does not store (Gemma 3's
pattern of windows, its local RoPE base) are left to the architecture's defaults.

Source: what llama.cpp's converters write for these families.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptFile
from .base import StoredTensor
from .gguf_families import FAMILIES, Family

# GGUF stem -> Hugging Face stem; `{}` is the layer, ".weight" or ".bias" follows.
_TENSORS = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "blk.{}.attn_norm": "model.layers.{}.input_layernorm",
    "blk.{}.attn_q": "model.layers.{}.self_attn.q_proj",
    "blk.{}.attn_k": "model.layers.{}.self_attn.k_proj",
    "blk.{}.attn_v": "model.layers.{}.self_attn.v_proj",
    "blk.{}.attn_output": "model.layers.{}.self_attn.o_proj",
    "blk.{}.attn_q_norm": "model.layers.{}.self_attn.q_norm",
    "blk.{}.attn_k_norm": "model.layers.{}.self_attn.k_norm",
    "blk.{}.ffn_norm": "model.layers.{}.post_attention_layernorm",
    "blk.{}.ffn_gate": "model.layers.{}.mlp.gate_proj",
    "blk.{}.ffn_up": "model.layers.{}.mlp.up_proj",
    "blk.{}.ffn_down": "model.layers.{}.mlp.down_proj",
    "blk.{}.ffn_gate_inp": "model.layers.{}.mlp.gate",
    "blk.{}.ffn_gate_exps": "model.layers.{}.mlp.experts.gate_proj",
    "blk.{}.ffn_up_exps": "model.layers.{}.mlp.experts.up_proj",
    "blk.{}.ffn_down_exps": "model.layers.{}.mlp.experts.down_proj",
    "blk.{}.ffn_gate_shexp": "model.layers.{}.mlp.shared_experts.gate_proj",
    "blk.{}.ffn_up_shexp": "model.layers.{}.mlp.shared_experts.up_proj",
    "blk.{}.ffn_down_shexp": "model.layers.{}.mlp.shared_experts.down_proj",
    "blk.{}.exp_probs_b.bias": "model.layers.{}.mlp.gate.e_score_correction_bias",
}

# GGUF metadata key (after "<architecture>.") -> Hugging Face config key, by the kind of value.
_COUNTS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "vocab_size": "vocab_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
}
_NUMBERS = {
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
    "rope.freq_base_swa": "rope_local_base_freq",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
_ROPE_SCALING = {
    "rope.scaling.factor": "factor",
    "rope.scaling.original_context_length": "original_max_position_embeddings",
    "rope.scaling.yarn_attn_factor": "attention_factor",
    "rope.scaling.yarn_beta_fast": "beta_fast",
    "rope.scaling.yarn_beta_slow": "beta_slow",
}
# Keys that say nothing about the maths, always (None) or at this value.
_NEUTRAL: dict[str, Any] = {
    "tensor_data_layout": None,
    "rope.scaling.finetuned": None,
    "rope.scaling.attn_factor": 1.0,
    "rope.scaling.yarn_ext_factor": 1.0,
    "attention.causal": True,
    "expert_count": 0,
    "expert_used_count": 0,
}


_MAX_LAYERS = 1 << 12  # far above any model: what a damaged number may cost at most
# Config keys whose numbers GGUF gives to names.
_NAMED = {
    "scoring_func": {1: "softmax", 2: "sigmoid"},
    "moe_router_activation_func": {1: "softmax", 2: "sigmoid"},
}
_STACKS = ("blk", "model.layers", "backbone.layers", "gpt_neox.layers", "transformer.h", "transformer.blocks")
_LAYER = re.compile("|".join(rf"(?<=^{re.escape(stack)}\.)\d+(?=\.)" for stack in _STACKS))


def family(architecture: str) -> Family:
    """The family of a GGUF architecture; for an unknown one the shared tables under its own name."""
    return FAMILIES.get(architecture) or Family(architecture, required=())


def hf_tensor_name(architecture: str, name: str) -> str:
    """The Hugging Face name of a GGUF tensor; the GGUF name itself where the tables do not know it."""
    return _translated(_tensor_table(architecture), name)


def hf_rows(architecture: str, name: str, n: int, config: Mapping[str, Any]) -> NDArray[np.intp] | None:
    """Which row of Hugging Face's matrix `name` (without ".weight") each of the n rows in a GGUF file is.

    None where the order is the same.
    """
    order = family(architecture).rows.get(name.rpartition(".")[2])
    return None if order is None else order(n, config)


def vocabulary_tensors(architecture: str) -> set[str]:
    """Hugging Face's names of the embedding and the head, which converters leave as they are."""
    table = _tensor_table(architecture)
    return {f"{table[stem]}.weight" for stem in ("token_embd", "output")}


def is_converted(architecture: str, name: str) -> bool:
    """Whether converters change more than the order of rows of the matrix `name` (without ".weight")."""
    pattern = family(architecture).converted
    return pattern is not None and re.search(pattern, name) is not None


def _tensor_table(architecture: str) -> dict[str, str]:
    """Stems and whole names of the family's tensors, GGUF -> Hugging Face."""
    return {**_TENSORS, **family(architecture).tensors}


def _is_whole(gguf: str, hf: str) -> bool:
    """Whether an entry of a table pairs whole names, not stems."""
    endings = (".weight", ".bias", ".scale", ".ssm_a", ".ssm_d")
    return gguf.endswith(endings) or hf.endswith((*endings, ".A_log", ".D"))


def _translated(table: Mapping[str, str], name: str) -> str:
    layer = _LAYER.search(name)
    folded = _LAYER.sub("{}", name, count=1)
    stem, dot, kind = folded.rpartition(".")
    if folded in table and _is_whole(folded, table[folded]):
        known, ending = table[folded], ""
    elif kind in ("weight", "bias") and stem in table:
        known, ending = table[stem], dot + kind
    else:
        return name
    return known.format(layer[0] if layer else "") + ending


def hf_config(
    architecture: str, metadata: Mapping[str, Any], tensors: Mapping[str, StoredTensor], *, path: Path
) -> dict[str, Any]:
    """The config that a GGUF file's metadata and tensors (under Hugging Face's names) amount to.

    Raises CorruptFile for keys that are missing, have impossible values or contradict each other or the tensors.
    """
    rules = family(architecture)
    named = {**_COUNTS, **_NUMBERS, **rules.keys}
    keys = _Keys(architecture, metadata, path, beside=rules.keys)
    config: dict[str, Any] = {"model_type": rules.model_type}
    for key in rules.required:
        keys.require(key)
    for key, implied in rules.without.items():
        if key not in keys:
            config.update(implied)
    for key, hf_key in named.items():
        if key not in keys:
            continue
        if key in _COUNTS:
            value: Any = keys.count(key, least=1 if key in rules.required or hf_key == "head_dim" else 0)
        else:
            value = keys.number(key) if key in _NUMBERS else keys.value(key)
        if hf_key:
            config[hf_key] = _NAMED.get(hf_key, {}).get(value, value) if isinstance(value, int) else value
    layers = config.get(named["block_count"], 0)
    if not isinstance(layers, int) or layers > _MAX_LAYERS:
        raise keys.wrong("block_count", f"a number up to {_MAX_LAYERS}", layers)
    config.update(_rope_scaling(keys))
    config.update(_window_pattern(keys, config.get("num_hidden_layers")))
    _complete_heads(config, keys)
    table = _tensor_table(architecture)
    if embedding := tensors.get(f"{table['token_embd']}.weight"):
        config.setdefault("vocab_size", embedding.shape[0])
    config["tie_word_embeddings"] = f"{table['output']}.weight" not in tensors
    for key, implied in rules.config.items():
        config.setdefault(key, implied)
    if rules.adjust is not None:
        try:
            rules.adjust(config, tensors)
        except KeyError as error:
            lacking = next((key for key, hf_key in named.items() if hf_key == error.args[0]), error.args[0])
            raise CorruptFile(f"metadata key {architecture}.{lacking} is missing", path=path) from error
        except (TypeError, ValueError, IndexError, ArithmeticError) as error:
            raise CorruptFile(f"metadata keys that do not fit together: {error}", path=path) from error
    return {**config, **keys.rest()}


class _Keys:
    """An architecture's metadata keys, without its prefix: each is taken once, and `rest` is what nobody took.

    `beside` names keys that some files have without a prefix.
    """

    def __init__(self, architecture: str, metadata: Mapping[str, Any], path: Path, *, beside: Iterable[str]) -> None:
        self._prefix = f"{architecture}."
        self._path = path
        self._values = {
            key.removeprefix(self._prefix): value
            for key, value in metadata.items()
            if key.startswith(self._prefix) or key in beside
        }

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def require(self, key: str) -> None:
        if key not in self:
            raise CorruptFile(f"metadata key {self._prefix}{key} is missing", path=self._path)

    def take(self, key: str) -> Any:
        return self._values.pop(key, None)

    def take_if(self, key: str, value: Any) -> bool:
        """Takes the key where it has this value, and says whether it had."""
        if self._values.get(key) != value:
            return False
        del self._values[key]
        return True

    def count(self, key: str, *, least: int = 0) -> int | list[int]:
        """An integer, or one per layer; a list of equal ones counts as one integer."""
        value = self.take(key)
        values = value if isinstance(value, list) else [value]
        if not values or any(isinstance(v, bool) or not isinstance(v, int) or v < least for v in values):
            raise self.wrong(key, f"an integer from {least} up", value)
        return values[0] if len(set(values)) == 1 else values

    def value(self, key: str) -> Any:
        """The number (never NaN) or flag that the key holds, or a list of them; a list of equal values is one."""
        value = self.take(key)
        if any(isinstance(v, str) or v != v for v in (value if isinstance(value, list) else [value])):
            raise self.wrong(key, "numbers", value)
        return value[0] if isinstance(value, list) and len({str(v) for v in value}) == 1 else value

    def number(self, key: str) -> float:
        value = self.take(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise self.wrong(key, "a positive number", value)
        return float(value)

    def wrong(self, key: str, expected: str, found: Any) -> CorruptFile:
        return CorruptFile(
            f"metadata key {self._prefix}{key}", path=self._path, expected=expected, found=repr(found)[:60]
        )

    def rest(self) -> dict[str, Any]:
        """Keys left over, under their full GGUF names, save those that say nothing about the maths."""
        return {
            self._prefix + key: value
            for key, value in self._values.items()
            if key not in _NEUTRAL or _NEUTRAL[key] not in (None, value)
        }


def _rope_scaling(keys: _Keys) -> dict[str, Any]:
    """`rope_scaling`, or {} where positions are not scaled. A factor without a type means linear scaling."""
    rule = keys.take("rope.scaling.type")
    if rule is not None and not isinstance(rule, str):
        raise keys.wrong("rope.scaling.type", "a string", rule)
    if rule is None and "rope.scaling.factor" in keys:
        rule = "linear"
    if keys.take_if("rope.scaling.factor", 0.0) or rule in (None, "none"):
        for key in _ROPE_SCALING:
            keys.take(key)
        return {}
    scaling = {hf_key: keys.number(key) for key, hf_key in _ROPE_SCALING.items() if key in keys}
    return {"rope_scaling": {"rope_type": rule, **scaling}}


def _window_pattern(keys: _Keys, layers: Any) -> dict[str, Any]:
    """Which layers have a window: each layer by itself, or every layer but each n-th."""
    pattern = keys.take("attention.sliding_window_pattern")
    if pattern is None:
        return {}
    if isinstance(pattern, list) and len(pattern) == layers:
        return {"layer_types": ["sliding_attention" if windowed else "full_attention" for windowed in pattern]}
    if isinstance(pattern, int) and pattern > 0:
        return {"sliding_window_pattern": int(pattern)}
    raise keys.wrong("attention.sliding_window_pattern", "a positive integer or one flag per layer", pattern)


def _complete_heads(config: dict[str, Any], keys: _Keys) -> None:
    """What GGUF leaves out where it follows from other sizes, and what it adds to the head's size."""
    heads, hidden = config.get("num_attention_heads"), config.get("hidden_size")
    if not isinstance(heads, int) or not isinstance(hidden, int) or not heads:
        return
    config.setdefault("num_key_value_heads", heads)
    head_dim = config.setdefault("head_dim", hidden // heads)
    if not isinstance(head_dim, int) or not head_dim:
        return
    keys.take_if("attention.value_length", head_dim)
    if "rope.dimension_count" in keys and not keys.take_if("rope.dimension_count", head_dim):
        config["partial_rotary_factor"] = keys.number("rope.dimension_count") / head_dim
