"""What a step over k does besides its products is done beside them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import takewhile

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.accesses import accesses
from warpsmith.kernel.agents import Kind
from warpsmith.kernel.elected import Converge
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, For, If, Let, Statement, Synchronize
from warpsmith.kernel.products import (
    AwaitProducts,
    CommitProducts,
    MatrixRegisters,
    Multiply,
)
from warpsmith.kernel.rings import Advance, Await, AwaitCopies, Cursor
from warpsmith.kernel.traversal import map_bodies, replace_symbols, walk, written
from warpsmith.values import dataclass

Statements = tuple[Statement, ...]

FIRST, LAST = 0, -1

WRITTEN_OUT = 4
"""Steps of a turn that are written out, where their number is known: so the fewest instructions
stand between what is added of one and the products of the next.
"""


def beside_products(kernel: Kernel) -> Kernel:
    """A step that awaits its own products, and adds them to sums of its own, awaits the next step's
    stage before them, and reads there what it multiplies them by.

    Before::

        for i < 8: {
            await full[stage];  T2 = scale[i];  multiply;  commit products
            await products;  T1 += T2 * ..;  arrive at empty[stage];  advance
        }

    After::

        await full[stage]
        for turn < 2: for each < 4, written out, i = 4 * turn + each: {
            multiply;  commit products;  T2 = scale[i]
            if i + 1 < 8: await full[next stage]
            await products;  T1 += T2 * ..;  arrive at empty[stage];  advance
        }

    Stores that must have been read before the loop's results are staged are awaited beside its last
    products, too, where threads meet then (`_free`). So nothing stands between what is added of one
    step and the products of the next. Where a step leaves its products on their way, its wait is
    beside them already. One that multiplies registers keeps its wait: attention by hand spilled 48
    bytes with it there.
    """
    return kernel.map_branches(
        lambda b: map_bodies(b, _ahead) if b.agent.kind is Kind.MULTIPLY else b
    )


def _ahead(statements: Statements) -> Statements:
    result: list[Statement] = []
    left = list(statements)
    while left:
        statement = left.pop(0)
        step = _step(statement) if isinstance(statement, For) else None
        if step is None:
            result.append(map_bodies(statement, _ahead))
            continue
        extents = [loop.extent for loop in step.loops if integers.constant(loop.extent) is None]
        runs = [integers.less(integers.ZERO, extent) for extent in extents]
        first: Statement = step.wait
        result += [If(integers.conjunction(*runs), (first,), uniform=True) if runs else first]
        free = _free(step, left)
        result.append(step.rewritten(free))
        if free and runs:
            result.append(If(integers.negated(integers.conjunction(*runs)), free, uniform=True))
        left = left[len(free) :]
    return tuple(result)


@dataclass(frozen=True, slots=True)
class _Step:
    """One iteration of the innermost of some loops, which passes one stage.

    Attributes:
        loops: outermost first, each all that the one before it does with the stages.
        wait: for the stage.
        cursor: of it.
        has: what holds of the innermost loop's iterations that do anything: the first ones of each
            turn of the loops around it, one at least; None where all do.
    """

    loops: tuple[For, ...]
    wait: Await
    cursor: Cursor
    has: Expr | None = None

    @property
    def goes_on(self) -> Expr:
        """Whether another iteration follows."""
        more = [integers.less(integers.add(each.symbol, 1), each.extent) for each in self.loops]
        if self.has is not None:
            more[LAST] = integers.conjunction(more[LAST], self._next(self.has))
        return reduce(_either, more)

    @property
    def ends(self) -> Expr:
        """Whether none does."""
        last = (integers.add(each.symbol, 1) for each in self.loops)
        pairs = zip(last, self.loops, strict=True)
        ends = [Apply("eq", (after, each.extent), DataType.Bool) for after, each in pairs]
        if self.has is not None:
            ends[LAST] = _either(ends[LAST], integers.negated(self._next(self.has)))
        return integers.conjunction(*ends)

    def _next(self, condition: Expr) -> Expr:
        symbol = self.loops[LAST].symbol
        return substitute(condition, {symbol: integers.add(symbol, 1)})

    @property
    def behind(self) -> Iterator[Statement]:
        """What the last iteration of all does once its last products are asked for."""
        inside = _guarded(self.loops[-1])[1]
        holder = [s for s in inside if _commits(s)][-1]
        if isinstance(holder, For):  # several passes
            yield from holder.body[max(n for n, s in enumerate(holder.body) if _commits(s)) + 1 :]
        yield from inside[inside.index(holder) + 1 :]
        holder = self.loops[-1]
        for loop in reversed(self.loops[:-1]):
            yield from loop.body[loop.body.index(holder) + 1 :]
            holder = loop

    def rewritten(self, free: Statements) -> For:
        """The loops with the wait at its new place.

        Args:
            free: what is done beside the last products of all.
        """
        stage, phase, stages = self.cursor.stage, self.cursor.phase, self.cursor.stages
        after = integers.add(stage, 1)
        turn = Apply("eq", (after, integers.index(stages)), DataType.Bool)
        parity = Apply("where", (turn, integers.sub(1, phase), phase), DataType.Index)
        place = Apply("where", (turn, integers.ZERO, after), DataType.Index)
        inner = self.loops[-1]
        body = tuple(s for s in _guarded(inner)[1] if s is not self.wait)
        wait = replace(self.wait, stage=place, parity=parity)
        added = [If(self.goes_on, (wait,), uniform=True)]
        added += [If(self.ends, free, uniform=True)] if free else []
        body = _beside(body, tuple(added), LAST)
        body = _read_late(body)
        if self.has is not None:
            body = (If(self.has, body, uniform=True),)
        made = replace(inner, body=body)
        if len(self.loops) > 1:
            made = _written_out(made)
        for loop in reversed(self.loops[:-1]):
            made = replace(loop, body=tuple(made if s is inner else s for s in loop.body))
            inner = loop
        return made


def _free(step: _Step, behind: Sequence[Statement]) -> Statements:
    """What stands first behind a step's loops, if that is a wait for stores, and threads that meet;
    nothing where the end of the last iteration touches more than registers, which they may order.
    """
    ends = walk(tuple(step.behind))
    if any(a.buffer.memory is not MemoryType.local for s in ends for a in accesses(s)):
        return ()
    free = takewhile(_waits, behind)
    return tuple(free)


def _waits(statement: Statement) -> bool:
    inside = statement.body if isinstance(statement, If) else (statement,)
    return all(
        isinstance(s, Synchronize) or (isinstance(s, AwaitCopies) and s.bulk) for s in inside
    )


def _read_late(statements: Statements) -> Statements:
    """The statements with what reads registers for sums behind the first products.

    Of several passes lanes meet there, or ptxas reads beside the first one's first instruction, and
    the second one waits for that: docs/lessons/float8.md.
    """
    products = [s for s in walk(statements) if isinstance(s, Multiply)]
    sums = {product.accumulators for product in products}
    first = next(n for n, s in enumerate(statements) if _commits(s))
    late = tuple(s for s in statements[:first] if _fills(s, but=sums))
    rest = tuple(s for s in statements if not any(s is each for each in late))
    several = any(isinstance(s, For) and _commits(s) for s in statements)
    return _beside(rest, (Converge(), *late) if several else late, FIRST) if late else statements


def _fills(statement: Statement, *, but: Collection[Buffer]) -> bool:
    """Whether a statement, or a loop, writes registers and nothing else, and none of some."""
    if isinstance(statement, Declare | Let):
        return False
    filled = {buffer for each in walk((statement,)) for buffer in written(each)}
    return bool(filled) and all(b.memory is MemoryType.local and b not in but for b in filled)


def _written_out(loop: For) -> For:
    """A loop of a known number of steps as one over some that are written out."""
    extent = integers.constant(loop.extent)
    if extent is None or extent % WRITTEN_OUT:
        return loop
    turn = Symbol(f"{loop.symbol.name}b", extent=integers.index(extent // WRITTEN_OUT))
    step = Symbol(f"{loop.symbol.name}s", extent=integers.index(WRITTEN_OUT))
    index = integers.add(integers.mul(turn, WRITTEN_OUT), step)
    body = tuple(replace_symbols(s, {loop.symbol: index}) for s in loop.body)
    inner = For(step, integers.index(WRITTEN_OUT), body, unroll=True)
    return replace(loop, symbol=turn, extent=integers.index(extent // WRITTEN_OUT), body=(inner,))


def _step(loop: For) -> _Step | None:
    """The step of a loop, or of one that is all that it does with its stages."""
    has, inside = _guarded(loop)
    waits = [s for s in inside if isinstance(s, Await)]
    products = [s for s in walk(loop.body) if isinstance(s, Multiply)]
    if any(isinstance(product.a, MatrixRegisters) for product in products):
        return None
    if len(waits) == 1 and products and _carries(loop):
        cursor = _cursor(loop, waits[0])
        rest = inside[inside.index(waits[0]) + 1 :]
        if cursor is not None and _awaited(rest):
            return _Step((loop,), waits[0], cursor, has)
    inner = [s for s in loop.body if isinstance(s, For)]
    found = [step for step in map(_step, inner) if step is not None]
    if len(found) != 1 or loop.symbol in found[0].loops[0].extent.walk():
        return None
    waits = [s for s in walk(loop.body) if isinstance(s, Await)]
    if sum(each.barrier == found[0].wait.barrier for each in waits) > 1:
        return None
    return replace(found[0], loops=(loop, *found[0].loops))


def _either(a: Expr, b: Expr) -> Apply:
    return Apply("logical_or", (a, b), DataType.Bool)


def _guarded(loop: For) -> tuple[Expr | None, Statements]:
    """What holds where a loop does anything, as the number of its iteration is below one; and what
    it does then. None where it always does.
    """
    only = loop.body[0] if len(loop.body) == 1 else None
    if isinstance(only, If) and only.uniform and getattr(only.condition, "op", "") == "lt":
        return only.condition, only.body
    return None, loop.body


def _carries(loop: For) -> bool:
    """Whether an iteration leaves sums of its products in registers for the next one."""
    inside = [s for s in walk(loop.body) if not isinstance(s, Multiply)]
    own = {s.buffer for s in inside if isinstance(s, Declare)}
    left = {buffer for s in inside for buffer in written(s)} - own
    return any(buffer.memory is MemoryType.local for buffer in left)


def _cursor(loop: For, wait: Await) -> Cursor | None:
    """The cursor of a loop's one wait, where the loop moves it on by one of several stages."""
    moves = (s for s in _guarded(loop)[1] if isinstance(s, Advance) and s.by == 1)
    cursor = next((each.cursor for each in moves if each.cursor.stage == wait.stage), None)
    alone = sum(isinstance(s, Await) for s in walk(loop.body)) == 1
    if cursor is None or not alone or cursor.stages == 1 or wait.parity != cursor.phase:
        return None
    return cursor


def _awaited(statements: Statements) -> bool:
    """Whether all products that the statements ask for last are awaited behind them."""
    place = max((n for n, s in enumerate(statements) if _commits(s)), default=None)
    if place is None:
        return False
    last, behind = statements[place], statements[place + 1 :]
    if isinstance(last, CommitProducts):
        return any(isinstance(s, AwaitProducts) and s.pending == 0 for s in behind)
    return isinstance(last, For) and _awaited(last.body)


def _beside(statements: Statements, added: Statements, which: int) -> Statements:
    """The statements with others behind the first or last products that they ask for."""
    place = [n for n, s in enumerate(statements) if _commits(s)][which]
    asked, behind = statements[place], statements[place + 1 :]
    if isinstance(asked, For):  # several passes
        turn = asked.extent if which == LAST else integers.ONE
        here = Apply("eq", (integers.add(asked.symbol, 1), turn), DataType.Bool)
        inner = _beside(asked.body, (If(here, added, uniform=True),), which)
        return (*statements[:place], replace(asked, body=inner), *behind)
    return (*statements[: place + 1], *added, *behind)


def _commits(statement: Statement) -> bool:
    return any(isinstance(each, CommitProducts) for each in walk((statement,)))
