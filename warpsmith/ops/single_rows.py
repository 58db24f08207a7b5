"""Products that have one row, or one column, in a call: sums, as those are by definition.

Dimensions are sizes that each call passes. Where one is 1, what it walks is the same everywhere, so
the program of such a call has no dimension there, and its products with a vector are reductions.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.ir.clone import Clones, Known
from warpsmith.ir.domains import IterDomain, IterType
from warpsmith.ir.exprs import Matmul, Move, Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops import reductions
from warpsmith.ops.contraction import multiplied, spread

Ones = frozenset[str]
"""Names of sizes that are 1."""

MOVES = ("permute", "broadcast")
"""Of dimensions as they are."""


def sizes_of_one(fusion: Fusion, values: Mapping[str, float]) -> Ones:
    """The sizes of 1 with which a product has one row or column; none where the program has none,
    or does more than what goes element by element.
    """
    products = [op for op in fusion.operations if isinstance(op, Matmul)]
    if not products or not all(map(_goes_by_elements, fusion.operations)):
        return frozenset()
    ones = {name for name, value in values.items() if value == 1}
    if not any(_is_single(product, ones) for product in products):
        return frozenset()
    extents = (axis.extent for tensor in fusion.tensors for axis in tensor.root)
    sizes = {extent.name for extent in extents if isinstance(extent, Symbol)}
    return frozenset(sizes & ones)


def _goes_by_elements(operation: Operation) -> bool:
    moves = isinstance(operation, Move) and operation.kind in MOVES
    return moves or isinstance(operation, Matmul | Pointwise)


def _is_one(axis: IterDomain, ones: Ones | set[str]) -> bool:
    plain = axis.kind is IterType.iteration
    return plain and isinstance(axis.extent, Symbol) and axis.extent.name in ones


def _is_single(product: Matmul, ones: Ones | set[str]) -> bool:
    """Whether all that one of the operands has to itself is one row."""
    if product.ends is not None:
        return False
    first, second = map(set, product.axes)
    root = product.output.root
    return any(
        all(root[place].is_broadcast or _is_one(root[place], ones) for place in own)
        for own in (first - second, second - first)
    )


def with_single_rows(fusion: Fusion, ones: Ones) -> Fusion:
    """The program for calls in which these sizes are 1."""
    made = fusion.blank()
    axes = {axis for tensor in fusion.tensors for axis in (*tensor.root, *tensor.logical)}
    gone = {
        axis: IterDomain(axis.extent, IterType.broadcast) for axis in axes if _is_one(axis, ones)
    }
    known: Known = {fusion: made, **gone}
    clones = Clones(known)
    made.inputs = [clones.tensor(v) if isinstance(v, TensorView) else v for v in fusion.inputs]
    for operation in fusion.operations:
        if isinstance(operation, Matmul) and _is_single(operation, ones):
            known[operation.output] = _summed(operation, clones)
        else:
            made.operations.append(clones.operation(operation))
    made.outputs = list(map(clones.output, fusion.outputs))
    made.together = tuple(tuple(map(clones.tensor, group)) for group in fusion.together)
    return made


def _summed(product: Matmul, clones: Clones) -> TensorView:
    """The sums over k of what a product multiplies."""
    last = len(product.output.root) - 1
    a, b = (
        spread(clones.tensor(operand), own, last)
        for operand, own in zip(product.operands, product.axes, strict=True)
    )
    terms = multiplied(a, b)
    return reductions.sum(terms, last, dtype=terms.dtype)
