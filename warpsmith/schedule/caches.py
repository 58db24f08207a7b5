"""Primitives that put a tensor between two others: cache_after, cache_before, rfactor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpsmith.errors import ScheduleError
from warpsmith.ir.copies import CacheOp, LoadStoreOpType
from warpsmith.ir.domains import IterDomain, IterType, of_axes
from warpsmith.ir.exprs import (
    Matmul,
    Pointwise,
    Reduction,
    reduction,
    replace_output,
    replace_tensor,
)
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.schedule.carriers import check_load, check_op_type, check_store
from warpsmith.schedule.transforms import axis_position


def cache_after(
    tensor: TensorView,
    op_type: LoadStoreOpType = LoadStoreOpType.set,
    cache_op: CacheOp = CacheOp.unspecified,
    propagate_allocation_domain: bool = True,
    cached_uses: Sequence[TensorView] = (),
) -> TensorView:
    """Copy `tensor` into a new tensor that its users (or those of `cached_uses`) read instead.

    Args:
        op_type: what carries the copy. All but `set` load an input of the fusion into shared
            memory, which the caller gives the new tensor with `set_memory_type`.
        cache_op: `streaming` lets vectorized loads of an input leave no copy in L1. The others
            have no effect yet: the compiler chooses.
        propagate_allocation_domain: has no effect yet. The new tensor lies in memory in the order
            of its loops, or as `set_allocation_domain` says.

    Raises:
        ScheduleError: WS0221 without uses, WS0224 and WS0226 where `op_type` cannot carry the
            copy, WS0229 for a `cache_op` of a copy that no thread loads.
    """
    check_op_type(tensor, op_type)
    check_load(tensor, op_type)
    _check_cache_op(tensor, op_type, cache_op)
    fusion = Fusion.of(tensor)
    uses = [
        op
        for op in fusion.uses(tensor)
        if not cached_uses or any(out in cached_uses for out in op.outputs)
    ]
    if not uses:
        raise ScheduleError(
            f"{tensor.name} has no uses to cache",
            code="WS0221",
            remedy="use cache_before on an output",
        )
    if tensor.is_input:  # other caches of it may be read along other axes
        axes = tuple(IterDomain(axis.extent, axis.kind) for axis in tensor.shape_axes)
    else:
        axes = tuple(axis.clone() for axis in tensor.shape_axes)
    cache = fusion.tensor(tensor.dtype, axes)
    copy = Pointwise("set", (tensor,), cache)
    fusion.insert_before(uses[0], copy)
    for use in uses:
        fusion.replace(use, replace_tensor(use, tensor, cache))
    cache.copied_by = op_type
    cache.streaming = cache_op is CacheOp.streaming
    return cache


def _check_cache_op(tensor: TensorView, op_type: LoadStoreOpType, cache_op: object) -> None:
    if not isinstance(cache_op, CacheOp):
        names = ", ".join(kind.name for kind in CacheOp)
        raise ScheduleError(
            f"cache_op {cache_op!r} for the copy of {tensor.name} is no CacheOp",
            code="WS0224",
            remedy=f"use CacheOp.<name> with one of {names}",
        )
    streams = op_type is LoadStoreOpType.cp_async and cache_op is CacheOp.streaming
    if cache_op is not CacheOp.unspecified and (op_type.is_tma or streams):
        raise ScheduleError(
            f"{op_type.name} has no cache_op {cache_op.name}, which the copy of {tensor.name} is "
            "to have",
            code="WS0229",
            remedy="leave cache_op out, or use op_type=LoadStoreOpType.set",
        )


def cache_before(
    tensor: TensorView,
    op_type: LoadStoreOpType = LoadStoreOpType.set,
    *,
    keep_readers: bool = False,
) -> TensorView:
    """Let a new tensor take over `tensor`'s definition and readers; `tensor` becomes its copy.

    Args:
        op_type: what carries the copy. `bulk` and `tma` store an output from shared memory, which
            the caller gives the new tensor with `set_memory_type`.
        keep_readers: who reads the tensor reads the copy.

    Raises:
        ScheduleError: WS0222, WS0223 where there is no definition to take over, WS0224 and WS0227
            where `op_type` cannot carry the copy, WS0228 where the tensor has a circular buffer
            or is copied by other than threads already.
    """
    check_op_type(tensor, op_type)
    fusion = Fusion.of(tensor)
    definition = tensor.definition
    if definition is None:
        raise ScheduleError(
            f"{tensor.name} is an input of the fusion and has no definition",
            code="WS0222",
            remedy="use cache_after",
        )
    if len(definition.outputs) > 1:
        raise ScheduleError(
            f"{tensor.name} is one of {len(definition.outputs)} results of a reduction",
            code="WS0223",
            remedy="copy it with ops.set and cache the copy",
        )
    check_store(tensor, op_type)
    if tensor.copied_by is not LoadStoreOpType.set or tensor.buffering is not None:
        what = "has a circular buffer" if tensor.buffering else "is not copied by threads"
        raise ScheduleError(
            f"{tensor.name} {what}, and cache_before would give its definition to another tensor",
            code="WS0228",
            remedy="call cache_before first, and say how the copies move afterwards",
        )
    cache = fusion.tensor(
        tensor.dtype, tensor.logical, root=tensor.root, transforms=tuple(tensor.transforms)
    )
    cache.loop = list(tensor.loop)
    for reader in () if keep_readers else fusion.uses(tensor):
        fusion.replace(reader, replace_tensor(reader, tensor, cache))
    fusion.replace(definition, replace_output(definition, tensor, cache))
    axes = tuple(axis.clone() for axis in cache.shape_axes)
    tensor.root = tensor.logical = axes
    tensor.loop = [a.clone() for a in cache.loop if not a.is_reduction]
    tensor.transforms = []
    if len(tensor.loop) == len(axes) and cache.loop == list(cache.logical):
        tensor.loop = list(axes)
    definition = cache.definition
    assert definition is not None
    fusion.insert_after(definition, Pointwise("set", (cache,), tensor))
    tensor.copied_by = op_type
    return cache


def rfactor(tensor: TensorView, axes: Sequence[int]) -> tuple[TensorView, ...]:
    """Reduce the loop axes `axes` in a new producer; `tensor` reduces what is left.

    Returns the new producers: one for each result of a reduction, and one for a matrix
    product, whose parts are summed then.
    """
    definition = tensor.definition
    if not isinstance(definition, Reduction | Matmul):
        raise ScheduleError(
            f"{tensor.name} is neither a reduction nor a matrix product",
            code="WS0231",
            remedy="rfactor those only",
        )
    positions = sorted({axis_position(tensor, axis) for axis in axes})
    chosen = [tensor.loop[p] for p in positions]
    for axis in chosen:
        if not axis.is_reduction:
            raise ScheduleError(
                f"{axis!r} of {tensor.name} is no reduction axis",
                code="WS0232",
                remedy="name reduction axes",
            )
    if len(chosen) == sum(axis.is_reduction for axis in tensor.loop):
        raise ScheduleError(
            f"rfactor over all reduction axes of {tensor.name} leaves it none",
            code="WS0233",
            remedy="keep at least one reduction axis",
        )
    outputs = definition.outputs
    parts = [_partial(output, [output.loop[p] for p in positions]) for output in outputs]
    partial: Operation
    final: Operation
    for output, part in zip(outputs, parts, strict=True):
        part.dtype = output.dtype
    if isinstance(definition, Matmul):
        partial = replace(definition, output=parts[0])
        final = reduction("sum", parts[0], tensor)
    else:
        partial = Reduction(definition.carry, definition.sources, tuple(parts))
        final = Reduction(definition.carry, tuple(parts), outputs)
    for output, part in zip(outputs, parts, strict=True):
        _leave(output, part)
    fusion = Fusion.of(tensor)
    fusion.insert_before(definition, partial)
    fusion.replace(definition, final)
    return tuple(parts)


def _partial(tensor: TensorView, chosen: list[IterDomain]) -> TensorView:
    """The new producer: the tensor's root, reduction axes as its loops, only `chosen` reduced."""
    fresh: dict[IterDomain, IterDomain] = {}

    def copy(axis: IterDomain, kind: IterType) -> IterDomain:
        if axis not in fresh:
            fresh[axis] = axis.clone(kind)
            fresh[axis].parallel = axis.parallel
        return fresh[axis]

    wanted = set(chosen)
    loop = [
        copy(a, IterType.iteration if a.is_reduction and a not in wanted else a.kind)
        for a in tensor.loop
    ]
    transforms = tuple(of_axes(t, lambda axis: copy(axis, axis.kind)) for t in tensor.transforms)
    root = tuple(copy(axis, axis.kind) for axis in tensor.root)
    kept = [copy(axis, axis.kind) for axis in tensor.logical if not axis.is_reduction]
    reduced = [fresh[axis] for axis in tensor.loop if axis.is_reduction]
    part = Fusion.of(tensor).tensor(
        tensor.dtype, (*kept, *reduced), root=root, transforms=transforms
    )
    part.loop = loop
    return part


def _leave(output: TensorView, part: TensorView) -> None:
    """What is left for a result: the producer's axes, of which its other reductions remain."""
    kept = iter(part.shape_axes)
    iterations = [axis for axis in output.logical if not axis.is_reduction]
    axes = [next(kept).clone(axis.kind) for axis in iterations]
    remaining = {axis.clone_of: axis.clone(IterType.reduction) for axis in kept}
    output.root = output.logical = (*axes, *remaining.values())
    renamed = dict(zip(iterations, axes, strict=True))
    kept_transforms = (t for t in output.transforms if not t.axis.is_reduction)
    output.transforms = [of_axes(t, lambda a: renamed.get(a, a)) for t in kept_transforms]
    old_loop, output.loop = output.loop, []
    for axis in old_loop:
        if axis.is_reduction and axis not in remaining:
            continue
        left = remaining[axis] if axis.is_reduction else renamed.get(axis, axis)
        left.parallel = axis.parallel
        output.loop.append(left)
