"""Threads ask for what they read of memory beside a product before they multiply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Expr
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.agents import Branch, Kind
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, CopyVector, Declare, Element, For, If, Statement, Store
from warpsmith.kernel.products import CommitProducts, Multiply
from warpsmith.kernel.traversal import (
    defined,
    expressions,
    map_bodies,
    map_buffers,
    map_expressions,
    map_places,
    read,
    replace_symbols,
    walk,
    with_body,
    written,
)
from warpsmith.targets.family import HELD, WARP, WARP_GROUP
from warpsmith.values import dataclass

MOST_REGISTERS = 64
"""Of a thread while it multiplies, for sums and for what is read before: those of a tile of 64 x 64
and of a residual. Larger tiles need theirs, and their products take the time."""

WORD = 4

Statements = tuple[Statement, ...]


def read_before(kernel: Kernel) -> Kernel:
    """What a thread reads behind the loop over k, an element or two at a time, is read before it.

    Before, where nobody writes T3::

        for k < K: { await full; multiply; commit products; .. }
        for c < 8 unrolled: { T16: half[1]; if c < rows: T16[0] = T3[c]; .. T16[0] + sums[c] .. }

    After::

        T16_before: half[8]
        for c < 8 unrolled: if c < rows: T16_before[c] = T3[c]
        for k < K: { await full; multiply; commit products; .. }
        for c < 8 unrolled: { .. T16_before[c] + sums[c] .. }

    Behind the last products nothing hides the way to memory any more, in whose queue are the
    weights of the kernel that starts meanwhile (docs/lessons/generation.md). What iterations read
    again, `T3[c % 2]`, is held once.
    """

    def change(branch: Branch) -> Branch:
        if branch.agent.kind is not Kind.MULTIPLY:
            return branch
        threads = integers.constant(integers.mul(*branch.agent.block)) or 0
        most = HELD.get(threads // (WARP_GROUP * WARP), 0)
        return map_bodies(branch, lambda body: _before(body, most))

    return kernel.map_branches(change)


def _before(statements: Statements, most: int) -> Statements:
    place = next((n for n, s in enumerate(statements) if _multiplies(s)), None)
    if place is None:
        return tuple(map_bodies(s, lambda body: _before(body, most)) for s in statements)
    named = {symbol for s in statements[place:] for symbol in defined(s)}
    sums = {s.accumulators for s in walk((statements[place],)) if isinstance(s, Multiply)}
    taken = sum(integers.constant(b.size) or most for b in sums)
    room, again = MOST_REGISTERS - taken, most - taken
    several = [r for s in statements[place + 1 :] for r in _reads((), s) if r.is_repeated]
    if sum(each.words for each in several if each.elements > room) > again:
        again = 0  # one of several would take registers, and leave the wait
    ahead: list[Statement] = []
    behind: list[Statement] = []
    for statement in statements[place + 1 :]:
        for found in _reads((), statement):
            held = found.is_repeated and found.words <= again
            if (held or found.elements <= room) and not found.used & named:
                room, again = room - found.elements, again - found.words
                ahead += (Declare(found.held), found.before)
                statement = found.behind(statement)
        behind.append(statement)
    return (*statements[:place], *ahead, statements[place], *behind)


def _multiplies(statement: Statement) -> bool:
    """Whether it is a loop that asks for products in each iteration."""
    return isinstance(statement, For) and any(isinstance(s, CommitProducts) for s in statement.body)


@dataclass(frozen=True, slots=True)
class _Read:
    """What unrolled loops read of memory.

    Attributes:
        loops: around it, the outermost first.
        buffer: of registers, that each iteration has.
        fill: the statement that fills it.
    """

    loops: tuple[For, ...]
    buffer: Buffer
    fill: Statement

    @property
    def elements(self) -> int:
        """Of all iterations."""
        return self._width * prod(self.periods)

    @property
    def words(self) -> int:
        """Registers that they are."""
        size = WORD if self._width == 1 else self.buffer.dtype.size
        return -(-self.elements * size // WORD)

    @property
    def is_repeated(self) -> bool:
        """Whether iterations read what others have read."""
        return self.periods != tuple(map(_extent, self.loops))

    @property
    def periods(self) -> tuple[int, ...]:
        """Iterations of each loop behind which the same is read again."""
        return tuple(_period(loop, self.fill) for loop in self.loops)

    @property
    def _width(self) -> int:
        size = integers.constant(self.buffer.size)
        assert size, "`_reads` finds those of a known size"
        return size

    @property
    def held(self) -> Buffer:
        """Registers for all iterations."""
        name, size = f"{self.buffer.name}_before", integers.index(self.elements)
        return replace(self.buffer, name=name, size=size)

    @property
    def used(self) -> set[Expr]:
        """Values that decide what is read, but for the loops'."""
        own = {loop.symbol for loop in self.loops}
        return {n for s in walk((self.fill,)) for e in expressions(s) for n in e.walk()} - own

    @property
    def before(self) -> Statement:
        """All of it, in loops of its own."""
        statement = self._moved(self.fill)
        for loop, period in reversed([*zip(self.loops, self.periods, strict=True)]):
            statement = with_body(replace(loop, extent=integers.index(period)), (statement,))
        return statement

    def behind(self, statement: Statement) -> Statement:
        """A statement that read it."""
        return self._moved(map_bodies(statement, self._without))

    def _without(self, statements: Statements) -> Statements:
        own = Declare(self.buffer), self.fill
        return tuple(map_bodies(s, self._without) for s in statements if s not in own)

    def _moved(self, statement: Statement) -> Statement:
        """The same of the registers for all iterations."""
        at: Expr = integers.ZERO
        for loop, period in zip(self.loops, self.periods, strict=True):
            own = integers.mod(loop.symbol, period)
            at = integers.add(integers.mul(at, period), own)
        start = integers.mul(at, self._width)

        def place(buffer: Buffer, index: Expr) -> Expr:
            return integers.add(start, index) if buffer == self.buffer else index

        def value(expr: Expr) -> Expr:
            own = (n for n in expr.walk() if isinstance(n, Element) and n.buffer == self.buffer)
            return substitute(expr, {n: Element(self.held, place(n.buffer, n.index)) for n in own})

        moved = map_expressions(map_places(statement, place), value)
        return map_buffers(moved, lambda buffer: self.held if buffer == self.buffer else buffer)


