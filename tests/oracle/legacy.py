"""The config forms of files written before transformers 5, made from the current form."""

import copy
from collections.abc import Callable
from typing import Any

Config = dict[str, Any]


def old_rope(config: Config) -> Config:
    """`rope_parameters` becomes `rope_theta`, `partial_rotary_factor` and `rope_scaling` with its `rope_type`."""
    config = renamed_dtype(config)
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    return config


def old_longrope(config: Config) -> Config:
    """Phi-3: the factors only, under `type`; lengths are keys of the model."""
    config = old_rope(config)
    scaling = config["rope_scaling"]
    config["rope_scaling"] = {key: scaling[key] for key in ("short_factor", "long_factor")} | {"type": "longrope"}
    return config


def old_gemma3(config: Config) -> Config:
    """Gemma 3: two bases and a pattern length in place of per-type rope parameters and a list of layer types."""
    config = renamed_dtype(config)
    rope = config.pop("rope_parameters")
    del config["layer_types"]
    return config | {
        "rope_theta": rope["full_attention"]["rope_theta"],
        "rope_local_base_freq": rope["sliding_attention"]["rope_theta"],
        "rope_scaling": None,
        "sliding_window_pattern": 6,
    }


def patched(
    drop: tuple[str, ...] = (), flat_rope: bool = False, hoist: str = "", inside: str = "", **changes: Any
) -> Callable[[Config], Config]:
    """A legacy form made by removing and setting keys, of the sub-config `inside` where given.

    `flat_rope` writes the rope keys of the hub's DeepSeek files (`rope_scaling` with `type`); `hoist` moves a
    sub-config's keys to the top.
    """

    def legacy(config: Config) -> Config:
        config = renamed_dtype(config)
        if hoist:
            for key, value in config.pop(hoist).items():
                if key not in ("model_type", "rope_parameters", "layer_types"):
                    config.setdefault(key, value)
        part = config[inside] if inside else config
        for key in drop:
            part.pop(key, None)
        part.update(changes)
        if flat_rope:
            rope = part.pop("rope_parameters")
            part["rope_theta"] = rope.pop("rope_theta")
            kind = rope.pop("rope_type")
            part["rope_scaling"] = rope | {"type": kind} if kind != "default" else None
        return config

    return legacy


def renamed_dtype(config: Config) -> Config:
    """A copy of the config in which `dtype` is called `torch_dtype`."""
    config = copy.deepcopy(config)
    config["torch_dtype"] = config.pop("dtype")
    return config
