"""What the TMA unit takes of a copy, and copies that are left to threads since it does not."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.copies import CHUNK_BYTES, LoadStoreOpType
from warpsmith.ir.polynomials import polynomial
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.tiles import TileDim, TileNeeds
from warpsmith.lower.boxes import MAX_RANK
from warpsmith.lower.buffers import Buffers

MAX_BOX = 256
MAX_STEP = 8
"""Elements that the box of a tensor map spans along each dimension, and how far apart those that it
takes may lie (CUDA driver API)."""

TENSOR_START = 128
BULK_START = CHUNK_BYTES
"""Bytes that a copy's place in shared memory is a multiple of, with a tensor map and without (PTX
ISA, "cp.async.bulk")."""


def feasible(
    copy: TileCopy, output: TensorView, memory: TensorView, loops: set[Symbol], buffers: Buffers
) -> TileCopy:
    """The copy with what its unit needs noted, or left to the threads where it cannot be.

    Args:
        loops: in which it stands.
    """
    size = memory.dtype.size
    fastest = copy.dims[-1]
    if copy.how is LoadStoreOpType.tma:
        _check_box(copy, output, size)
    elif any(dim.box != 1 for dim in copy.dims[:-1]) or fastest.step > 1:
        raise ScheduleError(
            f"{output.name} is copied by bulk, and its tile {[d.box for d in copy.dims]} is "
            "not contiguous in memory",
            code="WS0298",
            remedy="bind one loop to tma, or copy by LoadStoreOpType.tma",
        )
    made, alignment = buffers.made, buffers.rings.alignment(output)
    start = TENSOR_START if copy.how is LoadStoreOpType.tma else BULK_START
    needed, row = _needed(copy, size, loops, buffers.facts), integers.mul(fastest.size, size)
    if fastest.stride != integers.ONE or fastest.step > 1:
        why = f"neighbours in {memory.name}'s fastest dimension are not adjacent in memory"
        alignment = size
    elif needed is None:
        why = f"tiles of {memory.name} do not start and end at multiples of 16 bytes"
        alignment = size
    elif not integers.divides(start // size, copy.index, buffers.facts):
        why = f"tiles lie in {copy.shared.name} at places that are not multiples of {start} bytes"
        alignment = size
    else:
        why = f"addresses in {memory.name} are multiples of {alignment} bytes, and TMA takes 16"
        made.needs[output.name] = TileNeeds(output.name, memory.name, tuple(needed), row)
    if alignment >= 16:
        return copy
    made.left_to_threads[output.name] = why
    return _by_threads(copy, size, alignment)


def _needed(
    copy: TileCopy, size: int, loops: set[Symbol], facts: integers.Facts
) -> list[Expr] | None:
    """Bytes that must be multiples of 16; None where no launch can make them so.

    A tile starts at a sum: each term is to be such a multiple in every turn of the loops.
    """
    *outer, fastest = copy.dims
    wanted = [integers.mul(d.stride, size) for d in outer]
    for term, coefficient in polynomial(fastest.first).items():
        known = (factor for factor in term if loops.isdisjoint(factor.walk()))
        wanted.append(integers.mul(*known, coefficient * size))
    if copy.how is LoadStoreOpType.bulk:
        wanted.append(integers.mul(fastest.box, size))
        whole = isinstance(copy.inside, Const)
        wanted.append(integers.mul(copy.inside if whole else fastest.size, size))
    elif copy.stores:  # whole chunks are written, and so what shares one with a row's end
        wanted.append(integers.mul(fastest.size, size))
    unknown: list[Expr] = []
    for amount in wanted:
        if integers.divides(16, amount, facts):
            continue
        if isinstance(amount, Const):
            return None
        unknown.append(amount)
    return unknown


def _check_box(copy: TileCopy, output: TensorView, size: int) -> None:
    """Refuse a box that no tensor map can have."""
    boxes = [dim.length for dim in copy.dims]
    reason = remedy = ""
    if len(boxes) > MAX_RANK:
        reason = f"has {len(boxes)} dimensions, and a tensor map {MAX_RANK}"
        remedy = "leave dimensions contiguous, so that they can be joined"
    elif any(dim.step > MAX_STEP for dim in copy.dims):
        step = max(dim.step for dim in copy.dims)
        reason = f"takes every {step}th index of a dimension, and TMA every {MAX_STEP}th"
        remedy = f"bind loops to tma that step by {MAX_STEP} or less"
    elif any(_span(dim) > MAX_BOX for dim in copy.dims):
        reason = f"spans {max(map(_span, copy.dims))} elements of a dimension, and a box {MAX_BOX}"
        remedy = f"split loops by {MAX_BOX} or less before binding them to tma"
    if reason:
        raise ScheduleError(
            f"the box {boxes} of {output.name} {reason} at most",
            code="WS0258",
            remedy=remedy,
        )
    inner = boxes[-1] * size
    if inner % 16:
        raise ScheduleError(
            f"the rows of the box {boxes} of {output.name} have {inner} bytes",
            code="WS0259",
            remedy="bind a fastest loop of a multiple of 16 bytes to tma",
        )
    if copy.swizzle and inner != copy.swizzle:
        raise ScheduleError(
            f"the rows of the box {boxes} of {output.name} have {inner} bytes, and its swizzle "
            f"permutes rows of {copy.swizzle}",
            code="WS0260",
            remedy=f"bind a fastest loop of {copy.swizzle // size} elements to tma",
        )


def _span(dim: TileDim) -> int:
    """Elements of a dimension that the driver counts for the box."""
    return dim.length * dim.step


def _by_threads(copy: TileCopy, size: int, alignment: int) -> TileCopy:
    """The copy as all threads of the block make it, in pieces of `alignment` bytes or fewer."""
    fastest = copy.dims[-1]
    width = max(alignment, size)
    while width > size and (
        fastest.step > 1
        or not integers.divides(width, integers.mul(fastest.box, size))
        or not integers.divides(width // size, fastest.first)
    ):
        width //= 2
    loads = width >= 4 and not copy.stores
    how = LoadStoreOpType.cp_async if loads else LoadStoreOpType.set
    return replace(copy, how=how, width=width)
