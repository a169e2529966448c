"""What plans for Metal have of their own: attention in two launches for few rows, and the limits of its kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..graph import CacheLayer, Op, Value
from .fusions import Ops

MAX_SPLITS = 16  # parts of a context that few rows of attention are cut into, so that they occupy the GPU
_BLOCK = 64  # positions; a part has at least one block

Params = Mapping[str, int | float]


def split_attention(ops: Ops) -> Ops:
    """attention becomes attention_split, whose parts of the context run side by side, and attention_merge."""
    out: Ops = []
    for op in ops:
        cache = op.operands.get("cache")
        is_split = op.kind in ("attention", "chunked_attention") and not {"q_rotated", "selected"} & op.operands.keys()
        if not is_split:
            out.append(op)
            continue
        assert isinstance(cache, CacheLayer)
        assert op.out is not None
        operands = {name: operand for name, operand in op.operands.items() if name != "sinks"}
        sinks = {name: operand for name, operand in op.operands.items() if name == "sinks"}
        sizes = {"heads": op.attributes["heads"], "splits": _splits(op)}
        partials = Value(
            (op.out.shape[0], sizes["heads"] * sizes["splits"] * (cache.v_head_dim + 2)), "attention_split"
        )
        merge = {**sizes, "v_head_dim": cache.v_head_dim}
        out += [
            Op("attention_split", operands, {**op.attributes, **sizes}, partials, op.stage, op.layer),
            Op("attention_merge", {"partials": partials, **sinks}, merge, op.out, op.stage, op.layer),
        ]
    return out


def _splits(op: Op) -> int:
    """As many as there may be blocks in sight, up to the most."""
    in_sight = max(op.attributes.get("window", 0), op.attributes.get("chunk", 0))
    return min(MAX_SPLITS, in_sight // _BLOCK + 2) if in_sight else MAX_SPLITS


def _attention(params: Params) -> str | None:
    if params["latent"] or params["top"]:
        return "keys and values of every position, not latents or a selection"
    return "values of at most 576" if params["v_head_dim"] > 576 else None


def _attention_split(params: Params) -> str | None:
    if params["v_head_dim"] % 2 or params["v_head_dim"] > 1024:
        return "values of an even size, at most 1024"
    return None


def _ssm_scan(params: Params) -> str | None:
    return "at most 256 values in a row of the state" if params["n"] > 256 else None


def _gated_delta_rule(params: Params) -> str | None:
    return "keys of at most 256 values" if params["k_dim"] > 256 else None


# Op -> what its kernels need that the parameters lack, None where nothing is wrong.
LIMITS: Mapping[str, Callable[[Params], str | None]] = {
    "attention": _attention,
    "attention_split": _attention_split,
    "gated_delta_rule": _gated_delta_rule,
    "ssm_scan": _ssm_scan,
}
