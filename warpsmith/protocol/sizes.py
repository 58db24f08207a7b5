"""Sizes by which a kernel's loops run as often as is wanted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from typing import TypeGuard

from warpsmith.ir import integers
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol, evaluate
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Let, Statement
from warpsmith.kernel.rings import Begin, Jump
from warpsmith.kernel.traversal import rewritten, walk
from warpsmith.protocol.accesses import synchronizes
from warpsmith.protocol.launched import launch_values
from warpsmith.protocol.scalars import Scope, UnknownError

LARGEST = 1 << 24
"""Sizes beyond this one are not tried."""

DIVISIONS = frozenset({"ceildiv", "floordiv", "mod", "remainder"})

Block = tuple[int, int, int]


def symbols_of(kernel: Kernel) -> tuple[str, ...]:
    """Names of the sizes and other scalars that a launch gives, in order."""
    made = {symbol.name for symbol, _ in kernel.derived}
    for reciprocal in kernel.reciprocals:
        made |= {reciprocal.magic.name, reciprocal.shift.name}
    exprs: list[Expr] = [*kernel.scalars, *kernel.launch.grid, *kernel.launch.block]
    exprs += [value for _, value in kernel.derived]
    exprs += [reciprocal.divisor for reciprocal in kernel.reciprocals]
    found = {n.name: None for e in exprs for n in e.walk() if isinstance(n, Symbol)}
    return tuple(name for name in found if name not in made)


def _least(kernel: Kernel, name: str) -> int:
    """The least value that a launch gives a size: 1 for what others are divided by."""
    exprs = [value for _, value in kernel.derived]
    divisors = (e.args[1] for value in exprs for e in value.walk() if _divides(e))
    return int(any(isinstance(d, Symbol) and d.name == name for d in divisors))


def _divides(expr: Expr) -> TypeGuard[Apply]:
    return isinstance(expr, Apply) and expr.op in DIVISIONS


def trips(kernel: Kernel, values: Mapping[str, int], block: Block) -> tuple[int, ...]:
    """How often each loop around synchronization runs, as far as sizes alone decide."""
    known = launch_values(kernel, values, block)
    scope = Scope(known)
    for statement in walk(kernel.body):
        if isinstance(statement, Let):
            scope.lets[statement.symbol.name] = statement.value
        elif isinstance(statement, Begin):
            scope.begin(statement.cursor)
    memo: dict[int, bool] = {}
    found = []
    for statement in walk(kernel.body):
        if isinstance(statement, For) and synchronizes(statement, memo):
            try:
                extent = scope.scalar(statement.extent, first=True)
            except UnknownError:
                continue
            if extent.constant is not None:
                found.append(extent.constant)
    return tuple(found)


def sizes_for(
    kernel: Kernel, values: Mapping[str, int], block: Block, names: tuple[str, ...], count: int
) -> dict[str, int] | None:
    """The largest sizes by these names for which no loop that they decide runs more than `count`.

    They are found one by one. None where they decide no loop.
    """
    result = dict(values)
    moved = False
    for name in names:
        least = _least(kernel, name)
        found = _largest(kernel, result, block, name, (least, LARGEST), max(count, 0))
        if found is not None:
            moved = True
            result[name] = found
    return result if moved else None


def cut(
    kernel: Kernel, values: Mapping[str, int], block: Block, count: int
) -> tuple[Kernel, dict[str, int]]:
    """The kernel, and sizes, with no loop of more than `count` iterations around synchronization.

    Sizes become smaller one by one, each by no more than it must, and none less than 1: then a loop
    that two of them decide together still runs. What the launch derives from them is left out.
    """
    short = shortened(kernel, count)
    derived = {symbol.name for symbol, _ in kernel.derived}
    result = {name: value for name, value in values.items() if name not in derived}
    for name in symbols_of(kernel):
        found = _largest(short, result, block, name, (1, result.get(name, 1)), count)
        if found is not None:
            result[name] = found
    return short, result


def _largest(
    kernel: Kernel,
    values: Mapping[str, int],
    block: Block,
    name: str,
    between: tuple[int, int],
    count: int,
) -> int | None:
    """The largest value of a size for which no loop that it decides runs more than `count` times.

    The least one that is allowed, if there is none; None where it decides no loop.
    """
    low, high = between
    least = trips(kernel, {**values, name: low}, block)
    most = trips(kernel, {**values, name: high}, block)
    grown = [n for n, (a, b) in enumerate(zip(least, most, strict=True)) if a < b]
    if not grown:
        return None
    while low < high:
        middle = (low + high + 1) // 2
        counts = trips(kernel, {**values, name: middle}, block)
        if max(counts[n] for n in grown) <= count:
            low = middle
        else:
            high = middle - 1
    return low


def shortened(kernel: Kernel, count: int) -> Kernel:
    """The kernel with its long loops of constant length cut to `count` iterations.

    Comparisons with the length of such a loop are cut with it. Lengths stay in proportion, or keep
    small differences, if that is possible, as loops of one role often go with those of another. A
    cursor that jumps over the stages of other groups jumps by such a length, or by several: what is
    taken off is then whole turns of its ring, twice over, so that stages and phases stay the same.
    """
    memo: dict[int, bool] = {}
    lengths = _cut_lengths(
        {
            extent
            for s in walk(kernel.body)
            if isinstance(s, For) and not s.unroll and synchronizes(s, memo)
            if (extent := integers.constant(s.extent)) is not None and extent > count
        },
        count,
        math.lcm(*(2 * s.cursor.stages for s in walk(kernel.body) if isinstance(s, Jump))),
    )
    if not lengths:
        return kernel

    def cut(statement: Statement) -> tuple[Statement]:
        if isinstance(statement, For) and not statement.unroll:
            length = integers.constant(statement.extent)
            if length in lengths:
                return (replace(statement, extent=Const(lengths[length])),)
        if isinstance(statement, If):
            return (replace(statement, condition=_compared(statement.condition, lengths)),)
        return (statement,)

    return replace(kernel, body=rewritten(kernel.body, cut))


def _cut_lengths(lengths: Set[int], count: int, turns: int) -> dict[int, int]:
    """What lengths that are more than `count` become, each by a multiple of `turns` less.

    They are no more than `count` then, or no more than `turns`, if that is more.
    """
    common = math.gcd(*lengths)
    most = count * common // max(lengths, default=1)
    unit = _less(common, most, turns)
    if unit <= most:
        return {length: length // common * unit for length in lengths}
    result: dict[int, int] = {}
    whole = kept = 0
    for length in sorted(lengths, reverse=True):
        if whole - length >= count // 2 or not whole:
            whole, kept = length, _less(length, count, turns)
        result[length] = max(kept - (whole - length), _less(length, 0, turns))
    return result


def _less(length: int, most: int, turns: int) -> int:
    """The largest number up to `most` that is a multiple of `turns` below a length; if there is
    none, the least one of these that is positive.
    """
    short = length - -(-(length - most) // turns) * turns
    return short if short > 0 else (length - 1) % turns + 1


def _compared(condition: Expr, lengths: Mapping[int, int]) -> Expr:
    if not isinstance(condition, Apply):
        return condition
    args = condition.args
    if condition.op in ("lt", "le", "eq"):
        args = tuple(
            Const(lengths.get(int(a.value), a.value), a.dtype) if isinstance(a, Const) else a
            for a in args
        )
    elif condition.op in ("logical_and", "logical_or"):
        args = tuple(_compared(arg, lengths) for arg in args)
    return Apply(condition.op, args, condition.dtype)


def blocks_of(kernel: Kernel, values: Mapping[str, int]) -> Iterator[Block]:
    """The first block of a launch, and the last one, which often has less to do."""
    known = launch_values(kernel, values, (0, 0, 0))
    x, y, z = (max(evaluate(extent, known), 1) - 1 for extent in kernel.launch.grid)
    yield (0, 0, 0)
    if (x, y, z) != (0, 0, 0):
        yield (x, y, z)
