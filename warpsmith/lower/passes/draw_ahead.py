"""Draw what says which results of a product are kept while tensor cores multiply."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, If, Statement, Store
from warpsmith.kernel.products import AwaitProducts, Multiply
from warpsmith.kernel.traversal import (
    children,
    defined,
    elements,
    map_bodies,
    walk,
    with_body,
    written,
)

DRAW = "philox_word"

UNIT = 8
"""Bits of a thread that an iteration draws: four blocks of Philox and what they are compared with,
some 250 instructions, of each of two warps that share issue slots. Tensor cores take as many cycles
for a step of 128 columns, and more for wider ones. Not timed."""

WORD = 32


@dataclass(frozen=True, slots=True)
class _Nest:
    """Loops behind a product, in whose innermost body masks are drawn.

    Attributes:
        loops: all unrolled, of constant extents, outermost first.
        masks: by the bool in registers, its value from the indices of these loops.
        made: what the values are made of, in registers of their own.
    """

    loops: tuple[For, ...]
    masks: Mapping[Buffer, Expr]
    made: frozenset[Buffer]

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(integers.constant(loop.extent) or 0 for loop in self.loops)

    @property
    def units(self) -> int:
        return math.prod(self.extents) // UNIT


def draw_ahead(kernel: Kernel) -> Kernel:
    """Masks that follow from random numbers alone are drawn, a few bits of each thread in each
    iteration, in the loop over k before them, whose products tensor cores still compute; threads
    keep them as words.

    Before::

        for k < K: { await; T3 += T1 x T2; ... }
        for chunk < 8 unrolled: for i < 16 unrolled:
            T7 = philox_word(place(chunk, i)); T8 = T7 >= 0.1; T9[i] = where(T8, T3[chunk, i], 0)

    After::

        for k < K: {
            await; T3 += T1 x T2; ...
            if k < 16: { bits = T7 >= 0.1 of 8 elements; words = words << 8 | bits }
        }
        for rest < 16 - K: { the same, of those that are left }
        for chunk < 8 unrolled: for i < 16 unrolled:
            T8 = bit(chunk, i) of words; T9[i] = where(T8, T3[chunk, i], 0)
    """
    body = tuple(_changed(s) if isinstance(s, Branch) else s for s in kernel.body)
    same = all(old is new for old, new in zip(kernel.body, body, strict=True))
    return kernel if same else replace(kernel, body=body)


def _changed(statement: Statement) -> Statement:
    return map_bodies(statement, _in_order)


def _in_order(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The statements, where a loop of products stands before masks; else those inside changed."""
    for at, loop in enumerate(statements):
        if isinstance(loop, For) and _multiplies(loop):
            behind = statements[at + 1 :]
            nest = next(filter(None, (_nest(s, (), behind) for s in behind)), None)
            if nest is not None:
                multiplied = _multiplied(loop, nest)
                return (*statements[:at], *multiplied, *_with_bits(behind, nest, loop))
    return tuple(map(_changed, statements))


def _multiplies(loop: For) -> bool:
    """Whether it is one over k in which threads only ask for products."""
    inside = tuple(walk(loop.body))
    asks = any(isinstance(s, Multiply) for s in inside)
    return asks and not loop.unroll and not any(isinstance(s, Store) for s in inside)


# --- what is drawn -----------------------------------------------------------------------------


def _nest(
    statement: Statement, around: tuple[For, ...], behind: tuple[Statement, ...]
) -> _Nest | None:
    """The first loops in which masks are drawn, of sizes that units divide."""
    if isinstance(statement, For):
        if not statement.unroll or integers.constant(statement.extent) is None:
            return None
        around = (*around, statement)
    body = children(statement)
    masks, made = _masks(body)
    free = {s for each in behind for inside in walk((each,)) for s in defined(inside)}
    free -= {loop.symbol for loop in around}
    known = {
        mask: value
        for mask, value in masks.items()
        if not any(isinstance(node, Symbol) and node in free for node in value.walk())
    }
    if known and math.prod(integers.constant(loop.extent) or 0 for loop in around) % UNIT == 0:
        return _Nest(around, known, made)
    return next(filter(None, (_nest(s, around, behind) for s in body)), None)


