"""What carries a copy (threads, cp.async, TMA), and what that allows its loops."""

from __future__ import annotations

from warpsmith.errors import ScheduleError
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import IterDomain, IterType, ParallelType
from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.reads import stretch_of
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import TensorView


def set_load_store_op(tensor: TensorView, op_type: LoadStoreOpType) -> TensorView:
    """Say what carries the copy that defines a tensor.

    `cp_async`, `bulk` and `tma` load from an input of the fusion; `bulk` and `tma` also store to an
    output. The other side of the copy is shared memory: whoever schedules says so with
    `set_memory_type`, before or after, and lowering checks it.

    Raises:
        ScheduleError: WS0224 to WS0227 where the copy is none that `op_type` can carry; WS0209 and
            WS0216 to WS0220 where its loops are already bound in a way that does not fit.
    """
    check_op_type(tensor, op_type)
    if op_type is not LoadStoreOpType.set:
        _check_copy(tensor, op_type)
    for axis in tensor.loop:
        check_binding(tensor, axis, axis.parallel, op_type)
    tensor.copied_by = op_type
    return tensor


def load_chunks(tensor: TensorView, chunks: bool = True) -> TensorView:
    """Have a load by `bulk` bring all of the 16-byte chunks that a tile lies in.

    So tiles may begin and end anywhere, as rows of 4097 half-precision elements do; each stage has
    a chunk more, and begins with what stands before the tile in its first one. The last chunk may
    end behind the tensor. Where its address is no multiple of 16 bytes, the threads copy instead.

    Raises:
        ScheduleError: at lowering, WS0298 where the carrier is none, the tensor has no circular
            buffer, its stages hold several tiles, or its source is not contiguous.
    """
    tensor.chunks = chunks
    return tensor


def copied_source(tensor: TensorView) -> TensorView | None:
    """The tensor that this one is a copy of, or a copy of a stretch of; None for any other."""
    definition = tensor.definition
    stretch = stretch_of(tensor)
    if stretch is not None:
        return stretch.sources[0]
    if not isinstance(definition, Pointwise) or definition.op != "set":
        return None
    (source,) = definition.inputs
    return source if isinstance(source, TensorView) else None


def _check_copy(tensor: TensorView, op_type: LoadStoreOpType) -> None:
    source = copied_source(tensor)
    if source is None:
        raise ScheduleError(
            f"{tensor.name} is no copy of a tensor, and {op_type.name} carries only copies",
            code="WS0225",
            remedy="name the copy that cache_after or cache_before makes",
        )
    if op_type is LoadStoreOpType.stmatrix:
        _check_matrices(tensor, source)
    elif not tensor.is_output:
        check_load(source, op_type)
    elif source.is_input and op_type.is_tma:
        raise ScheduleError(
            f"{tensor.name} copies the input {source.name} straight to an output, and "
            f"{op_type.name} moves between global and shared memory",
            code="WS0226",
            remedy=f"put shared memory between: {source.name}.cache_after()",
        )
    else:
        check_store(tensor, op_type)


def _check_matrices(tensor: TensorView, source: TensorView) -> None:
    if source.is_input or tensor.is_output or tensor.dtype.size != 2:
        raise ScheduleError(
            f"{tensor.name} ({tensor.dtype.value}) copies {source.name}, and stmatrix moves 16-bit "
            "elements from registers to shared memory",
            code="WS0226",
            remedy="use it between a computed tensor and its copy in shared memory",
        )


def check_op_type(tensor: TensorView, op_type: object) -> None:
    """Refuse what is no `LoadStoreOpType`."""
    if not isinstance(op_type, LoadStoreOpType):
        names = ", ".join(kind.name for kind in LoadStoreOpType)
        raise ScheduleError(
            f"op_type {op_type!r} for the copy of {tensor.name} is no LoadStoreOpType",
            code="WS0224",
            remedy=f"use LoadStoreOpType.<name> with one of {names}",
        )


def check_load(source: TensorView, op_type: LoadStoreOpType) -> None:
    """Refuse a copy of `source`, to a tensor that is no output, that `op_type` cannot carry."""
    if op_type is not LoadStoreOpType.set and not source.is_input:
        raise ScheduleError(
            f"{op_type.name} loads from global memory, and {source.name} is no input of the fusion",
            code="WS0226",
            remedy="cache an input with it, or use LoadStoreOpType.set",
        )


