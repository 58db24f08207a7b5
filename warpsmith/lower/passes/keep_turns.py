"""What blocks that meet have loaded before stays with them, where there is room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import prod

from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, MemoryType
from warpsmith.ir.polynomials import expression, polynomial
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import (
    Buffer,
    CopyVector,
    Declare,
    Element,
    For,
    If,
    Let,
    PrefetchVector,
    Statement,
    Store,
)
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.traversal import (
    children,
    expressions,
    map_bodies,
    replace_symbols,
    rewritten,
    walk,
)
from warpsmith.lower.passes.load_anyway import anyway, is_load, written_otherwise
from warpsmith.lower.passes.split_full_passes import without
from warpsmith.values import dataclass


def keep_turns(kernel: Kernel) -> Kernel:
    """Blocks read in turns what they reduce, meet, and need the same again. They keep the first
    turns in shared memory, as many as there is room for (`Kernel.kept_turns`), and the last one in
    registers. Those between are read again, the last first: the L2 has these.

    All turns but the last one are whole, so that no index of theirs runs past the end. Where a
    thread has nothing to load after all, it loads the first elements of the input, which nobody
    uses: loads under predicates would wait for one another.

    Before::

        for t < turns: { r = x[t]; s += f(r) }
        reduce s over the grid
        for t < turns: { r = x[t]; y[t] = g(r, s) }

    After, `kept = min(turns - 1, 3)`::

        for t < kept: { r = x[t]; s += f(r); shared[t] = r }
        for t < turns - 1 - kept: { r = x[kept + t]; s += f(r) }
        last = x[turns - 1]; s += f(last)
        reduce s over the grid
        y[turns - 1] = g(last, s)
        for t < turns - 1 - kept: { r = x[turns - 2 - t]; y[turns - 2 - t] = g(r, s) }
        for t < kept: { r = shared[t]; y[t] = g(r, s) }
    """
    if kernel.kept_turns is None:
        return kernel
    found = _found(kernel)
    if found is None:
        return kernel
    before, after, pairs = found
    turns = _Turns(kernel, before, after, pairs, kernel.kept_turns)

    def loaded(turn: For, statements: Iterable[Statement]) -> tuple[Statement, ...]:
        return rewritten(tuple(statements), partial(anyway, kept=written_otherwise(turn.body)))

    body: list[Statement] = []
    for statement in kernel.body:
        if statement is before:
            body += loaded(before, turns.first())
        elif statement is after:
            body += loaded(after, turns.again())
        else:
            body.append(statement)
    shared = (*kernel.shared, *turns.kept.values())
    return replace(kernel, body=tuple(body), shared=shared, kept_turns=None)


@dataclass(frozen=True, slots=True)
class _Load:
    """A vector that is loaded in a turn, `loop` for each of its accesses of a thread."""

    loop: For
    copy: CopyVector

    def place(self, turn: For, turn_name: Symbol, access: Symbol) -> Expr:
        """Where it is loaded from, in other names."""
        names: dict[Expr, Expr] = {turn.symbol: turn_name, self.loop.symbol: access}
        return substitute(self.copy.source_index, names)


def _found(kernel: Kernel) -> tuple[For, For, tuple[tuple[_Load, _Load], ...]] | None:
    """The loop before blocks meet and the one behind that load the same in turns, and those loads:
    of the second beside those of the first.
    """
    meeting = next((n for n, s in enumerate(kernel.body) if isinstance(s, Reduce)), None)
    if meeting is None:
        return None
    loops = [
        [s for s in part if isinstance(s, For) and not s.unroll and any(_loads(s))]
        for part in (kernel.body[:meeting], kernel.body[meeting:])
    ]
    if [len(each) for each in loops] != [1, 1]:
        return None
    (before,), (after,) = loops
    if before.extent != after.extent:
        return None
    turn, access = Symbol("turn"), Symbol("access")
    known = {
        (load.copy.source.name, load.copy.width, load.place(before, turn, access)): load
        for load in _loads(before)
    }
    pairs = []
    for load in _loads(after):
        first = known.get((load.copy.source.name, load.copy.width, load.place(after, turn, access)))
        if first is not None and first.loop.extent == load.loop.extent:
            pairs.append((first, load))
    return (before, after, tuple(pairs)) if pairs else None


def _loads(turn: For) -> Iterator[_Load]:
    """The vectors that a turn loads from global memory, each in a loop of its own."""
    for loop in turn.body:
        if not isinstance(loop, For) or not loop.unroll:
            continue
        (inner, *more) = loop.body
        (inner, *others) = children(inner) if isinstance(inner, If) else (inner,)
        if not more and not others and isinstance(inner, CopyVector) and is_load(inner):
            yield _Load(loop, inner)


class _Turns:
    """The loops that two loops over turns become."""

    def __init__(
        self,
        kernel: Kernel,
        before: For,
        after: For,
        pairs: Iterable[tuple[_Load, _Load]],
        most: int,
    ) -> None:
        self._before, self._after = before, after
        self._pairs = tuple(pairs)
        block = [integers.constant(extent) or 1 for extent in kernel.launch.block]
        self._threads, self._thread = prod(block), _thread(before, block)
        whole = integers.sub(integers.maximum(before.extent, 1), 1)
        self._whole = Symbol("whole_turns", low=0)
        self._few = Symbol("kept_turns", low=0)
        self._lets = (
            Let(self._whole, whole),
            Let(self._few, integers.minimum(self._whole, most)),
        )
        self.kept: Mapping[Buffer, Buffer] = {
            first.copy.target: Buffer(
                f"{first.copy.target.name}_kept",
                first.copy.target.dtype,
                MemoryType.shared,
                integers.mul(most * self._threads, first.copy.target.size),
            )
            for first, _ in self._pairs
            if most
        }

    def first(self) -> Iterator[Statement]:
        """Before the blocks meet."""
        yield from self._lets
        loop, body = self._before, self._within(self._before)
        if self.kept:
            keep = [self._copy(first, loop.symbol, kept=True) for first, _ in self._pairs]
            ahead = self._ahead(loop, body, integers.add(loop.symbol, 1))
            yield replace(loop, extent=self._few, body=(*ahead, *keep))
        rest = Symbol(f"{loop.symbol.name}_between", low=0)
        moved: dict[Expr, Expr] = {loop.symbol: integers.add(self._few, rest)}
        ahead = self._ahead(loop, body, integers.add(loop.symbol, 1))
        between = tuple(_lasting(replace_symbols(statement, moved)) for statement in ahead)
        yield replace(loop, symbol=rest, extent=self._between, body=between)
        last: dict[Expr, Expr] = {loop.symbol: self._whole}
        yield from (replace_symbols(statement, last) for statement in loop.body)

    def again(self) -> Iterator[Statement]:
        """Behind it."""
        loop, body = self._after, self._within(self._after)
        last: dict[Expr, Expr] = {loop.symbol: self._whole}
        for statement in loop.body:
            pairs = (pair for pair in self._pairs if pair[1].loop is statement)
            kept = next((_registers(*pair) for pair in pairs), statement)
            yield replace_symbols(kept, last)
        back = Symbol(f"{loop.symbol.name}_between", low=0)
        down = integers.sub(integers.sub(self._whole, 1), back)
        moved: dict[Expr, Expr] = {loop.symbol: down}
        ahead = self._ahead(loop, body, integers.maximum(integers.sub(loop.symbol, 1), self._few))
        between = tuple(replace_symbols(statement, moved) for statement in ahead)
        yield replace(loop, symbol=back, extent=self._between, body=between)
        if self.kept:
            loads = [second.loop for _, second in self._pairs]
            own = [self._copy(load, loop.symbol, into=second) for load, second in self._pairs]
            whole = self._within(replace(loop, body=tuple(s for s in loop.body if s not in loads)))
            declared = {second.copy.target for _, second in self._pairs}
            head = [s for s in whole if isinstance(s, Declare) and s.buffer in declared]
            tail = [s for s in whole if s not in head]
            yield replace(loop, extent=self._few, body=(*head, *own, *tail))

    def _ahead(self, loop: For, body: tuple[Statement, ...], turn: Expr) -> tuple[Statement, ...]:
        """The body of a turn that asks for what another one loads, behind its own loads."""
        own = [load.loop for load in _loads(replace(loop, body=body))]
        asked = [_prefetch(load.loop, {loop.symbol: turn}) for load in _loads(loop)]
        end = 1 + max(n for n, statement in enumerate(body) if statement in own)
        return (*body[:end], *asked, *body[end:])

    @property
    def _between(self) -> Expr:
        return integers.sub(self._whole, self._few)

    def _within(self, loop: For) -> tuple[Statement, ...]:
        """What a turn does that is not the last one."""
        conditions = {
            each
            for statement in walk(loop.body)
            if isinstance(statement, If)
            for each in integers.conjuncts(statement.condition)
        }
        sure = frozenset(each for each in conditions if _holds_before_the_last(each, loop))
        return without(loop.body, sure)

    def _copy(
        self, load: _Load, turn: Expr, *, kept: bool = False, into: _Load | None = None
    ) -> Statement:
        """Registers to shared memory, or back."""
        loop, width = load.loop, load.copy.width
        access = integers.add(integers.mul(turn, loop.extent), loop.symbol)
        place = integers.mul(integers.add(integers.mul(access, self._threads), self._thread), width)
        shared = self.kept[load.copy.target]
        if kept:
            made = CopyVector(shared, place, load.copy.target, load.copy.target_index, width)
        else:
            assert into is not None
            index = substitute(into.copy.target_index, {into.loop.symbol: loop.symbol})
            made = CopyVector(into.copy.target, index, shared, place, width)
        return For(loop.symbol, loop.extent, (made,), unroll=True)


def _prefetch(statement: Statement, names: dict[Expr, Expr]) -> Statement:
    """The loads of a statement as requests to the L2, in other names."""

    def asked(each: Statement) -> Statement:
        if isinstance(each, CopyVector):
            return PrefetchVector(each.source, each.source_index)
        return map_bodies(each, lambda body: tuple(map(asked, body)))

    return asked(replace_symbols(statement, names))


def _lasting(statement: Statement) -> Statement:
    """A statement whose loads are the last to go from the L2: they come again."""
    if isinstance(statement, CopyVector):
        return replace(statement, evict_last=True) if is_load(statement) else statement
    return map_bodies(statement, lambda body: tuple(map(_lasting, body)))


def _registers(first: _Load, second: _Load) -> Statement:
    """What was loaded before the blocks met, in the registers where it is wanted behind it."""
    element = Symbol("e", low=0, extent=first.copy.target.size)
    same = Store(second.copy.target, element, Element(first.copy.target, element))
    return For(element, first.copy.target.size, (same,), unroll=True)


def _thread(loop: For, block: list[int]) -> Expr:
    """The number of a thread of the block."""
    names = {
        node.name: node
        for statement in walk(loop.body)
        for expr in expressions(statement)
        for node in expr.walk()
        if isinstance(node, Symbol)
    }
    number: Expr = integers.ZERO
    for kind, extent in reversed(list(zip(BLOCK_TYPES, block, strict=True))):
        number = integers.add(integers.mul(number, extent), names.get(kind.name, integers.ZERO))
    return number


def _holds_before_the_last(condition: Expr, loop: For) -> bool:
    """Whether a condition holds in every turn but the last: it asks whether an index that grows by
    a whole turn of all blocks in each of them is within what the turns were counted for.
    """
    if not (isinstance(condition, Apply) and condition.op == "lt"):
        return False
    index, limit = condition.args
    counted: Expr = loop.extent
    step: Expr = integers.ONE
    while isinstance(counted, Apply) and counted.op == "ceildiv" and counted != limit:
        step = integers.mul(step, counted.args[1])
        counted = counted.args[0]
    grown = [
        (tuple(factor for factor in monomial if factor != loop.symbol), count)
        for monomial, count in polynomial(index).items()
        if loop.symbol in monomial
    ]
    rest = substitute(index, {loop.symbol: integers.ZERO})
    last: dict[Expr, Expr] = {
        node: integers.sub(node.extent, 1)
        for node in rest.walk()
        if isinstance(node, Symbol) and node.extent is not None
    }
    turn = integers.add(substitute(rest, last), 1)
    return (
        counted == limit
        and integers.sub(expression(dict(grown)), step) == integers.ZERO
        and integers.sub(turn, step) == integers.ZERO
    )
