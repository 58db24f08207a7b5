"""Products whose operands are scaled in blocks along k: tensor cores multiply what has few bits.

`sum over k of (a * s) * (b * t)`, where `s` and `t` repeat along k, is `sum over blocks of s * t *
(sum over k of a * b)`: a product for each block of k, and a sum over blocks that threads carry. So
what tensor cores lose of long sums of 8-bit floats ends with a block, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

import numpy as np

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain, IterType, split
from warpsmith.ir.exprs import Matmul, Move, Pointwise, Reduction, reduction, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops.liveness import remove_dead
from warpsmith.schedulers.matmul.params import Count, Numbers
from warpsmith.schedulers.matmul.sectors import DEPTH_BYTES
from warpsmith.values import dataclass

AT_ONCE, FEWER, FEW_STEPS = 8, 4, 12
"""Steps of k whose scales come at once: 8 of them are a sector of the L2, where they lie together;
and where these divide k, and 8 do not, or steps are few. Of ten steps 8 at once took 3 to 8 % more
where products have few rows (an H200)."""


@dataclass(frozen=True, slots=True)
class Factors:
    """An operand of a product as one of few bits, times a scale.

    Attributes:
        narrow: the operand before it was cast and scaled.
        axes: the product's root axis that each dimension of that is.
        scale: the repetition of the scale; None without one.
        places: the product's root axis that each dimension of the scale is.
    """

    narrow: TensorView
    axes: tuple[int, ...]
    scale: Move | None = None
    places: tuple[int, ...] = ()

    @property
    def sources(self) -> tuple[TensorView, ...]:
        """What it is computed from."""
        return (self.narrow, *(() if self.scale is None else (self.scale.source,)))

    @property
    def share(self) -> int:
        """Elements of k that share a scale; 0 without one."""
        return 0 if self.scale is None else self.scale.repeats[self.places.index(max(self.places))]


def factors_of(product: Matmul) -> tuple[Factors, Factors] | None:
    """Both operands as tensors of 8 bits and scales that repeat along k equally often; None for
    other products, and for grouped ones.
    """
    if product.ends is not None:
        return None
    first = _factors(product.a, product.axes[0])
    second = _factors(product.b, product.axes[1])
    if first is None or second is None or first.narrow is second.narrow:
        return None
    shares = {each.share for each in (first, second) if each.scale is not None}
    return (first, second) if len(shares) == 1 else None


def unscaled(product: Matmul) -> Matmul:
    """What tensor cores multiply of a product: its operands before they were scaled.

    It tells what they are; no program has it.
    """
    factors = factors_of(product)
    if factors is None:
        return product
    a, b = factors
    return replace(product, a=a.narrow, b=b.narrow, axes=(a.axes, b.axes))


@dataclass(frozen=True, slots=True)
class Spread:
    """How a product has a scale along k.

    Attributes:
        rows: whether the scale differs from row to row, and not from column to column.
        share: neighbours among these that have one; 0 where all have.
    """

    rows: bool
    share: int

    @classmethod
    def of(cls, scale: TensorView) -> Spread:
        """That of a scale over the blocks of a product."""
        move = scale.definition
        assert isinstance(move, Move)
        times = move.repeats or (1,) * len(scale.root)
        *before, columns, _ = scale.shape_axes
        if not columns.is_broadcast:
            return cls(rows=False, share=times[-2])
        has = [each for axis, each in zip(before, times, strict=False) if not axis.is_broadcast]
        share = has[-1] if len(has) == 1 else 1  # rows of several dimensions are not told apart
        return cls(rows=bool(has), share=share if has else 0)

    @property
    def swapped(self) -> Spread:
        """The same of a product with its operands swapped."""
        return replace(self, rows=not self.rows) if self.share else self

    def together(self, edge: Count) -> Count:
        """Rows or columns that have one scale, wherever a tile of so many begins."""
        return np.gcd(edge, self.share)


def held_each_step(scales: Iterable[Spread], rows: Numbers, columns: Numbers) -> Numbers:
    """Scales of a tile of so many rows and columns in each step of k."""
    edges = ((each, rows if each.rows else columns) for each in scales)
    return sum((edge // each.together(edge) for each, edge in edges), np.zeros_like(rows))


def read_each_step(
    scales: Iterable[Spread], rows: Numbers, columns: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """Scales of a tile of so many rows and columns in each step, as threads read them: those that
    neighbouring columns share, those that each column has for itself, and so for rows.
    """
    found = [np.zeros_like(columns)] * 3
    for each in scales:
        edge = rows if each.rows else columns
        kind = 1 + each.rows if each.share == 1 else 0
        if each.share and (kind or not each.rows):
            found[kind] = found[kind] + edge // each.together(edge)
    return found[0], found[1], found[2]


def at_once(k: int) -> int:
    """Steps along k of 8-bit elements whose scales come at once."""
    steps = -(-k // DEPTH_BYTES)
    divided = k % (FEWER * DEPTH_BYTES) == 0 and steps % AT_ONCE > 0
    return FEWER if divided or (steps <= FEW_STEPS and steps != AT_ONCE) else AT_ONCE


@dataclass(frozen=True, slots=True)
class Carried:
    """What threads carry from block to block of k of a product that `by_blocks` has rewritten.

    Attributes:
        sums: of the blocks, scaled.
        loads: scales, and copies of them.
        scaled: what is computed of a block's product and its scales.
    """

    sums: TensorView
    loads: tuple[TensorView, ...]
    scaled: tuple[TensorView, ...]

    @property
    def scales(self) -> dict[TensorView, Spread]:
        """The scales over the blocks of the product."""
        return {load: Spread.of(load) for load in self.loads if isinstance(load.definition, Move)}


def carried(fusion: Program, product: Matmul) -> Carried | None:
    """What is carried over the blocks of a product; None for one that sums all of k."""
    if product.output.root is product.output.logical:
        return None
    (sums,) = (op.output for op in fusion.operations if isinstance(op, Reduction))
    made: dict[TensorView, None] = {}
    pending = [sums]
    while pending:
        definition = pending.pop().definition
        assert definition is not None
        for source in tensor_inputs(definition):
            if source is not product.output and not source.is_input:
                made[source] = None
                pending.append(source)
    computed = [t for t in made if isinstance(t.definition, Pointwise) and t.definition.op == "mul"]
    return Carried(sums, tuple(t for t in made if t not in computed), tuple(computed))


def scale_input(scale: TensorView) -> TensorView:
    """The input that one of the scales is, or is a copy of."""
    while not scale.is_input:
        (scale,) = tensor_inputs(cast(Operation, scale.definition))
    return scale


def by_blocks(fusion: Fusion) -> None:
    """Have the product of scaled operands be a sum over blocks of k of scaled products."""
    for operation in fusion.operations:
        factors = factors_of(operation) if isinstance(operation, Matmul) else None
        if factors is not None:
            assert isinstance(operation, Matmul)
            _rewrite(fusion, operation, factors)
            remove_dead(fusion)
            return


def _factors(operand: TensorView, axes: tuple[int, ...]) -> Factors | None:
    """The operand whose dimensions are these axes of a product's root, the greatest of them k."""
    definition = operand.definition
    if not isinstance(definition, Pointwise):
        return None
    if definition.op == "cast":
        return _narrow(operand, axes)
    if definition.op != "mul":
        return None
    for value, scale in (definition.inputs, definition.inputs[::-1]):
        if not (isinstance(value, TensorView) and isinstance(scale, TensorView)):
            continue
        move, found = scale.definition, _narrow(value, axes)
        if found is None or not isinstance(move, Move) or None in move.origin:
            continue
        if move.repeats and move.repeats[axes.index(max(axes))] > 1:
            return replace(found, scale=move, places=axes)
    return None


