"""Give other tensors the loops, or the parallel types, of one that is scheduled."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain, IterType, ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group, map_of
from warpsmith.ir.tensor import TensorView
from warpsmith.reach import reached
from warpsmith.schedule.carriers import check_binding
from warpsmith.schedule.reduced import Reduced
from warpsmith.schedule.stand_in import stand_in

SPECIAL = (ParallelType.vectorize, ParallelType.tma, ParallelType.mma)
"""Types that belong to single tensors; `parallelize_like` spreads them only when named."""


def transform_like(reference: TensorView, selected_tensors: Collection[TensorView] = ()) -> None:
    """Compute other tensors in loops like the reference's.

    Every tensor (or every selected one) gets the reference's loops, save those over axes that were
    reduced before it, alone or together with others that it lacks. A tensor that lacks a dimension
    of the reference, because it is broadcast later, gets the loop all the same and is computed once
    per iteration of it. Dimensions that the reference lacks are appended as loops of their own.
    Where it lacks one, and divides it all the same, others that have it are divided so.
    """
    fusion = Fusion.of(reference)
    reference = stand_in(map_of(fusion), reference, _targets(fusion, reference, selected_tensors))
    domains = map_of(fusion)
    sources = [_source_groups(domains, reference, axis) for axis in reference.loop]
    reduced = Reduced(fusion, domains)
    for tensor in _targets(fusion, reference, selected_tensors):
        if tensor.compute_at:
            raise ScheduleError(
                f"{tensor.name} is already inlined at {tensor.compute_at}",
                code="WS0203",
                remedy="transform before inlining",
            )
        tensor.loop = _loops_like(domains, reference, sources, tensor, reduced.before(tensor))


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
    A root is made of no other, even where a reshape of another tensor gives what it was made of;
    and what the tensor's own splits and merges make is made by these.
    """
    roots = set(map(domains.group, tensor.root))
    own = {domains.group(made): t for t in tensor.transforms for made in t.results}
    origins = frozenset((*map(domains.group, tensor.logical), *roots))

    def parts(group: Group) -> Iterator[Group]:
        made = (own[group],) if group in own else domains.touching(group)
        for transform in () if group in roots else made:
            if any(domains.group(result) == group for result in transform.results):
                axes = {transform.axis, transform.outer, transform.inner}
                yield from map(domains.group, axes - set(transform.results))

    found: Iterator[Group] = reached((domains.group(axis),), parts)
    return origins.intersection(found)


def _loops_like(
    domains: DomainMap,
    reference: TensorView,
    sources: list[frozenset[Group]],
    tensor: TensorView,
    gone: set[Group],
) -> list[IterDomain]:
    """The reference's loops but those over the groups that are `gone`, then the tensor's others."""
    axes = [axis for axis in (*tensor.root, *tensor.logical) if not axis.is_broadcast]
    own_reductions = {domains.group(a) for a in axes if a.is_reduction}
    own = dict.fromkeys(map(domains.group, axes), integers.ZERO)
    kept = {group: index for group, index in own.items() if group not in own_reductions}
    loops: list[IterDomain] = []
    known = {}
    for axis, groups in zip(reference.loop, sources, strict=True):
        is_gone, reduces = bool(groups & gone), bool(groups & own_reductions)
        others = groups - (gone if is_gone else own_reductions)
        if others and (is_gone or reduces):
            there = Derivation(domains, own if is_gone else kept)
            if any(map(there.reaches, others)):
                which = "was reduced before it" if is_gone else "it reduces"
                raise ScheduleError(
                    f"{axis!r} of {reference.name} joins a dimension that {tensor.name} has with "
                    f"one that {which}",
                    code="WS0241",
                    remedy="keep reduced and kept dimensions in separate loops",
                )
        if is_gone:
            continue
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
    fusion = Fusion.of(reference)
    domains = map_of(fusion)
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
