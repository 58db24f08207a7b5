"""What single statements of a kernel are for one kind of agent: steps, and moves of cursors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import NoReturn

from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.clusters import AnnounceStart, SynchronizeCluster
from warpsmith.kernel.nodes import (
    Buffer,
    Let,
    Reduce,
    Statement,
    Synchronize,
)
from warpsmith.kernel.products import AwaitProducts, CommitProducts
from warpsmith.kernel.rings import (
    Advance,
    Arrive,
    ArriveByWarp,
    Await,
    AwaitCopies,
    Begin,
    CommitCopies,
    Expect,
    FenceProxy,
    InitBarriers,
    InvalidateBarriers,
    Jump,
    TileCopy,
)
from warpsmith.kernel.traversal import children, walk
from warpsmith.protocol.accesses import Access, Division, Way, synchronizes
from warpsmith.protocol.exchanges import Gift
from warpsmith.protocol.rules import Break, Broken, Rule
from warpsmith.protocol.scalars import Scalar, Scope, UnknownError, constant
from warpsmith.protocol.skeleton import Async, Kind, Step
from warpsmith.protocol.walks import (
    Leaf,
    Move,
    Pool,
)

LANES = 32
"""Threads of a warp, each of which does what no thread is elected for."""

_KINDS = {
    Way.READ: Kind.READ,
    Way.WRITE: Kind.WRITE,
    Way.COPY: Kind.COPY,
    Way.MULTIPLY: Kind.MULTIPLY,
}


_Places = Callable[[int], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is known of a kernel's statements, whatever its sizes and its block.

    Attributes:
        divisions: of buffers that hold data.
        sizes: names of what a launch gives, which lengths of stages may depend on.
        gifts: what blocks of a cluster give to each other, by the names of barriers.
        pool: of steps.
        synchronizing: whether statements have synchronization inside, by identity.
        accesses: of statements, by identity; of all inside, where there is no synchronization.
        lets: inside statements without synchronization, by identity.
        starts: of accesses, by the identity of their index, and names that cursors give a meaning;
            see `Steps`.
    """

    divisions: dict[str, Division]
    sizes: frozenset[str] = frozenset()
    gifts: dict[str, Gift] = field(default_factory=dict)
    pool: Pool = field(default_factory=Pool)
    synchronizing: dict[int, bool] = field(default_factory=dict)
    accesses: dict[int, tuple[Access, ...]] = field(default_factory=dict)
    lets: dict[int, tuple[Let, ...]] = field(default_factory=dict)
    starts: dict[tuple[int, frozenset[str]], Expr] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all bodies of a block have in common.

    Attributes:
        stages: of barriers: number of the first one, and how many, by name.
    """

    stages: dict[str, tuple[int, int]]
    prepared: Prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Who runs a body.

    Attributes:
        number: of the agent, for breaks.
        role: its name; empty where all threads are meant.
        group: its number among the groups of the role.
        threads: of each warp that do what nobody is elected for; 1 in a single role.
        elected: the warp has the elected thread.
        meeting: number of the meeting that `Synchronize` means; None where there is none.
        reduces: the reductions, by identity, that need a meeting.
        across: those for which all groups of the role meet; `common` is the number of that meeting.
    """

    number: int
    role: str
    group: int
    threads: int
    elected: bool
    meeting: int | None
    reduces: frozenset[int] = frozenset()
    across: frozenset[int] = frozenset()
    common: int = 0


