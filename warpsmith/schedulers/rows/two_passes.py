"""Variances of rows that stay in registers, by sums in place of Welford's triples.

Those are for rows that are read once and gone. Here a second pass over a row costs no memory, so
the mean is known before the squares of distances to it are summed: half the instructions, and at
least as accurate. Rows of bfloat16 need no second pass: an element of a row takes the mean's place,
and both sums are of distances to that. Lanes of a warp with several rows have two all the same.
"""

from __future__ import annotations

from typing import Final

from warpsmith.ir import arithmetic, integers
from warpsmith.ir.domains import IterDomain, IterType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Full, Move, Pointwise, Reduction, reduction
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.reads import Read, at
from warpsmith.ir.scalar import Apply, Const, Expr
from warpsmith.ir.tensor import Operation, TensorView, Value
from warpsmith.ops.liveness import remove_dead
from warpsmith.schedulers.rows.applicability import walks_rows
from warpsmith.values import dataclass

NARROW: Final = DataType.BFloat16
"""Elements whose rows need no second pass, where all that is made of them has no more bytes. Of `n`
elements, and the worst of them at the mean's place, the variance is wrong by `n` roundings of a
float: 9 bits of 32768 elements remain, and a bfloat16 has 8. A half has 11."""

FIRST: Final = "first"
"""Kind of the reads of what is at the mean's place."""


def in_two_passes(fusion: Fusion, *, or_one: bool) -> None:
    """Replace each reduction to moments: `sum(x) / n`, then `sum((x - mean)^2)` where needed.

    `or_one`: both sums in one pass where the row is of bfloat16, and nothing wider is made of it.
    """
    for operation in list(fusion.operations):
        if not (isinstance(operation, Reduction) and operation.counts_elements):
            continue
        position = fusion.operations.index(operation)
        row = _Row(fusion, operation.source, operation.output.logical, operation.outputs)
        origin = _narrow_origin(fusion, row) if or_one else None
        made = row.in_two_passes() if origin is None else row.in_one_pass(origin)
        fusion.operations[position : position + 1] = made
        for step in made:
            for output in step.outputs:
                output.definition = step
        if or_one:  # columns spill without: instance norm of 179x448x27x27, channels last, 16 bytes
            _drop_ones(fusion, operation.output)
    remove_dead(fusion)


def back_to_two_passes(fusion: Fusion) -> None:
    """Put the mean where an element took its place: that is one access more of each thread.

    What needs the mean alone, or the variance, keeps the element where the rest is gone.
    """

    def uses(operation: Operation) -> tuple[Operation, ...]:
        return fusion.uses(operation.outputs[0])

    for first in [op for op in fusion.operations if isinstance(op, Read) and op.kind == FIRST]:
        (shift,) = uses(first)
        wide, *means = uses(shift)
        (distance,) = uses(wide)
        if len(uses(distance)) < 2:
            continue
        square, total = uses(distance)
        step, _ = uses(total)
        (squares,) = uses(square)
        (rest,) = uses(squares)
        (m2,) = uses(rest)
        row, mean = distance.inputs[0], step.outputs[0]
        assert isinstance(row, TensorView)
        fusion.operations.remove(step)
        fusion.operations.remove(total)
        place = fusion.operations.index(shift)
        fusion.operations[place:place] = total, step
        fusion.replace(total, reduction("sum", row, total.outputs[0]))
        for made in (shift, *means):
            fusion.replace(made, Pointwise("set", (mean,), made.outputs[0]))
        fusion.replace(m2, Pointwise("set", squares.outputs, m2.outputs[0]))
    remove_dead(fusion)


def _narrow_origin(fusion: Fusion, row: _Row) -> TensorView | None:
    """The bfloat16 input whose last dimension a row is, where no result has more of each element.

    Images have short rows, of which an element that is read apart is a large part: instance norm of
    8x8 pixels took 1.2 times as long (H200).
    """
    cast, reduced = row.source.definition, [axis.is_reduction for axis in row.axes]
    if sum(reduced) > 1 or not reduced[-1]:
        return None
    if not (isinstance(cast, Pointwise) and cast.op == "cast"):
        return None
    (origin,) = cast.inputs
    if not (isinstance(origin, TensorView) and origin.is_input and origin.dtype is NARROW):
        return None
    rows = walks_rows(fusion)
    wide = any(o.value in rows and o.value.dtype.size > NARROW.size for o in fusion.outputs)
    return None if wide else origin


