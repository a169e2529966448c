"""What Metal's kernels cannot take."""

from __future__ import annotations

from .. import _core
from .plan import Params

_MOST = _core.metal_limits()


def needs(op: str, params: Params) -> str | None:
    """What the op's kernel needs that the parameters lack; None where nothing is wrong."""
    latent = params.get("latent", 0)
    for name, most in _MOST.get(f"absorbed_{op}" if latent else op, {}).items():
        if params[name] > most:
            return f"{name} of at most {most}"
    if op in ("attention", "attention_split") and params["top"] and not latent:
        return "latents where positions are selected"
    if op == "attention_split" and params["v_head_dim"] % 2 and not latent:
        return "v_head_dim of an even size"
    return None
