"""Let reductions across threads give their results to those threads alone that use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, MemoryType
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.kernel.nodes import (
    Accumulate,
    Buffer,
    CopyVector,
    If,
    Kernel,
    Reduce,
    Statement,
    Store,
)
from warpsmith.kernel.roles import Branch
from warpsmith.kernel.traversal import children, read

Extents = tuple[Expr, Expr, Expr]


def narrow_results(kernel: Kernel) -> Kernel:
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
    result: list[Statement] = []
    for place, statement in enumerate(body):
        if isinstance(statement, Branch):
            statement = replace(statement, body=_narrowed(statement.body, statement.role.block))
        elif isinstance(statement, Reduce) and _within_block(statement):
            axes = _at_zero(statement, block)
            needed = _needed_by_others(body[place + 1 :], axes)
            first = bool(axes) and needed.isdisjoint(buffer.name for buffer in statement.buffers)
            statement = replace(statement, first=first)
        result.append(statement)
    return tuple(result)


def _within_block(reduce: Reduce) -> bool:
    """Whether it combines threads of one block alone, and more than the lanes of a warp."""
    return not (reduce.grid_axes or reduce.lanes) and reduce.blocks == 1


def _at_zero(reduce: Reduce, block: Extents) -> frozenset[str]:
    """The axes along which a thread that may get the result is the first of several."""
    extents = dict(zip(BLOCK_TYPES, block, strict=True))
    return frozenset(a.name for a in reduce.block_axes if extents[a] != integers.ONE)


def _needed_by_others(statements: Sequence[Statement], axes: frozenset[str]) -> set[str]:
    """Names of the buffers whose values some thread that is not at 0 along the axes needs.

    What is stored in registers is needed where these are, or are reduced.
    """
    copies: list[tuple[str, set[str]]] = []
    needed: set[str] = set()
    for statement in _of_others(statements, axes):
        names = {buffer.name for buffer in read(statement)}
        target = _copied_to(statement)
        if target is None:
            needed |= names
        else:
            copies.append((target.name, names))
    while True:
        more = {name for target, names in copies if target in needed for name in names}
        if more <= needed:
            return needed
        needed |= more


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
    match statement:
        case Store(buffer=target) | Accumulate(buffer=target) | CopyVector(target=target):
            return target if target.memory is MemoryType.local else None
    return None