def _narrow(operand: TensorView, axes: tuple[int, ...]) -> Factors | None:
    """A cast of 8-bit floats, of a permutation of them too."""
    definition = operand.definition
    if not (isinstance(definition, Pointwise) and definition.op == "cast"):
        return None
    (source,) = tensor_inputs(definition)
    if not source.dtype.is_float8:
        return None
    move = source.definition
    if isinstance(move, Move) and move.kind == "permute":
        order = {d: axis for d, axis in zip(move.origin, axes, strict=True) if d is not None}
        return Factors(move.source, tuple(order[d] for d in range(len(order))))
    return Factors(source, axes)


def _rewrite(fusion: Fusion, product: Matmul, factors: tuple[Factors, Factors]) -> None:
    sums = product.output
    share = max(each.share for each in factors)
    root = tuple(IterDomain(axis.extent, axis.kind) for axis in sums.root)
    blocks = split(root[-1], integers.index(share))
    blocks.outer.kind = IterType.iteration
    logical = (*root[:-1], blocks.outer, blocks.inner)
    parts = fusion.tensor(sums.dtype, logical, root=root, transforms=(blocks,))
    a, b = factors
    scaled, *scales = [_spread(product, each) for each in factors if each.scale is not None]
    summed = Matmul(a.narrow, b.narrow, parts, (a.axes, b.axes), product.precision)
    fusion.insert_before(product, summed)
    for factor in (*scales, parts):
        scaled = _multiplied(product, scaled, factor)
    kept = tuple(axis.clone() for axis in scaled.shape_axes[:-1])
    sums.root = sums.logical = (*kept, scaled.shape_axes[-1].clone(IterType.reduction))
    sums.loop = list(sums.logical)
    fusion.replace(product, reduction("sum", scaled, sums))


def _spread(product: Matmul, factors: Factors) -> TensorView:
    """A scale with an element for each block of k, over all root axes of a product."""
    scale, root = factors.scale, product.output.root
    assert scale is not None
    axes: list[IterDomain] = []
    origin: list[int | None] = []
    times: list[int] = []
    for place, whole in enumerate(root):
        d = factors.places.index(place) if place in factors.places else None
        origin.append(None if d is None else scale.origin[d])
        times.append(1 if d is None or whole is root[-1] else scale.repeats[d])
        if d is None:
            axes.append(IterDomain(integers.ONE, IterType.broadcast))
            continue
        held = scale.source.shape_axes[scale.origin[d] or 0]
        like = held if whole is root[-1] else scale.output.root[d]
        axes.append(IterDomain(like.extent, like.kind))
    parts = tuple(
        split(axis, integers.index(number))
        for axis, number in zip(axes, times, strict=True)
        if number > 1
    )
    fusion = Fusion.of(product.output)
    output = fusion.tensor(scale.output.dtype, tuple(axes), transforms=parts)
    kind = "repeat_interleave" if parts else "broadcast"
    arguments = (tuple(times), tuple(axis.extent for axis in axes))
    fusion.insert_before(product, Move(kind, scale.source, output, tuple(origin), arguments))
    return output


def _multiplied(product: Matmul, a: TensorView, b: TensorView) -> TensorView:
    """The elementwise product of two tensors over the blocks of a product."""
    pairs = zip(a.shape_axes, b.shape_axes, strict=True)
    wide = [y if x.is_broadcast else x for x, y in pairs]
    fusion = Fusion.of(a)
    output = fusion.tensor(a.dtype, tuple(IterDomain(x.extent, x.kind) for x in wide))
    fusion.insert_before(product, Pointwise("mul", (a, b), output))
    return output
