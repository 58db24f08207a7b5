"""Operations that compute each element of their result from one element of each operand.

They take tensors, scalar expressions of the fusion and Python numbers, promote types and broadcast
shapes as PyTorch does, and return a tensor, or a scalar expression when no operand is a tensor.
Names and meanings are those of the table in `ops/table`. Many shadow a builtin, so import the
module and not its names.
"""

from __future__ import annotations

from types import FunctionType
from typing import Protocol, TypeVar, overload

from warpsmith.errors import DefinitionError
from warpsmith.ir.arithmetic import operator
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.ops.elementwise import apply
from warpsmith.ops.promotion import cast as _cast
from warpsmith.ops.promotion import common_type, fresh_axes, in_range
from warpsmith.ops.table import TABLE
from warpsmith.ops.values import Operand, Scalar, as_tensor, as_value

T = TypeVar("T", bound=TensorView)


class Unary(Protocol):
    """A function of one operand."""

    @overload
    def __call__(self, x: T) -> T: ...
    @overload
    def __call__(self, x: Scalar) -> Expr: ...


class Binary(Protocol):
    """A function of two operands."""

    @overload
    def __call__(self, lhs: T, rhs: Operand) -> T: ...
    @overload
    def __call__(self, lhs: Scalar, rhs: T) -> T: ...
    @overload
    def __call__(self, lhs: Scalar, rhs: Scalar) -> Expr: ...


def _unary(name: str) -> Unary:
    def function(x: Operand) -> Value:
        return apply(name, x)

    return _named(function, name)  # type: ignore[return-value]  # the overloads follow from `apply`


def _binary(name: str) -> Binary:
    def function(lhs: Operand, rhs: Operand) -> Value:
        return apply(name, lhs, rhs)

    return _named(function, name)  # type: ignore[return-value]  # as above


def _named(function: object, name: str) -> object:
    """Give a generated function the name and the documentation of its operation."""
    doc = TABLE[name].doc
    for attribute, text in (("__name__", name), ("__qualname__", name), ("__doc__", doc)):
        setattr(function, attribute, text)
    return function


abs = _unary("abs")
acos = _unary("acos")
acosh = _unary("acosh")
asin = _unary("asin")
asinh = _unary("asinh")
atan = _unary("atan")
atanh = _unary("atanh")
bitwise_not = _unary("bitwise_not")
ceil = _unary("ceil")
cos = _unary("cos")
cosh = _unary("cosh")
double_rank = _unary("double_rank")
erf = _unary("erf")
erfc = _unary("erfc")
erfcinv = _unary("erfcinv")
erfcx = _unary("erfcx")
erfinv = _unary("erfinv")
exp = _unary("exp")
exp2 = _unary("exp2")
expm1 = _unary("expm1")
float_rank = _unary("float_rank")
floor = _unary("floor")
frac = _unary("frac")
isfinite = _unary("isfinite")
isinf = _unary("isinf")
isnan = _unary("isnan")
isneginf = _unary("isneginf")
isposinf = _unary("isposinf")
isreal = _unary("isreal")
lgamma = _unary("lgamma")
log = _unary("log")
log10 = _unary("log10")
log1p = _unary("log1p")
log2 = _unary("log2")
logical_not = _unary("logical_not")
neg = _unary("neg")
reciprocal = _unary("reciprocal")
relu = _unary("relu")
round = _unary("round")
rsqrt = _unary("rsqrt")
sigmoid = _unary("sigmoid")
sign = _unary("sign")
signbit = _unary("signbit")
silu = _unary("silu")
sin = _unary("sin")
sinh = _unary("sinh")
sqrt = _unary("sqrt")
tan = _unary("tan")
tanh = _unary("tanh")
trunc = _unary("trunc")

add = _binary("add")
atan2 = _binary("atan2")
bitwise_and = _binary("bitwise_and")
bitwise_left_shift = _binary("bitwise_left_shift")
bitwise_or = _binary("bitwise_or")
bitwise_right_shift = _binary("bitwise_right_shift")
bitwise_xor = _binary("bitwise_xor")
div = _binary("div")
eq = _binary("eq")
fmod = _binary("fmod")
gcd = _binary("gcd")
ge = _binary("ge")
gt = _binary("gt")
le = _binary("le")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
lt = _binary("lt")
maximum = _binary("maximum")
minimum = _binary("minimum")
mod = _binary("mod")
mul = _binary("mul")
ne = _binary("ne")
nextafter = _binary("nextafter")
pow = _binary("pow")
remainder = _binary("remainder")
sub = _binary("sub")
truediv = _binary("truediv")


