"""Let the steps of an unrolled loop move a level together, as online softmax moves its maximum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.carry import simple
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.levels import Levels, levels_of
from warpsmith.ir.scalar import Apply, Const, Expr
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, CopyVector, Declare, Element, For, If, Statement, Store
from warpsmith.kernel.reductions import Accumulate
from warpsmith.kernel.traversal import children, map_bodies, read, walk, with_body, written
from warpsmith.values import dataclass

MOST_STEPS = 8
"""Steps that move a level together. What each adds stays in registers until the level is known:
with 64, log-sum-exp of bfloat16 rows spilled 304 bytes, as two blocks leave it 64 registers. With 8
it spills nothing, and takes 7 instructions an element (NVRTC 13.0)."""

MOST_KEPT_STEPS = 128
"""The same where what is added is in registers as it was loaded, and is widened once more."""


def batch_levels(kernel: Kernel) -> Kernel:
    """Find the level of all that an unrolled loop adds, and then add it at that level.

    A step alone moves the level and the sums at it, which takes two exponentials where one is of
    the element. The steps of a batch take one each, and one more for all.

    Before::

        for i0 < 8 unrolled: { T2 = float(T1[i0]);  m, s logsumexp= T2, 1 }

    After::

        m_old0 = m
        for i0 < 8 unrolled: { T2 = float(T1[i0]);  m max= T2 }
        s = s * exp_near(m_old0 - m)
        for i0 < 8 unrolled: { T2 = float(T1[i0]);  s sum= exp_near(T2 - m) }

    What a step adds is computed in both loops, of registers alone. Of many steps, 16 bits are
    widened in the second one by an instruction that ptxas does not know for the same, for it would
    keep what the first made. Exponentials of distances to a maximum take two instructions: they are
    at most 1, and as precise as the distances.
    """
    names = _Names()
    body = _batched(kernel.body, names)
    return replace(kernel, body=body) if names.used else kernel


_Change = Callable[[Statement], tuple[Statement, ...]]


@dataclass(slots=True)
class _Names:
    """Numbers the levels from which batches start."""

    used: int = 0


def _batched(statements: tuple[Statement, ...], names: _Names) -> tuple[Statement, ...]:
    result: list[Statement] = []
    for statement in statements:
        batch = _batch_of(statement) if isinstance(statement, For) else None
        if batch is None:
            result.append(map_bodies(statement, lambda body: _batched(body, names)))
        else:
            result += batch.statements(names)
    return tuple(result)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Unrolled loops, and what of their body moves a level that is the same in several steps.

    Attributes:
        loops: the outermost one, and those in it.
        needed: names of the buffers of which the levels that are added are computed.
        many: they are more than MOST_STEPS.
    """

    loops: For
    joins: tuple[tuple[Accumulate, Levels], ...]
    needed: frozenset[str]
    many: bool

    def statements(self, names: _Names) -> list[Statement]:
        start: list[Statement] = []
        moved: list[Statement] = []
        for join, levels in self.joins:
            level = join.buffers[levels.place]
            old = Buffer(f"{level.name}_old{names.used}", level.dtype, MemoryType.local, level.size)
            names.used += 1
            known = Element(level, join.index)
            kept = Store(old, join.index, known)
            start += [Declare(old), *self._around(join.index, (kept,))]
            raised = [
                Store(buffer, join.index, _times(Element(buffer, join.index), factor))
                for k, buffer in enumerate(join.buffers)
                if k != levels.place
                for factor in (levels.nearly(k, Element(old, join.index), known),)
            ]
            moved += self._around(join.index, tuple(raised))
        return [*start, *self._of(self._level), *moved, *self._of(self._rest)]

    def _around(self, index: Expr, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Statements in those loops that say which state it is."""
        used = set(index.walk())
        for loop in reversed([s for s in walk((self.loops,)) if isinstance(s, For)]):
            if loop.symbol in used:
                body = (replace(loop, body=body),)
        return body

    def _of(self, change: _Change) -> tuple[Statement, ...]:
        return tuple(_kept((self.loops,), change))

    def _level(self, statement: Statement) -> tuple[Statement, ...]:
        """What the first loops have of a statement: the level, and what it is made of."""
        for join, levels in self.joins:
            if statement is join:
                level, part = join.buffers[levels.place], join.part[levels.place]
                carry = simple(levels.extreme, level.dtype)
                return (Accumulate(carry, (level,), join.index, (part,)),)
        made = statement.buffer if isinstance(statement, Declare) else None
        names = {b.name for b in ((made,) if made is not None else written(statement))}
        own = isinstance(statement, Declare | Store | CopyVector) and names <= self.needed
        return (statement,) if own else ()

    def _rest(self, statement: Statement) -> tuple[Statement, ...]:
        """What the second loops have of it: sums at the level in place of the step, else itself."""
        for join, levels in self.joins:
            if statement is join:
                level = Element(join.buffers[levels.place], join.index)
                return tuple(
                    Accumulate(
                        simple("sum", buffer.dtype),
                        (buffer,),
                        join.index,
                        (_times(part, levels.nearly(k, join.part[levels.place], level)),),
                    )
                    for k, (buffer, part) in enumerate(zip(join.buffers, join.part, strict=True))
                    if k != levels.place
                )
        if self.many and isinstance(statement, Store) and statement.buffer.name in self.needed:
            return (_widened_again(statement),)
        return (statement,)


def _kept(statements: Sequence[Statement], change: _Change) -> Iterator[Statement]:
    """Loops and conditions with what is kept of the statements in them."""
    for statement in statements:
        if isinstance(statement, For | If):
            body = tuple(_kept(statement.body, change))
            if body:
                yield with_body(statement, body)
        else:
            yield from change(statement)


def _batch_of(loop: For) -> _Batch | None:
    """The batch that a loop is; None where its steps move different levels, or are too many."""
    inner = tuple(walk((loop,)))
    loops = [s for s in inner if isinstance(s, For)]
    steps = integers.constant(integers.mul(*(each.extent for each in loops)))
    if not all(each.unroll for each in loops) or steps is None or not 1 < steps <= MOST_KEPT_STEPS:
        return None
    many = steps > MOST_STEPS
    joins = tuple(
        (statement, levels)
        for statement in inner
        if isinstance(statement, Accumulate) and not statement.ahead
        if loop.symbol not in statement.index.walk()
        if (levels := levels_of(statement.carry)) is not None
    )
    needed = _needed(inner, [join.part[levels.place] for join, levels in joins])
    if not joins or needed is None:
        return None
    made = (s for s in inner if isinstance(s, Store) and s.buffer.name in needed)
    if many and not all(_is_cheap(store.value) for store in made):
        return None
    own = {buffer.name for join, _ in joins for buffer in join.buffers}
    others = [s for s in inner if s not in [join for join, _ in joins]]
    touched = {b.name for s in others for b in (*read(s), *written(s))}
    apart = own.isdisjoint(touched | needed)
    return _Batch(loop, joins, needed, many) if apart else None


def _is_cheap(value: Expr) -> bool:
    """Whether it is there, or widened of what is."""
    cast = isinstance(value, Apply) and value.op == "cast"
    return isinstance(value.args[0] if cast else value, Element)


def _widened_again(store: Store) -> Store:
    """The same of 16 bits, by an instruction of its own."""
    value = store.value
    if not (isinstance(value, Apply) and value.op == "cast" and value.dtype is DataType.Float):
        return store
    if value.args[0].dtype not in (DataType.BFloat16, DataType.Half):
        return store
    again = Apply("widen_again", (*value.args, Const(2, DataType.Int)), value.dtype)
    return replace(store, value=again)


def _needed(inner: Sequence[Statement], parts: Sequence[Expr]) -> frozenset[str] | None:
    """Names of the buffers declared in the loops of which parts are computed; None where something
    else than registers is read for them, or what is read changes in the loops otherwise.
    """
    declared = {s.buffer.name for s in inner if isinstance(s, Declare)}
    makers: dict[str, list[Statement]] = {}
    for statement in inner:
        for buffer in () if children(statement) else written(statement):
            makers.setdefault(buffer.name, []).append(statement)
    found: set[str] = set()
    pending = [n.buffer for part in parts for n in part.walk() if isinstance(n, Element)]
    while pending:
        buffer = pending.pop()
        if buffer.memory is not MemoryType.local:
            return None
        if buffer.name in found or buffer.name not in makers:
            continue
        if buffer.name not in declared:
            return None
        found.add(buffer.name)
        for maker in makers[buffer.name]:
            if not isinstance(maker, Store | CopyVector) or len(written(maker)) != 1:
                return None
            pending += read(maker)
    return frozenset(found)


def _times(value: Expr, factor: Expr) -> Expr:
    one = isinstance(value, Const) and value.value == 1
    return factor if one else Apply("mul", (value, factor), value.dtype)
