"""What launches must read and compute, by the formulas of their ops: what no step can take less time than."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..graph import CacheLayer
from ..lowering.plan import Launch, Params, Plan
from ..lowering.show import launch_bytes

_BF16_RATE = 2  # of processors that multiply bfloat16, to float32


@dataclass(frozen=True)
class Work:
    """What a launch reads and writes, in bytes, and its multiplications and additions of int8 and of float32."""

    bytes: float = 0
    int8: float = 0
    f32: float = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.bytes + other.bytes, self.int8 + other.int8, self.f32 + other.f32)


@dataclass(frozen=True)
class StepSizes:
    """A step of `tokens` tokens, equally many of each of `sequences` texts, at positions `begin` and up.

    The logits of `rows` rows are wanted.
    """

    tokens: int
    rows: int = 1
    begin: int = 0
    sequences: int = 1


def step_work(plan: Plan, step: StepSizes) -> Work:
    """Of all launches of a step."""
    return total(launch_work(plan, launch, step) for launch in plan.launches)


def launch_work(plan: Plan, launch: Launch, step: StepSizes) -> Work:
    """Of one launch of a step. Of arithmetic, what goes value by value over rows is left out."""
    rows = step.tokens if launch.rows == "tokens" else step.rows
    moved = Work(launch_bytes(plan, launch, rows))
    if launch.op in ("matmul", "linears", "expert_linear"):
        return moved + _product(launch, rows)
    if launch.op in _RECURRENCES:
        return moved + Work(f32=rows * _RECURRENCES[launch.op](launch.params))
    cache = launch.operands.get("cache")
    if launch.op in _OVER_CONTEXT and isinstance(cache, CacheLayer):
        return moved + _over_context(plan, launch, cache, step)
    return moved


def total(works: Iterable[Work]) -> Work:
    """The sum."""
    return sum(works, Work())


def _product(launch: Launch, rows: int) -> Work:
    params = launch.params
    columns = sum(params.get(name, 0) for name in ("n", "n_b", "n_c"))
    operations = 2.0 * rows * params["k"] * columns * params.get("slots", 1)
    if planes := params.get("planes", 0):
        return Work(int8=operations * planes)
    return Work(f32=operations / (_BF16_RATE if launch.kernel.endswith("_rounded") else 1))


# Multiplications and additions of one row.
_RECURRENCES: Mapping[str, Callable[[Params], float]] = {
    "causal_conv1d": lambda p: 2.0 * p["channels"] * p["taps"],
    # Each value of the state decays, takes in a product, and is multiplied and summed.
    "ssm_scan": lambda p: 5.0 * p["heads"] * p["head_dim"] * p["n"],
    # The same, and it is also multiplied with the key and summed.
    "gated_delta_rule": lambda p: 7.0 * p["heads"] * p["k_dim"] * p["v_dim"],
}


def _attention_pair(p: Params) -> float:
    # A latent is key and value.
    return 2.0 * p["heads"] * (p["head_dim"] + p["v_head_dim"] * (2 if p["latent"] else 1))


# Multiplications and additions for each row and position that it sees.
_OVER_CONTEXT: Mapping[str, Callable[[Params], float]] = {
    "attention": _attention_pair,
    "attention_split": _attention_pair,
    "latent_attention": lambda p: 2.0 * p["heads"] * (p["plain"] + p["rotated"] + p["v_dim"]),
    "select_positions": lambda p: 2.0 * p["heads"] * (p["head_dim"] + 1),
}


def _over_context(plan: Plan, launch: Launch, cache: CacheLayer, step: StepSizes) -> Work:
    """Beside what the step itself appends, the rows of a text read its history in the cache, once for all of them."""
    params, length = launch.params, step.tokens // step.sequences
    context = step.begin + length
    in_sight: float = context
    if launch.op in ("attention", "attention_split"):
        in_sight = min(params["window"] or params["chunk"] or params["top"] or context, context)
    seen = min(step.begin + (length + 1) / 2, in_sight)  # by a row, on average
    operations = step.tokens * seen * _OVER_CONTEXT[launch.op](params)
    if launch.op == "latent_attention":  # keys and values of every position are expanded once
        expanded = params["plain"] + params["v_dim"]
        operations += 2.0 * step.sequences * context * params["heads"] * params["rank"] * expanded
    history = step.sequences * (in_sight - min(in_sight, length)) * launch_bytes(plan, launch, 1, only=cache)
    return Work(history, f32=operations / (_BF16_RATE if plan.kv_dtype == "bf16" else 1))