def _reads(loops: tuple[For, ...], statement: Statement) -> Iterator[_Read]:
    """Registers that unrolled loops declare, and then fill from memory that nobody writes."""
    if isinstance(statement, For) and statement.unroll and integers.constant(statement.extent):
        loops = (*loops, statement)
        for before, inner in zip((None, *statement.body), statement.body, strict=False):
            if isinstance(before, Declare) and _fills(inner, before.buffer):
                yield _Read(loops, before.buffer, inner)
            yield from _reads(loops, inner)


def _fills(statement: Statement, buffer: Buffer) -> bool:
    """Whether a statement does nothing but read what nobody writes into a buffer."""
    if isinstance(statement, If):
        return all(_fills(s, buffer) for s in statement.body)
    if not isinstance(statement, Store | CopyVector) or written(statement) != (buffer,):
        return False
    sources = read(statement)
    return bool(sources) and all(s.memory is MemoryType.global_ and not s.written for s in sources)


def _extent(loop: For) -> int:
    extent = integers.constant(loop.extent)
    assert extent, "`_reads` goes into loops of a known number of iterations"
    return extent


def _period(loop: For, fill: Statement) -> int:
    """Iterations of a loop behind which a statement does the same again."""
    count = _extent(loop)
    for period in (each for each in range(1, count) if count % each == 0):
        later: dict[Expr, Expr] = {loop.symbol: integers.add(loop.symbol, period)}
        if replace_symbols(fill, later) == fill:
            return period
    return count
