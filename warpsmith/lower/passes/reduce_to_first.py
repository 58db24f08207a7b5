"""Let reductions across threads give their results to those threads alone that use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, MemoryType
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, If, Statement
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.traversal import children, read, written

Extents = tuple[Expr, Expr, Expr]


def reduce_to_first(kernel: Kernel) -> Kernel:
    """Mark reductions whose results only threads at 0 along the reduced axes need.

    These combine all parts by themselves, and no other thread waits for a sum to come back: sums of
    columns over rows side by side, which one thread of each column stores. Reductions in loops stay
    as they are, since a later turn may use what an earlier one left.

    Before::

        reduce T1 by sum over block_y;  if block_y == 0: T2[..] = T1[0]

    After::

        reduce T1 by sum over block_y, for the first;  if block_y == 0: T2[..] = T1[0]
    """
    return replace(kernel, body=_narrowed(kernel.body, kernel.launch.block))


def _narrowed(body: tuple[Statement, ...], block: Extents) -> tuple[Statement, ...]:
    """The body, read from its end: what a result is needed for stands behind the reduction."""
    result: list[Statement] = []
    needed = {_at_zero(s, block): _Needed() for s in body if isinstance(s, Reduce)}
    for statement in reversed(body):
        made = statement
        if isinstance(statement, Branch):
            made = replace(statement, body=_narrowed(statement.body, statement.agent.block))
        elif isinstance(statement, Reduce) and _within_block(statement):
            axes = _at_zero(statement, block)
            names = {buffer.name for buffer in statement.buffers}
            made = replace(statement, first=bool(axes) and needed[axes].names.isdisjoint(names))
        for axes, found in needed.items():
            for each in _of_others((statement,), axes):
                found.add(each)
        result.append(made)
    return tuple(reversed(result))


def _within_block(reduce: Reduce) -> bool:
    """Whether it combines threads of one block alone, and more than the lanes of a warp."""
    return not (reduce.grid_axes or reduce.lanes) and reduce.blocks == 1


def _at_zero(reduce: Reduce, block: Extents) -> frozenset[str]:
    """The axes along which a thread that may get the result is the first of several."""
    extents = dict(zip(BLOCK_TYPES, block, strict=True))
    return frozenset(a.name for a in reduce.block_axes if extents[a] != integers.ONE)


class _Needed:
    """Buffers whose values statements need: what is stored in registers, where these are."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._copied: dict[str, set[str]] = {}

    def add(self, statement: Statement) -> None:
        """One statement more, in any order."""
        names = {buffer.name for buffer in read(statement)}
        target = _copied_to(statement)
        if target is None or target.name in self.names:
            self._need(names)
        else:
            self._copied.setdefault(target.name, set()).update(names)

    def _need(self, names: set[str]) -> None:
        pending = list(names)
        while pending:
            name = pending.pop()
            self.names.add(name)
            pending += self._copied.pop(name, ())


def _of_others(statements: Sequence[Statement], axes: frozenset[str]) -> Iterator[Statement]:
    """The statements that threads run which are not at 0 along the axes, parents first."""
    for statement in statements:
        yield statement
        if isinstance(statement, If) and axes <= _zero_along(statement.condition):
            continue
        yield from _of_others(children(statement), axes)


def _zero_along(condition: Expr) -> set[str]:
    """Axes of the block along which a thread is at 0 where the condition holds."""
    return {
        c.args[0].name
        for c in integers.conjuncts(condition)
        if isinstance(c, Apply) and c.op == "eq" and c.args[1] == integers.ZERO
        if isinstance(c.args[0], Symbol)
    }


def _copied_to(statement: Statement) -> Buffer | None:
    """The registers that a statement does no more than fill."""
    if statement.collective or len(targets := written(statement)) != 1:
        return None
    return targets[0] if targets[0].memory is MemoryType.local else None
