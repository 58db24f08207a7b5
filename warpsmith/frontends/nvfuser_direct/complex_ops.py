"""Operations of nvFuser on complex numbers, by operations on their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from warpsmith import ops as own
from warpsmith.frontends.nvfuser_direct import complex_functions as functions
from warpsmith.frontends.nvfuser_direct.arguments import number
from warpsmith.frontends.nvfuser_direct.enums import DataType
from warpsmith.frontends.nvfuser_direct.failures import Refused, unsupported
from warpsmith.frontends.nvfuser_direct.pairs import PARTS, Pair, cast, pair, paired
from warpsmith.ops.rules import CarryRule

Given = Mapping[str, Any]
Function = Callable[..., Any]

_OF_ONE = (
    "acos acosh asin asinh atan atanh cos cosh exp exp2 expm1 isfinite isinf isnan isreal log "
    "log10 log1p log2 logical_not neg reciprocal rsqrt sigmoid silu sin sinh sqrt tan tanh"
)
UNARY: dict[str, Callable[[Pair], Any]] = {
    **{name: getattr(functions, name) for name in _OF_ONE.split()},
    "abs": functions.absolute,
    "imag": lambda z: own.set(z.im),
    "real": lambda z: own.set(z.re),
}
BINARY: dict[str, Callable[[Pair, Pair], Any]] = {
    "add": functions.add,
    "div": functions.div,
    "eq": functions.equal,
    "logical_and": functions.logical_and,
    "logical_or": functions.logical_or,
    "mul": functions.mul,
    "ne": functions.different,
    "pow": functions.power,
    "sub": functions.sub,
    "truediv": functions.div,
}
BY_PART = {
    "broadcast": "arg",
    "broadcast_in_dim": "arg",
    "cat": "tensors",
    "cumsum": "arg",
    "embedding_fwd": "weight",
    "expand": "arg",
    "gather": "arg",
    "index_select": "arg",
    "permute": "arg",
    "reshape": "arg",
    "scatter": "arg1 src",
    "segment_set": "x",
    "select": "arg",
    "set": "x",
    "slice": "arg",
    "squeeze": "arg",
    "sum": "arg",
    "take_along_axis": "arg",
    "triu": "arg",
    "where": "a b",
}
"""Operations that do the same to both parts, and which of their operands are complex."""


def concerned(given: Given) -> bool:
    """Whether an operand, or a type that is asked for, is complex."""
    return any(
        isinstance(each, Pair) or each in PARTS
        for value in given.values()
        for each in (value if isinstance(value, list) else [value])
        if isinstance(each, Pair | DataType)
    )


def apply(name: str, given: Given, function: Function) -> Any:
    """What an operation makes of complex operands; `function` is what it is for real ones."""
    if name in UNARY:
        (operand,) = given.values()
        return UNARY[name](operand)
    if name in BINARY:
        a, b = given.values()
        return BINARY[name](paired(a), paired(b))
    if name in BY_PART:
        return _by_part(given, function, BY_PART[name].split())
    if name in OTHERS:
        return OTHERS[name](given, function)
    raise unsupported(f"ops.{name}", "it does not take complex numbers", "give real and imag")


def _by_part(given: Given, function: Function, operands: list[str]) -> Pair:
    rest = dict(given)
    parts: dict[str, Any] = {}
    for key in operands:
        value = rest.pop(key)
        parts[key] = list(map(paired, value)) if isinstance(value, list) else paired(value)
    kind = PARTS.get(rest.get("dtype"))  # type: ignore[arg-type]  # None is no type
    if kind is not None:
        rest["dtype"] = kind
    made = [
        function(**{key: _side(value, side) for key, value in parts.items()}, **rest)
        for side in ("re", "im")
    ]
    return pair(*made)


def _side(value: Any, side: str) -> Any:
    if isinstance(value, list):
        return [getattr(each, side) for each in value]
    return getattr(value, side)


def _cast(given: Given, function: Function) -> Any:
    value, dtype = given["arg"], given["dtype"]
    if dtype not in PARTS:
        return own.cast(value.re, dtype)
    complex_value = paired(value)
    return Pair(*(cast(part, PARTS[dtype]) for part in (complex_value.re, complex_value.im)))


def _full(given: Given, function: Function) -> Pair:
    value, dtype = paired(given["fill_value"]), given["dtype"]
    if dtype not in PARTS:
        raise Refused(f"full of {dtype.name} got a complex value", remedy="give a real one")
    rest = {key: each for key, each in given.items() if key not in ("dtype", "fill_value")}
    return pair(
        *(function(fill_value=part, dtype=PARTS[dtype], **rest) for part in (value.re, value.im))
    )


def _pad(given: Given, function: Function) -> Pair:
    arg, value = given["arg"], given.get("value")
    if not isinstance(arg, Pair) or not isinstance(value, Pair | None):
        raise Refused(
            "Tensor arg and pad value must have the same dtype",
            remedy="give a value of the tensor's type",
        )
    filled = {**given, "value": pair(0.0, 0.0) if value is None else value}
    return _by_part(filled, function, ["arg", "value"])


def _matmul(given: Given, function: Function) -> Pair:
    a, b = (paired(each) for each in given.values())
    return _product(a, b)


def _product(a: Pair, b: Pair) -> Pair:
    re = own.sub(own.matmul(a.re, b.re), own.matmul(a.im, b.im))
    return pair(re, own.add(own.matmul(a.re, b.im), own.matmul(a.im, b.re)))


def _linear(given: Given, function: Function) -> Pair:
    x, weight = (paired(given[name]) for name in ("arg1", "arg2"))
    if weight.rank == 2:
        weight = Pair(own.permute(weight.re, [1, 0]), own.permute(weight.im, [1, 0]))
    made = _product(x, weight)
    bias = given.get("bias")
    return made if bias is None else functions.add(made, paired(bias))


def _lerp(given: Given, function: Function) -> Pair:
    start, end, weight = (paired(each) for each in given.values())
    return functions.add(start, functions.mul(weight, functions.sub(end, start)))


def _multiplied(a: Any, b: Any) -> tuple[Any, Any]:
    made = functions.mul(Pair(a.re, a.im), Pair(b.re, b.im))
    return made.re, made.im


PRODUCT = CarryRule(
    name="complex_product",
    identity={"re": 1.0, "im": 0.0},
    lift=lambda re, im: (re, im),
    join=_multiplied,
)
"""The product of the numbers so far."""


def _prod(given: Given, function: Function) -> Pair:
    dims, dtype = given.get("dims", given.get("dim")), given.get("dtype")
    if isinstance(dims, DataType):  # the type may stand where the dimensions do
        dims, dtype = None, dims
    own_kind = given["arg"].re.dtype
    kind = PARTS.get(dtype, own_kind) if isinstance(dtype, DataType) else own_kind
    parts = tuple(cast(part, kind) for part in _parts(given["arg"]))
    return Pair(*own.reduce(parts, PRODUCT, dims, given.get("keepdim", False)))


def _cumprod(given: Given, function: Function) -> Pair:
    return Pair(*own.scan(_parts(given["arg"]), PRODUCT, given["dim"]))


def _parts(z: Pair) -> tuple[Any, Any]:
    return z.re, z.im


def _ordered(given: Given, function: Function) -> Pair:
    z = given["arg"]
    return Pair(z.re, z.im, order=tuple(given["stride_order"]))


def _variance(given: Given, function: Function) -> Any:
    """The mean of squared lengths, which is real."""
    rest = {key: each for key, each in given.items() if key != "arg"}
    re, im = (function(arg=part, **rest) for part in (given["arg"].re, given["arg"].im))
    if not isinstance(re, tuple):
        return own.add(re, im)
    return own.add(re[0], im[0]), pair(re[1], im[1])


def _addcmul(given: Given, function: Function) -> Pair:
    x, first, second, value = (paired(each) for each in given.values())
    return functions.add(x, functions.mul(value, functions.mul(first, second)))


def _counted(given: Given, function: Function) -> Any:
    if isinstance(given["length"], Pair):
        raise Refused("length must be integer", remedy=f"not {number(given['length'].re)!r}")
    name = "start" if isinstance(given.get("start"), Pair) else "step"
    raise Refused(f"iota: {name} dtype does not match specified dtype argument", remedy="be real")


def _drawn(given: Given, function: Function) -> Any:
    raise Refused(
        "Random distributions only create floating point types",
        remedy="draw real and imaginary parts",
    )


OTHERS: dict[str, Callable[[Given, Function], Any]] = {
    "addcmul": _addcmul,
    "cast": _cast,
    "cumprod": _cumprod,
    "full": _full,
    "iota": _counted,
    "lerp": _lerp,
    "linear": _linear,
    "matmul": _matmul,
    "normal": _drawn,
    "pad": _pad,
    "prod": _prod,
    "stride_order": _ordered,
    "uniform": _drawn,
    "var": _variance,
    "var_mean": _variance,
}
"""Operations with a rule of their own."""
