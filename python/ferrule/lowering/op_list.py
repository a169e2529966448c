"""The ops that lowering rewrites, in order, and who makes and reads their values."""

from __future__ import annotations

from collections import defaultdict

from ..graph import Op, Value

Ops = list[Op]


def users_of(ops: Ops) -> defaultdict[Value, list[Op]]:
    """The ops that read each value. One with several results counts as a reader of those after the first."""
    users: defaultdict[Value, list[Op]] = defaultdict(list)
    for op in ops:
        for operand in op.operands.values():
            if isinstance(operand, Value):
                users[operand].append(op)
    return users


def makers_of(ops: Ops) -> dict[Value, Op]:
    """The op that makes each value; of those with several results, for the first."""
    return {op.out: op for op in ops if op.out is not None}


def value_of(op: Op, name: str) -> Value:
    """The named operand, which is a value."""
    operand = op.operands[name]
    assert isinstance(operand, Value)
    return operand
