"""Let loads run ahead of their use, and stores behind: every ring gets its waits and releases."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.nodes import Buffer, For, If, Kernel, Statement, Synchronize
from warpsmith.kernel.rings import (
    AwaitClock,
    Begin,
    Cursor,
    Drain,
    Fill,
    InitBarriers,
    Ring,
    Slots,
    StartClock,
)
from warpsmith.kernel.roles import Branch
from warpsmith.kernel.traversal import replace_symbols, walk
from warpsmith.lower.turning.copies import CopyRing
from warpsmith.lower.turning.loads import LoadRing, at_most, loads_by_tma
from warpsmith.lower.turning.parts import (
    Statements,
    drained,
    filled,
    first_and_last,
    only_fills,
    touches,
    without_fills,
)
from warpsmith.lower.turning.stores import StoreRing

_READY = "barriers are ready"

UNROLL_LIMIT = 64
"""Loops of so many iterations are unrolled whole where they turn a ring in registers."""


def turn_rings(kernel: Kernel) -> Kernel:
    """Replace fills and drains by copies that run ahead, in their slots, with their barriers.

    Before, where the loop turns `T1`, with three slots and a prefetch of two::

        for i < n turns T1:
            fill T1: T1[..] = T0[i, ..] by tma
            T2[..] = f(T1[..])

    After::

        barriers ring0_full[3], ring0_empty[3];  meet
        for ip < min(n, 2):
            if elected: { expect bytes; T1[slot..] = T0[ip, ..] };  advance fill
        for i < n:
            if i + 2 < n:
                if elected: { await empty; expect bytes; T1[slot..] = T0[i + 2, ..] };  advance fill
            await full;  T2[..] = f(T1[slot..]);  release empty;  advance use

    The last two iterations are the epilogue: nothing is left to be filled. A loop shorter than the
    prefetch fills no more than it uses, so that at the end of every loop all that was asked for has
    been waited for. Where the loop itself is repeated, the first fills wait for empty slots, too.
    """
    turner = _Turner(used=len(kernel.rings))
    if any(isinstance(s, Branch) for s in kernel.body):
        body = tuple(_branch(s, turner) if isinstance(s, Branch) else s for s in kernel.body)
    else:
        body = _whole(kernel.body, turner)
    if not turner.used:
        return kernel
    start: list[Statement] = []
    ready = body[:2] if body and isinstance(body[0], InitBarriers) else ()
    counts = [*(s.arrivals for s in ready[:1] if isinstance(s, InitBarriers)), turner.barriers]
    if any(counts):
        start = [InitBarriers(tuple(c for each in counts for c in each)), Synchronize(_READY)]
    if any(isinstance(s, AwaitClock) for s in walk(body)):
        start.append(StartClock())
    shared = (*kernel.shared, *(barrier for barrier, _ in turner.barriers))
    rings = (*kernel.rings, *turner.rings)
    return replace(kernel, body=(*start, *body[len(ready) :]), shared=shared, rings=rings)


def _whole(statements: Statements, turner: _Turner) -> Statements:
    """A body with its rings turned, behind the start of their cursors."""
    body = turner.statements(statements, frozenset(), inside=False)
    return (*map(Begin, turner.taken_cursors()), *body)


def _branch(branch: Branch, turner: _Turner) -> Branch:
    """The same for one role, whose warps are those that release a slot."""
    role = branch.role
    turner.warps = integers.mul(role.group_warps, role.groups)
    own = [s.buffer.name for s in walk(branch.body) if isinstance(s, Fill | Drain)]
    shared = [
        s.buffer.name
        for s in walk(branch.body)
        if isinstance(s, Fill) and s.buffer.memory is MemoryType.shared
    ]
    if shared and role.groups > 1:
        raise ScheduleError(
            f"{shared[0]} is filled by role `{role.name}` itself, whose {role.groups} groups take "
            "turns and do not meet",
            code="WS0255",
            remedy=f"let another role fill {shared[0]}: circular_buffer(..., role=...)",
        )
    return replace(branch, body=_whole(branch.body, turner)) if own else branch


@dataclass(slots=True)
class _Turner:
    """Turns the rings of one kernel, the inner loops first.

    Attributes:
        cursors, barriers: what the kernel starts with, each barrier with its arrivals.
        rings: those with barriers of their own.
        used: rings so far.
        warps: that release a slot; None for all of the block.
    """

    cursors: list[Cursor] = field(default_factory=list)
    barriers: list[tuple[Buffer, Expr | None]] = field(default_factory=list)
    rings: list[Ring] = field(default_factory=list)
    used: int = 0
    warps: Expr | None = None

    def taken_cursors(self) -> list[Cursor]:
        """The cursors since the last time."""
        taken, self.cursors = self.cursors, []
        return taken

    def statements(
        self, statements: Statements, claimed: frozenset[str], *, inside: bool
    ) -> Statements:
        """A list with all its rings turned, save those `claimed` by a loop around it.

        `inside` tells that the list runs more than once.
        """
        result: list[Statement] = []
        for statement in statements:
            if isinstance(statement, For):
                names = claimed | set(statement.turns)
                body = self.statements(statement.body, names, inside=True)
                statement = replace(statement, body=body)
            elif isinstance(statement, If) and statement.uniform:
                body = self.statements(statement.body, claimed, inside=inside)
                statement = replace(statement, body=body)
            if isinstance(statement, For) and statement.turns:
                result += self._loop(statement, inside=inside)
            else:
                result.append(statement)
        return self._once(tuple(result), claimed, inside)

    # --- loops that turn rings -----------------------------------------------------------------

    def _loop(self, loop: For, *, inside: bool) -> list[Statement]:
        """A loop that names the buffers it turns, with its prologue; `inside` as above."""
        own = {n: b for n, b in filled(loop.body).items() if n in loop.turns}
        fills = {name: only_fills(loop.body, (name,)) for name in own}
        rest = without_fills(loop.body, own)
        loads: list[tuple[LoadRing, Statements]] = []
        copies: list[CopyRing] = []
        for slots, names in _together(own, fills):
            joint = only_fills(loop.body, names)
            elements = {name: own[name][1].elements for name in names}
            if loads_by_tma(joint):
                loads.append((self._load_ring(slots, elements, again=True), joint))
            else:
                buffers = tuple(own[name][0] for name in names)
                copies.append(self._copy_ring(slots, elements, joint, buffers))
        staged = {n: found for n, found in drained(rest).items() if n in loop.turns}
        stores = [self._store_ring(buffer, slots, again=True) for buffer, slots in staged.values()]
        rest = self._users(rest, loads, copies, stores, loop.symbol)
        body = [s for copy in copies for s in copy.carry()]
        body += [*self._ahead(loop, loads, copies), *rest]
        body += [s for ring, _ in loads for s in ring.advance()]
        body += [s for copy in copies for s in copy.advance()]
        body += [s for store in stores for s in store.advance()]
        turned = replace(loop, body=tuple(body), turns=())
        prologue = self._prologue(loop, loads, copies, fresh=not inside)
        numbered = [c.slots.stages for c in copies if c.in_registers and not c.carried]
        if numbered:
            return [*prologue, *_unrolled(turned, math.lcm(*numbered))]
        return [*prologue, turned]

    def _prologue(
        self,
        loop: For,
        loads: list[tuple[LoadRing, Statements]],
        copies: list[CopyRing],
        *,
        fresh: bool,
    ) -> list[Statement]:
        """The first fills of each ring, as many as it runs ahead; `fresh` as for `LoadRing`."""
        result: list[Statement] = []
        early = Symbol(f"{loop.symbol.name}p", low=0)
        for ring, fills in loads:
            ahead = ring.slots.prefetch
            body = _at(ring.fill(fills, fresh=fresh), loop.symbol, early)
            count = at_most(loop.extent, ahead)
            result += [For(early, count, body, unroll=False)] if ahead else []
        for copy in copies:
            ahead = copy.slots.prefetch
            body = _at(copy.fill(loop.symbol), loop.symbol, early)
            count = at_most(loop.extent, ahead)
            if copy.in_registers or copy.asynchronous:  # known slots; waits count groups
                body = (If(integers.less(early, loop.extent), body, uniform=True),)
                count = integers.index(ahead)
            result += [For(early, count, body, unroll=copy.in_registers)] if ahead else []
        return result

    def _ahead(
        self, loop: For, loads: list[tuple[LoadRing, Statements]], copies: list[CopyRing]
    ) -> list[Statement]:
        """The start of an iteration: fills of this or a later one."""
        result: list[Statement] = []
        for ring, fills in loads:
            result += _later(loop, ring.slots.prefetch, ring.fill(fills, loop.symbol))
        for copy in (ring for ring in copies if not ring.slots.prefetch):
            result += copy.fill(loop.symbol)
        for copy in (ring for ring in copies if ring.slots.prefetch):
            if not (copy.in_registers and _filled_before(loop, copy.slots.prefetch)):
                result += _later(loop, copy.slots.prefetch, copy.fill(loop.symbol))
        return result

    def _users(
        self,
        rest: Statements,
        loads: list[tuple[LoadRing, Statements]],
        copies: list[CopyRing],
        stores: list[StoreRing],
        index: Symbol,
    ) -> Statements:
        for ring, _ in loads:
            rest = ring.used(rest)
        for copy in copies:
            rest = copy.used(rest, index)
        for store in stores:
            rest = store.used(rest)
        return rest

    # --- one slot ------------------------------------------------------------------------------

    def _once(self, statements: Statements, claimed: frozenset[str], inside: bool) -> Statements:
        """Fill, use and store the buffers of one slot that belong to this list."""
        root = not inside and not claimed
        for name, (buffer, slots) in drained(statements).items():
            if name not in claimed and self._belongs(statements, name, root):
                ring = self._store_ring(buffer, replace(slots, stages=1), again=inside)
                statements = ring.used(statements)
        own = {
            name: (buffer, replace(slots, stages=1, prefetch=0))
            for name, (buffer, slots) in filled(statements).items()
            if name not in claimed and self._belongs(statements, name, root)
        }
        fills = {name: only_fills(statements, (name,)) for name in own}
        for slots, names in _together(own, fills):
            joint = only_fills(statements, names)
            first, _ = first_and_last(statements, lambda s, n=names: touches(s, n))  # type: ignore[misc]
            before = statements[:first]
            rest = without_fills(statements[first:], names)
            elements = {name: own[name][1].elements for name in names}
            if loads_by_tma(joint):
                load = self._load_ring(slots, elements, again=inside)
                statements = (*before, *load.fill(joint), *load.used(rest), *load.advance())
            else:
                buffers = tuple(own[name][0] for name in names)
                copy = self._copy_ring(slots, elements, joint, buffers)
                statements = (*before, *copy.fill(integers.ZERO), *rest)
        return statements

    def _belongs(self, statements: Statements, name: str, root: bool) -> bool:
        """Whether the buffer is filled or stored in this list and used beside that."""
        return root or sum(touches(s, (name,)) for s in statements) > 1

    # --- rings ---------------------------------------------------------------------------------

    def _load_ring(self, slots: Slots, elements: dict[str, int | Expr], *, again: bool) -> LoadRing:
        name = self._name()
        ring = LoadRing(name, slots, elements, again)
        self.cursors += ring.cursors
        self.barriers.append((ring.full, integers.ONE))
        if ring.empty is not None:
            self.barriers.append((ring.empty, self.warps))
        described = Ring(
            name,
            slots.stages,
            tuple(elements.items()),
            ring.full,
            ring.empty,
            where=slots.where,
        )
        self.rings.append(described)
        return ring

    def _copy_ring(
        self,
        slots: Slots,
        elements: dict[str, int | Expr],
        fills: Statements,
        buffers: tuple[Buffer, ...],
    ) -> CopyRing:
        ring = CopyRing(self._name(), slots, elements, fills, buffers)
        self.cursors += ring.cursors
        return ring

    def _store_ring(self, buffer: Buffer, slots: Slots, *, again: bool) -> StoreRing:
        self._name()
        ring = StoreRing(buffer, slots, again)
        self.cursors += ring.cursors
        return ring

    def _name(self) -> str:
        self.used += 1
        return f"ring{self.used - 1}"


def _together(
    own: dict[str, tuple[Buffer, Slots]], fills: dict[str, Statements]
) -> Iterable[tuple[Slots, tuple[str, ...]]]:
    """Buffers that share a ring: equal slots but for their size, one memory, one carrier."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for name, (buffer, slots) in own.items():
        key = (
            slots.stages,
            slots.prefetch,
            slots.ring,
            slots.interval,
            buffer.memory is MemoryType.local,
            loads_by_tma(fills[name]),
        )
        groups.setdefault(key, []).append(name)
    return [(own[names[0]][1], tuple(names)) for names in groups.values()]


