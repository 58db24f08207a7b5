"""Which slots of shared memory a kernel's statements touch, and who else may touch them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Apply, Expr, Symbol, evaluate
from warpsmith.kernel.clusters import (
    AnnounceStart,
    LoadRemote,
    StoreRemote,
    SynchronizeCluster,
)
from warpsmith.kernel.nodes import (
    Accumulate,
    Buffer,
    CopyVector,
    Element,
    Kernel,
    Let,
    Reduce,
    Statement,
    Store,
    Synchronize,
)
from warpsmith.kernel.products import AwaitProducts, CommitProducts, Multiply, StoreMatrix
from warpsmith.kernel.rings import (
    Advance,
    Arrive,
    Await,
    AwaitCopies,
    Begin,
    Commit,
    Cursor,
    Expect,
    FenceProxy,
    InitBarriers,
    InvalidateBarriers,
    Jump,
    Release,
    TileCopy,
)
from warpsmith.kernel.roles import Branch, Role
from warpsmith.kernel.traversal import children, expressions, walk

SYNCHRONIZING = (
    Advance,
    AnnounceStart,
    Arrive,
    Await,
    AwaitCopies,
    AwaitProducts,
    Begin,
    Commit,
    CommitProducts,
    Expect,
    FenceProxy,
    InitBarriers,
    InvalidateBarriers,
    Jump,
    Reduce,
    Release,
    Synchronize,
    SynchronizeCluster,
)
"""Statements that have a step, or move a cursor; copies by the TMA unit come with them."""


class Way(Enum):
    """How threads touch shared memory, or let it be touched."""

    READ = "read"
    WRITE = "write"
    COPY = "copy"
    MULTIPLY = "multiply"


@dataclass(frozen=True, slots=True)
class Access:
    """What one statement does to a buffer."""

    buffer: Buffer
    index: Expr
    way: Way


@dataclass(frozen=True, slots=True)
class Division:
    """How a buffer is divided into places: `stages` slots, each of `parts` for as many groups.

    Attributes:
        base: number of its first place.
        elements: of one slot; none where calls decide so.
    """

    base: int
    stages: int
    elements: int
    parts: int
    private: bool
    by_tma: bool


@dataclass(slots=True)
class _Found:
    """What is known of a buffer so far."""

    buffer: Buffer
    cursors: set[Cursor] = field(default_factory=set)
    roles: set[str] = field(default_factory=set)
    apart: bool = True
    together: bool = False
    by_tma: bool = False


def synchronizes(statement: Statement, known: dict[int, bool]) -> bool:
    """Whether a statement, or one inside it, takes part in synchronization."""
    found = known.get(id(statement))
    if found is None:
        found = (
            isinstance(statement, SYNCHRONIZING)
            or (isinstance(statement, TileCopy) and statement.how.is_tma)
            or any(synchronizes(inner, known) for inner in children(statement))
        )
        known[id(statement)] = found
    return found


def accesses(statement: Statement) -> tuple[Access, ...]:
    """What threads do to shared memory in one statement, without those inside it.

    Products are among that, as those of a loop between two commits need one step together.
    """
    found = [
        Access(element.buffer, element.index, Way.READ)
        for expr in expressions(statement)
        for element in _elements(expr)
        if element.buffer.memory is MemoryType.shared
    ]
    match statement:
        case Store(buffer=buffer, index=index):
            found += _shared(buffer, index, Way.WRITE)
        case Accumulate(buffer=buffer, index=index):
            found += [*_shared(buffer, index, Way.READ), *_shared(buffer, index, Way.WRITE)]
        case CopyVector():
            way = Way.COPY if statement.asynchronous else Way.WRITE
            found += _shared(statement.source, statement.source_index, Way.READ)
            found += _shared(statement.target, statement.target_index, way)
        case StoreMatrix(target=target, target_index=index):
            found += _shared(target, index, Way.WRITE)
        case StoreRemote(buffer=buffer, index=index):
            found += _shared(buffer, index, Way.WRITE)
        case LoadRemote(source=source, source_index=index):
            found += _shared(source, index, Way.READ)
        case Multiply(a=a, b=b):
            found += [Access(tile.buffer, tile.index, Way.MULTIPLY) for tile in (a, b)]
        case TileCopy(how=how, stores=stores) if not how.is_tma:
            asynchronous = how is LoadStoreOpType.cp_async
            way = Way.READ if stores else Way.COPY if asynchronous else Way.WRITE
            found += _shared(statement.shared, statement.index, way)
    return tuple(found)


def _shared(buffer: Buffer, index: Expr, way: Way) -> list[Access]:
    return [Access(buffer, index, way)] if buffer.memory is MemoryType.shared else []


def _elements(expr: Expr) -> Iterator[Element]:
    if isinstance(expr, Element):
        yield expr
    if isinstance(expr, Apply | Element):
        for arg in expr.args:
            yield from _elements(arg)


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
    for role, statements in _by_role(kernel.body):
        for statement in statements:
            _note(found, role, statement, names)
    ringed = {name: (ring.stages, size) for ring in kernel.rings for name, size in ring.buffers}
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
        groups = [r.groups for r in _roles(kernel.body) if r.name in each.roles]
        parts = max(groups, default=1) if each.apart else 1
        private = (
            not each.together
            and name not in kernel.exchanged
            and name not in ringed
            and len(each.roles) == 1
        )
        result[name] = Division(base, stages, elements, parts, private, each.by_tma)
        base += stages * parts
    return result


def _note(found: dict[str, _Found], role: Role | None, statement: Statement, names: _Names) -> None:
    """Remember the buffers that a statement touches."""
    touched = [(a.buffer, a.index) for a in accesses(statement)]
    by_tma = isinstance(statement, Multiply)
    together = by_tma
    if isinstance(statement, TileCopy):
        by_tma, together = statement.how.is_tma, not statement.how.is_tma
        touched += [(statement.shared, statement.index)] if by_tma else []
    axis = role.groups_along.name if role is not None and role.groups_along else None
    for buffer, index in touched:
        each = found.setdefault(buffer.name, _Found(buffer))
        used, cursors = names.of(index)
        each.cursors |= cursors
        each.roles.add("" if role is None else role.name)
        each.apart = each.apart and axis in used
        each.by_tma = each.by_tma or by_tma
        each.together = each.together or together


class _Names:
    """Symbols and cursors that expressions depend on, through names for parts of them."""

    def __init__(self, cursors: dict[str, Cursor], lets: dict[str, Expr]) -> None:
        self._cursors, self._lets = cursors, lets
        self._memo: dict[Expr, tuple[frozenset[str], frozenset[Cursor]]] = {}

    def of(self, expr: Expr) -> tuple[frozenset[str], frozenset[Cursor]]:
        """Names of symbols other than cursors', and cursors of more than one slot."""
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


def _by_role(body: Sequence[Statement]) -> Iterator[tuple[Role | None, Iterator[Statement]]]:
    yield None, walk(tuple(s for s in body if not isinstance(s, Branch)))
    for statement in body:
        if isinstance(statement, Branch):
            yield statement.role, walk(statement.body)


def _roles(body: Sequence[Statement]) -> list[Role]:
    return [s.role for s in body if isinstance(s, Branch)]