def philox(index: Operand, seed: Operand, offset: Operand) -> Value:
    """A number in [0, 1) for each index, as Philox4x32-10 gives it; Float, a multiple of 2^-24."""
    return apply("philox", index, seed, offset)


def kept(index: Operand, least: Operand, seed: Operand, offset: Operand) -> Value:
    """Whether each index's number, below 2^24, is at least `least`: eight share a block."""
    return apply("kept", index, least, seed, offset)


def logical_right_shift(lhs: Operand, rhs: Operand) -> Value:
    """Bits moved right and filled with 0; 0 when `rhs` is negative or at least the bits."""
    name = "logical_right_shift"
    values = as_value(lhs, name), as_value(rhs, name)
    dtype = common_type(values)
    if not dtype.is_small_int:
        return apply(name, *values)
    bits, count = (_cast(value, DataType.Int32) for value in values)
    return _cast(apply(name, apply("bitwise_and", bits, (1 << dtype.bits) - 1), count), dtype)


def where(condition: Operand, a: Operand, b: Operand) -> Value:
    """`a` where `condition` is not zero, else `b`."""
    return apply("where", condition, a, b)


def lerp(start: Operand, end: Operand, weight: Operand) -> Value:
    """`start + weight * (end - start)`, exact at weight 0 and 1."""
    return apply("lerp", start, end, weight)


def threshold(x: Operand, threshold: Operand, value: Operand) -> Value:
    """`value` where `x` is at most `threshold`, else `x`; NaN stays."""
    return apply("threshold", x, threshold, value)


def addcmul(x: Operand, tensor1: Operand, tensor2: Operand, value: Operand = 1) -> Value:
    """`x + value * tensor1 * tensor2`."""
    return apply("addcmul", x, tensor1, tensor2, value)


def clamp(x: Operand, min: Operand | None = None, max: Operand | None = None) -> Value:
    """`x` between `min` and `max`, of which one may be absent; `max` when `min` is above it."""
    if min is None and max is None:
        raise DefinitionError(
            "clamp got neither min nor max", code="WS0119", remedy="give at least one of them"
        )
    if max is None:
        return apply("maximum", x, min)
    if min is None:
        return apply("minimum", x, max)
    return apply("clamp", x, min, max)


def floor_divide(lhs: Operand, rhs: Operand) -> Value:
    """The quotient rounded down, as Python's `//`; of floats by 0, infinity or NaN."""
    values = (as_value(lhs, "floor_divide"), as_value(rhs, "floor_divide"))
    scalars = [v for v in values if isinstance(v, Expr) and v.dtype.is_int]
    if len(scalars) == 2:  # sizes stay sizes
        return operator("floordiv", *scalars)
    common = common_type(values)
    dtype = common if common.is_int else common.compute
    lhs, rhs = (in_range(value, dtype) for value in values)  # which may change their signs
    rest = apply("fmod", lhs, rhs)
    whole = apply("div", lhs, rhs)
    if rest.dtype.is_float:
        whole = apply("round", apply("div", apply("sub", lhs, rest), rhs))
    differ = apply("ne", apply("lt", rest, 0), apply("lt", rhs, 0))  # in sign
    below = apply("sub", whole, apply("logical_and", apply("ne", rest, 0), differ))
    if not rest.dtype.is_float:
        return below
    return apply("where", apply("eq", rhs, 0), apply("div", lhs, rhs), below)


def set(arg: T) -> T:
    """A copy of a tensor."""
    tensor = as_tensor(arg, "set")
    output = Fusion.of(tensor).tensor(tensor.dtype, fresh_axes(tensor))
    Fusion.of(tensor).append(Pointwise("set", (tensor,), output))
    return output  # type: ignore[return-value]  # a fusion's tensors are of one class


segment_set = set
cast = _cast

OPERATIONS = tuple(
    name
    for name, found in globals().items()
    if isinstance(found, FunctionType) and found.__module__ == __name__ and name[0] != "_"
)
"""Names of all of them."""
