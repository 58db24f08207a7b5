"""Tensor programs written straight into the Fusion form, for tests of what lies below it."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir import domains, integers
from warpsmith.ir.carry import moments
from warpsmith.ir.domains import IterDomain, IterType
from warpsmith.ir.dtypes import DataType, promote
from warpsmith.ir.exprs import Full, Iota, Matmul, Move, Pointwise, Reduction, reduction
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Output
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.ops.table import TABLE

Sizes = Sequence[int | None]
"""Extent of each dimension: None is symbolic, 1 is a broadcast dimension."""


class Program:
    """A fusion under construction; each method adds one operation and returns its result."""

    def __init__(self) -> None:
        self.fusion = Fusion()

    def input(
        self,
        dtype: DataType,
        sizes: Sizes,
        *,
        contiguity: Sequence[bool | None] | None = None,
        stride_order: Sequence[int] | None = None,
    ) -> TensorView:
        name = self.fusion.next_tensor_name
        axes = tuple(
            IterDomain(integers.ONE, IterType.broadcast)
            if size == 1
            else IterDomain(
                Symbol(f"{name}_size{d}", low=0) if size is None else integers.index(size)
            )
            for d, size in enumerate(sizes)
        )
        tensor = self.fusion.tensor(
            dtype,
            axes,
            contiguity=None if contiguity is None else tuple(contiguity),
            stride_order=None if stride_order is None else tuple(stride_order),
        )
        self.fusion.inputs.append(tensor)
        return tensor

    def output(self, *tensors: TensorView, stride_order: Sequence[int] | None = None) -> Program:
        for tensor in tensors:
            tensor.stride_order = None if stride_order is None else tuple(stride_order)
            self.fusion.outputs.append(Output(tensor))
        return self

    # --- elementwise ---------------------------------------------------------------------------

    def op(self, name: str, *operands: TensorView | float) -> TensorView:
        """An operation of the table; operands are promoted, 16-bit floats computed in Float."""
        tensors = [x for x in operands if isinstance(x, TensorView)]
        entry = TABLE[name]
        promoted = [t.dtype for t in tensors[min(entry.conditions, len(tensors) - 1) :]]
        common = promoted[0]
        for dtype in promoted[1:]:
            common = promote(common, dtype)
        compute = entry.compute_dtype(common)
        values: list[Value] = []
        for position, x in enumerate(operands):
            wanted = DataType.Bool if position < entry.conditions else compute
            values.append(self.cast(x, wanted) if isinstance(x, TensorView) else Const(x, wanted))
        result = entry.result_dtype(compute)
        output = self.fusion.tensor(result, self._joined(tensors))
        self.fusion.append(Pointwise(name, tuple(values), output))
        return output

    def cast(self, tensor: TensorView, dtype: DataType) -> TensorView:
        return tensor if tensor.dtype is dtype else self._one("cast", tensor, dtype)

    def copy(self, tensor: TensorView) -> TensorView:
        return self._one("set", tensor, tensor.dtype)

    def _one(self, name: str, tensor: TensorView, dtype: DataType) -> TensorView:
        output = self.fusion.tensor(dtype, self._joined([tensor]))
        self.fusion.append(Pointwise(name, (tensor,), output))
        return output

    @staticmethod
    def _joined(tensors: Sequence[TensorView]) -> tuple[IterDomain, ...]:
        """New axes: for each dimension, like those of the first tensor that is not broadcast."""
        columns = zip(*(t.shape_axes for t in tensors), strict=True)
        chosen = [next((a for a in axes if not a.is_broadcast), axes[0]) for axes in columns]
        return tuple(IterDomain(axis.extent, axis.kind) for axis in chosen)

    def full(self, sizes: Sequence[Expr], value: float, dtype: DataType) -> TensorView:
        output = self.fusion.tensor(dtype, tuple(IterDomain(size) for size in sizes))
        self.fusion.append(Full(Const(value, dtype), output))
        return output

    def iota(self, size: Expr, start: int, step: int, dtype: DataType) -> TensorView:
        output = self.fusion.tensor(dtype, (IterDomain(size),))
        self.fusion.append(Iota(Const(start, dtype), Const(step, dtype), output))
        return output

    # --- reductions ----------------------------------------------------------------------------

    def reduce(self, op: str, tensor: TensorView, dims: Sequence[int]) -> TensorView:
        output = self.fusion.tensor(tensor.dtype, _reduced(tensor, dims))
        self.fusion.append(reduction(op, tensor, output))
        return output

    def welford(self, tensor: TensorView, dims: Sequence[int]) -> tuple[TensorView, ...]:
        """(mean, m2, count)."""
        mean, m2, count = (
            self.fusion.tensor(tensor.dtype, _reduced(tensor, dims)) for _ in range(3)
        )
        dtype = tensor.dtype
        lifted = (tensor, Const(0, dtype), Const(1, dtype))
        self.fusion.append(Reduction(moments(dtype), lifted, (mean, m2, count)))
        return mean, m2, count

    def matmul(self, a: TensorView, b: TensorView, *, transposed: bool = False) -> TensorView:
        """Float sums of `a [m, k]` times `b [k, n]`, or `b [n, k]` if `transposed`."""
        of_b = (1, 2) if transposed else (2, 1)
        m, k = a.shape_axes
        n = b.shape_axes[of_b.index(1)]
        axes = (
            *(IterDomain(axis.extent, axis.kind) for axis in (m, n)),
            IterDomain(k.extent, IterType.reduction),
        )
        output = self.fusion.tensor(DataType.Float, axes)
        self.fusion.append(Matmul(a, b, output, ((0, 2), of_b)))
        return output

    # --- moves ---------------------------------------------------------------------------------

    def broadcast(self, tensor: TensorView, flags: Sequence[bool]) -> TensorView:
        """New dimensions of extent 1 where the flags are true."""
        old = iter(range(tensor.rank))
        origin = tuple(None if flag else next(old) for flag in flags)
        return self._move("broadcast", tensor, origin)

    def permute(self, tensor: TensorView, order: Sequence[int]) -> TensorView:
        return self._move("permute", tensor, tuple(order))

    def squeeze(self, tensor: TensorView, dims: Sequence[int]) -> TensorView:
        kept = tuple(d for d in range(tensor.rank) if d not in dims)
        return self._move("squeeze", tensor, kept)

    def expand(self, tensor: TensorView, dim: int, extent: Expr) -> TensorView:
        axes = tuple(
            IterDomain(extent) if d == dim else IterDomain(axis.extent, axis.kind)
            for d, axis in enumerate(tensor.shape_axes)
        )
        output = self.fusion.tensor(tensor.dtype, axes)
        self.fusion.append(Move("expand", tensor, output, tuple(range(tensor.rank))))
        return output

    def merge_dims(self, tensor: TensorView, dim: int) -> TensorView:
        """Reshape: dimensions `dim` and `dim + 1` become one."""
        root = self._joined([tensor])
        made = domains.merge(root[dim], root[dim + 1])
        return self._reshape(tensor, root, made, (*root[:dim], made.axis, *root[dim + 2 :]))

    def split_dim(self, tensor: TensorView, dim: int, factor: int) -> TensorView:
        """Reshape: dimension `dim` becomes `[.., factor]`."""
        root = self._joined([tensor])
        made = domains.split(root[dim], integers.index(factor))
        logical = (*root[:dim], made.outer, made.inner, *root[dim + 1 :])
        return self._reshape(tensor, root, made, logical)

    def _reshape(
        self,
        tensor: TensorView,
        root: tuple[IterDomain, ...],
        made: domains.Transform,
        logical: tuple[IterDomain, ...],
    ) -> TensorView:
        output = self.fusion.tensor(tensor.dtype, logical, root=root, transforms=(made,))
        self.fusion.append(Move("reshape", tensor, output, tuple(range(tensor.rank))))
        return output

    def _move(self, kind: str, tensor: TensorView, origin: tuple[int | None, ...]) -> TensorView:
        axes = tensor.shape_axes
        new = tuple(
            IterDomain(integers.ONE, IterType.broadcast)
            if dim is None
            else IterDomain(axes[dim].extent, axes[dim].kind)
            for dim in origin
        )
        output = self.fusion.tensor(tensor.dtype, new)
        self.fusion.append(Move(kind, tensor, output, origin))
        return output


def _reduced(tensor: TensorView, dims: Sequence[int]) -> tuple[IterDomain, ...]:
    return tuple(
        IterDomain(axis.extent, IterType.reduction if d in dims else axis.kind)
        for d, axis in enumerate(tensor.shape_axes)
    )
