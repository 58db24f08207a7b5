"""Results that are written into a part of an input: how the part lies, and where it begins.

It is one element of a dimension, which memory says. So a result is a tensor whose strides are the
input's, and the launch says those that it cannot know by its own extents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from warpsmith.ir import integers
from warpsmith.ir.memory_format import MemoryFormat
from warpsmith.ir.program import Output, Program
from warpsmith.ir.reads import checked
from warpsmith.ir.scalar import Expr, Symbol, evaluate
from warpsmith.ir.strides import stride_symbol, strides
from warpsmith.ir.tensor import TensorView


def format_of_part(whole: TensorView, dimension: int) -> MemoryFormat:
    """How a part of a tensor lies that is one element of a dimension: what is faster in memory
    keeps its contiguity.
    """
    order = whole.memory_order()
    faster = order[order.index(dimension) + 1 :]
    flags = tuple(whole.contiguity[d] if d in faster else False for d in range(whole.rank))
    return MemoryFormat(flags, whole.stride_order)


def place_of(output: Output) -> Symbol:
    """The element of the dimension, once it was read from memory."""
    return Symbol(f"{output.value.name}_place", low=0)


def begin_of(output: Output) -> Expr:
    """Elements from the first of the input to the first of the part."""
    assert output.place is not None
    return integers.mul(place_of(output), stride_symbol(output.value, output.place.dimension))


def checked_place(output: Output, index: Expr) -> Expr:
    """The element of the dimension, of what memory says; it ends the kernel if there is none."""
    assert output.place is not None
    assert output.alias_of is not None
    extent = output.alias_of.shape_axes[output.place.dimension].extent
    return checked(index, extent, from_end=True)


def parts_of(fusion: Program) -> dict[str, str]:
    """By name of a result that is a part of an input, that of the input."""
    parts = ((o.value, o.alias_of) for o in fusion.outputs if o.place is not None)
    return {part.name: whole.name for part, whole in parts if whole is not None}


def strides_of_parts(fusion: Program, values: Mapping[str, int]) -> dict[str, int]:
    """By symbol, the strides of results that are parts of inputs; 1 where a dimension has one,
    since a size or a stride of 0 tells a tensor without elements.
    """
    parts = ((o.value, o.alias_of) for o in fusion.outputs if o.place is not None)
    return {
        stride_symbol(part, dimension).name: max(evaluate(step, values), 1)
        for part, whole in parts
        if whole is not None
        for dimension, step in enumerate(strides(whole, [a.extent for a in whole.shape_axes]))
        if not part.contiguity[dimension]
    }


def written_part(output: Output, given: Mapping[str, Any]) -> Any:
    """What a result is written into, of the arrays of a call's inputs on the host, by name."""
    assert output.alias_of is not None
    whole = given[output.alias_of.name]
    if output.place is None:
        return whole
    index = int(np.asarray(given[output.place.index.name]).item())
    start = index % whole.shape[output.place.dimension]
    part = [slice(None)] * whole.ndim
    part[output.place.dimension] = slice(start, start + 1)
    return whole[tuple(part)]
