"""How a domain's dimensions lie in the memory of a fusion's tensors.

The fastest dimensions that every tensor either walks contiguously or lacks altogether form the
**inner run**: a vector split off it is one access of each tensor that has it, and one value of each
that lacks it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.copies import LINE_BYTES, line_spare
from warpsmith.ir.domains import IterDomain, Split, Transform
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.scalar import Expr
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.problem import Problem, widest_vector
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class InnerRun:
    """The dimensions `axes[start:]` of a domain, and the copies that walk them contiguously.

    Attributes:
        beside: copies that walk a part of the fastest dimension so, which was merged of several, or
            a dimension of which that is the fastest part; with the extent of the part.
    """

    axes: tuple[IterDomain, ...]
    start: int
    walkers: tuple[Cached, ...]
    extent: Expr
    last: Expr
    beside: tuple[tuple[Cached, Expr], ...] = ()

    def last_only(self) -> InnerRun:
        """The run cut down to the fastest dimension."""
        start = max(len(self.axes) - 1, 0)
        return replace(self, start=start, extent=self.last, beside=())

    def parts(self, names: Collection[str]) -> set[Expr]:
        """Extents of the parts that so named copies walk alone: a vector is inside of one."""
        return {part for cached, part in self.beside if cached.name in names}

    def vector(self, problem: Problem, *, cut_short: bool = False) -> int:
        """The widest vector; it must divide the run, unless its last vector may be cut short."""
        width = widest_vector([cached.memory.dtype for cached in self.walkers])
        if cut_short:
            return width
        total = problem.size(self.extent)
        while width > 1 and total % width:
            width //= 2
        return width

    def vectorized(self, problem: Problem, width: int) -> tuple[str, ...]:
        """Names of the global tensors that can be accessed in vectors of this width."""
        if width == 1:
            return ()
        parts = (cached for cached, part in self.beside if problem.size(part) % width == 0)
        return tuple(
            cached.name
            for cached in (*self.walkers, *parts)
            if problem.aligned(cached.memory, width) and _steps_whole(cached, problem, width)
        )


def _steps_whole(cached: Cached, problem: Problem, width: int) -> bool:
    """Whether every run-time stride of the tensor is a whole number of vectors."""
    tensor = cached.memory
    for dimension, axis in enumerate(tensor.shape_axes):
        strided = tensor.contiguity[dimension] is False and not axis.is_broadcast
        if strided and problem.values[f"{tensor.name}_stride{dimension}"] % width:
            return False
    return True


_Places = list[tuple[int | None, bool]]


def find_inner_run(
    domains: DomainMap, axes: Sequence[IterDomain], caches: Sequence[Cached]
) -> InnerRun:
    """The longest inner run of a domain whose axes are given slowest first."""
    if not axes:
        return InnerRun((), 0, (), integers.ONE, integers.ONE)
    positions = [_positions(domains, axes, cached) for cached in caches]
    last = len(axes) - 1
    walkers = [
        index for index, where in enumerate(positions) if where and where[-1] == (last, True)
    ]
    start = last
    while start > 0 and all(
        _extends(where, start, index in walkers) for index, where in enumerate(positions)
    ):
        start -= 1
    extents = [domains.extent_of(axis) for axis in axes]
    chosen = tuple(caches[index] for index in walkers)
    return InnerRun(tuple(axes), start, chosen, integers.mul(*extents[start:]), extents[-1])


def beside_run(
    domains: DomainMap, run: InnerRun, caches: Iterable[Cached]
) -> tuple[tuple[Cached, Expr], ...]:
    """`InnerRun.beside` of a run, among these copies."""
    if not run.axes:
        return ()
    last, found = domains.group(run.axes[-1]), []
    parts = set(fastest_parts(domains, last))
    for cached in caches:
        own = fastest(domains, cached)
        if own in parts:
            found.append((cached, domains.extent(own)))
        elif own is not None and own != last and last in fastest_parts(domains, own):
            found.append((cached, run.last))
    return tuple(found)


def fastest_parts(domains: DomainMap, group: Group) -> Iterator[Group]:
    """What a dimension's vectors walk, too: the fastest of what it was merged of, or is split
    into, that one's fastest, and so on.
    """
    while True:
        made = [t for t in domains.touching(group) if _divides(domains, t, group)]
        if not made:
            return
        group = domains.group(made[0].inner)
        yield group


def _divides(domains: DomainMap, transform: Transform, group: Group) -> bool:
    """Whether it has the group's dimension on the side of one, and in the order of its parts."""
    one = isinstance(transform, Split) or transform.band == 1
    return one and domains.group(transform.axis) == group


def parts_of(domains: DomainMap, group: Group, known: Container[Group]) -> list[Group]:
    """The known dimensions of which a reshape made one, slowest first, where there are such; the
    dimension itself where it is known, or where there are none. Tiles with zeros past the end are
    more than what they are made of.
    """
    if group not in known:
        for transform in domains.touching(group):
            whole, *sides = domains.sides(transform)
            exact = domains.extent(whole) == integers.mul(*map(domains.extent, sides))
            if exact and _divides(domains, transform, group) and whole not in sides:
                parts = [part for side in sides for part in parts_of(domains, side, known)]
                if all(part in known for part in parts):
                    return parts
    return [group]