def _masks(body: Sequence[Statement]) -> tuple[dict[Buffer, Expr], frozenset[Buffer]]:
    """Bools in registers that follow from draws which nothing else uses, and registers that lead to
    them.
    """
    values: dict[Expr, Expr] = {}
    led: dict[Buffer, set[Buffer]] = {}
    used: set[Buffer] = set()
    for statement in body:
        inside = {e.buffer for s in walk((statement,)) for e in elements(s)}
        if isinstance(statement, Store) and statement.buffer.memory is MemoryType.local:
            value = substitute(statement.value, values)
            if not any(isinstance(node, Element) for node in value.walk()):
                values[Element(statement.buffer, statement.index)] = value
                led[statement.buffer] = inside.union(*(led.get(each, ()) for each in inside))
                continue
        used |= inside
    masks = {
        element.buffer: value
        for element, value in values.items()
        if isinstance(element, Element)
        and element.dtype is DataType.Bool
        and any(isinstance(node, Apply) and node.op == DRAW for node in value.walk())
        and used.isdisjoint(led[element.buffer])
    }
    return masks, frozenset(led)


# --- where it is drawn -------------------------------------------------------------------------


def _words(nest: _Nest) -> dict[Buffer, Buffer]:
    """By mask, the words in which its bits are kept."""
    size = integers.index(-(-nest.units * UNIT // WORD))
    return {
        mask: Buffer(f"{mask.name}_words", DataType.Int32, MemoryType.local, size)
        for mask in nest.masks
    }


def _multiplied(loop: For, nest: _Nest) -> Iterator[Statement]:
    """The loop over k with a unit of bits in each iteration."""
    for words in _words(nest).values():
        yield Declare(words)
        for number in range(integers.constant(words.size) or 0):
            yield Store(words, integers.index(number), _int(0))
    few = Apply("lt", (loop.symbol, integers.index(nest.units)), DataType.Bool)
    unit = If(few, tuple(_unit(loop.symbol, nest, "early")))
    yield with_body(loop, (*loop.body, unit))


def _left(loop: For, nest: _Nest) -> Statement:
    """The units for which the loop over k has too few iterations."""
    left = integers.maximum(integers.sub(nest.units, loop.extent), integers.ZERO)
    late = Symbol(f"{loop.symbol.name}_late", low=0, extent=left)
    body = tuple(_unit(integers.add(loop.extent, late), nest, "late"))
    return For(late, left, body, unroll=False)


def _unit(unit: Expr, nest: _Nest, name: str) -> Iterator[Statement]:
    """Draw the bits of a unit, and move those before them up."""
    inner: list[For] = []
    count = 1
    for loop, extent in zip(reversed(nest.loops), reversed(nest.extents), strict=True):
        if UNIT % (count * extent):
            break
        inner.insert(0, loop)
        count *= extent
    outer = nest.loops[: len(nest.loops) - len(inner)]
    several = Symbol(f"{name}_group", extent=integers.index(UNIT // count))
    own = [(several, UNIT // count)] if outer else []
    mapping: dict[Expr, Expr] = {}
    for loop in inner:
        extent = integers.constant(loop.extent) or 0
        own.append((Symbol(f"{loop.symbol.name}_{name}", extent=loop.extent), extent))
        mapping[loop.symbol] = own[-1][0]
    rest = integers.add(integers.mul(unit, UNIT // count), several)
    for loop in reversed(outer):
        mapping[loop.symbol] = integers.mod(rest, loop.extent)
        rest = integers.floordiv(rest, loop.extent)
    place = _linear(own)
    for (mask, value), words in zip(nest.masks.items(), _words(nest).values(), strict=True):
        bits = Buffer(f"{mask.name}_{name}", DataType.Int32, MemoryType.local, integers.ONE)
        one = Apply("where", (substitute(value, mapping), _int(1), _int(0)), DataType.Int32)
        bit = _apply("bitwise_left_shift", one, Apply("cast", (place,), DataType.Int32))
        body: tuple[Statement, ...] = (_or_into(bits, bit),)
        for symbol, extent in reversed(own):
            body = (For(symbol, integers.index(extent), body, unroll=True),)
        yield Declare(bits)
        yield Store(bits, integers.ZERO, _int(0))
        yield from body
        yield from _moved_up(words, bits)


def _or_into(bits: Buffer, bit: Expr) -> Store:
    first = Element(bits, integers.ZERO)
    return Store(bits, integers.ZERO, _apply("bitwise_or", first, bit))


def _moved_up(words: Buffer, bits: Buffer) -> Iterator[Statement]:
    """All bits are `UNIT` places higher, with new ones below."""
    size = integers.constant(words.size) or 0
    for number in reversed(range(size)):
        at = integers.index(number)
        below: Expr = Element(bits, integers.ZERO)
        if number:
            before = Element(words, integers.index(number - 1))
            below = _apply("logical_right_shift", before, _int(WORD - UNIT))
        above = _apply("bitwise_left_shift", Element(words, at), _int(UNIT))
        yield Store(words, at, _apply("bitwise_or", above, below))


# --- where it is used --------------------------------------------------------------------------


def _with_bits(statements: tuple[Statement, ...], nest: _Nest, loop: For) -> tuple[Statement, ...]:
    """The statements with bits in place of what drew them, and nothing that only led to that."""
    words = _words(nest)
    place = _linear(list(zip((each.symbol for each in nest.loops), nest.extents, strict=True)))
    unit, within = integers.floordiv(place, UNIT), integers.mod(place, UNIT)
    later = integers.sub(nest.units - 1, unit)
    bit = integers.add(integers.mul(later, UNIT), within)

    def change(statement: Statement) -> Statement:
        if isinstance(statement, Store) and statement.buffer in nest.masks:
            word = Element(words[statement.buffer], integers.floordiv(bit, WORD))
            down = Apply("cast", (integers.mod(bit, WORD),), DataType.Int32)
            moved = _apply("bitwise_and", _apply("logical_right_shift", word, down), _int(1))
            value = Apply("ne", (moved, _int(0)), DataType.Bool)
            return Store(statement.buffer, statement.index, value)
        return map_bodies(statement, lambda body: tuple(map(change, body)))

    waits = (at for at, s in enumerate(statements) if isinstance(s, AwaitProducts))
    at = next(
        waits, 0
    )  # the last products are asked for, and the group behind this one has its turn
    changed = (*statements[:at], _left(loop, nest), *map(change, statements[at:]))
    while True:
        read = {e.buffer for s in walk(changed) for e in elements(s)}
        dead = nest.made - read - set(nest.masks)
        kept = _without(changed, dead)
        if kept == changed:
            return changed
        changed = kept


def _without(
    statements: tuple[Statement, ...], dead: frozenset[Buffer] | set[Buffer]
) -> tuple[Statement, ...]:
    """The statements but for those that only declare or write these registers."""

    def stays(statement: Statement) -> bool:
        if isinstance(statement, Declare):
            return statement.buffer not in dead
        return not (isinstance(statement, Store) and set(written(statement)) <= dead)

    def change(statement: Statement) -> Statement:
        return map_bodies(statement, lambda body: _without(body, dead))

    return tuple(change(s) for s in statements if stays(s))


def _linear(loops: Sequence[tuple[Expr, int]]) -> Expr:
    """The number of an iteration of nested loops, the last of which is the fastest."""
    place: Expr = integers.ZERO
    for symbol, extent in loops:
        place = integers.add(integers.mul(place, extent), symbol)
    return place


def _apply(op: str, *args: Expr) -> Expr:
    return Apply(op, args, DataType.Int32)


def _int(number: int) -> Const:
    return Const(number, DataType.Int32)
