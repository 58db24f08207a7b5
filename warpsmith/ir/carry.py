"""Rules that join two states into one: what reductions and scans carry along an axis.

A state is a few values, such as the largest element so far and where it was. The rule is data:
types, the state of nothing, and expressions for the joined state. Kernels, the interpreter of tests
and the NumPy meaning all compute these expressions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Carry:
    """How the states of two stretches of elements become the state of both.

    Joining is associative: how the elements are cut into stretches changes rounding at most.

    Attributes:
        name: for dumps and messages.
        states: name of each value of a state, a C identifier.
        dtypes: type of each: Double, Float, Int or Int32.
        identity: the state of nothing, which changes no other; a constant for each value.
        join: each value of the joined state, over symbols `a.<name>` of the elements before and
            `b.<name>` of those behind.
        commutative: the order of two stretches changes rounding at most. Reductions need it, since
            their threads take elements in turn; scans do not.
        needs_elements: the state of nothing is no result.
    """

    name: str
    states: tuple[str, ...]
    dtypes: tuple[DataType, ...]
    identity: tuple[Const, ...]
    join: tuple[Expr, ...]
    commutative: bool = True
    needs_elements: bool = False

    def symbols(self, side: str) -> tuple[Symbol, ...]:
        """The values of a state in `join`; side is `a` or `b`."""
        return sides(self.states, self.dtypes, side)

    def joined(self, before: Sequence[Expr], behind: Sequence[Expr]) -> tuple[Expr, ...]:
        """Expressions of the state of both."""
        given = (*before, *behind)
        known: dict[Expr, Expr] = dict(
            zip((*self.symbols("a"), *self.symbols("b")), given, strict=True)
        )
        return tuple(substitute(value, known) for value in self.join)

    @property
    def is_simple(self) -> bool:
        """Whether it is a sum, prod, max or min."""
        return self.name in _OPERATIONS and self == simple(self.name, self.dtypes[0])

    @property
    def operation(self) -> str:
        """The operation that joins states of one value, `add` for a sum; empty for other rules."""
        (value, *more) = self.join
        operands = (*self.symbols("a"), *self.symbols("b"))
        alone = not more and isinstance(value, Apply) and value.args == operands
        return value.op if alone and isinstance(value, Apply) else ""


def sides(states: Sequence[str], dtypes: Sequence[DataType], side: str) -> tuple[Symbol, ...]:
    """Symbols of a state's values, on one side of a join."""
    return tuple(Symbol(f"{side}.{n}", dtype) for n, dtype in zip(states, dtypes, strict=True))


_OPERATIONS: Mapping[str, str] = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}


@cache
def simple(name: str, dtype: DataType) -> Carry:
    """sum, prod, max or min of elements, which are states themselves. Extremes keep NaN."""
    states, dtypes = ("value",), (dtype,)
    pair = (*sides(states, dtypes, "a"), *sides(states, dtypes, "b"))
    join = Apply(_OPERATIONS[name], pair, dtype)
    neutral = (_neutral(name, dtype),)
    return Carry(name, states, dtypes, neutral, (join,), needs_elements=name in ("max", "min"))


def _neutral(name: str, dtype: DataType) -> Const:
    if name in ("sum", "prod"):
        return Const(int(name == "prod"), dtype)
    if dtype.is_float:
        return Const(-math.inf if name == "max" else math.inf, dtype)
    if dtype is DataType.Bool:
        return Const(name == "min", dtype)
    bits = dtype.size * 8 - 1
    return Const(-(2**bits) if name == "max" else 2**bits - 1, dtype)


@cache
def moments(dtype: DataType) -> Carry:
    """Mean, sum of squared distances to it, and count, in a float type (Chan, Golub, LeVeque).

    An element is (itself, 0, 1).
    """
    states, dtypes = ("mean", "m2", "count"), (dtype,) * 3
    a_mean, a_m2, a_count = sides(states, dtypes, "a")
    b_mean, b_m2, b_count = sides(states, dtypes, "b")
    zero, one = Const(0, dtype), Const(1, dtype)

    def made(op: str, *args: Expr) -> Expr:
        return Apply(op, args, dtype)

    count = made("add", a_count, b_count)
    empty = Apply("eq", (a_count, zero), DataType.Bool)
    share = made("where", empty, one, made("div", b_count, count))
    delta = made("sub", b_mean, a_mean)
    between = made("mul", delta, made("mul", delta, made("mul", a_count, share)))
    mean = made("add", a_mean, made("mul", delta, share))
    m2 = made("add", made("add", a_m2, b_m2), between)
    return Carry("welford", states, dtypes, (zero, zero, zero), (mean, m2, count))
