"""Rules that users write: how to join two states, as Python, and whether it keeps the laws."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from warpsmith.errors import DefinitionError
from warpsmith.ir import arithmetic
from warpsmith.ir.carry import Carry, sides
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ops.joining import State, join
from warpsmith.ops.scalars import ScalarEvaluator
from warpsmith.ops.values import as_value
from warpsmith.values import dataclass

SAMPLES = 256
"""Random states on which the laws are tried, three at a time."""

CLOSE = 1e-6
"""Relative difference of what the laws say is equal, in float64: far above rounding."""


@dataclass(frozen=True, kw_only=True)
class CarryRule:
    """How the states of two stretches of elements become the state of both, for any types.

    Attributes:
        name: for dumps, messages and comments in kernels.
        identity: by name, the values of the state of nothing, which changes no other.
        join: the state of both, of the state `a` of the elements before and `b` of those behind:
            scalars `a.<name>`, on which operators and `warpsmith.ops` work; as many values as a
            state has, in the order of `identity`.
        lift: the values of an element's state, of the element; the element itself by default.
        finish: the result of the state of all, whose values are tensors; all of them by default.
        commutative: whether `join(b, a)` is the same but for rounding, as reductions need it.
        needs_elements: whether the state of nothing is no result.
    """

    name: str
    identity: Mapping[str, float]
    join: Callable[[Any, Any], Any]
    lift: Callable[..., Any] | None = None
    finish: Callable[..., Any] | None = None
    commutative: bool = True
    needs_elements: bool = False

    def lifted(self, elements: Sequence[Any]) -> tuple[Any, ...]:
        """The values of the elements' states."""
        values = tuple(elements) if self.lift is None else self.lift(*elements)
        return self._state(values, "lift")

    def typed(self, elements: Sequence[DataType], dtypes: Sequence[DataType]) -> Carry:
        """The rule for states of these types, once it keeps the laws.

        Args:
            elements: types of what is lifted; Bool is 0 or 1 in Int32.
            dtypes: of a state's values.

        Raises:
            DefinitionError: WS0149 for names or values that make no state, WS0160 where random
                states do not keep a law.
        """
        for name in (*self.identity, self.name):
            if not name.isidentifier() or (name in self.identity and not name.isascii()):
                raise DefinitionError(
                    f"the rule {self.name!r} has the name {name!r}",
                    code="WS0149",
                    remedy="names of rules and of states' values are Python identifiers, those of "
                    "values in ASCII",
                )
        states, kinds = tuple(self.identity), tuple(dtypes)
        a, b = (sides(states, kinds, side) for side in "ab")
        joined = self.join(
            SimpleNamespace(**dict(zip(states, a, strict=True))),
            SimpleNamespace(**dict(zip(states, b, strict=True))),
        )
        values = (as_value(value, self.name) for value in self._state(joined, "join"))
        wide = DataType.Double in kinds
        carry = Carry(
            self.name,
            states,
            kinds,
            tuple(
                _constant(value, dtype)
                for value, dtype in zip(self.identity.values(), kinds, strict=True)
            ),
            tuple(
                arithmetic.convert(_narrowed(value, wide), dtype)
                for value, dtype in zip(values, kinds, strict=True)
                if isinstance(value, Expr)
            ),
            self.commutative,
            self.needs_elements,
        )
        given = tuple(
            Symbol(f"x{k}", DataType.Int32 if dtype is DataType.Bool else dtype)
            for k, dtype in enumerate(elements)
        )
        lifted = (as_value(value, self.name) for value in self.lifted(given))
        made = [value for value in lifted if isinstance(value, Expr)]
        check_laws(carry, dict(zip(given, elements, strict=True)), made)
        return carry

    def _state(self, values: Any, what: str) -> tuple[Any, ...]:
        found = values if isinstance(values, tuple | list) else (values,)
        if len(found) != len(self.identity):
            raise DefinitionError(
                f"{what} of the rule {self.name} gives {len(found)} values, and a state has "
                f"{len(self.identity)} ({', '.join(self.identity)})",
                code="WS0149",
                remedy="give one value for each of the identity's, in their order",
            )
        return tuple(found)


