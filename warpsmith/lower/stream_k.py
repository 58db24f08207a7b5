"""Tiles that are left for less than a round, of which several blocks have parts (stream-K)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain, Merge, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.groups import groups_of
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.rounds import last_parts
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.ir.tensor import Operation
from warpsmith.kernel.nodes import For, If, Let, Statement
from warpsmith.kernel.reductions import Sharing
from warpsmith.lower.dealt import Dealt, dealt_by
from warpsmith.values import dataclass

TILES, BAND, PARTS, ROUNDS = (
    Symbol(name, low=low)
    for name, low in (("tiles", 0), ("band", 1), ("last_parts", 1), ("whole_rounds", 0))
)
"""How many there are, also of a band, parts that each of the last round has, and rounds of whole
ones before it."""

PLACE, TILE, FIRST, STEPS, STRIDE = (
    Symbol(name, low=0) for name in ("place", "tile", "tile_part", "tile_steps", "tile_parts")
)
"""The place of a block's tile among all, which tile that is, the first of the steps that it has of
it, which is the number of its part, how many steps, and every which one: as many as the tile has
parts."""


@dataclass(frozen=True, slots=True)
class StreamK(Dealt):
    """Tiles that blocks loop over, whole ones first; of the last ones blocks that follow each other
    have parts, if there are two for each. The blocks of a cluster count as one.

    A part is every fourth step, say: so all blocks are at one place of the sums, whose operands
    they have in common.

    Attributes:
        steps: of one tile.
        most: tiles, with those that have no rows of a group.
        bands: tiles of a band that have rows, and all of it, whose last ones have none; None where
            all have.
    """

    steps: Expr
    most: Expr
    bands: tuple[Expr, Expr] | None = None

    def decided(self) -> tuple[Statement, ...]:
        """What sizes decide, and rows of groups, named before all roles."""
        return (
            *(() if self.bands is None else (Let(BAND, self.bands[0]),)),
            Let(TILES, self.count),
            Let(ROUNDS, integers.floordiv(TILES, self.blocks)),
            Let(PARTS, last_parts(TILES, self.blocks, self.steps)),
        )

    def over(self, turn: Symbol, block: Expr, body: Sequence[Statement]) -> Statement:
        """A loop over the tiles that a block has, or has a part of."""
        last = integers.less(integers.sub(ROUNDS, 1), turn)
        part = integers.mod(block, PARTS)
        steps = integers.floordiv(
            integers.add(self.steps, PARTS, -1, integers.mul(part, -1)), PARTS
        )
        place = _where(last, integers.floordiv(block, PARTS), block)
        lets = (
            Let(self.place, integers.add(integers.mul(turn, self.blocks), place)),
            Let(FIRST, _where(last, part, integers.ZERO)),
            Let(STEPS, _where(last, steps, self.steps)),
            Let(STRIDE, _where(last, PARTS, integers.ONE)),
        )
        assert turn.extent is not None
        inside = If(self.inside, (*self._tile(), *body), uniform=True)
        return For(turn, turn.extent, (*lets, inside), unroll=False)

    @property
    def place(self) -> Symbol:
        """The place of a tile among those that have rows."""
        return TILE if self.bands is None else PLACE

    @property
    def inside(self) -> Expr:
        """Whether there is a tile, around all that an agent does of it."""
        return integers.less(self.place, TILES)

    @property
    def tile(self) -> Symbol:
        """A tile that there is."""
        return Symbol(TILE.name, low=0, extent=self.most)

    def _tile(self) -> Iterator[Statement]:
        """Which tile has a place: those without rows, at the end of each band, have none."""
        if self.bands is not None:
            without = integers.sub(self.bands[1], BAND)
            before = integers.mul(integers.floordiv(PLACE, BAND), without)
            yield Let(TILE, integers.add(PLACE, before))

    def steps_of(self, name: str) -> tuple[Symbol, Expr, Expr]:
        """The loop over a block's steps of its tile: its index, how many, and which step it is."""
        symbol = Symbol(name, low=0, extent=self.steps)
        return symbol, STEPS, integers.add(integers.mul(symbol, STRIDE), FIRST)

    def sharing_of(self, block: Expr, rank: Expr) -> Sharing:
        """Who has parts of the sums of one tile, where a block has a rank in its cluster."""
        segment = integers.floordiv(block, PARTS)
        before = integers.mul(rank, self.blocks)
        return Sharing(
            number=FIRST,
            count=STRIDE,
            place=integers.add(before, integers.mul(segment, PARTS)),
            segment=integers.add(before, segment),
        )


def stream_k(operations: Sequence[Operation], domains: DomainMap) -> StreamK | None:
    """Of whose tiles blocks have parts; None where no loop is bound to `stream_k`.

    Raises:
        ScheduleError: WS0384 for loops that cannot be shared, and parts of none.
    """
    kinds = {axis.parallel for operation in operations for axis in _loops(operation)}
    if ParallelType.stream_k not in kinds:
        if ParallelType.part in kinds:
            raise _refused("no loop over tiles is bound to it, though one is to part")
        return None
    beside = ParallelType.cluster_x, ParallelType.part
    dealt = dealt_by(operations, domains, ParallelType.stream_k, beside, _refused)
    found: set[int] = set()
    for operation in operations:
        loops = _loops(operation)
        for part, steps in pairwise(loops):
            if part.parallel is ParallelType.part and not part.is_reduction:
                if domains.extent_of(part) != integers.ONE:
                    raise _refused(f"{part!r} is no loop around all steps of a sum")
                found.add(domains.group(steps))
    if len(found) != 1:
        raise _refused(f"{len(found)} loops follow one that is bound to part, and one has steps")
    count, bands = _with_rows(domains, dealt.whole)
    known = domains.extent(found.pop()), domains.extent(dealt.whole)
    return StreamK(count, dealt.blocks, dealt.whole, *known, bands)


def _with_rows(domains: DomainMap, loop: Group) -> tuple[Expr, tuple[Expr, Expr] | None]:
    """Iterations of a loop over tiles without those of parts that have no rows of a group; and of a
    band of its tiles those without such, and all.
    """
    for made in domains.touching(loop):
        whole, outer, inner = domains.sides(made)
        parts = _parts(domains, inner) if isinstance(made, Merge) and whole == loop else None
        if isinstance(made, Merge) and parts is not None:
            band = integers.mul(parts, made.band), integers.mul(domains.extent(inner), made.band)
            return integers.mul(domains.extent(outer), parts), band
    return domains.extent(loop), None


def _parts(domains: DomainMap, loop: Group) -> Expr | None:
    """Parts that have rows, of a loop over those of all groups; None of another loop."""
    for made in domains.touching(loop):
        whole, outer, inner = domains.sides(made)
        chosen = domains.chosen_for(made)
        if chosen is not None and outer == loop:
            groups = groups_of(chosen[1], domains.extent(chosen[0]), domains.extent(whole))
            return groups.parts(domains.extent(inner))
    return None


def _loops(operation: Operation) -> list[IterDomain]:
    return operation.outputs[0].loop


def _where(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    return Apply("where", (condition, then, otherwise), DataType.Index)


def _refused(why: str) -> ScheduleError:
    return ScheduleError(
        f"several blocks have parts of the last tiles of a loop on `stream_k`, and {why}",
        code="WS0384",
        remedy="give loads a role; split the loop over tiles by the number of blocks, and bind the "
        "outer part, the first loop of all tensors, to stream_k, and the inner one, the second, to "
        "grid_x; split the loop over steps of k once more, by one outer part, bind that to part, "
        "and rfactor the sum inside it",
    )