def check_store(target: TensorView, op_type: LoadStoreOpType) -> None:
    """Refuse a copy of a computed value to `target` that `op_type` cannot carry."""
    if op_type in (LoadStoreOpType.cp_async, LoadStoreOpType.stmatrix):
        moves = (
            "only loads from" if op_type is LoadStoreOpType.cp_async else "stores to shared, not"
        )
        raise ScheduleError(
            f"{op_type.name} {moves} global memory, and cannot store {target.name}",
            code="WS0227",
            remedy="store with LoadStoreOpType.bulk, tma or set",
        )
    if op_type.is_tma and not target.is_output:
        raise ScheduleError(
            f"{op_type.name} stores to global memory, and {target.name} is no output of the fusion",
            code="WS0227",
            remedy="name an output, or use LoadStoreOpType.set",
        )


def check_binding(
    tensor: TensorView,
    axis: IterDomain,
    parallel_type: ParallelType,
    op_type: LoadStoreOpType | None = None,
) -> None:
    """Refuse to bind a loop so that what carries the tensor's copy could not run it.

    Args:
        op_type: what carries the copy, if not what the tensor says.
    """
    carrier = tensor.copied_by if op_type is None else op_type
    if parallel_type is ParallelType.tma:
        _check_tma_axis(tensor, axis, carrier)
    elif carrier.is_tma and (
        parallel_type is ParallelType.vectorize
        or (parallel_type.is_block and not tensor.is_output)  # groups may each store their own
    ):
        raise ScheduleError(
            f"{axis!r} of {tensor.name} cannot be bound to {parallel_type.name}: {carrier.name} "
            "copies by TMA, and one thread asks for all elements",
            code="WS0219",
            remedy="bind it to tma or to the grid, or copy with LoadStoreOpType.cp_async",
        )
    _check_innermost(tensor, axis, parallel_type)


def _check_tma_axis(tensor: TensorView, axis: IterDomain, carrier: LoadStoreOpType) -> None:
    if not carrier.is_tma:
        raise ScheduleError(
            f"{axis!r} of {tensor.name} cannot be bound to tma: {carrier.name} copies through the "
            "threads, and TMA does not",
            code="WS0216",
            remedy="make the copy with op_type=LoadStoreOpType.bulk or tma",
        )
    if axis.kind is not IterType.iteration:
        raise ScheduleError(
            f"{axis!r} of {tensor.name} is a {axis.kind.name} axis, and TMA copies iterations",
            code="WS0217",
            remedy="bind axes along which the tensor has elements of its own",
        )
    run = carrier is LoadStoreOpType.bulk and not tensor.is_output
    if not isinstance(axis.extent, Const) and not run:
        raise ScheduleError(
            f"{axis!r} of {tensor.name} has no constant extent, which tma needs",
            code="WS0209",
            remedy="split it by the number of elements to be copied at once first"
            + ("" if tensor.is_output else ", or load whole rows by LoadStoreOpType.bulk"),
        )
    for other in tensor.loop:
        bound = other is not axis and other.parallel is ParallelType.tma
        if bound and carrier is LoadStoreOpType.bulk:
            raise ScheduleError(
                f"{tensor.name} already has {other!r} on tma, and bulk copies one run of elements",
                code="WS0220",
                remedy="merge the two axes before binding, or copy with LoadStoreOpType.tma",
            )


def _check_innermost(tensor: TensorView, axis: IterDomain, parallel_type: ParallelType) -> None:
    """What is bound to tma stands inside what is bound to anything else.

    Loops that are still serial may yet be bound or moved: lowering checks those.
    """
    place = tensor.loop.index(axis)
    reason = ""
    if parallel_type is ParallelType.tma:
        inside = tensor.loop[place + 1 :]
        others = [a for a in inside if a.parallel not in (ParallelType.serial, ParallelType.tma)]
        if others:
            reason = f"{others[0]!r} stands inside it"
    elif parallel_type is not ParallelType.serial:
        around = [a for a in tensor.loop[:place] if a.parallel is ParallelType.tma]
        if around:
            reason = f"it stands inside {around[0]!r}"
    if reason:
        raise ScheduleError(
            f"{axis!r} of {tensor.name} cannot be bound to {parallel_type.name}: {reason}, and "
            "one copy moves all that is inside an axis on tma",
            code="WS0218",
            remedy="reorder so that the axes on tma are the innermost, then bind",
        )
