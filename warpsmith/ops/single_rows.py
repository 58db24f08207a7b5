"""Products that have one row, or one column, in a call: sums, as those are by definition.

Dimensions are sizes that each call passes. Where one is 1, what it walks is the same everywhere, so
the program of such a call has no dimension there, and its products with a vector are reductions.

Weights of 8 or 4 bits are multiplied by tensor cores all the same, which convert them faster than
sums do (docs/lessons/weights.md). There a row is a dimension of one, by definition, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from warpsmith.ir.clone import Clones, Known
from warpsmith.ir.domains import IterDomain, IterType
from warpsmith.ir.exprs import Matmul, Move, Pointwise, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Symbol, evaluate
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops import reductions
from warpsmith.ops.contraction import multiplied, spread
from warpsmith.ops.narrow import narrow_inputs
from warpsmith.reach import reached

Ones = frozenset[str]
"""Names of sizes that are 1."""

LINE = 16
"""Bytes that lines of what the TMA unit loads are multiples of."""

MOVES = ("permute", "broadcast")
"""Of dimensions as they are."""


def has_narrow_rows(fusion: Fusion, values: Mapping[str, int]) -> bool:
    """Whether a product has one row in a call, and an operand of fewer bytes that the TMA unit
    loads: lines of whole 16 bytes along the summed dimension.
    """
    ones = {name for name, value in values.items() if value == 1}
    products = (op for op in fusion.operations if isinstance(op, Matmul))
    return any(_is_narrow(product, ones, values) for product in products)


def _is_narrow(product: Matmul, ones: set[str], values: Mapping[str, int]) -> bool:
    if not _is_single(product, ones):
        return False
    for operand, axes in zip(product.operands, product.axes, strict=True):
        inputs = narrow_inputs(operand)
        if inputs and axes[-1] == len(product.output.root) - 1:
            return all(_is_loaded(tensor, values) for tensor in inputs)
    return False


def _is_loaded(tensor: TensorView, values: Mapping[str, int]) -> bool:
    """Whether its last dimension lies in memory as lines of whole 16 bytes."""
    last = tensor.rank - 1
    line = evaluate(tensor.shape_axes[last].extent, values) * tensor.dtype.size
    return tensor.concrete_order()[-1] == last and line % LINE == 0


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
    """Whether it means the same without dimensions of 1: not products by group, whose rows end."""
    if isinstance(operation, Matmul):
        return operation.ends is None
    return isinstance(operation, Pointwise) or (
        isinstance(operation, Move) and operation.kind in MOVES
    )


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
    """The program for calls in which these sizes are 1, and what is one row by definition is."""
    if not any(isinstance(op, Matmul) and _is_single(op, ones) for op in fusion.operations):
        return fusion
    axes = {axis for tensor in fusion.tensors for axis in (*tensor.root, *tensor.logical)}
    return _with_axes(fusion, filter(lambda axis: _is_one(axis, ones), axes), ones)


def _with_axes(fusion: Fusion, axes: Iterable[IterDomain], ones: Ones | None = None) -> Fusion:
    """The program with these axes of one element as broadcast ones, and its products of one row at
    these sizes as sums; or, without sizes, as dimensions of one iteration.
    """
    kind = IterType.iteration if ones is None else IterType.broadcast
    made = fusion.blank()
    known: Known = {fusion: made, **{axis: IterDomain(axis.extent, kind) for axis in axes}}
    clones = Clones(known)
    made.inputs = [clones.tensor(v) if isinstance(v, TensorView) else v for v in fusion.inputs]
    for operation in fusion.operations:
        if ones is not None and isinstance(operation, Matmul) and _is_single(operation, ones):
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


def with_rows(fusion: Fusion) -> Fusion:
    """The program in which rows of products that are one by definition are dimensions of one
    element; products with others, such as rows that are repeated elsewhere, as sums.
    """
    rows = _rows(fusion)
    return with_single_rows(fusion, frozenset()) if rows is None else _with_axes(fusion, rows)


def _rows(fusion: Fusion) -> set[IterDomain] | None:
    """The axes of one element that are rows of products, in all tensors that have them; None where
    one is made, left out, repeated or divided on the way.
    """
    links: dict[IterDomain, set[IterDomain]] = {}
    pending: list[IterDomain] = []
    kept = {axis for v in fusion.inputs if isinstance(v, TensorView) for axis in v.root}
    ended: set[IterDomain] = set()
    for operation in fusion.operations:
        for source in dict.fromkeys(tensor_inputs(operation)):
            pairs = operation.pairs(source)
            for before, behind in pairs:
                links.setdefault(before, set()).add(behind)
                links.setdefault(behind, set()).add(before)
                kept.add(behind)
            ended |= {*source.shape_axes} - {before for before, _ in pairs}
        if isinstance(operation, Matmul):
            first, second = map(set, operation.axes)
            root = operation.output.root
            pending += [root[p] for p in first ^ second if root[p].is_broadcast]
    parts = (part for tensor in fusion.tensors for part in tensor.transforms)
    divided = {axis for part in parts for axis in (part.axis, part.outer, part.inner)}
    found = {*reached(pending, lambda axis: links.get(axis, ()))}
    whole = all(axis.is_broadcast and axis in kept for axis in found)
    return found if whole and found.isdisjoint(ended | divided) else None
