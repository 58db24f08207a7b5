"""What the bodies of blocks have in common, and the numbers of the barriers and places they use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import field

from warpsmith.ir import integers
from warpsmith.ir.polynomials import expression, polynomial
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.nodes import Buffer, Let
from warpsmith.protocol.accesses import Access, Division
from warpsmith.protocol.rules import Rule, broken
from warpsmith.protocol.scalars import Scalar, Scope, UnknownError, constant
from warpsmith.protocol.sends import Sends
from warpsmith.protocol.walks import Pool
from warpsmith.values import dataclass

Places = Callable[[int], tuple[int, ...]]
"""What gives the places that an access touches, by the value of its index."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is known of a kernel's statements, whatever its sizes and its block.

    Attributes:
        divisions: of buffers that hold data.
        sizes: names of what a launch gives, which lengths of stages may depend on.
        sent: what each warp of a team sends, by its name.
        pool: of steps.
        synchronizing: whether statements have synchronization inside, by identity.
        accesses: of statements, by identity; of all inside, where there is no synchronization.
        lets: inside statements without synchronization, by identity.
        starts: of accesses, by the identity of their index, and names that cursors give a meaning;
            see `Steps`.
    """

    divisions: dict[str, Division]
    sizes: frozenset[str] = frozenset()
    sent: dict[str, tuple[Sends, ...]] = field(default_factory=dict)
    pool: Pool = field(default_factory=Pool)
    synchronizing: dict[int, bool] = field(default_factory=dict)
    accesses: dict[int, tuple[Access, ...]] = field(default_factory=dict)
    lets: dict[int, tuple[Let, ...]] = field(default_factory=dict)
    starts: dict[tuple[int, frozenset[str]], Expr] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all bodies of a block have in common.

    Attributes:
        stages: of barriers: number of the first one of a block, and how many, by name.
        place: of the block among those of a cluster that are looked at together.
        barriers, places: of a block; those of all blocks are numbered one block after the other.
        blocks: places of those that are looked at together, by their ranks.
        stands: how many blocks it stands for.
        cluster: number of the meeting of all blocks; None where one block is looked at alone.
    """

    stages: dict[str, tuple[int, int]]
    prepared: Prepared
    place: int = 0
    barriers: int = 0
    places: int = 0
    blocks: Mapping[int, int] = field(default_factory=lambda: {0: 0})
    stands: int = 1
    cluster: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Who runs a body.

    Attributes:
        role: its name; empty where all threads are meant.
        group: its number among the groups of the role.
        threads: of each warp that do what nobody is elected for; 1 in a single role.
        elected: the warp has the elected thread.
        meeting: number of the meeting that `Synchronize` means; None where there is none.
        reduces: the reductions, by identity, that need a meeting.
        across: those for which all groups of the role meet; `common` is the number of that meeting.
        sends: what each of its warps sends in a statement, by its identity.
    """

    role: str
    group: int
    threads: int
    elected: bool
    meeting: int | None
    reduces: frozenset[int] = frozenset()
    across: frozenset[int] = frozenset()
    common: int = 0
    sends: Sends = field(default_factory=dict)


class Numbers:
    """Finds numbers for one actor, by what its body knows.

    Raises:
        Broken: a barrier has no such stage.
    """

    def __init__(self, shared: Shared, scope: Scope, runner: Runner) -> None:
        self._shared = shared
        self._scope = scope
        self._runner = runner

    def stage(self, barrier: Buffer) -> Callable[..., int]:
        """The number of a stage's barrier, of the block itself or of the one at a place."""
        first, stages = self._shared.stages[barrier.name]
        own, several = self._shared.place, self._shared.barriers

        def number(stage: int, place: int = own) -> int:
            if not 0 <= stage < stages:
                broken(
                    Rule.LIFETIME,
                    f"stage {stage} of {barrier.name} is used, which has {stages}",
                    roles=(self._runner.role,),
                    buffer=barrier.name,
                )
            return first + stage + place * several

        return number

    def places(
        self, buffer: Buffer, index: Expr | None, *, remote: bool = False
    ) -> tuple[Scalar, Places]:
        """What gives the places that an access touches: those of the stage that it starts in.

        A remote one may be to any block's.
        """
        division = self._shared.prepared.divisions[buffer.name]
        parts = division.parts
        part = self._runner.group if parts > 1 else 0
        shares, several = division.shares, self._shared.places
        blocks = range(len(self._shared.blocks)) if remote else (self._shared.place,)
        whole = tuple(
            division.base + block * several + (stage * parts + part) * shares + share
            for stage in range(division.stages)
            for block in blocks
            for share in range(shares)
        )
        held = shares * len(blocks)

        def places(start: int) -> tuple[int, ...]:
            if not division.elements:
                return ()  # nobody touches anything
            stage = start // division.elements
            inside = 0 <= stage < division.stages
            return whole[stage * held : (stage + 1) * held] if inside else whole

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
        for monomial, coefficient in polynomial(index).items()
        if (names := _names(monomial)) <= places | sizes and not (names and names <= sizes)
    }
    return expression(kept) if kept else integers.ZERO


def _names(monomial: tuple[Expr, ...]) -> set[str]:
    return {node.name for factor in monomial for node in factor.walk() if isinstance(node, Symbol)}
