"""What the memory of a product's tensors allows: the TMA unit, staged results, pairs of columns."""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.ir.exprs import Matmul
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import TensorView
from warpsmith.layouts.layout import Layout
from warpsmith.layouts.memory import MemoryLayout, vector
from warpsmith.schedule.products import FRAGMENTS
from warpsmith.schedulers.caching import repeats
from warpsmith.schedulers.matmul.applicability import MAP_RANK
from warpsmith.schedulers.matmul.shape import Shape, concrete_order, memory_of, places_of, shape_of
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.atoms import ROWS

TMA_BYTES = 16
"""What addresses and strides of the TMA unit's copies are multiples of (PTX ISA)."""

PAIR = vector(FRAGMENTS[ROWS], MemoryLayout(Layout.row_major((ROWS, 8)), size=1))
"""Neighbouring columns of a product that a thread holds."""


def unsupported_sizes(fusion: Program, problem: Problem) -> str:
    """Why the TMA unit, which feeds tensor cores, cannot load the operands of a call.

    Empty where it can. A copy of the operand whose rows are padded would do: `padding.padded`.
    """
    (product,) = (op for op in fusion.operations if isinstance(op, Matmul))
    for operand in (product.a, product.b):
        tensor = memory_of(operand)
        what = unfit_rows(tensor, problem)
        if what:
            return (
                f"{tensor.name} has {what}, and the TMA unit, which feeds tensor cores, takes "
                f"multiples of {TMA_BYTES}"
            )
    return ""


def unfit_rows(tensor: TensorView, problem: Problem) -> str:
    """The address or the row that starts at no multiple of 16 bytes; empty where all do."""
    size = tensor.dtype.size
    aligned = problem.alignment.get(tensor.name, TMA_BYTES)
    if aligned % TMA_BYTES:
        return f"an address that is a multiple of {aligned} bytes"
    extents = [problem.size(axis.extent) for axis in tensor.shape_axes]
    for dimension, stride in _strides(tensor, problem).items():
        if stride == 0 and extents[dimension] > 1 and 0 not in extents:
            return f"the stride 0 along its dimension {dimension}"
        if stride * size % TMA_BYTES:
            return f"rows of {stride} elements, {stride * size} bytes"
    return ""


def _strides(tensor: TensorView, problem: Problem) -> dict[int, int]:
    """The strides of all dimensions but the fastest, in elements, fastest first."""
    *slower, fastest = concrete_order(tensor)
    step = problem.size(tensor.shape_axes[fastest].extent)
    found: dict[int, int] = {}
    for dimension in reversed(slower):
        if not tensor.contiguity[dimension]:
            step = problem.values[f"{tensor.name}_stride{dimension}"]
        found[dimension] = step
        step *= problem.size(tensor.shape_axes[dimension].extent)
    return found


def staging_refusal(fusion: Program, product: Matmul, problem: Problem) -> str:
    """Why results do not leave through shared memory, by stmatrix and the TMA unit."""
    outputs = list(dict.fromkeys(output.value for output in fusion.outputs))
    if len(outputs) > 1:
        return f"it has {len(outputs)} outputs"
    (output,) = outputs
    if output.dtype.size != 2:
        return f"{output.name} is {output.dtype.value}, and stmatrix stores 16 bits"
    shape, order = shape_of(product), concrete_order(output)
    places = places_of(DomainMap(fusion), product, output)
    walked = [place for d in order if (place := places[d]) is not None]
    if walked != sorted(walked) or not output.contiguity[order[-1]]:
        return f"{output.name} is not contiguous along n, with rows and batches in order"
    apart = [place for d, place in zip(order, walked, strict=True) if not output.contiguity[d]]
    if any(place in shape.rows[:-1] for place in apart):
        return f"the rows of {output.name} are not one dimension of memory"
    if apart and len(order) > MAP_RANK:
        return f"{output.name} has {len(order)} dimensions apart"
    columns = problem.size(output.shape_axes[order[-1]].extent) * output.dtype.size
    if columns % TMA_BYTES:
        return f"{output.name} has rows of {columns} bytes"
    return unfit_rows(output, problem)


def pairs(fusion: Program, product: Matmul, shape: Shape, problem: Problem) -> tuple[str, ...]:
    """Names of the tensors that threads can access two neighbouring columns of at once."""
    domains, fastest = DomainMap(fusion), shape.columns[-1]
    if problem.size(product.output.root[fastest].extent) % PAIR:
        return ()
    found: dict[str, bool] = {}
    for memory, copy in _copies(fusion, product):
        order, places = concrete_order(memory), places_of(domains, product, copy)
        fits = bool(order) and places[order[-1]] == fastest and bool(memory.contiguity[order[-1]])
        fits = fits and problem.aligned(memory, PAIR)
        fits = fits and all(step % PAIR == 0 for step in _strides(memory, problem).values())
        found[memory.name] = found.get(memory.name, True) and fits
    return tuple(name for name, fits in found.items() if fits)


def _copies(fusion: Program, product: Matmul) -> Iterator[tuple[TensorView, TensorView]]:
    """Each tensor in global memory with the tensor that its copy makes, but for the operands."""
    operands = {product.a, product.b}
    for tensor in fusion.input_tensors:
        for use in fusion.uses(tensor):
            if use.outputs[0] not in operands and not repeats(use):
                yield tensor, use.outputs[0]
    for output in dict.fromkeys(output.value for output in fusion.outputs):
        yield output, output
