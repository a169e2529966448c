"""How much of the machine's memory the cache may take."""

from __future__ import annotations

import warnings
from pathlib import Path

from ..errors import MemoryBudgetError
from . import machine
from .sampling import check_integer

_POOL_POSITIONS = 16 * 2048  # what all texts together may keep where the context is shorter


def budget(path: Path, *, limit: int, context: int | None, weight_bytes: int, position_bytes: int) -> tuple[int, int]:
    """(context of one text, positions that all texts together may keep), so that the cache fits into memory.

    `limit` is the model's own, `context` what is asked for, if anything. Weights are mapped, so memory need not hold
    them all: too large a model is slow, not impossible. The cache may take what they leave, and at least a quarter of
    memory.

    Raises OptionError for a context that the model does not have, MemoryBudgetError for one that does not fit.
    """
    memory = machine.memory_bytes()
    if weight_bytes > memory:
        warnings.warn(
            f"{path.name} has {weight_bytes / 1e9:.1f} GB of weights, this machine {memory / 1e9:.1f} GB of "
            "memory: every token will read weights from disk",
            RuntimeWarning,
            stacklevel=3,
        )
    fitting = max(memory - weight_bytes, memory // 4) // max(position_bytes, 1)
    if context is None:
        context = max(min(limit, fitting), 1)
    else:
        check_integer("context", context, 1, limit)
    if context > fitting:
        raise MemoryBudgetError(
            f"a context of {context} does not fit into memory",
            path=path,
            expected=f"at most {fitting}, for this machine's {memory / 1e9:.1f} GB",
            found=f"{weight_bytes / 1e9:.1f} GB of weights and {context * position_bytes / 1e9:.1f} GB of cache",
            hint=f"Load with context={fitting} or less",
        )
    return context, min(max(context, _POOL_POSITIONS), fitting)
