"""Neighbouring lanes draw random words for each other, where each needs half of a block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.integers import constant
from warpsmith.ir.polynomials import polynomial
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.agents import Branch, Kind
from warpsmith.kernel.draws import DrawByPairs
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, If, Statement, Store
from warpsmith.kernel.traversal import expressions, map_bodies, map_expressions, walk
from warpsmith.targets.family import WARP

LANE = ParallelType.block_x.name
"""The thread along x, by which lanes are numbered."""

WORDS = 4
"""Of a block, of which a lane needs two; and that it needs of two blocks."""

NUMBERS = 2**24
"""How many numbers are drawn from; each is the upper 24 bits of a word."""


def pair_draws(kernel: Kernel) -> Kernel:
    """Have each lane of a pair draw one of two blocks, of which both lanes need half.

    A thread has two neighbouring columns of a product in rows that are 8 apart: two words of each
    of two blocks, whose other two words the next lane needs.

    Before::

        for i0 < 2 unrolled: for i1 < 2 unrolled: {
            T1 = philox_word(block(i0), 2 * odd + i1);  T2 = T1 >= 0.1 }

    After::

        words0: int32[4];  words0 = words of blocks block(0) and block(1), by pairs of lanes
        for i0 < 2 unrolled: for i1 < 2 unrolled: {
            T1 = number of words0[2 * i0 + i1];  T2 = words0[2 * i0 + i1] draws at least 0.1 }

    Only warps that multiply by tensor cores are whole wherever they are; nothing else draws so.
    """
    names = _Names()
    body = tuple(
        _of_agent(s, names) if isinstance(s, Branch) and s.agent.kind is Kind.MULTIPLY else s
        for s in kernel.body
    )
    return replace(kernel, body=body) if names.used else kernel


@dataclass(slots=True)
class _Names:
    """Numbers the words."""

    used: int = 0

    def words(self) -> Buffer:
        name, size = f"words{self.used}", integers.index(WORDS)
        self.used += 1
        return Buffer(name, DataType.Int32, MemoryType.local, size)


def _of_agent(branch: Branch, names: _Names) -> Branch:
    along = constant(branch.agent.block[0])
    if along is None or along % WARP:
        return branch
    return map_bodies(branch, lambda body: _paired(body, along, names))


def _paired(body: tuple[Statement, ...], threads: int, names: _Names) -> tuple[Statement, ...]:
    """The statements of whole warps, of so many threads along x."""
    result: list[Statement] = []
    for statement in body:
        draws = _draws_in(statement, threads)
        for draw in draws:
            words = names.words()
            result += draw.drawn_to(words)
            statement = draw.read_from(words, statement)
        some = isinstance(statement, If) and not _is_of_warps(statement.condition)
        if not (draws or some):
            statement = map_bodies(statement, lambda inside: _paired(inside, threads, names))
        result.append(statement)
    return tuple(result)


def _is_of_warps(condition: Expr) -> bool:
    """Whether all lanes of a warp have the same condition."""
    return not any(isinstance(e, Element) or _is_lane(e) for e in condition.walk())


@dataclass(frozen=True, slots=True)
class _Draw:
    """What two unrolled loops draw: all words that a thread needs of two blocks.

    Attributes:
        word: what draws one, of the block, its place there, seed and offset.
        key: the seed and the offset, as they are before the loops.
        rows: the symbol of the outer loop, which says the block.
        columns: the symbol of the inner one, which says the word.
        odd: 0 in even lanes, 1 in odd ones.
    """

    word: Apply
    key: tuple[Expr, ...]
    rows: Symbol
    columns: Symbol
    odd: Expr

    def drawn_to(self, words: Buffer) -> tuple[Statement, ...]:
        block, (seed, offset) = self.word.args[0], self.key
        first, second = (substitute(block, {self.rows: integers.index(row)}) for row in (0, 1))
        return Declare(words), DrawByPairs(words, self.odd, first, second, seed, offset)

    def read_from(self, words: Buffer, loops: Statement) -> Statement:
        """The loops, which draw no more."""
        word = Element(words, integers.add(integers.mul(self.rows, 2), self.columns))
        changes: dict[Expr, Expr] = {self.word: Apply("philox_number", (word,), self.word.dtype)}
        changes |= {e: _at_least(e, word) for e in self._compared(loops)}
        return map_expressions(loops, lambda value: substitute(value, changes))

    def _compared(self, loops: Statement) -> Iterator[Apply]:
        """Comparisons with the number, which a register holds."""
        stores = [s for s in walk((loops,)) if isinstance(s, Store) and s.value == self.word]
        numbers = {Element(s.buffer, s.index) for s in stores if s.buffer.size == integers.ONE}
        for value in (value for s in walk((loops,)) for value in expressions(s)):
            for e in value.walk():
                if isinstance(e, Apply) and e.op == "ge" and e.args[0] in numbers:
                    yield from (e,) if 0 < _least(e.args[1]) < NUMBERS else ()


def _draws_in(statement: Statement, threads: int) -> list[_Draw]:
    """What two loops draw that pairs of lanes can share."""
    loops = [s for s in walk((statement,)) if isinstance(s, For)]
    twice = [loop.unroll and constant(loop.extent) == 2 for loop in loops]
    if loops[:1] != [statement] or twice != [True, True]:
        return []
    rows, columns = (loop.symbol for loop in loops)
    values = [value for s in walk((statement,)) for value in expressions(s)]
    words = dict.fromkeys(
        e for v in values for e in v.walk() if isinstance(e, Apply) and e.op == "philox_word"
    )
    held = {s.buffer: s.value for s in walk((statement,)) if isinstance(s, Store)}
    found = (_draw_of(word, rows, columns, threads, held) for word in words)
    return [draw for draw in found if draw is not None]


def _draw_of(
    word: Apply, rows: Symbol, columns: Symbol, threads: int, held: Mapping[Buffer, Expr]
) -> _Draw | None:
    """A word of two loops, if lanes that are a pair say the same blocks, and each other words.

    Args:
        held: what was stored in each buffer.
    """
    block, place, *key = word.args
    key = [_before(value, held) for value in key]
    odd, known = _half_of(place, columns), set(block.walk())
    if odd is None or columns in known or any(isinstance(e, Element) for e in known):
        return None
    if not all(isinstance(value, Const) or _is_of_launch(value) for value in key):
        return None
    shared = _is_of_pair(odd, threads) and _is_shared(block, threads)
    return _Draw(word, tuple(key), rows, columns, odd) if shared else None


def _before(value: Expr, held: Mapping[Buffer, Expr]) -> Expr:
    """What a register holds that says the seed, or the offset: a copy of an input."""
    while isinstance(value, Element) and value.buffer.memory is MemoryType.local:
        if value.buffer not in held or value.buffer.size != integers.ONE:
            break
        value = held[value.buffer]
    return value


def _is_of_launch(value: Expr) -> bool:
    """Whether it is the same for all threads: a scalar of the call, or one element of an input."""
    if isinstance(value, Element):
        return value.buffer.memory is MemoryType.global_ and constant(value.index) is not None
    return isinstance(value, Symbol) and value.extent is None and not _is_lane(value)


def _at_least(compared: Apply, word: Expr) -> Apply:
    """The comparison as one of integers."""
    least = integers.index(_least(compared.args[1]))
    return Apply("philox_at_least", (word, least), compared.dtype)


def _least(bound: Expr) -> int:
    """How many numbers are less than a literal; 0 where they are to be compared as they are."""
    if not isinstance(bound, Const):
        return 0
    return math.ceil(float(np.float32(bound.value)) * NUMBERS)


def _is_lane(value: Expr) -> bool:
    return isinstance(value, Symbol) and value.name == LANE


def _uncast(value: Expr) -> Expr:
    return value.args[0] if isinstance(value, Apply) and value.op == "cast" else value


def _half_of(place: Expr, columns: Symbol) -> Expr | None:
    """Which half of a block's words an inner loop walks, if it does."""
    terms = dict(polynomial(_uncast(place)))
    (half, twice), *others = [*terms.items() - {((columns,), 1)}] or [((), 0)]
    is_half = not others and len(half) == 1 and twice == 2 and terms.get((columns,)) == 1
    return half[0] if is_half else None


def _of_lane(value: Expr, threads: int) -> list[int] | None:
    """A value that depends on the thread alone, in each."""
    asked: list[Expr] = [e for e in value.walk() if isinstance(e, Symbol)]
    if not all(map(_is_lane, asked)):
        return None
    at = (dict.fromkeys(asked, integers.index(number)) for number in range(threads))
    found = [constant(substitute(value, each)) for each in at]
    return None if None in found else [n for n in found if n is not None]


def _is_of_pair(odd: Expr, threads: int) -> bool:
    return _of_lane(odd, threads) == [thread % 2 for thread in range(threads)]


def _is_shared(block: Expr, threads: int) -> bool:
    """Whether both lanes of each pair say the same block: so say all parts of it that ask for the
    thread.
    """
    parts = {part for monomial in polynomial(_uncast(block)) for part in monomial}
    asked = [_of_lane(part, threads) for part in parts if any(map(_is_lane, part.walk()))]
    return all(each is not None and each[::2] == each[1::2] for each in asked)
