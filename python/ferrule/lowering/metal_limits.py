"""What Metal's kernels cannot take."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .plan import Params


def _attention(params: Params) -> str | None:
    if params["latent"]:
        return _absorbed_attention(params)
    if params["top"]:
        return "latents where positions are selected"
    return "values of at most 576" if params["v_head_dim"] > 576 else None


def _absorbed_attention(params: Params) -> str | None:
    is_large = params["v_head_dim"] > 512 or params["head_dim"] > 256
    return "latents of at most 512 values, rotated keys of at most 256" if is_large else None


def _attention_split(params: Params) -> str | None:
    if params["latent"]:
        return _absorbed_attention(params)
    if params["top"]:
        return "latents where positions are selected"
    if params["v_head_dim"] % 2 or params["v_head_dim"] > 1024:
        return "values of an even size, at most 1024"
    return None


def _causal_conv1d(params: Params) -> str | None:
    return "a kernel of at most 17 tokens" if params["taps"] > 17 else None


def _ssm_scan(params: Params) -> str | None:
    return "at most 256 values in a row of the state" if params["n"] > 256 else None


def _gated_delta_rule(params: Params) -> str | None:
    return "keys of at most 256 values" if params["k_dim"] > 256 else None


def _select_positions(params: Params) -> str | None:
    return "at most 3000 positions to select" if params["top"] > 3000 else None


# Op -> what its kernels need that the parameters lack, None where nothing is wrong.
LIMITS: Mapping[str, Callable[[Params], str | None]] = {
    "attention": _attention,
    "attention_split": _attention_split,
    "causal_conv1d": _causal_conv1d,
    "gated_delta_rule": _gated_delta_rule,
    "select_positions": _select_positions,
    "ssm_scan": _ssm_scan,
}