def _positions(domains: DomainMap, axes: Sequence[IterDomain], cached: Cached) -> _Places:
    """For each concrete dimension of the tensor in memory order, or for those that are merged to
    it, its place among `axes`, and whether it is contiguous.
    """
    place = {domains.group(axis): index for index, axis in enumerate(axes)}
    found: _Places = []
    for dimension in cached.memory.concrete_order():
        parts = parts_of(domains, domains.group(cached.copy.shape_axes[dimension]), place)
        inside = [(place.get(part), True) for part in parts]
        found += [*inside[:-1], (inside[-1][0], cached.memory.contiguity[dimension] is True)]
    return found


def _contiguous(cached: Cached, place: int) -> bool:
    """Contiguity of the concrete dimension at `place` in memory order."""
    tensor = cached.memory
    return tensor.contiguity[tensor.concrete_order()[place]] is True


def fastest(domains: DomainMap, cached: Cached) -> Group | None:
    """Group of the dimension along which a tensor is contiguous in memory."""
    order = cached.memory.concrete_order()
    if not order or not _contiguous(cached, -1):
        return None
    return domains.group(cached.copy.shape_axes[order[-1]])


def _extends(where: _Places, start: int, walks: bool) -> bool:
    """Whether the run may grow from `start` to `start - 1` as far as this tensor goes."""
    places = [place for place, _ in where]
    if not walks:
        return start in places or start - 1 not in places
    place = places.index(start)
    return place > 0 and where[place - 1] == (start - 1, True)


def is_one_row(cached: Cached, domains: DomainMap, axes: Sequence[IterDomain]) -> bool:
    """Whether the tensor has the dimensions `axes` as they lie, and no other: then one copy may
    bring it, or a part of it.
    """
    own = [cached.copy.shape_axes[dimension] for dimension in cached.memory.memory_order()]
    alike = [domains.group(a) for a in own] == [domains.group(a) for a in axes]
    return alike and not any(axis.is_broadcast for axis in own)


def unfit_for_copies(
    loads: Iterable[Cached], length: int, problem: Problem, least: int = 16
) -> str:
    """Why the TMA unit cannot bring rows of inputs in one copy each; empty where it can.

    Args:
        length: elements of a row, or of what a block has of it.
        least: bytes of a copy, at least.
    """
    for cached in loads:
        size = length * cached.memory.dtype.size
        if not _is_run(cached, problem):
            return f"{cached.memory.name} is not contiguous, or not aligned to 16 bytes"
        if size % 16 or size < least:
            return f"rows of {size} bytes are too short, or no multiple of 16"
    return ""


def unfit_for_chunks(
    loads: Iterable[Cached], length: int, problem: Problem, least: int = 16
) -> str:
    """Why the TMA unit cannot bring the 16-byte chunks that rows of inputs lie in, those of a row
    in one copy, either; empty where it can. The arguments are those of `unfit_for_copies`.
    """
    for cached in loads:
        memory = cached.memory
        size = length * memory.dtype.size
        if not _is_run(cached, problem):
            return f"{memory.name} is not contiguous, or not aligned to 16 bytes"
        if size < least:
            return f"rows of {size} bytes are too short"
    return ""


def unfit_for_bulk(loads: Sequence[Cached], length: int, problem: Problem, least: int = 16) -> str:
    """Why the TMA unit can bring rows neither as they are nor in whole chunks; empty where it can.
    The arguments are those of `unfit_for_copies`.
    """
    return unfit_for_chunks(loads, length, problem, least) and unfit_for_copies(
        loads, length, problem, least
    )


def stage_bytes(loads: Iterable[Cached], length: int, whole: int, *, chunks: bool) -> int:
    """Of a stage with a part of a row of each input, where the TMA unit brings these.

    Args:
        length, whole: elements of the part, and of the row.
    """
    found = 0
    for size in (cached.memory.dtype.size for cached in loads):
        lines = in_lines(length, whole, size, chunks=chunks)
        held = length + (line_spare(size, chunks=chunks) if lines else 0)
        found += -(-held * size // LINE_BYTES) * LINE_BYTES
    return found


def in_lines(length: int, whole: int, size: int, *, chunks: bool) -> bool:
    """Whether parts of rows begin anywhere in lines of memory, so that in a stage they should, too:
    those of so many elements of `size` bytes, of rows of `whole`.
    """
    return chunks or any(elements * size % LINE_BYTES for elements in (length, whole))


def _is_run(cached: Cached, problem: Problem) -> bool:
    """Whether an input's elements follow one another in memory, from a multiple of 16 bytes on."""
    memory = cached.memory
    return False not in memory.contiguity and problem.aligned(memory, 16 // memory.dtype.size)
