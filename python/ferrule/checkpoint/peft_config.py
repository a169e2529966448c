"""Reads adapter_config.json of PEFT: how an adapter's factors are scaled, and that it means nothing more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import AdapterError
from .safetensors import read_json

MERGE = "Merge it into its base model with PEFT (merge_and_unload) and load the result"
LARGEST = float(np.finfo(np.float32).max)  # of a rank or alpha

# Keys of PEFT's config that are read here, tell how factors were trained, or which matrices have some.
_KNOWN = set(
    """
    peft_type r lora_alpha use_rslora rank_pattern alpha_pattern init_lora_weights use_dora bias modules_to_save
    auto_mapping base_model_name_or_path corda_config eva_config exclude_modules fan_in_fan_out
    inference_mode layers_pattern layers_to_transform loftq_config lora_dropout lora_ga_config megatron_config
    megatron_core peft_version qalora_group_size revision runtime_config target_modules target_parameters task_type
    """.split()
)
# Of those whose type matters here, the type and its name in JSON.
_TYPES = {
    "use_rslora": (bool, "true or false"),
    "rank_pattern": (dict, "an object"),
    "alpha_pattern": (dict, "an object"),
    "target_parameters": (list, "a list"),
}
# First words of `init_lora_weights` that take the factors out of the base's matrices.
_CHANGES_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")


@dataclass(frozen=True)
class PeftConfig:
    """The config of one adapter, `values` by PEFT's keys."""

    path: Path
    values: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> PeftConfig:
        """Raises CorruptFile for a damaged file, AdapterError for one that says what is not understood here."""
        values = read_json(path)
        _refuse_other_maths(values, path)
        return cls(path, values)

    @property
    def target_parameters(self) -> list[Any]:
        """Parameters, rather than modules, that have factors."""
        return self.values.get("target_parameters") or []

    def rank_and_scale(self, module: str) -> tuple[float, float]:
        """The rank of a module's factors, and what their product is multiplied by.

        Raises AdapterError where the config has no such numbers.
        """
        rank = self._of_module("rank_pattern", "r", module)
        alpha = self._of_module("alpha_pattern", "lora_alpha", module)
        return rank, alpha / (rank**0.5 if self.values.get("use_rslora") else rank)

    def _of_module(self, patterns: str, otherwise: str, module: str) -> float:
        """The value of the first pattern that fits the end of the module's name, or the one for all others."""
        value = self.values.get(otherwise)
        for pattern, special in (self.values.get(patterns) or {}).items():
            try:
                fits = re.match(rf"(.*\.)?({pattern})$", module)
            except re.error as error:
                raise AdapterError(
                    f"{patterns}: {error}", path=self.path, expected="regular expressions", found=pattern
                ) from None
            if fits:
                value = special
                break
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST:
            found = repr(value)[:60]
            raise AdapterError(f"rank or alpha of {module}", path=self.path, expected="a positive number", found=found)
        return value


def _refuse_other_maths(config: Mapping[str, Any], path: Path) -> None:
    """Raises for a config that says more than which low-rank factors are added to which matrices."""
    if config.get("peft_type") != "LORA":
        raise AdapterError("peft_type", path=path, expected="LORA", found=str(config.get("peft_type")), hint=MERGE)
    for key, value in config.items():
        if key not in _KNOWN and value not in (None, False, "none", [], {}):
            raise AdapterError(f"{key} is not supported", path=path, found=repr(value)[:60], hint=MERGE)
    for key, (kind, expected) in _TYPES.items():
        if not isinstance(config.get(key), kind | None):
            raise AdapterError(key, path=path, expected=expected, found=repr(config[key])[:60])
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_CHANGES_BASE):
        raise AdapterError(
            "init_lora_weights names a start that changes the base model's weights",
            path=path,
            found=repr(start),
            hint="Save it as plain LoRA with PEFT (path_initial_model_for_weight_conversion)",
        )
