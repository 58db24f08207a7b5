"""Random words that an epilogue needs are drawn while tensor cores multiply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.agents import Branch, Kind
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, If, Statement
from warpsmith.kernel.products import CommitProducts
from warpsmith.kernel.random_words import DrawByQuads, KeepBits
from warpsmith.kernel.traversal import (
    expressions,
    map_bodies,
    map_expressions,
    replace_symbols,
    walk,
    with_body,
)
from warpsmith.values import dataclass

HALF = "kept_half"
"""What asks whether an element is kept: of a word, the half, and the bound."""

HALVES = 2

TOGETHER, OTHERS = 16, 256
"""Columns of 64 rows for which a group draws at a time, and of which others multiply as many, in a
step over k, as take as long. With 192 columns of another group 2176 x 2688 x 2816 with dropout and
a residual takes 55.5 us, 53.8 where they draw in turns; with 256 2048 x 4096 x 4096 93.6 and 93.8;
with 320 2048 x 2496 x 3520 58.5 and 58.9 (an H200, 2026-11-27)."""

Statements = tuple[Statement, ...]


def random_ahead(kernel: Kernel) -> Kernel:
    """Where all groups of a block share a tile, they draw in the first steps over k, each while
    others multiply.

    Before::

        for k < K: { multiply;  commit products;  await products but 1 groups;  release }
        for c < 4 unrolled: {
            words0: int32[16]
            for draw0 < 4 unrolled: words0[4 * draw0 ..] = words .., here block(c, draw0)
            .. kept_half(words0[i], e, least) ..
        }

    After, with a bit for each element::

        words0_kept: bool[128] bits
        for k < K: { multiply;  commit products;  await products but 1 groups;  release
            if k < 16: { words0 = words .., here block(k / 4, k % 4);  words0_kept moves on by it }
        }
        for left < max(16 - K, 0): { words0 = words .., here block((K + left) / 4, ..); .. }
        for c < 4 unrolled: { .. words0_kept[32 * c + 2 * i + e] .. }

    A group that multiplies alone, as those that take turns do, waits to ask for products until most
    of those before are done: while it draws nobody multiplies (docs/lessons/epilogues.md).
    """

    def change(branch: Branch) -> Branch:
        agent = branch.agent
        if agent.kind is not Kind.MULTIPLY or agent.groups > 1:
            return branch
        return map_bodies(branch, partial(_ahead, groups=integers.constant(agent.block[1]) or 1))

    return kernel.map_branches(change)


def _ahead(statements: Statements, groups: int) -> Statements:
    place = next((n for n, s in enumerate(statements) if _multiplies(s)), None)
    if place is None:
        return tuple(map_bodies(s, partial(_ahead, groups=groups)) for s in statements)
    steps = statements[place]
    assert isinstance(steps, For), "`_multiplies` said so"
    declared: list[Statement] = []
    left: list[Statement] = []
    behind: list[Statement] = []
    for statement in statements[place + 1 :]:
        for draw in _draws_of(statement):
            declared.append(Declare(draw.bits))
            steps = draw.beside(steps, groups)
            left.append(draw.left(steps))
            statement = draw.read_from(statement)
        behind.append(statement)
    return (*statements[:place], *declared, steps, *left, *behind)


def _multiplies(statement: Statement) -> bool:
    """Whether it is a loop that asks for products in each iteration."""
    return isinstance(statement, For) and any(isinstance(s, CommitProducts) for s in statement.body)


@dataclass(frozen=True, slots=True)
class _Draw:
    """What the chunks of a tile draw, some words each.

    Attributes:
        loops: around what draws: over chunks, and over parts of 64 rows where a group has several.
        drawn: the loop in which one draws its words, four at a time.
        draw: the statement inside.
        least: from which number on an element is kept.
    """

    loops: tuple[For, ...]
    drawn: For
    draw: DrawByQuads
    least: Expr

    @property
    def count(self) -> int:
        """Times that all chunks draw four words."""
        return prod(map(_extent, (*self.loops, self.drawn)))

    @property
    def bits(self) -> Buffer:
        """One for each element of a tile."""
        size = integers.index(self.count * self.draw.width * HALVES)
        name = f"{self.draw.words_of.name}_kept"
        return Buffer(name, DataType.Bool, MemoryType.local, size, packed=True)

    def number(self, at: Expr) -> Statements:
        """One draw of all, and what is kept of it."""
        old = self.draw.words_of
        words = replace(old, size=integers.index(self.draw.width))
        places: dict[Expr, Expr] = {}
        first, *others = *self.loops, self.drawn
        for loop in reversed(others):
            places[loop.symbol] = integers.mod(at, _extent(loop))
            at = integers.floordiv(at, _extent(loop))
        draw = replace_symbols(self.draw, places | {first.symbol: at})
        draw = replace(draw, words_of=words, index=integers.ZERO)
        return Declare(words), draw, KeepBits(self.bits, words, self.least)

    def beside(self, steps: For, groups: int) -> For:
        """The loop over k, whose first steps draw once each, behind the release of a stage: steps
        that wait for loads would hold it up. Where others have little to multiply meanwhile, groups
        draw in turns, if there are steps enough.
        """
        step, count = steps.symbol, self.count
        own = If(integers.less(step, count), self.number(step), uniform=True)
        if groups > 1 and (groups - 1) * count * TOGETHER < OTHERS:
            group = Symbol(ParallelType.block_y.name)
            few = integers.less(steps.extent, groups * count)
            mine = Apply("eq", (integers.mod(step, groups), group), DataType.Bool)
            turn = Apply("logical_or", (few, mine), DataType.Bool)
            at = Apply("where", (few, step, integers.floordiv(step, groups)), DataType.Index)
            own = If(integers.conjunction(turn, integers.less(at, count)), self.number(at))
        return with_body(steps, (*steps.body, own))

    def left(self, steps: For) -> For:
        """What is left to draw behind it, where steps are fewer."""
        extent = integers.maximum(integers.sub(self.count, steps.extent), integers.ZERO)
        at = Symbol(f"{self.drawn.symbol.name}_left", low=0, extent=integers.index(self.count))
        return For(at, extent, self.number(integers.add(steps.extent, at)), unroll=False)

    def read_from(self, chunks: Statement) -> Statement:
        """The chunks, which draw no more."""
        words = self.draw.words_of
        drawing = Declare(words), self.drawn

        def undrawn(statements: Statements) -> Statements:
            return tuple(map_bodies(s, undrawn) for s in statements if s not in drawing)

        def kept(value: Expr) -> Expr:
            return substitute(value, {e: self._bit(e) for e in _halves_of(value, words)})

        return map_expressions(map_bodies(chunks, undrawn), kept)

    def _bit(self, half: Apply) -> Expr:
        word, odd, _ = half.args
        assert isinstance(word, Element), "`_halves_of` said so"
        at: Expr = integers.ZERO
        for loop in self.loops:
            at = integers.add(integers.mul(at, _extent(loop)), loop.symbol)
        words = integers.mul(at, _extent(self.drawn) * self.draw.width)
        places = integers.mul(integers.add(words, word.index), HALVES)
        return Element(self.bits, integers.add(places, odd))


def _halves_of(value: Expr, words: Buffer) -> list[Apply]:
    """Where it asks for halves of these words."""
    halves = (e for e in value.walk() if isinstance(e, Apply) and e.op == HALF)
    return [e for e in halves if isinstance(e.args[0], Element) and e.args[0].buffer == words]


def _draws_of(statement: Statement) -> Iterator[_Draw]:
    """What unrolled loops draw in each iteration, by one bound that the launch knows."""
    values = [value for s in walk((statement,)) for value in expressions(s)]
    for loops, draw in _nests(statement):
        least = {half.args[2] for value in values for half in _halves_of(value, draw.words_of)}
        if len(loops) > 1 and len(least) == 1 and all(map(_is_of_launch, least)):
            yield _Draw(loops[:-1], loops[-1], draw, least.pop())


def _nests(statement: Statement) -> Iterator[tuple[tuple[For, ...], DrawByQuads]]:
    """Each statement that draws inside unrolled loops alone, which come first."""
    if isinstance(statement, DrawByQuads):
        yield (), statement
    elif isinstance(statement, For) and statement.unroll and integers.constant(statement.extent):
        for inner in statement.body:
            yield from (((statement, *loops), draw) for loops, draw in _nests(inner))


def _extent(loop: For) -> int:
    extent = integers.constant(loop.extent)
    assert extent, "`_nests` goes into loops of a known number of iterations"
    return extent


def _is_of_launch(value: Expr) -> bool:
    return isinstance(value, Const) or (isinstance(value, Symbol) and value.extent is None)