class Steps:
    """Makes single statements ready to be walked.

    Raises:
        Broken: threads of a warp may disagree, or only some of them come by a barrier.
    """

    def __init__(self, shared: Shared, scope: Scope, runner: Runner) -> None:
        self._shared = shared
        self._scope = scope
        self._runner = runner
        self._threads = runner.threads
        self._elected = False

    def _leaves(self, statement: Statement) -> Iterable[Leaf | Move]:
        threads, step = self._threads, self._shared.prepared.pool.step
        match statement:
            case Begin(cursor=cursor, stage=stage):
                self._scope.begin(cursor)
                yield Move(cursor.name, self._scalar(stage), 2 * cursor.stages, starts=True)
            case Advance(cursor=cursor, by=by):
                yield Move(cursor.name, self._scalar(integers.index(by)), 2 * cursor.stages)
            case Jump(cursor=cursor, by=by):
                yield Move(cursor.name, self._scalar(by), 2 * cursor.stages)
            case Await(barrier=barrier, stage=stage, parity=parity):
                at = self._stage(barrier)
                yield Leaf(
                    (self._scalar(stage), self._scalar(parity)),
                    lambda s, p: (step(Kind.AWAIT, at(s), p & 1),),
                )
            case ArriveByWarp(barrier=barrier, stage=stage):
                if self._elected and self._runner.threads > 1:
                    self._parted(statement)
                yield self._arrival(barrier, stage, 1)
            case Arrive(barrier=barrier, stage=stage):
                yield self._arrival(barrier, stage, threads)
            case Expect(barrier=barrier, stage=stage, bytes=amount, arrives=arrives):
                at, times = self._stage(barrier), threads if arrives else 0
                yield Leaf(
                    (self._scalar(stage), self._scalar(amount)),
                    lambda s, n: (step(Kind.EXPECT, at(s), n * threads, -1, times),),
                )
                yield from self._gift(barrier, stage)
            case TileCopy(stores=False):
                yield self._load(statement)
            case TileCopy():
                yield self._store(statement)
            case FenceProxy():
                yield Leaf((), lambda: (step(Kind.FENCE),))
            case CommitCopies(bulk=bulk):
                yield Leaf((), lambda: (step(Kind.COMMIT, 0, int(bulk)),))
            case AwaitCopies(bulk=bulk, pending=pending):
                yield Leaf((), lambda: (step(Kind.JOIN, 0, int(bulk), -1, pending),))
            case CommitProducts():
                yield Leaf((), lambda: (step(Kind.COMMIT, 0, Async.PRODUCTS),))
            case AwaitProducts(pending=pending):
                yield Leaf((), lambda: (step(Kind.JOIN, 0, Async.PRODUCTS, -1, pending),))
            case Synchronize() | SynchronizeCluster() | AnnounceStart() | Reduce():
                yield from self._meeting(statement)
            case InitBarriers(arrivals=arrivals):
                names = [buffer.name for buffer, _ in arrivals]
                yield from self._lives(Kind.BEGIN, names)
            case InvalidateBarriers(barriers=barriers):
                yield from self._lives(Kind.END, [buffer.name for buffer in barriers])
            case _:
                raise InternalError(f"{type(statement).__name__} has no step")

    def _meeting(self, statement: Statement) -> Iterable[Leaf]:
        across = id(statement) in self._runner.across
        if (
            isinstance(statement, Reduce)
            and id(statement) not in self._runner.reduces | self._runner.across
        ):
            return
        if self._elected:
            self._parted(statement)
        meeting = self._runner.common if across else self._runner.meeting
        step = self._shared.prepared.pool.step
        if meeting is None:
            raise Broken(
                Break(
                    rule=Rule.MEETING,
                    got=f"{type(statement).__name__} in a role of one thread, or one that has no "
                    "named barrier",
                    wanted="the barrier of the whole block is not used inside a role",
                    roles=(self._runner.role,),
                )
            )
        yield Leaf((), lambda: (step(Kind.MEET, meeting),))

    def _lives(self, kind: Kind, names: Sequence[str]) -> Iterable[Leaf]:
        """The elected thread begins or ends barriers."""
        if self._runner.elected:
            step = self._shared.prepared.pool.step
            made = tuple(step(kind, *self._shared.stages[name]) for name in names)
            yield Leaf((), lambda: made)

    def _arrival(self, barrier: Buffer, stage: Expr, times: int) -> Leaf:
        at, step = self._stage(barrier), self._shared.prepared.pool.step
        return Leaf((self._scalar(stage),), lambda s: (step(Kind.ARRIVE, at(s), times),))

    def _load(self, copy: TileCopy) -> Leaf:
        step, threads = self._shared.prepared.pool.step, self._threads
        if copy.barrier is None:
            raise Broken(
                Break(
                    rule=Rule.UNAWAITED,
                    got=f"a copy into {copy.shared.name} counts at no barrier",
                    wanted="somebody can wait for it",
                    roles=(self._runner.role,),
                    buffer=copy.shared.name,
                )
            )
        at = self._stage(copy.barrier[0])
        index, places = self._places(copy.shared, copy.index)

        def make(place: int, stage: int, amount: int) -> tuple[Step, ...]:
            return tuple(
                step(Kind.LOAD, number, 0 if n else amount * threads, at(stage))
                for n, number in enumerate(places(place))
            )

        return Leaf((index, self._scalar(copy.barrier[1]), self._scalar(copy.bytes)), make)

    def _gift(self, barrier: Buffer, stage: Expr) -> Iterable[Leaf]:
        """What all blocks give to this one, as if it gave it all itself once it is expected."""
        gift = self._shared.prepared.gifts.get(barrier.name)
        if gift is None:
            return
        step, at = self._shared.prepared.pool.step, self._stage(barrier)
        share = gift.bytes // len(gift.stores)
        for store in gift.stores:
            index, places = self._places(store.buffer, store.index)

            def make(place: int, stage: int, found: _Places = places) -> tuple[Step, ...]:
                return tuple(
                    step(Kind.LOAD, each, 0 if n else share, at(stage))
                    for n, each in enumerate(found(place))
                )

            yield Leaf((index, self._scalar(stage)), make)

    def _store(self, copy: TileCopy) -> Leaf:
        step = self._shared.prepared.pool.step
        index, places = self._places(copy.shared, copy.index)
        try:
            asks = self._scope.scalar(copy.condition)
        except UnknownError:
            asks = constant(1)
        return Leaf(
            (index, asks),
            lambda s, asked: tuple(step(Kind.STORE, p) for p in places(s)) if asked else (),
        )

    def _touched(self, touched: Iterable[Access]) -> Leaf:
        """What is touched between two steps, each place once, the reads first."""
        ways = sorted(touched, key=lambda access: access.way is not Way.READ)
        found = [(_KINDS[a.way], *self._places(a.buffer, a.index)) for a in ways]
        step = self._shared.prepared.pool.step

        def make(*indices: int) -> tuple[Step, ...]:
            made = (
                step(kind, place)
                for (kind, _, places), index in zip(found, indices, strict=True)
                for place in places(index)
            )
            return tuple(dict.fromkeys(made))

        return Leaf(tuple(index for _, index, _ in found), make)

    def _parted(self, statement: Statement) -> NoReturn:
        """Some threads of a warp come by synchronization, and others do not."""
        kinds = dict.fromkeys(type(s).__name__ for s in walk((statement,)) if self._steps(s))
        raise Broken(
            Break(
                rule=Rule.MEETING,
                got=f"{', '.join(kinds)} under a condition that parts threads of one warp",
                wanted="all threads of a group come by, or the elected one alone",
                roles=(self._runner.role,),
            )
        )

    def _steps(self, statement: Statement) -> bool:
        return not children(statement) and synchronizes(
            statement, self._shared.prepared.synchronizing
        )

    # --- operands ------------------------------------------------------------------------------

    def _scalar(self, expr: Expr) -> Scalar:
        try:
            return self._scope.scalar(expr)
        except UnknownError as error:
            raise Broken(
                Break(
                    rule=Rule.MEETING,
                    got=f"{expr!r} depends on {error.name}, in which threads of a warp may differ",
                    wanted="all threads of a warp agree on stages, parities and bytes",
                    roles=(self._runner.role,),
                )
            ) from error

    def _stage(self, barrier: Buffer) -> Callable[[int], int]:
        """The number of a stage's barrier."""
        first, stages = self._shared.stages[barrier.name]

        def number(stage: int) -> int:
            if 0 <= stage < stages:
                return first + stage
            raise Broken(
                Break(
                    rule=Rule.LIFETIME,
                    got=f"stage {stage} of {barrier.name} is used, which has {stages}",
                    roles=(self._runner.role,),
                    buffer=barrier.name,
                )
            )

        return number

    def _places(self, buffer: Buffer, index: Expr | None) -> tuple[Scalar, _Places]:
        """What gives the places that an access touches: those of the stage that it starts in."""
        division = self._shared.prepared.divisions[buffer.name]
        parts = division.parts
        part = self._runner.group if parts > 1 else 0
        whole = tuple(division.base + s * parts + part for s in range(division.stages))

        def places(start: int) -> tuple[int, ...]:
            if not division.elements:
                return ()  # nobody touches anything
            stage = start // division.elements
            return whole[stage : stage + 1] if 0 <= stage < division.stages else whole

        if division.stages == 1:
            return constant(0), places
        if index is None:
            return constant(-1), places
        try:
            return self._scope.scalar(self._start(index), first=True), places
        except UnknownError:
            return constant(-1), places

    def _start(self, index: Expr) -> Expr:
        """An index without what walks inside a stage: all terms but constants and places in rings.

        Loops over the elements of a stage may be split, and the parts of a split loop that do not
        run would begin behind the stage.
        """
        places, sizes = frozenset(self._scope.cursors), self._shared.prepared.sizes
        known = self._shared.prepared.starts
        found = known.get((id(index), places))
        if found is None:
            found = known[id(index), places] = _without(index, places, sizes)
        return found


def _without(index: Expr, places: Set[str], sizes: Set[str]) -> Expr:
    """An index without the terms in which other names than these occur, or sizes alone."""
    kept = {
        monomial: coefficient
        for monomial, coefficient in integers.polynomial(index).items()
        if (names := _names(monomial)) <= places | sizes and not (names and names <= sizes)
    }
    return integers.expression(kept) if kept else integers.ZERO


def _names(monomial: tuple[Expr, ...]) -> set[str]:
    return {node.name for factor in monomial for node in factor.walk() if isinstance(node, Symbol)}
