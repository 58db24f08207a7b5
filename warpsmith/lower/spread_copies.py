"""Vectors of elements that are for several lanes each, as a byte is that holds several values."""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.nodes import Buffer, CopyVector, Declare, Element, For, Store
from warpsmith.lower.access import Access
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.vectors import Vectorizer


def spread_copy(
    buffers: Buffers,
    vectors: Vectorizer,
    access: Access,
    source: TensorView,
    lane: Symbol,
) -> tuple[Declare, CopyVector, For] | None:
    """A shorter vector, and what brings each of its elements to several lanes of registers; None
    where an element is for one lane, these do not lie side by side, or the copy is to other memory.

    Before::

        unrolled for lane < 8: t[lane] = x[base + lane / 2]

    After::

        few: registers of 4;  few = x[base] x4
        unrolled for lane < 8: t[lane] = few[lane / 2]

    Args:
        access: of a lane of the copy.
    """
    output, index = access.output, buffers.index_row_major(access, source)
    found = _spread(index, lane)
    target = buffers.buffer(output)
    if found is None or target.memory is not MemoryType.local:
        return None
    spread, times, width = found
    wide = Symbol("wide", extent=Const(width))
    first = vectors.base(substitute(index, {spread: wide}), wide, width)
    if first is None or lane in first.walk():
        return None
    few = Buffer(f"{output.name}_few", target.dtype, MemoryType.local, Const(width))
    copy = CopyVector(
        few,
        integers.ZERO,
        buffers.buffer(source),
        first,
        width,
        output.streaming,
        output.evict_last,
    )
    own = substitute(buffers.own(access), {lane: integers.ZERO})
    each = Store(target, integers.add(own, lane), Element(few, spread))
    return Declare(few), copy, For(lane, Const(width * times), (each,), unroll=True)


def _spread(index: Expr, lane: Symbol) -> tuple[Expr, int, int] | None:
    """The part `lane / n` of an index, where n divides the lanes and is less; n, and how many
    elements such lanes read.
    """
    assert lane.extent is not None, "lanes are counted"
    width = integers.constant(lane.extent) or 0
    for node in index.walk():
        if isinstance(node, Apply) and node.op == "floordiv" and node.args[0] == lane:
            times = integers.constant(node.args[1]) or width
            return (node, times, width // times) if times < width and width % times == 0 else None
    return None
