"""Complex numbers: pairs of reals, which kernels compute with.

A tensor of them in memory is a real tensor with one dimension more, of two elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsmith import ops as own
from warpsmith.frontends.memory_format import memory_format_of
from warpsmith.frontends.nvfuser_direct.enums import DataType
from warpsmith.ir import arithmetic
from warpsmith.ir.dtypes import DataType as Type
from warpsmith.ir.scalar import Expr, literal
from warpsmith.ir.tensor import TensorView
from warpsmith.values import dataclass

PARTS = {DataType.ComplexFloat: Type.Float, DataType.ComplexDouble: Type.Double}
"""The type of real and imaginary part."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Real and imaginary parts: two tensors of one shape and type, or two scalars.

    Attributes:
        raw: the input tensor that holds both; None for what was computed.
        order: ranks of the dimensions by their strides, of a result that was asked to lie so.
    """

    re: Any
    im: Any
    raw: TensorView | None = None
    order: tuple[int, ...] | None = None

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.re, TensorView)

    @property
    def dtype(self) -> DataType:
        is_double = self.re.dtype is Type.Double
        return DataType.ComplexDouble if is_double else DataType.ComplexFloat

    @property
    def rank(self) -> int:
        return int(self.re.rank)

    @property
    def name(self) -> str:
        return str((self.raw or self.re).name)

    def size(self, dim: int) -> Expr:
        """Extent of a dimension."""
        found: Expr = self.re.size(dim)
        return found


def pair(re: Any, im: Any) -> Pair:
    """A complex number of two parts, which take the wider type, and the shape that one has."""
    shaped = next((part for part in (re, im) if isinstance(part, TensorView)), None)
    re, im = (_part(part, shaped) for part in (re, im))
    kind = Type.Double if Type.Double in (re.dtype, im.dtype) else Type.Float
    if kind not in (re.dtype, im.dtype) and shaped is None:
        kind = Type.Double
    return Pair(cast(re, kind), cast(im, kind))


def _part(value: Any, shaped: TensorView | None) -> Any:
    if isinstance(value, TensorView):
        return value
    value = literal(value) if isinstance(value, bool | int | float) else value
    if shaped is None:
        return value
    return own.full_like(shaped, value, shaped.dtype if shaped.dtype.is_float else Type.Float)


def cast(value: Any, dtype: Type) -> Any:
    """A part in a type."""
    if value.dtype is dtype:
        return value
    return arithmetic.convert(value, dtype) if isinstance(value, Expr) else own.cast(value, dtype)


def paired(value: Any) -> Pair:
    """An operand as a complex number; a real one has no imaginary part."""
    return value if isinstance(value, Pair) else pair(value, literal(0.0))


def constant(value: complex, dtype: DataType | None = None) -> Pair:
    """A number of Python."""
    kind = PARTS[dtype or DataType.ComplexDouble]
    re, im = (arithmetic.convert(literal(part), kind) for part in (value.real, value.imag))
    return Pair(re, im)


def layout(
    shape: Sequence[int] | None,
    contiguity: Any,
    stride_order: Sequence[int],
    sizes: Sequence[int] | None,
    strides: Sequence[int] | None,
    static_sizes: bool,
) -> tuple[list[int], Any, list[int]]:
    """Shape, contiguity and ranks of the real tensor that holds a complex one."""
    if shape is None:
        assert sizes is not None
        assert strides is not None
        shape = [size if static_sizes or size == 1 else -1 for size in sizes]
        found = memory_format_of(sizes, strides)
        ranks = list(found.stride_order or range(len(shape))[::-1])
        places = sorted(range(len(shape)), key=lambda d: -ranks[d])
        contiguity, stride_order = [found.contiguity[d] for d in places], ranks
    flags = [*contiguity, True] if isinstance(contiguity, list | tuple) else contiguity
    order = [*(rank + 1 for rank in stride_order), 0] if stride_order else []
    return [*shape, 2], flags, order


def halves(raw: TensorView) -> Pair:
    """What a real tensor with a last dimension of two elements holds."""
    re, im = (own.select(raw, part, -1) for part in (0, 1))
    return Pair(re, im, raw)


def joined(value: Pair) -> TensorView:
    """The real tensor that holds a complex one: parts beside each other, however operands lie."""
    made = own.stack([value.re, value.im], -1)
    ranks = range(value.rank)[::-1] if value.order is None else value.order
    return own.stride_order(made, [*(rank + 1 for rank in ranks), 0])


def as_reals(array: Any) -> Any:
    """A complex array of PyTorch as the real one that it is in memory."""
    import torch

    if not isinstance(array, torch.Tensor) or not array.is_complex():
        return array
    return torch.view_as_real(array.resolve_conj())


def as_complex(array: Any) -> Any:
    """A real array of PyTorch as the complex one that it holds."""
    import torch

    return torch.view_as_complex(array)
