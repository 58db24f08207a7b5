"""Which stages of shared memory a kernel's statements touch, and who else may touch them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Expr, Symbol, evaluate
from warpsmith.kernel.accesses import Access as Touched
from warpsmith.kernel.accesses import accesses as touched
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.effects import Done, Orders, Proxy, Who
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Let, Statement
from warpsmith.kernel.rings import Begin, Cursor, TileCopy
from warpsmith.kernel.traversal import barrier_uses, children, effect_of, operands, walk
from warpsmith.values import dataclass


class Way(Enum):
    """How threads touch shared memory, or let it be touched."""

    READ = "read"
    WRITE = "write"
    COPY = "copy"
    MULTIPLY = "multiply"


@dataclass(frozen=True, slots=True)
class Access:
    """What one statement does to a buffer; nobody knows where if it has no index.

    Attributes:
        remote: to that of other blocks.
    """

    buffer: Buffer
    index: Expr | None
    way: Way
    remote: bool = False


@dataclass(frozen=True, slots=True)
class Division:
    """How a buffer is divided into places: `stages` stages, each of `parts` for as many groups.

    Attributes:
        base: number of its first place.
        elements: of one stage; none where calls decide so.
        shares: places of each part, into which as many blocks of a cluster load their share.
    """

    base: int
    stages: int
    elements: int
    parts: int
    private: bool
    by_tma: bool
    shares: int = 1

    @property
    def places(self) -> int:
        """How many there are."""
        return self.stages * self.parts * self.shares


@dataclass(slots=True)
class _Found:
    """What is known of a buffer so far."""

    buffer: Buffer
    cursors: set[Cursor] = field(default_factory=set)
    roles: set[str] = field(default_factory=set)
    apart: bool = True
    together: bool = False
    by_tma: bool = False
    shares: int = 1


def synchronizes(statement: Statement, known: dict[int, bool]) -> bool:
    """Whether a statement, or one inside it, takes part in synchronization."""
    found = known.get(id(statement))
    if found is None:
        found = _has_step(statement) or any(synchronizes(s, known) for s in children(statement))
        known[id(statement)] = found
    return found


def _has_step(statement: Statement) -> bool:
    """Whether a statement itself orders others, uses barriers, moves a cursor, or lets the TMA unit
    copy.
    """
    form = statement.form
    return (
        form.orders not in (None, Orders.NOTHING)
        or any(True for _ in barrier_uses(statement))
        or any(isinstance(getattr(statement, name), Cursor) for name in form.defines)
        or any(effect_of(d, by).done in _BY_UNIT for _, d, by in operands(statement))
    )


def accesses(statement: Statement) -> tuple[Access, ...]:
    """What threads do to shared memory in one statement, without those inside it.

    Products are among that, as those of a loop between two commits need one step together. What
    the TMA unit does, and what is sent to other blocks, is not: it has steps of its own.
    """
    return tuple(
        Access(access.buffer, access.index, _way(access), access.effect.remote)
        for access in touched(statement)
        if access.buffer.memory is MemoryType.shared and access.effect.done not in _BY_UNIT
    )


_BY_UNIT = (Done.BYTES, Done.STORES)


def _way(access: Touched) -> Way:
    if access.effect.done is Done.PRODUCTS:
        return Way.MULTIPLY
    if access.effect.done is Done.COPIES:
        return Way.COPY if access.writes else Way.READ
    return Way.WRITE if access.writes else Way.READ


def divisions(kernel: Kernel, known: Mapping[str, int]) -> dict[str, Division]:
    """How each shared buffer that holds data is divided, by name.

    Args:
        known: values of all that a launch gives.
    """
    values = dict(known)
    cursors = {
        symbol.name: s.cursor
        for s in walk(kernel.body)
        if isinstance(s, Begin)
        for symbol in s.cursor.symbols
    }
    lets = {s.symbol.name: s.value for s in walk(kernel.body) if isinstance(s, Let)}
    names = _Names(cursors, lets)
    found: dict[str, _Found] = {}
    for agent, statements in _by_role(kernel.body):
        for statement in statements:
            _note(found, agent, statement, names)
    ringed = {
        content.name: (pipeline.stages, content.elements)
        for pipeline in kernel.pipelines
        for content in pipeline.contents
    }
    result: dict[str, Division] = {}
    base = 0
    for name, each in found.items():
        total = evaluate(each.buffer.size, values)
        stages, held = ringed.get(name, (0, 0))
        elements = evaluate(integers.index(held), values)
        if not stages:
            counts = {cursor.stages for cursor in each.cursors}
            stages = counts.pop() if len(counts) == 1 else 1
            elements = total // stages
        groups = [b.agent.groups for b in kernel.branches if b.agent.name in each.roles]
        parts = max(groups, default=1) if each.apart else 1
        private = (
            not each.together
            and name not in kernel.exchanged
            and name not in ringed
            and len(each.roles) == 1
        )
        by_tma, shares = each.by_tma, each.shares
        result[name] = Division(base, stages, elements, parts, private, by_tma, shares)
        base += result[name].places
    return result


def _note(
    found: dict[str, _Found], agent: Agent | None, statement: Statement, names: _Names
) -> None:
    """Remember the buffers that a statement touches."""
    axis = agent.groups_along.name if agent is not None and agent.groups_along else None
    for access in touched(statement):
        if access.buffer.memory is not MemoryType.shared:
            continue
        each = found.setdefault(access.buffer.name, _Found(access.buffer))
        used, cursors = _NOTHING if access.index is None else names.of(access.index)
        each.cursors |= cursors
        each.roles.add("" if agent is None else agent.name)
        each.apart = each.apart and axis in used
        each.by_tma = each.by_tma or access.effect.proxy is Proxy.ASYNC
        if isinstance(statement, TileCopy) and statement.multicast is not None:
            each.shares = statement.multicast.shares
        alone = access.effect.who in (Who.EACH, Who.ONE) and not access.effect.remote
        each.together = each.together or not alone


_NOTHING: tuple[frozenset[str], frozenset[Cursor]] = frozenset(), frozenset()


class _Names:
    """Symbols and cursors that expressions depend on, through names for parts of them."""

    def __init__(self, cursors: dict[str, Cursor], lets: dict[str, Expr]) -> None:
        self._cursors, self._lets = cursors, lets
        self._memo: dict[Expr, tuple[frozenset[str], frozenset[Cursor]]] = {}

    def of(self, expr: Expr) -> tuple[frozenset[str], frozenset[Cursor]]:
        """Names of symbols other than cursors', and cursors of more than one stage."""
        known = self._memo.get(expr)
        if known is not None:
            return known
        names: frozenset[str] = frozenset()
        cursors: frozenset[Cursor] = frozenset()
        if isinstance(expr, Symbol):
            cursor, let = self._cursors.get(expr.name), self._lets.get(expr.name)
            if cursor is not None:
                cursors = frozenset((cursor,))
            elif let is not None:
                names, cursors = self.of(let)
            else:
                names = frozenset((expr.name,))
        for arg in expr.args:
            inner, inside = self.of(arg)
            names, cursors = names | inner, cursors | inside
        self._memo[expr] = names, cursors
        return names, cursors


def _by_role(body: Sequence[Statement]) -> Iterator[tuple[Agent | None, Iterator[Statement]]]:
    yield None, walk(tuple(s for s in body if not isinstance(s, Branch)))
    for statement in body:
        if isinstance(statement, Branch):
            yield statement.agent, walk(statement.body)
