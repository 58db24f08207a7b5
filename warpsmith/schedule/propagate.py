"""Give other tensors the loops, or the parallel types, of one that is scheduled."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain, IterType, ParallelType
from warpsmith.ir.exprs import Move, Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.carriers import check_binding

SPECIAL = (ParallelType.vectorize, ParallelType.tma, ParallelType.mma)
"""Types that belong to single tensors; `parallelize_like` spreads them only when named."""


def transform_like(reference: TensorView, selected_tensors: Collection[TensorView] = ()) -> None:
    """Compute other tensors in loops like the reference's.

    Every tensor (or every selected one) gets the reference's loops, save those over axes that were
    reduced before it. A tensor that lacks a dimension of the reference, because it is broadcast
    later, gets the loop all the same and is computed once per iteration of it. Dimensions that the
    reference lacks are appended as loops of their own.
    """
    fusion = reference.fusion
    domains = DomainMap(fusion)
    sources = [_source_groups(domains, reference, axis) for axis in reference.loop]
    targets = _targets(fusion, reference, selected_tensors)
    for tensor in targets:
        if tensor.compute_at:
            raise ScheduleError(
                f"{tensor.name} is already inlined at {tensor.compute_at}",
                code="WS0203",
                remedy="transform before inlining",
            )
        tensor.loop = _loops_like(fusion, domains, reference, sources, tensor)


def _targets(
    fusion: Fusion, reference: TensorView, selected: Collection[TensorView]
) -> list[TensorView]:
    inputs = set(fusion.input_tensors)
    chosen = set(selected)
    return [
        tensor
        for tensor in fusion.tensors
        if tensor not in inputs and tensor is not reference and (not chosen or tensor in chosen)
    ]


def _source_groups(domains: DomainMap, tensor: TensorView, axis: IterDomain) -> frozenset[Group]:
    """Groups of the logical and root axes that a loop axis was made from.

    The loops of an rfactored producer are logical axes; another reduction knows their roots only.
    A root is made of no other, even where a reshape of another tensor gives what it was made of.
    """
    roots = set(map(domains.group, tensor.root))
    origins = {*map(domains.group, tensor.logical), *roots}
    found: set[Group] = set()
    stack, seen = [domains.group(axis)], set()
    while stack:
        group = stack.pop()
        if group in seen:
            continue
        seen.add(group)
        if group in origins:
            found.add(group)
        if group in roots:
            continue
        for transform in domains.touching(group):
            if any(domains.group(result) == group for result in transform.results):
                parts = {transform.axis, transform.outer, transform.inner}
                stack += [domains.group(p) for p in parts - set(transform.results)]
    return frozenset(found)


def reduced_groups(fusion: Fusion, domains: DomainMap, tensor: TensorView) -> set[Group]:
    """Groups that were reduced on every way to the tensor and that it does not have (again).

    It has, too, what its own ones give by splits and merges, as a reshape's root has.
    """
    gone: set[Group] = set()
    for operation in fusion.depends_on([tensor]):
        for output in operation.outputs:
            if output is tensor:
                continue
            gone |= {domains.group(axis) for axis in output.root if axis.is_reduction}
            gone |= {domains.group(axis) for axis in output.logical if axis.is_reduction}
    axes = (*tensor.root, *tensor.logical)
    concrete = [axis for axis in axes if not axis.is_broadcast]
    gone -= {domains.group(axis) for axis in concrete}
    for position, axis in enumerate(tensor.shape_axes):
        group = domains.group(axis)
        if group in gone and _is_new(tensor, position) and _widened(fusion, domains, tensor, group):
            gone.discard(group)
    if not gone:
        return gone
    derivation = Derivation(domains, {domains.group(axis): integers.ZERO for axis in concrete})
    return {group for group in gone if not derivation.reaches(group)}


def _is_new(tensor: TensorView, position: int) -> bool:
    """Whether a dimension was made by broadcasts alone, and is none of an input."""
    pending, seen = [(tensor, position)], {(tensor, position)}
    while pending:
        current, place = pending.pop()
        match current.definition:
            case Move(kind="reshape"):
                continue
            case Move(source=source, origin=origin):
                before = origin[place]
                found = [] if before is None else [(source, before)]
            case Pointwise(inputs=inputs):
                found = [(value, place) for value in inputs if isinstance(value, TensorView)]
            case _:
                return False
        pending += (each for each in found if each not in seen)
        seen.update(found)
    return True


def _widened(fusion: Fusion, domains: DomainMap, tensor: TensorView, group: Group) -> bool:
    """Whether something that is computed of the tensor has more than one element along a group."""
    pending, seen = [tensor], {tensor}
    while pending:
        for consumer in fusion.consumers(pending.pop()):
            if any(domains.group(a) == group and not a.is_broadcast for a in consumer.logical):
                return True
            if consumer not in seen:
                seen.add(consumer)
                pending.append(consumer)
    return False


def _loops_like(
    fusion: Fusion,
    domains: DomainMap,
    reference: TensorView,
    sources: list[frozenset[Group]],
    tensor: TensorView,
) -> list[IterDomain]:
    gone = reduced_groups(fusion, domains, tensor)
    own_reductions = {domains.group(a) for a in (*tensor.root, *tensor.logical) if a.is_reduction}
    loops: list[IterDomain] = []
    known = {}
    for axis, groups in zip(reference.loop, sources, strict=True):
        if groups and groups <= gone:
            continue
        if groups & gone:
            raise ScheduleError(
                f"{axis!r} of {reference.name} joins a dimension that {tensor.name} has with one "
                "that was reduced before it",
                code="WS0241",
                remedy="keep reduced and kept dimensions in separate loops",
            )
        reduces = bool(groups & own_reductions)
        loops.append(axis.clone(IterType.reduction if reduces else IterType.iteration))
        known[domains.group(axis)] = integers.ZERO
    derivation = Derivation(domains, known)
    for axis in tensor.logical:
        if not axis.is_broadcast and not derivation.reaches(domains.group(axis)):
            loops.append(axis.clone())
    return loops


def parallelize_like(
    reference: TensorView,
    pos: int = -1,
    selected_tensors: Collection[TensorView] = (),
    selected_parallel_types: Iterable[ParallelType] = (),
) -> None:
    """Bind other tensors' loops as the reference's equal loops are bound.

    Only the reference's first `pos` loops count (all by default). Vectorize and tma belong to
    single tensors and are only spread when `selected_parallel_types` names them.

    Axes that are on tma stay there. A copy by TMA takes no thread axes, since one thread asks for
    all of it: where the reference has one, the copy's axis is left as it is. If `selected_tensors`
    names the copy, a store is bound, for groups that take turns, and for a load the call is refused
    and binds nothing.
    """
    fusion = reference.fusion
    domains = DomainMap(fusion)
    count = len(reference.loop) if pos < 0 else pos
    allowed = set(selected_parallel_types)
    types: dict[Group, ParallelType] = {}
    for axis in reference.loop[:count]:
        wanted = axis.parallel in allowed if allowed else axis.parallel not in SPECIAL
        if wanted and axis.parallel is not ParallelType.serial:
            types[domains.group(axis)] = axis.parallel
    bindings: list[tuple[IterDomain, ParallelType]] = []
    for tensor in _targets(fusion, reference, selected_tensors):
        for axis in tensor.loop:
            found = types.get(domains.group(axis))
            if found is None or axis.parallel is ParallelType.tma:
                continue
            if _takes(tensor, axis, found, must=bool(selected_tensors)):
                bindings.append((axis, found))
    for axis, kind in bindings:
        axis.parallel = kind


def _takes(tensor: TensorView, axis: IterDomain, kind: ParallelType, *, must: bool) -> bool:
    """Whether what carries the tensor's copy can run the axis so; refused if not and it `must`."""
    if not must and tensor.copied_by.is_tma and kind.is_block:
        return False
    try:
        check_binding(tensor, axis, kind)
    except ScheduleError as refusal:
        if not must:
            return False
        raise ScheduleError(
            refusal.message,
            code=refusal.code,
            remedy="name the types that it takes in selected_parallel_types, or leave "
            f"{tensor.name} out of selected_tensors",
        ) from None
    return True
