"""Inputs that a reshape makes rows of: whether each row is one piece of memory, row behind row."""

from __future__ import annotations

from collections.abc import Iterable

from warpsmith.ir.exprs import Move, Reduction, tensor_inputs
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached


def torn(program: Program, reshaped: Iterable[Cached], kept: int) -> str:
    """The name of the first of some inputs whose rows need not be such; empty where there is none.
    Of rows with several dimensions outside, as many as are `kept`, nobody says that they follow in
    order.
    """
    for cached in reshaped:
        order = cached.memory.memory_order()
        if kept > 1 or order != tuple(range(len(order))) or _moved(program, cached):
            return cached.name
    return ""


def _moved(program: Program, cached: Cached) -> bool:
    """Whether dimensions of an input change places, before or behind a reshape."""
    same = {cached.register}
    for operation in program.operations:
        if isinstance(operation, Reduction) or same.isdisjoint(tensor_inputs(operation)):
            continue
        if isinstance(operation, Move) and operation.kind != "reshape":
            return True
        same.update(operation.outputs)
    return False
