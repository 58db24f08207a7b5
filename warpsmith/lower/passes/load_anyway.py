"""Vectors of pieces that begin anywhere are loaded without asking whether there are any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Expr
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, CopyVector, If, Statement, Store
from warpsmith.kernel.traversal import rewritten, walk
from warpsmith.lower.passes.peel_ends import is_begin, is_end


def load_anyway(kernel: Kernel) -> Kernel:
    """Load vectors of rows in pieces that begin anywhere without predicates, of which each would
    need one of its own: loads under predicates wait for one another. A thread that has nothing to
    load gets the first elements of the input, which nobody uses.

    Before::

        if (8*(v % m) < n + h): { r = x[v / m * c + 8*(v % m) - h ..] }

    After::

        r = x[8*(v % m) < n + h ? v / m * c + 8*(v % m) - h : 0 ..]
    """
    filled = {each.buffer for each in walk(kernel.body) if isinstance(each, Store)}

    def change(statement: Statement) -> Iterable[Statement]:
        if not isinstance(statement, If):
            return (statement,)
        asked = integers.conjuncts(statement.condition)
        of_pieces = any(is_end(c) and of_piece(c) for c in asked)
        return anyway(statement, filled) if of_pieces else (statement,)

    return kernel.with_body(rewritten(kernel.body, change))


def written_otherwise(body: tuple[Statement, ...]) -> frozenset[Buffer]:
    """Buffers that more than one statement writes: where a load's condition does not hold, what
    another one wrote stays.
    """
    written = Counter(
        each.buffer if isinstance(each, Store) else each.target
        for each in walk(body)
        if isinstance(each, Store | CopyVector)
    )
    return frozenset(buffer for buffer, count in written.items() if count > 1)


def of_piece(condition: Expr) -> bool:
    """Whether it asks if one of several pieces has begun, or not ended: its place is what is left
    of one.
    """
    side = 1 if is_begin(condition) else 0 if is_end(condition) else None
    if side is None or not isinstance(condition, Apply):
        return False
    place = condition.args[side]
    return any(isinstance(node, Apply) and node.op == "mod" for node in place.walk())


def anyway(statement: Statement, kept: Collection[Buffer]) -> Iterable[Statement]:
    """A vector that is loaded under a condition without it, from the input's begin where it does
    not hold.

    Args:
        kept: buffers that have what is needed where it does not hold, as reads with a fill do.
    """
    if not (isinstance(statement, If) and len(statement.body) == 1):
        return (statement,)
    (copy,) = statement.body
    if not (isinstance(copy, CopyVector) and is_load(copy) and copy.anywhere == integers.ZERO):
        return (statement,)
    if copy.target in kept:
        return (statement,)
    place = (statement.condition, copy.source_index, integers.ZERO)
    return (replace(copy, source_index=Apply("where", place, DataType.Index)),)


def is_load(copy: CopyVector) -> bool:
    """Whether threads load it from global memory to their registers."""
    from_memory = copy.source.memory is MemoryType.global_ and not copy.asynchronous
    return from_memory and copy.target.memory is MemoryType.local
