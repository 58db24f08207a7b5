"""Lanes that are four in a row draw random words for each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.integers import constant
from warpsmith.ir.polynomials import polynomial
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.agents import Branch, Kind, is_of_warps
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, If, Statement, Store
from warpsmith.kernel.random_words import DrawByQuads
from warpsmith.kernel.traversal import expressions, map_bodies, map_expressions, walk
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

LANE = ParallelType.block_x.name
"""The thread along x, by which lanes are numbered."""

DRAW = "kept_word"
"""What draws: it takes the block, the place there, a bound, the seed and the offset."""

QUAD = 4
"""Lanes that draw for each other; words of a block."""


def share_random(kernel: Kernel) -> Kernel:
    """Have each of four lanes draw one of four blocks, of which each needs a word.

    A thread has two neighbouring columns of a product, of each eight, in rows that are 8 apart: a
    word of each block, whose other words three lanes beside it need.

    Before::

        for i0 < 2 unrolled: for i1 < 2 unrolled: for i2 < 2 unrolled: {
            T2 = kept_word(block(i0, i1), 2 * lane + i2, least) }

    After::

        words0: int32[4]
        words0 = words lane of the blocks of four lanes, here block(lane / 2, lane % 2)
        for i0 < 2 unrolled: for i1 < 2 unrolled: for i2 < 2 unrolled: {
            T2 = kept_half(words0[2 * i0 + i1], i2, least) }

    Only warps that multiply by tensor cores are whole wherever they are; nothing else draws so.
    """
    names = _Names()
    return kernel.map_branches(
        lambda b: _of_agent(b, names) if b.agent.kind is Kind.MULTIPLY else b
    )


@dataclass(slots=True)
class _Names:
    """Numbers the words, and the loops that draw them."""

    used: int = 0

    def words(self, size: int) -> tuple[Buffer, Symbol]:
        number, self.used = self.used, self.used + 1
        buffer = Buffer(f"words{number}", DataType.Int32, MemoryType.local, integers.index(size))
        return buffer, Symbol(f"draw{number}", low=0, extent=integers.index(size // QUAD))


def _of_agent(branch: Branch, names: _Names) -> Branch:
    along = constant(branch.agent.block[0])
    if along is None or along % WARP:
        return branch
    return map_bodies(branch, lambda body: _shared(body, along, names))


def _shared(body: tuple[Statement, ...], threads: int, names: _Names) -> tuple[Statement, ...]:
    """The statements of whole warps, of so many threads along x."""
    result: list[Statement] = []
    for statement in body:
        draws = _draws_in(statement, threads)
        for draw in draws:
            words, group = names.words(draw.size)
            result += draw.drawn_to(words, group)
            statement = draw.read_from(words, statement)
        some = isinstance(statement, If) and not is_of_warps(statement.condition)
        if not (draws or some):
            statement = map_bodies(statement, lambda inside: _shared(inside, threads, names))
        result.append(statement)
    return tuple(result)


@dataclass(frozen=True, slots=True)
class _Draw:
    """What unrolled loops draw: a word of each block of two rows of some eights of columns.

    Attributes:
        word: what draws a half of one.
        key: the seed and the offset, as they are before the loops.
        eights: the outer loop, where there is more than one.
        rows: the symbol of the loop inside it.
        columns: the symbol of the innermost one, which says the half.
        lane: the number of a lane, from 0 to 3, which says the word.
    """

    word: Apply
    key: tuple[Expr, ...]
    eights: For | None
    rows: Symbol
    columns: Symbol
    lane: Expr

    @property
    def size(self) -> int:
        """Words that are drawn: four at a time."""
        count = 1 if self.eights is None else constant(self.eights.extent)
        assert count is not None
        return -(-2 * count // QUAD) * QUAD

    def drawn_to(self, words: Buffer, group: Symbol) -> tuple[Statement, ...]:
        block, (seed, offset) = self.word.args[0], self.key
        upper, lower = (f(self.lane, 2) for f in (integers.floordiv, integers.mod))
        own: dict[Expr, Expr] = {self.rows: lower}
        if self.eights is not None:
            own[self.eights.symbol] = integers.add(integers.mul(group, 2), upper)
        index = integers.mul(group, QUAD)
        draw = DrawByQuads(words, index, self.lane, substitute(block, own), seed, offset)
        groups = integers.index(self.size // QUAD)
        return Declare(words), For(group, groups, (draw,), unroll=True)

    def read_from(self, words: Buffer, loops: Statement) -> Statement:
        """The loops, which draw no more."""
        eight = integers.ZERO if self.eights is None else self.eights.symbol
        word = Element(words, integers.add(integers.mul(eight, 2), self.rows))
        given = (word, self.columns, self.word.args[2])
        changes: dict[Expr, Expr] = {self.word: Apply("kept_half", given, self.word.dtype)}
        return map_expressions(loops, lambda value: substitute(value, changes))


def _draws_in(statement: Statement, threads: int) -> list[_Draw]:
    """What nested loops draw that four lanes can share."""
    loops = [s for s in walk((statement,)) if isinstance(s, For)]
    extents = [constant(loop.extent) if loop.unroll else None for loop in loops]
    if loops[:1] != [statement] or len(loops) not in (2, 3) or extents[-2:] != [2, 2]:
        return []
    if extents[0] is None or any(f.body != (s,) for f, s in pairwise(loops[:-1])):
        return []
    values = [value for s in walk((statement,)) for value in expressions(s)]
    words = dict.fromkeys(
        e for v in values for e in v.walk() if isinstance(e, Apply) and e.op == DRAW
    )
    held = {s.buffer: s.value for s in walk((statement,)) if isinstance(s, Store)}
    found = (_draw_of(word, loops, threads, held) for word in words)
    return [draw for draw in found if draw is not None]


def _draw_of(
    word: Apply, loops: Sequence[For], threads: int, held: Mapping[Buffer, Expr]
) -> _Draw | None:
    """A half of a word of loops, if lanes that are four say the same blocks, and each its word.

    Args:
        held: what was stored in each buffer.
    """
    block, place, _, *key = word.args
    key = [_before(value, held) for value in key]
    *eights, rows, columns = loops
    lane, known = _word_of(place, columns.symbol), set(block.walk())
    if lane is None or columns.symbol in known or any(isinstance(e, Element) for e in known):
        return None
    if not all(isinstance(value, Const) or _is_of_launch(value) for value in key):
        return None
    shared = _is_of_quad(lane, threads) and _is_shared(block, threads)
    outer = eights[0] if eights else None
    draw = _Draw(word, tuple(key), outer, rows.symbol, columns.symbol, lane)
    return draw if shared else None


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


def _is_lane(value: Expr) -> bool:
    return isinstance(value, Symbol) and value.name == LANE


def _uncast(value: Expr) -> Expr:
    return value.args[0] if isinstance(value, Apply) and value.op == "cast" else value


def _word_of(place: Expr, columns: Symbol) -> Expr | None:
    """Which word of a block an inner loop has the halves of, if it has."""
    terms = dict(polynomial(_uncast(place)))
    (word, twice), *others = [*terms.items() - {((columns,), 1)}] or [((), 0)]
    is_whole = not others and len(word) == 1 and twice == 2 and terms.get((columns,)) == 1
    return word[0] if is_whole else None


def _of_lane(value: Expr, threads: int) -> list[int] | None:
    """A value that depends on the thread alone, in each."""
    asked: list[Expr] = [e for e in value.walk() if isinstance(e, Symbol)]
    if not all(map(_is_lane, asked)):
        return None
    at = (dict.fromkeys(asked, integers.index(number)) for number in range(threads))
    found = [constant(substitute(value, each)) for each in at]
    return None if None in found else [n for n in found if n is not None]


def _is_of_quad(lane: Expr, threads: int) -> bool:
    return _of_lane(lane, threads) == [thread % QUAD for thread in range(threads)]


def _is_shared(block: Expr, threads: int) -> bool:
    """Whether four lanes say the same block: so say all parts of it that ask for the thread."""
    parts = {part for monomial in polynomial(_uncast(block)) for part in monomial}
    asked = [_of_lane(part, threads) for part in parts if any(map(_is_lane, part.walk()))]
    return all(
        each is not None and all(each[n] == each[n // QUAD * QUAD] for n in range(threads))
        for each in asked
    )