def _drop_ones(fusion: Fusion, mean: TensorView) -> None:
    """A mean of something is not multiplied by what is 1, and NaN for the mean of nothing."""
    for use in fusion.uses(mean):
        if isinstance(use, Pointwise) and use.op == "mul" and _is_one(use.inputs[-1]):
            fusion.replace(use, Pointwise("set", (mean,), use.output))


def _is_one(factor: object) -> bool:
    return isinstance(factor, Apply) and factor.op == "div" and factor.args[0] == factor.args[1]


@dataclass(frozen=True)
class _Row:
    """What a reduction to moments reduces, and what takes its place.

    Attributes:
        axes: of the results, with those that are reduced.
        results: mean, sum of squares, number.
    """

    fusion: Fusion
    source: TensorView
    axes: tuple[IterDomain, ...]
    results: tuple[TensorView, ...]

    @property
    def count(self) -> Expr:
        """Elements, as a number of their type."""
        count = integers.mul(*(axis.extent for axis in self.axes if axis.is_reduction))
        return arithmetic.counted(count, self.source.dtype)

    def in_two_passes(self) -> list[Operation]:
        """The mean, then the distances to it."""
        mean, m2, number = self.results
        self._without_reductions(mean, number)
        total, wide = self._sum_of(self.source), self._wide(mean)
        distance = self._of_rows("sub", self.source, wide.output)
        square = self._of_rows("mul", distance.output, distance.output)
        return [
            total,
            Pointwise("div", (total.output, self.count), mean),
            wide,
            distance,
            square,
            reduction("sum", square.output, m2),
            Full(self.count, number),
        ]

    def in_one_pass(self, origin: TensorView) -> list[Operation]:
        """The distances to the first element of each row, which is read apart."""
        mean, m2, number = self.results
        self._without_reductions(mean, m2, number)
        counted = iter(range(len(self.axes)))
        place = tuple(integers.ZERO if a.is_reduction else at(next(counted)) for a in self.axes)
        inside = (integers.TRUE,)
        first = Read(FIRST, (origin,), (), None, (place,), inside, self._kept(origin.dtype))
        shift = self._of_one("cast", first.output)
        wide = self._wide(shift.output)
        distance = self._of_rows("sub", self.source, wide.output)
        square = self._of_rows("mul", distance.output, distance.output)
        total, squares = self._sum_of(distance.output), self._sum_of(square.output)
        step = self._of_one("div", total.output, self.count)
        moved = self._of_one("mul", total.output, step.output)
        rest = self._of_one("sub", squares.output, moved.output)
        none = Const(0.0, self.source.dtype)
        return [
            *(first, shift, wide, distance, square, total, squares, step),
            Pointwise("add", (shift.output, step.output), mean),
            *(moved, rest),
            Pointwise("maximum", (rest.output, none), m2),
            Full(self.count, number),
        ]

    def _without_reductions(self, *results: TensorView) -> None:
        """Leave those that no reduction computes any more the axes that are kept alone."""
        for tensor in results:
            axes = self._kept_axes()
            tensor.root = tensor.logical = axes
            tensor.loop = list(axes)
            tensor.transforms = []

    def _kept_axes(self) -> tuple[IterDomain, ...]:
        return tuple(IterDomain(a.extent, a.kind) for a in self.axes if not a.is_reduction)

    def _kept(self, dtype: DataType) -> TensorView:
        return self.fusion.tensor(dtype, self._kept_axes())

    def _of_one(self, op: str, *inputs: Value) -> Pointwise:
        """An operation on what there is once a row."""
        return Pointwise(op, inputs, self._kept(self.source.dtype))

    def _of_rows(self, op: str, *inputs: Value) -> Pointwise:
        axes = tuple(IterDomain(a.extent, a.kind) for a in self.source.shape_axes)
        return Pointwise(op, inputs, self.fusion.tensor(self.source.dtype, axes))

    def _sum_of(self, tensor: TensorView) -> Reduction:
        axes = tuple(axis.clone() for axis in self.axes)
        return reduction("sum", tensor, self.fusion.tensor(self.source.dtype, axes))

    def _wide(self, tensor: TensorView) -> Move:
        """What there is once a row, for each of its elements."""
        kept, places = iter(self._kept_axes()), iter(range(len(self.axes)))
        axes = tuple(
            IterDomain(integers.ONE, IterType.broadcast) if axis.is_reduction else next(kept)
            for axis in self.axes
        )
        origin = tuple(None if axis.is_reduction else next(places) for axis in self.axes)
        return Move("broadcast", tensor, self.fusion.tensor(self.source.dtype, axes), origin)
