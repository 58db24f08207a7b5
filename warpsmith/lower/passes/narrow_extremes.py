"""Extremes of 16-bit floats are found among these, before anything is widened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from warpsmith.ir import integers
from warpsmith.ir.carry import simple
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, If, Statement, Store
from warpsmith.kernel.reductions import Accumulate
from warpsmith.kernel.traversal import map_bodies, read, rewritten, walk, written

NARROW = (DataType.BFloat16, DataType.Half)
LEAST_STEPS = 2
"""For each state: an instruction takes two more elements, where one is widened and compared alone;
and the state is widened and joined with what was there before."""


def narrow_extremes(kernel: Kernel) -> Kernel:
    """Take the maximum, or minimum, of what 16 bits are widened to of the 16 bits: it is the same.

    Before::

        for i < 6 unrolled: for j < 8 unrolled: { T3 = float(x[i, j]);  m[j] max= T3 }

    After::

        m_narrow0 = -inf
        for i < 6 unrolled: for j < 8 unrolled: { T3 = float(x[i, j]);  m_narrow0[j] max= x[i, j] }
        for e < 8 unrolled: m[e] max= float(m_narrow0[e])

    What is widened for nothing else, the compiler drops.
    """
    names = iter(range(1 << 30))
    return kernel.with_body(_narrowed(kernel.body, names))


class _Found(NamedTuple):
    """A state that loops raise, by which accumulations, to which 16 bits that they widen."""

    loop: For
    buffer: Buffer
    joins: dict[Accumulate, Expr]


def _narrowed(statements: tuple[Statement, ...], names: Iterator[int]) -> tuple[Statement, ...]:
    result: list[Statement] = []
    pending = list(statements)
    while pending:
        if run := _run(pending):
            result += _made(run, next(names))
        else:
            result.append(map_bodies(pending[0], lambda body: _narrowed(body, names)))
        del pending[: max(1, len(run))]
    return tuple(result)


def _run(statements: Sequence[Statement]) -> list[_Found]:
    """The first loop and those behind it that raise the same state; none where that is too few
    elements for each.
    """
    run: list[_Found] = []
    for statement in statements:
        found = _raised(statement)
        if found is None or (run and found.buffer != run[0].buffer):
            break
        run.append(found)
    size = integers.constant(run[0].buffer.size) if run else None
    dtypes = {value.dtype for found in run for value in found.joins.values()}
    many = size is not None and sum(_steps(found.loop) for found in run) >= LEAST_STEPS * size
    return run if many and len(dtypes) == 1 else []


def _steps(statement: Statement) -> int:
    loops = [s for s in walk((statement,)) if isinstance(s, For)]
    return integers.constant(integers.mul(*(loop.extent for loop in loops))) or 0


def _raised(statement: Statement) -> _Found | None:
    """The one state that unrolled loops raise to 16-bit values that are widened."""
    inside = tuple(walk((statement,)))
    if not (isinstance(statement, For) and all(s.unroll for s in inside if isinstance(s, For))):
        return None
    joins = [s for s in inside if isinstance(s, Accumulate) and s.carry.name in ("max", "min")]
    buffers = {buffer for join in joins for buffer in join.buffers}
    if len(buffers) != 1 or any(s.collective or isinstance(s, If) for s in inside):
        return None  # of what is asked before 16-bit instructions, ptxas makes branches
    (buffer,) = buffers
    own = {s.buffer: None for s in inside if isinstance(s, Declare)}
    stores = [s for s in inside if isinstance(s, Store) and s.buffer in own]
    if (
        len({s.buffer for s in stores}) < len(stores)
        or buffer in own
        or buffer.memory is not MemoryType.local
    ):
        return None
    around = {join: loops for loops, join in _placed((statement,), ()) if join in joins}
    own_loops = {s.symbol for s in inside if isinstance(s, For)}
    narrow = {
        join: _narrow_of(join.part[0], stores, own_loops.difference(loops))
        for join, loops in around.items()
    }
    used = [b for s in inside if s not in joins for b in (*read(s), *written(s))]
    known = {join: value for join, value in narrow.items() if value is not None}
    if buffer in used or len(known) < len(joins) or not all(j.carry.is_simple for j in joins):
        return None
    return _Found(statement, buffer, known)


def _placed(
    statements: tuple[Statement, ...], loops: tuple[Symbol, ...]
) -> Iterator[tuple[tuple[Symbol, ...], Statement]]:
    """Statements that are no loops, each behind the loops that it is in."""
    for statement in statements:
        if isinstance(statement, For):
            yield from _placed(statement.body, (*loops, statement.symbol))
        else:
            yield loops, statement


def _narrow_of(part: Expr, stores: Sequence[Store], elsewhere: set[Symbol]) -> Expr | None:
    """The 16 bits of which a part is widened, where the part is used.

    Args:
        elsewhere: indices of loops that the part is not in.
    """
    if isinstance(part, Element):
        made = [s.value for s in stores if (s.buffer, s.index) == (part.buffer, part.index)]
        part = made[0] if made else part
    if not (isinstance(part, Apply) and part.op == "cast" and part.dtype is DataType.Float):
        return None
    (narrow,) = part.args
    there = isinstance(narrow, Element) and narrow.buffer.memory is MemoryType.local
    known = elsewhere.isdisjoint(narrow.walk())
    return narrow if there and known and narrow.dtype in NARROW else None


def _made(run: Sequence[_Found], number: int) -> list[Statement]:
    join, value = next(iter(run[0].joins.items()))
    state, carry = run[0].buffer, simple(join.carry.name, value.dtype)
    narrow = Buffer(f"{state.name}_narrow{number}", value.dtype, MemoryType.local, state.size)
    each = Symbol("e", low=0, extent=state.size)
    first = Apply("cast", (Const(join.carry.identity[0].value, DataType.Float),), value.dtype)
    wide = Apply("cast", (Element(narrow, each),), DataType.Float)

    def raised(found: _Found, statement: Statement) -> Iterable[Statement]:
        if isinstance(statement, Accumulate) and statement in found.joins:
            part = (found.joins[statement],)
            return (Accumulate(carry, (narrow,), statement.index, part),)
        return (statement,)

    return [
        Declare(narrow),
        For(each, state.size, (Store(narrow, each, first),), True),
        *(s for found in run for s in rewritten((found.loop,), partial(raised, found))),
        For(each, state.size, (Accumulate(join.carry, (state,), each, (wide,)),), True),
    ]
