"""Cut what has no product into segments that one scheduler each can take.

What a reduction gives to operations that need the reduced dimension again (the mean that is
subtracted from every element) goes through memory; everything that depends on no reduction
is computed again by each segment that needs it, since that costs no more than reading its inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from warpsmith.ir.exprs import Reduction
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.part import Part
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import Operation
from warpsmith.planner.alike import Shape, shape_of
from warpsmith.planner.attended import attended
from warpsmith.planner.between import (
    narrowest,
    read_at_other_places,
    reduced,
    reduced_between,
    sources_of,
    widened,
)
from warpsmith.planner.joined import as_decided
from warpsmith.planner.one_pass import in_one_pass
from warpsmith.planner.segment import Segment, Segments
from warpsmith.planner.sinks import all_sinks, made_in, merge_sinks
from warpsmith.planner.windows import of_windows
from warpsmith.schedulers.rows.columns import BLOCKS, cut_columns, needing, whole_sums
from warpsmith.schedulers.table import OF_PARTS, PERSISTENT

MOST_AGAIN = 64
"""Operations that a segment computes of those that another one computes too: where each segment
began with all that is before it, what they compute would grow with the square of the program."""


def cut_region(segments: Segments, sinks: Sequence[int], stored: frozenset[int]) -> list[Segment]:
    """Segments that compute the sinks, in an order in which they can run.

    Args:
        stored: numbers of tensors that are in memory before the region runs.

    Raises:
        SchedulerRefusal: an operation that no scheduler can take even alone.
    """
    own = [sink for sink in sinks if sink in segments.decided.alone]
    if 0 < len(own) < len(sinks):
        return _with_own_kernels(segments, sinks, stored, own)
    region = segments.graph.slice(sinks, stored)
    if given := attended(segments, region, sinks, stored):
        return _with_own_kernels(segments, [*sinks, *given], stored, given)
    if given := of_windows(segments.graph, region, sinks, stored):
        others = [sink for sink in sinks if sink not in given]
        return _with_own_kernels(segments, [*others, *given], stored, given)
    read = _read_at_other_places(segments.graph, region)
    whole = segments.of(sinks, stored)
    as_one = segments.go_together(sinks, stored) and segments.decided.kept.isdisjoint(sinks)
    if as_one and read and (levels := _rows_by_levels(segments, sinks, region, stored, read)):
        return levels
    if as_one and not read:
        if whole.can_be_scheduled:
            return [whole]
        part = whole.share
        assert isinstance(part, Part)
        if any(isinstance(part.graph.operations[p], Reduction) for p in part.positions):
            shape = shape_of(part, segments.labels)
            if halves := _rows_then_columns(segments, part, shape):
                return halves
            if passes := _in_one_pass(segments, part, shape):
                return passes
            if levels := _rows_by_levels(segments, sinks, region, stored, read):
                return levels
        if kept := _elements_first(segments, sinks, region, stored):
            return kept
    made = made_in(segments, region, sinks, stored)
    between = reduced_between(segments.graph, region, stored | read)
    cuts = _first_cuts(segments, sinks, made, stored | read, between)
    cuts = _enough_cuts(segments, sinks, made, cuts)
    written = segments.decided.kept.union(sinks, read)
    groups = merge_sinks(segments, all_sinks(segments, made, sinks, cuts), cuts, written)
    groups, cuts = as_decided(segments, groups, cuts, frozenset(sinks))
    return [segments.of(group, cuts) for group in groups]


def _with_own_kernels(
    segments: Segments, sinks: Sequence[int], stored: frozenset[int], own: Sequence[int]
) -> list[Segment]:
    """Segments that make these sinks and no others, behind those of the sinks that they need. The
    narrow form in which one of them is stored is there with it, and the values that are stored in
    the form of one are made with that one.

    What needs one of these through a sink that is none comes behind that one. What earlier segments
    leave for others is read, not computed again.
    """
    graph = segments.graph
    wide = {number for number, form in segments.forms.items() if form in own}

    def needed_by(chosen: Collection[int]) -> set[int]:
        return {number for p in graph.slice([*chosen], ()) for number in graph.made(p)}

    def before(chosen: Collection[int]) -> list[int]:
        needed = needed_by(chosen)
        return [sink for sink in sinks if sink in needed.difference(own, wide)]

    def is_first(sink: int) -> bool:
        others = set(own).difference(graph.made(graph.maker[sink]))
        return others.isdisjoint(needed_by(before([sink])))

    def made_by(found: Iterable[Segment]) -> set[int]:
        return {tensor.number for segment in found for tensor in segment.writes}

    def left(found: Iterable[Segment], wanted: Collection[int]) -> set[int]:
        made = made_by(found)
        between = reduced_between(graph, graph.slice([*wanted], stored), stored)
        sums = {number for number in between if segments.forms.get(number, number) in made}
        return made.difference(sinks) | sums

    first = [sink for sink in own if is_first(sink)]
    written = {*first, *(segments.forms.get(sink, sink) for sink in first)}
    found = cut_region(segments, early, stored) if (early := before(first)) else []
    found += cut_region(segments, first, (stored | left(found, first)) - wide)
    done = written | needed_by(first) | made_by(found)
    if behind := [sink for sink in sinks if sink not in done]:
        found += cut_region(segments, behind, stored | left(found, behind) | written)
    return found


def _rows_then_columns(segments: Segments, part: Part, shape: Shape) -> list[Segment]:
    """One segment for rows, which leaves a sum of each block's columns, and those for the rest.

    Nothing where the region is not of that kind, or its scheduler is not to take any.
    """
    if any(u.scheduler == "inner_outer" and u.concerns(part, shape) for u in segments.without):
        return []
    if shape.key in segments.without_columns:
        return []
    live = part.draft()
    columns, reason = whole_sums(live)
    if reason:
        segments.without_columns.add(shape.key)
        return []
    for other in segments.made:
        live.number_from(other)
    parts = cut_columns(live, columns, _blocks(part.graph, part.sinks, live))
    segments.made.append(live)
    behind = {output.number for op in needing(live, columns) for output in op.outputs}
    inside = segments.inside(Graph.of(live))
    made = frozenset(part.number for part in parts)
    wanted = _in_order(live.operations, part.sinks)
    first = inside.of([*(p.number for p in parts), *(t for t in wanted if t not in behind)], made)
    if not first.can_be_scheduled:
        return []
    return [first, *cut_region(inside, [t for t in wanted if t in behind], made)]


def _elements_first(
    segments: Segments, sinks: Sequence[int], region: Sequence[int], stored: frozenset[int]
) -> list[Segment]:
    """One segment that keeps elements, and writes what it sums of them for those behind it.

    Nothing where no sink is made so, or where others need more of it. It runs before all others,
    and reads nothing that these write.
    """
    graph = segments.graph
    each = all_sinks(segments, made_in(segments, region, sinks, stored), sinks, ())
    there = stored.difference(number for p in region for number in graph.made(p))
    own = [sink for sink in each if segments.of([sink], there).taker in OF_PARTS]
    others = [sink for sink in each if sink not in own]
    if not own or not others:
        return []
    made = {number for p in graph.slice(own, there) for number in graph.made(p)}
    needed = {number for p in graph.slice(others, stored) for number in graph.made(p)}
    given = sorted(made & needed & reduced_between(graph, region, stored))
    first = segments.of([*given, *own], there)
    if first.taker not in OF_PARTS:
        return []
    behind = [sink for sink in others if sink not in given]
    return [first, *(cut_region(segments, behind, stored.union(given)) if behind else [])]


def _in_one_pass(segments: Segments, part: Part, shape: Shape) -> list[Segment]:
    """Segments of rows that no kernel keeps, and whose maxima and sums one pass finds together.

    Nothing where there are none, or where a kernel may keep rows.
    """
    if not any(u.scheduler in PERSISTENT and u.concerns(part, shape) for u in segments.without):
        return []
    live = part.draft()
    for other in segments.made:
        live.number_from(other)
    if not in_one_pass(live):
        return []
    segments.made.append(live)
    return cut_region(segments.inside(Graph.of(live)), part.sinks, frozenset())


def _rows_by_levels(
    segments: Segments,
    sinks: Sequence[int],
    region: Sequence[int],
    stored: frozenset[int],
    read: frozenset[int],
) -> list[Segment]:
    """Segments of what is read at other places, with all sinks that read nothing so, and then of
    the sinks that do; where nothing is, of sinks that need no other one, and then of those that do,
    as sums of rows along other dimensions than the columns.

    Nothing where neither has rows whose columns are summed in the kernel that has the rows.
    """
    graph = segments.graph
    whole = frozenset(sinks).difference(segments.forms)  # what has a narrow form is made with it
    behind: set[int] = set()
    for position in region:
        given = _read_at_other_places(graph, [position])
        if not read:
            given = whole.intersection(graph.sources(position))
        if given or behind.intersection(graph.sources(position)):
            behind.update(graph.made(position))
    made = made_in(segments, region, sinks, stored)
    first = [number for number in made if number in read.union(sinks) - behind]
    then = [sink for sink in sinks if sink in behind]
    there = stored if read else stored.difference(n for p in region for n in graph.made(p))
    levels = (first, there), (then, stored.union(first))
    if not first or not (then or read):
        return []
    if not any(_sums_columns(segments, *level) for level in levels if level[0]):
        return []
    return [segment for level in levels if level[0] for segment in cut_region(segments, *level)]


def _read_at_other_places(graph: Graph, positions: Iterable[int]) -> frozenset[int]:
    """What is computed, and read at other places than those of the loops that compute it."""
    read = (t for p in positions for t in read_at_other_places(graph.operations[p]))
    return frozenset(t.number for t in read if t.number in graph.maker)


def _sums_columns(segments: Segments, sinks: Sequence[int], stored: frozenset[int]) -> bool:
    """Whether no segment computes the sinks, and one of rows would leave sums of its columns."""
    whole = segments.of(sinks, stored)
    if whole.can_be_scheduled or not segments.go_together(sinks, stored):
        return False
    assert isinstance(whole.share, Part)
    return not whole_sums(whole.share.draft())[1]


def _blocks(graph: Graph, sinks: Sequence[int], live: Fusion) -> Symbol:
    """The number of blocks that leave partial sums, with a name of its own for each region."""
    alone = frozenset(sinks) == graph.results and len(live.operations) == len(graph.needed)
    return Symbol(BLOCKS if alone else f"{BLOCKS}_{live.next_tensor_name}", low=1)


def _in_order(operations: Iterable[Operation], chosen: Collection[int]) -> list[int]:
    """Numbers of the chosen tensors as operations define them."""
    return [t.number for operation in operations for t in operation.outputs if t.number in chosen]


def _first_cuts(
    segments: Segments,
    sinks: Sequence[int],
    made: Sequence[int],
    stored: frozenset[int],
    between: frozenset[int],
) -> frozenset[int]:
    """Of what no scheduler computes whole, what a row's reductions give to operations on it; but
    for what other sinks give it, if that is enough: they are written in any case.
    """
    graph, wanted = segments.graph, frozenset(sinks)
    cuts = stored
    while True:
        found = cuts
        for sink in all_sinks(segments, made, sinks, cuts):
            if segments.of([sink], cuts).can_be_scheduled:
                continue
            positions = graph.slice([sink], cuts)
            own = frozenset(number for p in positions for number in graph.made(p)) - {sink}
            given = own & wanted
            enough = given and segments.of([sink], cuts | given).can_be_scheduled
            found |= given if enough else own & between
        found = _little_again(segments, sinks, made, found)
        if found == cuts:
            return cuts
        cuts = found


def _little_again(
    segments: Segments, sinks: Sequence[int], made: Sequence[int], cuts: frozenset[int]
) -> frozenset[int]:
    """Cuts, these among them, with which no segment computes many operations again."""
    graph = segments.graph
    computed: set[int] = set()
    for sink in all_sinks(segments, made, sinks, cuts):
        positions = graph.slice([sink], cuts)
        again = computed.intersection(positions)
        if len(again) > MOST_AGAIN:
            cuts |= {
                narrowest(graph, number, cuts)
                for position in positions
                if position not in again
                for number in graph.sources(position)
                if graph.maker.get(number) in again
            }
            positions = graph.slice([sink], cuts)
        computed.update(positions)
    return cuts


def _enough_cuts(
    segments: Segments, sinks: Sequence[int], made: Sequence[int], cuts: frozenset[int]
) -> frozenset[int]:
    """Cuts, these among them, that leave only what some scheduler can compute.

    Where reductions of different dimensions, or scans, meet, their results go through memory as
    well. Where
    that is not enough, so does what an operation widens, and at last what it reads.
    """
    graph = segments.graph
    while True:
        refused = [
            sink
            for sink in all_sinks(segments, made, sinks, cuts)
            if not segments.of([sink], cuts).can_be_scheduled
        ]
        if not refused:
            return cuts
        found = cuts
        for sink in refused:
            slices = graph.slice([sink], cuts)
            more = reduced(graph, slices) - cuts or widened(graph, slices) - cuts
            more = more or sources_of(graph, sink) - cuts
            if not more:
                raise segments.of([sink], cuts).refusal()
            found |= more
        cuts = found
