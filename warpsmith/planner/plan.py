"""The kernels of a program: its products, each with its epilogue, and the regions between them.

Kernels run in the order of the products. Each operation has the number of the last product that it
depends on, or -1. The operations of one number are that product's epilogue, and a **region** of all
others, which runs after it. A product reads nothing of its own number or a later one, so no kernel
waits for itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from warpsmith.errors import InternalError
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.planner.crossing import Crossing
from warpsmith.planner.decided import NOTHING, Decided
from warpsmith.planner.epilogues import Epilogue, Offers, around, epilogue_of
from warpsmith.planner.gates import with_gates
from warpsmith.planner.operands import operand_formats
from warpsmith.planner.orders import inherited_formats
from warpsmith.planner.postponed import postponed
from warpsmith.planner.regions import cut_region
from warpsmith.planner.reread import reread
from warpsmith.planner.segment import Segment, Segments, Unfit
from warpsmith.targets.target import Target


def cut(
    fusion: Fusion,
    without: tuple[Unfit, ...] = (),
    padded: frozenset[int] = frozenset(),
    empty: frozenset[int] = frozenset(),
    computed: frozenset[int] = frozenset(),
    decided: Decided = NOTHING,
    *,
    target: Target,
    offers: Offers | None = None,
) -> tuple[Segment, ...]:
    """Segments of a fusion in an order in which they can run; its operations stay as they are.

    Args:
        without: schedulers that are not to take parts, each with the reason.
        padded: numbers of tensors whose rows are padded where they are stored.
        empty: numbers of tensors that have no elements.
        computed: numbers of operands that the kernel of their product computes itself.
        decided: what is stored, or has a kernel of its own, otherwise than the structure asks.
        target: that is to run the kernels.
        offers: of the fusion, where they were asked for before.

    Raises:
        SchedulerRefusal: an operation that no scheduler can take even alone.
    """
    fusion.check_not_empty()
    offers = (offers or Offers.of(fusion)).keeping(decided.stored)
    graph = offers.graph
    if not offers.products:
        forms = offers.forms if decided != NOTHING else {}
        formats = inherited_formats(graph)
        alone = Segments(graph, target, without, empty, formats, forms, decided)
        sinks = (*graph.outputs, *sorted(decided.stored - graph.results))
        stored = decided.kept | (decided.alone - graph.results)
        return _in_order(reread(alone, cut_region(alone, sinks, stored), decided.reread))
    formats = inherited_formats(graph) | operand_formats(graph, padded, target.family.atoms)
    segments = Segments(graph, target, without, empty, formats, offers.forms, decided)
    own = {graph.made(p)[0] for p in offers.products if computed & set(graph.sources(p))}
    gated = with_gates(segments, offers, decided.apart | decided.single | own)
    made = _around_products(segments, gated, decided.apart, computed)
    return _in_order(reread(segments, made, decided.reread))


def _in_order(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """The segments, none of which reads what a later one writes."""
    found = tuple(segments)
    later = {name for segment in found for name in segment.outputs}
    for segment in found:
        later -= set(segment.outputs)
        if early := sorted(later.intersection(segment.inputs)):
            raise InternalError(f"a kernel reads {early} before others write them")
    return found


def _around_products(
    segments: Segments, offers: Offers, apart: Collection[int], computed: frozenset[int]
) -> Iterator[Segment]:
    graph, crossing = offers.graph, offers.crossing
    epilogues = [
        epilogue_of(segments, offers, p, computed, alone=graph.made(p)[0] in apart)
        for p in offers.firsts
    ]
    taken = {p: number for number, e in enumerate(epilogues) for p in e.positions}
    regions: dict[int, list[int]] = {}
    for position, number in postponed(graph, offers.last, taken, crossing).items():
        regions.setdefault(number, []).append(position)
    stored = _stored(graph, crossing, epilogues, regions)
    for number in range(-1, len(epilogues)):
        if number >= 0:
            yield segments.of(epilogues[number].sinks, stored)
        sinks = [t for p in regions.get(number, ()) for t in graph.made(p) if t in stored]
        if sinks:
            yield from cut_region(segments, sinks, stored)


def _stored(
    graph: Graph,
    crossing: Crossing,
    epilogues: Sequence[Epilogue],
    regions: Mapping[int, Sequence[int]],
) -> frozenset[int]:
    """Numbers of the tensors that pass from one kernel to another, or are results."""
    found = {*graph.outputs, *crossing.kept}
    for epilogue in epilogues:
        found |= {*epilogue.sinks, *around(graph, epilogue, crossing)}
    for positions in regions.values():
        made = {number for position in positions for number in graph.made(position)}
        found |= crossing.of_all({t for p in positions for t in graph.sources(p)} - made)
    return frozenset(found)
