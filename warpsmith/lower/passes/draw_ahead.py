"""Random words that an epilogue needs are drawn while tensor cores multiply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.agents import Branch, Kind
from warpsmith.kernel.draws import DrawByQuads, KeepBits
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, If, Statement
from warpsmith.kernel.products import CommitProducts
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

Statements = tuple[Statement, ...]


def draw_ahead(kernel: Kernel) -> Kernel:
    """Where all groups of a block share a tile, and nobody multiplies while they draw, they draw
    behind the products of the first steps over k, which are on their way meanwhile.

    Before::

        for k < K: { multiply;  commit products;  await products but 1 groups }
        for c < 4 unrolled: {
            words0: int32[16]
            for draw0 < 4 unrolled: words0[4 * draw0 ..] = words .., here block(c, draw0)
            .. kept_half(words0[i], e, least) ..
        }

    After, with a bit for each element::

        words0_kept: bool[128] bits
        for k < K: { multiply;  commit products
            if k < 16: { words0 = words .., here block(k / 4, k % 4);  words0_kept moves on by it }
            await products but 1 groups }
        for later < max(16 - K, 0): { words0 = words .., here block((K + later) / 4, ..); .. }
        for c < 4 unrolled: { .. words0_kept[32 * c + 2 * i + e] .. }

    Groups that take turns draw while another one multiplies.
    """
    body = tuple(
        map_bodies(s, _ahead)
        if isinstance(s, Branch) and s.agent.kind is Kind.MULTIPLY and s.agent.groups == 1
        else s
        for s in kernel.body
    )
    return kernel if body == kernel.body else replace(kernel, body=body)


def _ahead(statements: Statements) -> Statements:
    place = next((n for n, s in enumerate(statements) if _multiplies(s)), None)
    if place is None:
        return tuple(map_bodies(s, _ahead) for s in statements)
    steps = statements[place]
    assert isinstance(steps, For), "`_multiplies` said so"
    declared: list[Statement] = []
    later: list[Statement] = []
    behind: list[Statement] = []
    for statement in statements[place + 1 :]:
        for draw in _draws_of(statement):
            declared.append(Declare(draw.bits))
            steps = draw.beside(steps)
            later.append(draw.left(steps))
            statement = draw.read_from(statement)
        behind.append(statement)
    return (*statements[:place], *declared, steps, *later, *behind)


def _multiplies(statement: Statement) -> bool:
    """Whether it is a loop that asks for products in each iteration."""
    return isinstance(statement, For) and any(isinstance(s, CommitProducts) for s in statement.body)


@dataclass(frozen=True, slots=True)
class _Draw:
    """What the chunks of a tile draw, some words each.

    Attributes:
        chunks: the loop over them.
        drawn: the loop in which one draws its words, four at a time.
        draw: the statement inside.
        least: from which number on an element is kept.
    """

    chunks: For
    drawn: For
    draw: DrawByQuads
    least: Expr

    @property
    def each(self) -> int:
        """Times that a chunk draws four words."""
        return integers.constant(self.drawn.extent) or 0

    @property
    def count(self) -> int:
        """Times that all chunks do."""
        return self.each * (integers.constant(self.chunks.extent) or 0)

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
        places: dict[Expr, Expr] = {
            self.chunks.symbol: integers.floordiv(at, self.each),
            self.drawn.symbol: integers.mod(at, self.each),
        }
        draw = replace_symbols(self.draw, places)
        draw = replace(draw, words_of=words, index=integers.ZERO)
        return Declare(words), draw, KeepBits(self.bits, words, self.least)

    def beside(self, steps: For) -> For:
        """The loop over k, whose first steps draw once each."""
        own = If(integers.less(steps.symbol, self.count), self.number(steps.symbol), uniform=True)
        places = [n for n, s in enumerate(steps.body) if isinstance(s, CommitProducts)]
        behind = places[-1] + 1
        return with_body(steps, (*steps.body[:behind], own, *steps.body[behind:]))

    def left(self, steps: For) -> For:
        """What is left to draw behind it, where steps are fewer."""
        extent = integers.maximum(integers.sub(self.count, steps.extent), integers.ZERO)
        at = Symbol(f"{self.drawn.symbol.name}_left", low=0, extent=integers.index(self.count))
        return For(at, extent, self.number(integers.add(steps.extent, at)), unroll=False)

    def read_from(self, chunks: Statement) -> Statement:
        """The chunks, which draw no more."""
        words = self.draw.words_of
        each = self.each * self.draw.width

        def kept(value: Expr) -> Expr:
            return substitute(value, {e: self._bit(e, each) for e in _halves_of(value, words)})

        assert isinstance(chunks, For), "draws stand in loops"
        left = (s for s in chunks.body if s not in (Declare(words), self.drawn))
        return with_body(chunks, tuple(map_expressions(s, kept) for s in left))

    def _bit(self, half: Apply, each: int) -> Expr:
        word, odd, _ = half.args
        assert isinstance(word, Element), "`_halves_of` said so"
        at = integers.add(integers.mul(self.chunks.symbol, each), word.index)
        return Element(self.bits, integers.add(integers.mul(at, HALVES), odd))


def _halves_of(value: Expr, words: Buffer) -> list[Apply]:
    """Where it asks for halves of these words."""
    halves = (e for e in value.walk() if isinstance(e, Apply) and e.op == HALF)
    return [e for e in halves if isinstance(e.args[0], Element) and e.args[0].buffer == words]


def _draws_of(chunks: Statement) -> Sequence[_Draw]:
    """What an unrolled loop draws in each iteration, by one bound that the launch knows."""
    if not isinstance(chunks, For) or not chunks.unroll or integers.constant(chunks.extent) is None:
        return ()
    found = []
    values = [value for s in walk(chunks.body) for value in expressions(s)]
    for loop in chunks.body:
        first = loop.body[0] if isinstance(loop, For) else None
        if not isinstance(loop, For) or not isinstance(first, DrawByQuads):
            continue
        least = {half.args[2] for value in values for half in _halves_of(value, first.words_of)}
        if len(least) == 1 and all(map(_is_of_launch, least)):
            found.append(_Draw(chunks, loop, first, least.pop()))
    return found


def _is_of_launch(value: Expr) -> bool:
    return isinstance(value, Const) or (isinstance(value, Symbol) and value.extent is None)
