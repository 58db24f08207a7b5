"""Vectors that go on from row to row read what rows have once for two rows, not for each lane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, If, Statement, Store
from warpsmith.kernel.traversal import map_bodies


def read_two_rows(kernel: Kernel) -> Kernel:
    """Read what a row has once for the first lane of a vector and for the last, where rows are no
    shorter than vectors: then each lane is in one of these two rows.

    Before, in rows of n elements, which the kernel was made for 8 or more of::

        for j < 8 unrolled: { if (8*i + j < m) r[j] = x[(8*i + j) / n] }

    After::

        if (8*i < m) { r_ends[0] = x[8*i / n]; r_ends[1] = x[(8*i + min(7, m - 8*i - 1)) / n] }
        for j < 8 unrolled: { r[j] = j < n - 8*i % n ? r_ends[0] : r_ends[1] }
    """
    least = dict(kernel.least)
    return kernel.with_body(_within(kernel.body, least, set()) if least else kernel.body)


def _within(
    statements: tuple[Statement, ...], least: Mapping[Expr, int], taken: set[str]
) -> tuple[Statement, ...]:
    found: list[Statement] = []
    for statement in statements:
        made = _of_two(statement, least, taken) if isinstance(statement, For) else ()
        found += made or (map_bodies(statement, lambda body: _within(body, least, taken)),)
    return tuple(found)


def _of_two(loop: For, least: Mapping[Expr, int], taken: set[str]) -> tuple[Statement, ...]:
    """What stands in place of a loop over lanes; nothing where it does not read rows.

    Args:
        taken: names of what was read for others, as for each vector of one tensor.
    """
    width, lane = integers.constant(loop.extent), loop.symbol
    store, asked = _only(loop)
    if width is None or not loop.unroll or not isinstance(store, Store):
        return ()
    last, read = _last(asked, lane, width), store.value
    if last is None or not isinstance(read, Element) or read.buffer.written:
        return ()
    if (store.buffer.memory, read.buffer.memory) != (MemoryType.local, MemoryType.global_):
        return ()
    rows = _rows(read.index, lane)
    if rows is None or least.get(rows.args[1], 0) < width:
        return ()
    start, row = _at(rows.args[0], lane, integers.ZERO), rows.args[1]
    name = f"{store.buffer.name}_ends"
    name = name if name not in taken else f"{name}{len(taken)}"
    taken.add(name)
    ends = Buffer(name, read.dtype, MemoryType.local, integers.index(2))
    reads = tuple(
        Store(ends, Const(place), Element(read.buffer, _at(read.index, lane, at)))
        for place, at in enumerate((integers.ZERO, last))
    )
    first = integers.less(lane, integers.sub(row, integers.mod(start, row)))
    of_ends = (first, Element(ends, integers.ZERO), Element(ends, integers.ONE))
    chosen = replace(store, value=Apply("where", of_ends, read.dtype))
    there = _at(asked, lane, integers.ZERO)
    return (
        Declare(ends),
        *(reads if there == integers.TRUE else (If(there, reads),)),
        replace(loop, body=(chosen,)),
    )


def _only(loop: For) -> tuple[Statement, Expr]:
    """The statement that a loop consists of, and what it asks; the first where there are more."""
    first = loop.body[0]
    if len(loop.body) == 1 and isinstance(first, If) and len(first.body) == 1:
        return first.body[0], first.condition
    return (first if len(loop.body) == 1 else loop), integers.TRUE


def _last(asked: Expr, lane: Symbol, width: int) -> Expr | None:
    """The last lane for which a condition holds, where it does for the first one; None where that
    is not known.
    """
    last: Expr = Const(width - 1)
    for condition in integers.conjuncts(asked):
        if lane not in condition.walk():
            continue
        if not (isinstance(condition, Apply) and condition.op == "lt"):
            return None
        place, end = condition.args
        if not _walks(place, lane) or lane in end.walk():
            return None
        behind = integers.sub(end, _at(place, lane, integers.ONE))
        last = integers.minimum(last, behind)
    return last


def _rows(index: Expr, lane: Symbol) -> Apply | None:
    """The quotient that counts rows, where an index has the lane in quotients by rows, and by
    several rows, alone.
    """
    quotients = [
        node
        for node in dict.fromkeys(index.walk())
        if isinstance(node, Apply) and node.op == "floordiv" and lane in node.walk()
    ]
    if lane in substitute(index, dict.fromkeys(quotients, integers.ZERO)).walk():
        return None
    for each in quotients:
        place, row = each.args
        alike = (q.args[0] == place and integers.divides(row, q.args[1]) for q in quotients)
        if _walks(place, lane) and all(alike):
            return each
    return None


def _walks(place: Expr, lane: Symbol) -> bool:
    """Whether lanes have one place after the other."""
    return lane not in integers.sub(place, lane).walk()


def _at(expr: Expr, lane: Symbol, number: Expr) -> Expr:
    return substitute(expr, {lane: number})
