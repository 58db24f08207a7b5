"""A fusion's kernels: how it is prepared and cut, and which scheduler has each part."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from warpsmith.engine.contiguous import Dimensions, rely_on
from warpsmith.engine.planned import PlannedSegment
from warpsmith.errors import InternalError, SchedulerRefusal
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.planner.begun import begin_in_products, check_begun
from warpsmith.planner.decided import NOTHING, Decided
from warpsmith.planner.epilogues import Offers
from warpsmith.planner.forms import add_narrow_forms
from warpsmith.planner.halves import split_halves
from warpsmith.planner.in_place import in_place
from warpsmith.planner.one_pass import in_one_pass
from warpsmith.planner.one_shape import read_as_products_do
from warpsmith.planner.operands import NO_PACKING, Packing, copy_operands
from warpsmith.planner.plan import cut
from warpsmith.planner.rows_first import reduce_rows_first
from warpsmith.planner.segment import Segment, Unfit
from warpsmith.planner.summed_again import walk_sums_together
from warpsmith.schedulers.candidate import Refusals
from warpsmith.schedulers.equal import share_equal
from warpsmith.schedulers.heads import compute_on_rows
from warpsmith.schedulers.merged_sums import reduce_before_merging
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.read_through import read_through
from warpsmith.schedulers.reshapes import cancel_reshapes, transpose_behind_reshapes
from warpsmith.schedulers.rewrite import rewrite
from warpsmith.schedulers.select import select
from warpsmith.schedulers.table import ROW_SCHEDULERS
from warpsmith.schedulers.turned import compute_turned
from warpsmith.targets.target import Target

INDEX_LIMIT = 2**31 - 2**25
"""Elements up to which 32-bit indices are safe: loops run past the end by less than 2**25."""


def prepare(fusion: Fusion, dimensions: Dimensions = frozenset()) -> Fusion:
    """A draft of a program after algebra, with all types that its values may be stored in.

    `dimensions` of its inputs lie contiguous, whatever their definition says.
    """
    better = fusion.draft()
    rely_on(better, dimensions)
    cancel_reshapes(better)
    transpose_behind_reshapes(better)
    reduce_before_merging(better)
    rewrite(better)
    compute_on_rows(better)
    read_through(better)
    better = compute_turned(better)
    share_equal(better)
    reduce_rows_first(better)
    in_one_pass(better, alone=True)
    read_as_products_do(better)
    add_narrow_forms(better)
    walk_sums_together(better)
    return better


def plan(
    fusion: Fusion, *, scheduled: bool, target: Target, without: tuple[Unfit, ...] = ()
) -> tuple[PlannedSegment, ...]:
    """Cut and prepare a fusion; one that the user scheduled stays as it is.

    `without` names schedulers that are not to take a part of it, each with the reason.
    """
    if scheduled:
        return (PlannedSegment(Segment(fusion, target), None),)
    return plan_prepared(prepare(fusion), without, target=target)


def plan_prepared(
    fusion: Fusion,
    without: tuple[Unfit, ...] = (),
    packing: Packing = NO_PACKING,
    empty: frozenset[int] = frozenset(),
    decided: Decided = NOTHING,
    *,
    target: Target,
    offers: Offers | None = None,
) -> tuple[PlannedSegment, ...]:
    """The segments of a program that `prepare` made, with a scheduler each.

    `empty` are numbers of tensors without elements; `decided` is what is otherwise than the
    structure says. `offers` are those of the program, where they were asked for before.
    """
    padded = packing.padded
    if packing.copies or packing.halves:
        fusion, offers = fusion.draft(), None
        padded = copy_operands(fusion, packing)
        split_halves(fusion, packing.halves)
    if decided.begun:
        fusion, offers = fusion.draft(), None
        begin_in_products(fusion, decided.begun)
    parts = without, padded, empty, packing.computed, decided
    segments = in_place(cut(fusion, *parts, target=target, offers=offers))
    check_begun(fusion, segments)
    last, settled = len(segments) - 1, _settled(fusion)
    planned: list[PlannedSegment] = []
    known: dict[Hashable, PlannedSegment] = {}
    for number, part in enumerate(segments):
        names = part.shape.tensors
        unwritten = tuple(place for place, name in enumerate(names) if name in settled)
        key = (part.shape.key, part.without, number > 0, number < last, unwritten)
        first = known.get(key)
        if first is None:
            candidate = select(part.fusion, target, part.refusals)
            first = PlannedSegment(
                part,
                candidate,
                follows=number > 0,
                followed=number < last,
                settled=tuple(names[place] for place in unwritten),
            )
            known[key] = first
            planned.append(first)
        else:
            planned.append(first.like(part))
    return tuple(planned)


def _settled(fusion: Fusion) -> frozenset[str]:
    """Names of the inputs that no result is written into."""
    written = {output.alias_of for output in fusion.outputs}
    tensors = (each for each in fusion.inputs if isinstance(each, TensorView))
    return frozenset(each.name for each in tensors if each not in written)


def unsupported_segments(segments: Sequence[PlannedSegment], problem: Problem) -> tuple[Unfit, ...]:
    """Schedulers that cannot take their parts of a call of these sizes, each with the reason; those
    behind one that decides sizes are asked with these.
    """
    found: list[Unfit] = []
    for planned in segments:
        reason = planned.unsupported_sizes(problem)
        candidate = planned.candidate
        if candidate is not None and reason:
            made = frozenset(tensor.name for tensor in planned.segment.fusion.computed)
            found.append(Unfit(candidate.scheduler, reason, made))
        if candidate is not None and candidate.decides:
            if reason:
                break
            decided = agreed([planned], problem)
            problem = replace(problem, values={**problem.values, **decided})
    return tuple(found)


def added(without: tuple[Unfit, ...], found: Sequence[Unfit]) -> tuple[Unfit, ...]:
    """What is left out of a plan, and what was found to be unfit with that.

    Raises:
        InternalError: nothing of it is new, so that the next plan would be the same.
    """
    if set(found) <= set(without):
        raise InternalError(f"{found[0].scheduler} is left out, and planned again: {found[0]}")
    return (*without, *found)


def require_roles(
    segments: Sequence[PlannedSegment], problem: Problem, without: tuple[Unfit, ...]
) -> None:
    """Refuse a call for which roles were asked, where a kernel of rows can have none.

    `without` says which schedulers cannot take the call, and why.

    Raises:
        SchedulerRefusal: WS0401, with the reason.
    """
    candidates = [planned.candidate for planned in segments if planned.candidate is not None]
    rows = [c for c in candidates if c.loads_rows]
    refused = [
        (c.scheduler, why)
        for planned in segments
        if (c := planned.candidate) in rows
        if (why := c.unspecialized(planned.local(problem)))
    ]
    if rows and not refused:
        return
    known = *((u.scheduler, u.reason) for u in without), *refused
    first = candidates[0].refusals if candidates else ()
    reasons = _of_rows(known) or _of_rows(first) or ["the schedule was laid by hand"]
    raise SchedulerRefusal(
        "warp_specialize=True was asked for, and no warps of their own can load what the call "
        f"computes ({'; '.join(reasons)})",
        code="WS0401",
        remedy="use warp_specialize='auto'",
    )


def _of_rows(refusals: Refusals) -> list[str]:
    """What schedulers of rows said, in words."""
    return [f"{name}: {why}" for name, why in refusals if name in ROW_SCHEDULERS]


def agreed(segments: Sequence[PlannedSegment], problem: Problem) -> dict[str, int]:
    """Sizes that some segment's schedule decides, of tensors that pass between segments."""
    found: dict[str, int] = {}
    for planned in segments:
        if planned.candidate is not None and planned.candidate.decides:
            decided = planned.agreed(planned.local(problem))
            found |= {planned.named(name): size for name, size in decided.items()}
    return found


def index_type_for(largest: int) -> DataType:
    """The narrowest type that counts `largest` elements and the padding of the loops over them."""
    return DataType.Int32 if largest < INDEX_LIMIT else DataType.Int
