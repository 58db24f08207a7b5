"""Python's operators, and a few methods that PyTorch's tensors have, on tensors of a fusion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic

from warpsmith import ops
from warpsmith.errors import DefinitionError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorT, TensorView
from warpsmith.ops.values import Deferred, Dims, Operand
from warpsmith.ops.values import as_value as as_operand


def _binary(name: str) -> Callable[[Operators[TensorT], Operand], TensorT]:
    """An operator whose first operand is the tensor."""

    def apply(self: Operators[TensorT], other: Operand) -> TensorT:
        return self._apply(name, self, other)

    return apply


def _reflected(name: str) -> Callable[[Operators[TensorT], Operand], TensorT]:
    """An operator whose second operand is the tensor."""

    def apply(self: Operators[TensorT], other: Operand) -> TensorT:
        return self._apply(name, other, self)

    return apply


def _unary(name: str) -> Callable[[Operators[TensorT]], TensorT]:
    def apply(self: Operators[TensorT]) -> TensorT:
        return self._apply(name, self)

    return apply


class Operators(Generic[TensorT]):
    """Operators by PyTorch's rules. `==` and `!=` come with the classes that mix this in."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's arrays leave the operation to us, whose error is clearer

    @classmethod
    def __torch_function__(cls, function: Any, *_: object) -> Any:
        """Refuse what torch would do with a tensor of a fusion, or beside one."""
        raise DefinitionError(
            f"torch's `{function.__name__}` got a tensor of a fusion, which has no elements yet",
            code="WS0112",
            remedy="use the operation of warpsmith.ops; tensors of torch come as arguments",
        )

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("sub"), _reflected("sub")
    __mul__, __rmul__ = _binary("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _binary("truediv"), _reflected("truediv")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _reflected("floor_divide")
    __mod__, __rmod__ = _binary("remainder"), _reflected("remainder")
    __pow__, __rpow__ = _binary("pow"), _reflected("pow")
    __matmul__, __rmatmul__ = _binary("matmul"), _reflected("matmul")
    __and__, __rand__ = _binary("bitwise_and"), _reflected("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or"), _reflected("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor"), _reflected("bitwise_xor")
    __lshift__, __rshift__ = _binary("bitwise_left_shift"), _binary("bitwise_right_shift")
    __lt__, __le__ = _binary("lt"), _binary("le")
    __gt__, __ge__ = _binary("gt"), _binary("ge")
    __neg__, __invert__, __abs__ = _unary("neg"), _unary("bitwise_not"), _unary("abs")

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