def _constant(value: float, dtype: DataType) -> Const:
    """A number in a state's type; infinities become the limits of integers."""
    if not dtype.is_float and isinstance(value, float) and math.isinf(value):
        bits = dtype.size * 8 - 1
        return Const(2**bits - 1 if value > 0 else -(2**bits), dtype)
    made = arithmetic.convert(Const(value, DataType.Double), dtype)
    assert isinstance(made, Const)
    return made


def _narrowed(expr: Expr, wide: bool) -> Expr:
    """The expression with Python's floats in Float, unless a state has Doubles.

    A Python number beside a scalar is a Double, and would have all of a join computed in it.
    """
    if wide:
        return expr
    single = DataType.Float if expr.dtype is DataType.Double else expr.dtype
    if isinstance(expr, Const):
        return arithmetic.convert(expr, single)
    if not isinstance(expr, Apply):
        return expr
    args = tuple(_narrowed(arg, wide) for arg in expr.args)
    if expr.op == "cast" and args[0].dtype is single:
        return args[0]
    return Apply(expr.op, args, single)


def check_laws(carry: Carry, elements: Mapping[Symbol, DataType], lifted: Sequence[Expr]) -> None:
    """Try the rule on random states.

    Identity changes nothing, and stretches may be joined in any grouping; in any order, too, if the
    rule says so. States are of one to eight random elements, zeros and equal ones among them.

    Args:
        elements: symbols of what is lifted, and the type of the numbers that they stand for.
        lifted: the values of an element's state, over these symbols.

    Raises:
        DefinitionError: WS0160, with the states that break a law.
    """
    random = np.random.default_rng(0)
    a, b, c = (_random_states(carry, elements, lifted, random) for _ in range(3))
    empty = tuple(
        np.full(SAMPLES, start.value, x.dtype) for start, x in zip(carry.identity, a, strict=True)
    )

    def both(x: State, y: State) -> State:
        return join(carry, x, y, precise=True)

    _hold(carry, "identity joined with x is x", (a,), both(empty, a), a)
    _hold(carry, "x joined with identity is x", (a,), both(a, empty), a)
    left, right = both(both(a, b), c), both(a, both(b, c))
    _hold(carry, "join is associative", (a, b, c), left, right)
    if carry.commutative:
        _hold(carry, "join is commutative", (a, b), both(a, b), both(b, a))


def _random_states(
    carry: Carry,
    elements: Mapping[Symbol, DataType],
    lifted: Sequence[Expr],
    random: np.random.Generator,
) -> State:
    """States of random elements, to some of which more were joined."""

    def one() -> State:
        drawn = {symbol.name: _random(dtype, random) for symbol, dtype in elements.items()}
        compute = ScalarEvaluator(drawn, precise=True)
        return tuple(
            np.broadcast_to(compute(arithmetic.convert(value, dtype)), SAMPLES)
            for value, dtype in zip(lifted, carry.dtypes, strict=True)
        )

    state = one()
    for _ in range(3):
        more = join(carry, state, one(), precise=True)
        keep = random.random(SAMPLES) < 0.5
        state = tuple(np.where(keep, x, y) for x, y in zip(state, more, strict=True))
    return state


def _random(dtype: DataType, random: np.random.Generator) -> np.ndarray:
    """Elements of a type, many of them equal or 0."""
    if dtype is DataType.Bool:
        return random.integers(0, 2, SAMPLES)
    small = random.integers(-3, 4, SAMPLES)
    if not dtype.is_float:
        return small
    return np.where(random.random(SAMPLES) < 0.3, small, random.normal(0, 2, SAMPLES))


def _hold(carry: Carry, law: str, given: Sequence[State], found: State, wanted: State) -> None:
    for name, x, y in zip(carry.states, found, wanted, strict=True):
        with np.errstate(all="ignore"):
            close = np.isclose(x, y, rtol=CLOSE, atol=CLOSE, equal_nan=True)
        if close.all():
            continue
        at = int(np.flatnonzero(~close)[0])
        said = ", ".join(
            "(" + ", ".join(f"{float(v[at]):.6g}" for v in state) + ")" for state in given
        )
        raise DefinitionError(
            f"the rule {carry.name} breaks a law: {law}; of the states {said}, {name} is "
            f"{float(x[at]):.6g} one way and {float(y[at]):.6g} the other",
            code="WS0160",
            remedy="states are joined in groupings that depend on the schedule: carry what makes "
            "the join associative, as a mean carries its count"
            + (", or say commutative=False and scan" if "commutative" in law else ""),
        )
