"""Python's operators, and a few methods that PyTorch's tensors have, on tensors of a fusion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from warpsmith import ops
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.values import Deferred, Dims, Operand
from warpsmith.ops.values import as_value as as_operand

TensorT = TypeVar("TensorT", bound=TensorView)


class Operators(Generic[TensorT]):
    """Operators by PyTorch's rules. `==` and `!=` come with the classes that mix this in."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's arrays leave the operation to us, whose error is clearer

    def __add__(self, other: Operand) -> TensorT:
        return self._apply("add", self, other)

    def __radd__(self, other: Operand) -> TensorT:
        return self._apply("add", other, self)

    def __sub__(self, other: Operand) -> TensorT:
        return self._apply("sub", self, other)

    def __rsub__(self, other: Operand) -> TensorT:
        return self._apply("sub", other, self)

    def __mul__(self, other: Operand) -> TensorT:
        return self._apply("mul", self, other)

    def __rmul__(self, other: Operand) -> TensorT:
        return self._apply("mul", other, self)

    def __truediv__(self, other: Operand) -> TensorT:
        return self._apply("truediv", self, other)

    def __rtruediv__(self, other: Operand) -> TensorT:
        return self._apply("truediv", other, self)

    def __floordiv__(self, other: Operand) -> TensorT:
        return self._apply("floor_divide", self, other)

    def __rfloordiv__(self, other: Operand) -> TensorT:
        return self._apply("floor_divide", other, self)

    def __mod__(self, other: Operand) -> TensorT:
        return self._apply("remainder", self, other)

    def __rmod__(self, other: Operand) -> TensorT:
        return self._apply("remainder", other, self)

    def __pow__(self, other: Operand) -> TensorT:
        return self._apply("pow", self, other)

    def __rpow__(self, other: Operand) -> TensorT:
        return self._apply("pow", other, self)

    def __matmul__(self, other: TensorView) -> TensorT:
        return self._apply("matmul", self, other)

    def __rmatmul__(self, other: TensorView) -> TensorT:
        return self._apply("matmul", other, self)

    def __and__(self, other: Operand) -> TensorT:
        return self._apply("bitwise_and", self, other)

    def __rand__(self, other: Operand) -> TensorT:
        return self._apply("bitwise_and", other, self)

    def __or__(self, other: Operand) -> TensorT:
        return self._apply("bitwise_or", self, other)

    def __ror__(self, other: Operand) -> TensorT:
        return self._apply("bitwise_or", other, self)

    def __xor__(self, other: Operand) -> TensorT:
        return self._apply("bitwise_xor", self, other)

    def __rxor__(self, other: Operand) -> TensorT:
        return self._apply("bitwise_xor", other, self)

    def __lshift__(self, other: Operand) -> TensorT:
        return self._apply("bitwise_left_shift", self, other)

    def __rshift__(self, other: Operand) -> TensorT:
        return self._apply("bitwise_right_shift", self, other)

    def __lt__(self, other: Operand) -> TensorT:
        return self._apply("lt", self, other)

    def __le__(self, other: Operand) -> TensorT:
        return self._apply("le", self, other)

    def __gt__(self, other: Operand) -> TensorT:
        return self._apply("gt", self, other)

    def __ge__(self, other: Operand) -> TensorT:
        return self._apply("ge", self, other)

    def __neg__(self) -> TensorT:
        return self._apply("neg", self)

    def __invert__(self) -> TensorT:
        return self._apply("bitwise_not", self)

    def __abs__(self) -> TensorT:
        return self._apply("abs", self)

    def __getitem__(self, subscripts: Any) -> TensorT:
        return self._apply("index", self, subscripts)

    def __iter__(self) -> Iterator[TensorT]:
        """Along the first dimension, whose extent the definition must know."""
        parts: tuple[TensorT, ...] = ops.unbind(self)  # type: ignore[arg-type,assignment]  # mixed in
        return iter(parts)

    def sum(
        self, dims: Dims | None = None, keepdim: bool = False, dtype: DataType | None = None
    ) -> TensorT:
        return self._apply("sum", self, dims, keepdim, dtype)

    def prod(
        self, dims: Dims | None = None, keepdim: bool = False, dtype: DataType | None = None
    ) -> TensorT:
        return self._apply("prod", self, dims, keepdim, dtype)

    def max(self, dims: Dims | None = None, keepdim: bool = False) -> TensorT:
        return self._apply("max", self, dims, keepdim)

    def min(self, dims: Dims | None = None, keepdim: bool = False) -> TensorT:
        return self._apply("min", self, dims, keepdim)

    def mean(self, dims: Dims | None = None, keepdim: bool = False) -> TensorT:
        return self._apply("mean", self, dims, keepdim)

    def var(
        self, dims: Dims | None = None, correction: float = 1, keepdim: bool = False
    ) -> TensorT:
        return self._apply("var", self, dims, correction, keepdim)

    def matmul(self, other: TensorView) -> TensorT:
        return self._apply("matmul", self, other)

    def to(self, dtype: DataType) -> TensorT:
        """The tensor converted to another type."""
        return self._apply("cast", self, dtype)

    def permute(self, *dims: int) -> TensorT:
        return self._apply("permute", self, dims)

    def reshape(self, *shape: int | Expr) -> TensorT:
        return self._apply("reshape", self, shape)

    def transpose(self, dim0: int, dim1: int) -> TensorT:
        return self._apply("transpose", self, dim0, dim1)

    def _apply(self, name: str, *operands: Any) -> TensorT:
        """An operation by name, whose result is of the fusion's tensor class."""
        result: TensorT = getattr(ops, name)(*operands)
        return result


class Equality(Deferred, Operators[TensorT]):
    """`a == b` or `a != b` of tensors.

    As an operand it is the comparison of each element. As a condition it says whether both are the
    same tensor, because Python asks that when it looks for a tensor in a list.
    """

    def __init__(self, op: str, a: TensorView, b: Operand) -> None:
        self._op = op
        self._operands = (a, b)
        self._made: TensorView | None = None

    def __bool__(self) -> bool:
        a, b = self._operands
        if isinstance(b, TensorView | Expr):
            return (a is b) == (self._op == "eq")
        raise TypeError(f"the truth of a comparison of {a.name} is known only at run time")

    def resolve(self) -> TensorView:
        if self._made is None:
            made = getattr(ops, self._op)(*self._operands)
            assert isinstance(made, TensorView)
            self._made = made
        return self._made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.resolve(), name)


def equality(op: str, a: TensorT, b: object) -> Equality[TensorT]:
    """The deferred comparison; NotImplemented for what is no operand."""
    if not isinstance(b, TensorView | Expr | Deferred | bool | int | float):
        return NotImplemented  # type: ignore[no-any-return]  # Python asks the other operand
    value = as_operand(b, op) if isinstance(b, Deferred) else b
    return Equality(op, a, value)
