"""Products of operands of few bits, with a scale for each tensor, row, column or block."""

from __future__ import annotations

from warpsmith.errors import DefinitionError
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Precision
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.ops.contraction import check_rank, finished, operands
from warpsmith.ops.elementwise import tensor_of
from warpsmith.ops.products import matmul
from warpsmith.ops.promotion import converted, converted_tensor, unrounded
from warpsmith.ops.shape import repeat_interleave
from warpsmith.ops.values import Scalar, as_value
from warpsmith.values import dataclass

BLOCK = 128
"""Elements of k, and columns, that share a scale of a block."""

Block = tuple[int, int]


def scaled_matmul(
    a: TensorView,
    b: TensorView,
    scale_a: TensorView | Scalar,
    scale_b: TensorView | Scalar,
    *,
    block_a: Block | None = None,
    block_b: Block | None = None,
    dtype: DataType | None = None,
    precision: Precision = "exact",
) -> TensorView:
    """`(a * scale_a) @ (b * scale_b)` of matrices `a [m, k]` and `b [k, n]`: `[m, n]`, in Float.

    A scale is a number or a tensor without dimensions; or a matrix, of which each dimension is 1,
    or has an element for each block of the operand along it, the last one for what is left:

    ========= ========== ================================================
    `scale_a` `scale_b`
    ========= ========== ================================================
    `[]`      `[]`       tensors
    `[m, 1]`  `[1, n]`   rows of a, columns of b
    `[m, kb]` `[kb, nb]` 1 x 128 of a, 128 x 128 of b; kb = ceil(k / 128), nb = ceil(n / 128)
    ========= ========== ================================================

    Args:
        block_a: rows and elements of k that share a scale of a: `(1, 128)` by default.
        block_b: elements of k and columns that share a scale of b: `(128, 128)` by default, and
            `(128, 1)` where the scale's first dimension is 1 by definition.
        dtype: of the result, which is rounded once.
        precision: as of `matmul`.

    Raises:
        DefinitionError: WS0163 for a scale that is no float, or has another shape.
    """
    first, second = operands("scaled_matmul", a, b, precision=precision)
    for tensor in (first, second):
        check_rank("scaled_matmul", tensor, 2)
    columns = 1 if _is_row(scale_b) else BLOCK
    of_a, of_b = (as_value(scale, "scaled_matmul") for scale in (scale_a, scale_b))
    scales = (
        _Scale("scale_a", of_a, first, block_a or (1, BLOCK), 1),
        _Scale("scale_b", of_b, second, block_b or (BLOCK, columns), 0),
    )
    for scale in scales:
        scale.check()
    left, right = (
        scale.of_elements() if scale.varies_along_k else scale.operand for scale in scales
    )
    if any(scale.varies_along_k for scale in scales):
        left, right = (converted_tensor(t, DataType.Float) for t in (left, right))
    result = unrounded(matmul(left, right, precision=precision))
    for scale in scales:
        if not scale.varies_along_k:
            result = tensor_of("mul", result, scale.spread())
    return finished("scaled_matmul", result, dtype or DataType.Float)


def _is_row(scale: object) -> bool:
    return isinstance(scale, TensorView) and bool(scale.rank) and scale.shape_axes[0].is_broadcast


@dataclass(frozen=True, slots=True)
class _Scale:
    """What an operand of a product is multiplied by.

    Attributes:
        name: in messages.
        value: as it was given.
        block: elements that share one, along each dimension of the operand.
        inner: the operand's dimension that the product sums.
    """

    name: str
    value: Value
    operand: TensorView
    block: Block
    inner: int

    @property
    def varies_along_k(self) -> bool:
        value = self.value
        if not isinstance(value, TensorView) or value.rank != 2:
            return False
        return not value.shape_axes[self.inner].is_broadcast

    def check(self) -> None:
        value = self.value
        if not value.dtype.is_float:
            raise self._error(f"type {value.dtype.name}", "scales are floats: cast it")
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in self.block):
            raise self._error(f"blocks of {self.block!r}", "give two whole numbers of 1 or more")
        if not isinstance(value, TensorView) or not value.rank:
            return
        shape = [axis.extent for axis in value.shape_axes]
        if value.rank != 2:
            raise self._error(
                f"{value.rank} dimensions",
                "a scale is a number, a tensor without dimensions or a matrix; broadcast or "
                "reshape it, [m] to [m, 1], say",
            )
        for dimension, (own, axis, share) in enumerate(
            zip(shape, self.operand.shape_axes, self.block, strict=True)
        ):
            wanted = integers.ceildiv(axis.extent, integers.index(share))
            known = isinstance(own, Const) and isinstance(wanted, Const)
            if known and own not in (integers.ONE, wanted):
                raise self._error(
                    f"extent {own!r} in dimension {dimension}",
                    f"{self.operand.name} has {axis.extent!r} elements there, in blocks of "
                    f"{share}: give 1 or {wanted!r}, or blocks of another size",
                )

    def spread(self) -> Value:
        """The scale, with an element for each of the operand's where it is not 1."""
        value = converted(self.value, DataType.Float)
        if not isinstance(value, TensorView) or not value.rank:
            return value
        for dimension, (axis, share) in enumerate(
            zip(self.operand.shape_axes, self.block, strict=True)
        ):
            if not value.shape_axes[dimension].is_broadcast:
                value = repeat_interleave(value, share, dimension, output_size=axis.extent)
        return value

    def of_elements(self) -> TensorView:
        """The operand, scaled."""
        return tensor_of("mul", converted_tensor(self.operand, DataType.Float), self.spread())

    def _error(self, what: str, remedy: str) -> DefinitionError:
        return DefinitionError(
            f"scaled_matmul got {self.name} of {what}", code="WS0163", remedy=remedy
        )
