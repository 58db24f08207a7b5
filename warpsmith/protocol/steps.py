"""What single statements of a kernel are for one kind of actor: steps, and moves of cursors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NoReturn

from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.clusters import AnnounceStart, ArriveRemote, ReleaseRemote, SynchronizeCluster
from warpsmith.kernel.nodes import Buffer, Statement, Synchronize
from warpsmith.kernel.products import AwaitProducts, CommitProducts
from warpsmith.kernel.reductions import Reduce, ScanElements
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
from warpsmith.protocol.accesses import Access, Way, synchronizes
from warpsmith.protocol.numbers import Numbers, Places, Runner, Shared
from warpsmith.protocol.rules import Rule, broken
from warpsmith.protocol.scalars import Scalar, Scope, UnknownError, constant
from warpsmith.protocol.sends import stores
from warpsmith.protocol.skeleton import Async, Kind, Step
from warpsmith.protocol.walks import Leaf, Move

LANES = 32
"""Threads of a warp, each of which does what no thread is elected for."""

Given = Sequence[tuple[int, int]]
"""Bytes that come to a block, by its place."""

_KINDS = {
    Way.READ: Kind.READ,
    Way.WRITE: Kind.WRITE,
    Way.COPY: Kind.COPY,
    Way.MULTIPLY: Kind.MULTIPLY,
}


class Steps:
    """Makes single statements ready to be walked.

    Raises:
        Broken: threads of a warp may disagree, or only some of them come by a barrier.
    """

    def __init__(self, shared: Shared, scope: Scope, runner: Runner) -> None:
        self._shared = shared
        self._scope = scope
        self._runner = runner
        self._numbers = Numbers(shared, scope, runner)
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
                at = self._numbers.stage(barrier)
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
            case ReleaseRemote(barrier=barrier, stage=stage, ranks=ranks):
                if self._elected and self._runner.threads > 1:
                    self._parted(statement)
                yield self._arrivals(barrier, stage, ranks, 1)
            case ArriveRemote(barrier=barrier, stage=stage, ranks=ranks):
                yield self._arrivals(barrier, stage, ranks, threads)
            case Expect(barrier=barrier, stage=stage, bytes=amount, arrives=arrives):
                at, times = self._numbers.stage(barrier), threads if arrives else 0
                yield Leaf(
                    (self._scalar(stage), self._scalar(amount)),
                    lambda s, n: (step(Kind.EXPECT, at(s), n * threads, -1, times),),
                )
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
            case Synchronize() | SynchronizeCluster() | AnnounceStart() | Reduce() | ScanElements():
                yield from self._meeting(statement)
            case InitBarriers(arrivals=arrivals):
                names = [buffer.name for buffer, _ in arrivals]
                yield from self._lives(Kind.BEGIN, names)
            case InvalidateBarriers(barriers=barriers):
                yield from self._lives(Kind.END, [buffer.name for buffer in barriers])
            case _:
                raise InternalError(
                    f"{type(statement).__name__} has no step, and its fields say that it orders "
                    "others: it wants a case in protocol/steps.py"
                )

    def _meeting(self, statement: Statement) -> Iterable[Leaf]:
        across = id(statement) in self._runner.across
        if (
            isinstance(statement, Reduce | ScanElements)
            and id(statement) not in self._runner.reduces | self._runner.across
        ):
            return
        if self._elected:
            self._parted(statement)
        meeting = self._runner.common if across else self._runner.meeting
        if isinstance(statement, SynchronizeCluster | AnnounceStart):
            meeting = self._shared.cluster if self._shared.cluster is not None else meeting
        step = self._shared.prepared.pool.step
        if meeting is None:
            self._break(
                Rule.MEETING,
                f"{type(statement).__name__} in a role of one thread, or one that has no named "
                "barrier",
                "the barrier of the whole block is not used inside a role",
            )
        yield Leaf((), lambda: (step(Kind.MEET, meeting),))

    def _lives(self, kind: Kind, names: Sequence[str]) -> Iterable[Leaf]:
        """The elected thread begins or ends barriers."""
        if self._runner.elected:
            step = self._shared.prepared.pool.step
            base = self._shared.place * self._shared.barriers
            stages = [self._shared.stages[name] for name in names]
            made = tuple(step(kind, base + first, count) for first, count in stages)
            yield Leaf((), lambda: made)

    def _arrival(self, barrier: Buffer, stage: Expr, times: int) -> Leaf:
        at, step = self._numbers.stage(barrier), self._shared.prepared.pool.step
        return Leaf((self._scalar(stage),), lambda s: (step(Kind.ARRIVE, at(s), times),))

    def _arrivals(self, barrier: Buffer, stage: Expr, ranks: Sequence[Expr], times: int) -> Leaf:
        """At the barriers of the blocks with these ranks."""
        at, step = self._numbers.stage(barrier), self._shared.prepared.pool.step
        blocks, times = self._shared.blocks, times * self._shared.stands
        return Leaf(
            (self._scalar(stage), *map(self._rank, ranks)),
            lambda s, *there: tuple(
                step(Kind.ARRIVE, at(s, blocks[rank]), times) for rank in there if rank in blocks
            ),
        )

    def _rank(self, rank: Expr) -> Scalar:
        return self._scalar(rank, Rule.CLUSTER, "sizes and ranks tell which blocks are reached")

    def _load(self, copy: TileCopy) -> Leaf:
        if copy.barrier is None:
            self._break(
                Rule.UNAWAITED,
                f"a copy into {copy.shared.name} counts at no barrier",
                "somebody can wait for it",
                copy.shared.name,
            )
        at = self._numbers.stage(copy.barrier[0])
        index, places = self._numbers.places(copy.shared, copy.index)
        blocks = self._shared.blocks
        here = next(rank for rank, block in blocks.items() if block == self._shared.place)
        operands = [index, self._scalar(copy.barrier[1]), self._scalar(copy.bytes)]
        shares, each = 1, self._threads
        if copy.multicast is not None:
            shares, each = copy.multicast.shares, each * self._shared.stands
            operands += [self._rank(copy.multicast.mask), self._rank(copy.multicast.share)]

        def make(
            place: int, stage: int, amount: int, mask: int = 1 << here, share: int = 0
        ) -> tuple[Step, ...]:
            given = [(block, amount * each) for rank, block in blocks.items() if mask >> rank & 1]
            return self._copied(Kind.LOAD, places(place)[share::shares], given, at, stage)

        return Leaf(tuple(operands), make)

    def _sent(self, statement: Statement) -> Iterable[Leaf]:
        """What each warp sends to every block, in a statement that does nothing else."""
        blocks, stands = self._shared.blocks, self._shared.stands
        amounts = self._runner.sends[id(statement)]
        for number, store in enumerate(stores(statement)):
            given = [
                (blocks[rank], amount * stands)
                for (which, rank), amount in amounts.items()
                if which == number and rank in blocks
            ]
            if given:
                index, places = self._numbers.places(store.buffer, store.index)
                make = partial(self._sends, places, given, self._numbers.stage(store.barrier))
                yield Leaf((index, self._scalar(store.stage)), make)

    def _sends(
        self, places: Places, given: Given, at: Callable[..., int], place: int, stage: int
    ) -> tuple[Step, ...]:
        return self._copied(Kind.SEND, places(place), given, at, stage)

    def _copied(
        self, kind: Kind, found: Sequence[int], given: Given, at: Callable[..., int], stage: int
    ) -> tuple[Step, ...]:
        """What fills these places in some blocks, with the bytes that count in each of them."""
        step, shared = self._shared.prepared.pool.step, self._shared
        return tuple(
            step(
                kind,
                number + (block - shared.place) * shared.places,
                0 if n else amount,
                at(stage, block),
            )
            for block, amount in given
            for n, number in enumerate(found)
        )

    def _store(self, copy: TileCopy) -> Leaf:
        step = self._shared.prepared.pool.step
        index, places = self._numbers.places(copy.shared, copy.index)
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
        found = [
            (_KINDS[a.way], *self._numbers.places(a.buffer, a.index, remote=a.remote)) for a in ways
        ]
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
        self._break(
            Rule.MEETING,
            f"{', '.join(kinds)} under a condition that parts threads of one warp",
            "all threads of a group come by, or the elected one alone",
        )

    def _break(self, rule: Rule, got: str, wanted: str, buffer: str = "") -> NoReturn:
        broken(rule, got, wanted, roles=(self._runner.role,), buffer=buffer)

    def _steps(self, statement: Statement) -> bool:
        return not children(statement) and synchronizes(
            statement, self._shared.prepared.synchronizing
        )

    # --- operands ------------------------------------------------------------------------------

    def _scalar(
        self,
        expr: Expr,
        rule: Rule = Rule.MEETING,
        wanted: str = "all threads of a warp agree on stages, parities and bytes",
    ) -> Scalar:
        try:
            found = self._scope.scalar(expr)
        except UnknownError as error:
            self._break(rule, f"{expr!r}: threads of a warp may differ in {error.name}", wanted)
        return found
