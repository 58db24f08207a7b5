"""Add up parts where they are, instead of in registers of their own."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol, evaluate
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, If, Statement, Store
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.traversal import children, map_bodies, map_buffers, read, walk, written


def reduce_in_place(kernel: Kernel) -> Kernel:
    """What a thread reduces over blocks stays in the registers in which it was summed.

    Before::

        float T9[112]; ...; float T2[112];
        for e < 112: T2[e] = T9[e]
        reduce T2 over grid_y; ... T2[e] ...

    After::

        float T9[112]; ...
        reduce T9 over grid_y; ... T9[e] ...

    Otherwise ptxas has registers for both: tensor cores leave sums where they are. If blocks have
    parts of some tiles alone, what is past the ends of the result is 0 in these alone::

        if 1 < parts: for e < 112: T9[e] = where(inside, T9[e], 0)
    """
    if not any(isinstance(each, Reduce) and each.grid_axes for each in walk(kernel.body)):
        return kernel
    body = _joined(kernel.body)
    changed = any(new is not old for new, old in zip(body, kernel.body, strict=False))
    return replace(kernel, body=body) if changed else kernel


def _joined(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    body = [map_bodies(statement, _joined) for statement in statements]
    for at, statement in enumerate(statements):
        copied = _copied(statement)
        if copied is None:
            continue
        source, target, masked = copied
        behind, here = body[at + 1 :], [each.buffer for each in body if isinstance(each, Declare)]
        found = (each for each in behind if isinstance(each, Reduce) and target in each.buffers)
        reduced = next(found, None)
        again = any(source in (*read(each), *written(each)) for each in walk(tuple(behind)))
        if reduced is None or again or source not in here or target not in here:
            continue
        mask: tuple[Statement, ...] = ()
        if masked:
            if reduced.shared is None:
                continue
            several = integers.less(integers.ONE, reduced.shared.count)
            mask = (If(several, (_in(body[at], target, source),), uniform=True),)
        kept = [*body[:at], *mask, *(_in(each, target, source) for each in behind)]
        return _joined(tuple(e for e in kept if e != Declare(target)))
    return tuple(body) if any(map(lambda a, b: a is not b, body, statements)) else statements


def _copied(statement: Statement) -> tuple[Buffer, Buffer, bool] | None:
    """The registers that loops copy whole, and those to which, element by element; and whether
    only under a condition, with a constant where it does not hold.
    """
    loops: dict[Symbol, int] = {}
    while isinstance(statement, For):
        count, inside = integers.constant(statement.extent), children(statement)
        if count is None or len(inside) != 1:
            return None
        loops[statement.symbol], statement = count, inside[0]
    if not isinstance(statement, Store):
        return None
    value, masked = statement.value, False
    if isinstance(value, Apply) and value.op == "where" and isinstance(value.args[2], Const):
        value, masked = value.args[1], True
    if not isinstance(value, Element):
        return None
    source, target = value.buffer, statement.buffer
    local = source.memory is target.memory is MemoryType.local
    alike = source.dtype is target.dtype and source.size == target.size
    same = value.index == statement.index
    whole = local and same and _is_whole(statement.index, loops, integers.constant(target.size))
    return (source, target, masked) if whole and alike else None


def _is_whole(index: Expr, loops: dict[Symbol, int], size: int | None) -> bool:
    """Whether an index of loops has each of so many values once."""
    if size != prod(loops.values()) or not loops.keys() >= _symbols(index):
        return False
    names = [symbol.name for symbol in loops]
    turns = product(*map(range, loops.values()))
    found = {evaluate(index, dict(zip(names, turn, strict=True))) for turn in turns}
    return found == set(range(size))


def _in(statement: Statement, target: Buffer, source: Buffer) -> Statement:
    return map_buffers(statement, lambda buffer: source if buffer == target else buffer)


def _symbols(index: Expr) -> set[Expr]:
    return {node for node in index.walk() if isinstance(node, Symbol)}