def _at(statements: Iterable[Statement], symbol: Symbol, index: Expr) -> Statements:
    """The statements in iteration `index` of the loop over `symbol`."""
    return tuple(replace_symbols(statement, {symbol: index}) for statement in statements)


def _filled_before(loop: For, ahead: int) -> bool:
    """Whether the prologue has filled for all iterations.

    In shared memory the loop asks all the same, in vain: uses wait for the groups that it commits.
    """
    known = integers.constant(loop.extent)
    return known is not None and known <= ahead


def _later(loop: For, ahead: int, fill: list[Statement]) -> list[Statement]:
    """The fill for the iteration that is `ahead`, where there is one."""
    if not ahead:
        return fill
    index = integers.add(loop.symbol, ahead)
    inside = integers.less(index, loop.extent)
    return [If(inside, _at(fill, loop.symbol, index), uniform=True)]


def _unrolled(loop: For, stages: int) -> list[Statement]:
    """The loop with as many iterations written out as it takes to know every ring's slot."""
    known = integers.constant(loop.extent)
    if known is not None and known <= UNROLL_LIMIT:
        return [replace(loop, unroll=True)]
    turn = Symbol(f"{loop.symbol.name}b", low=0)
    step = Symbol(f"{loop.symbol.name}s", extent=integers.index(stages))
    turns = integers.floordiv(loop.extent, stages)
    index = integers.add(integers.mul(turn, stages), step)
    whole = For(step, integers.index(stages), _at(loop.body, loop.symbol, index), unroll=True)
    last = integers.add(integers.mul(turns, stages), step)
    rest = If(integers.less(last, loop.extent), _at(loop.body, loop.symbol, last), uniform=True)
    return [
        For(turn, turns, (whole,), unroll=False),
        For(step, integers.index(stages - 1), (rest,), unroll=True),
    ]
