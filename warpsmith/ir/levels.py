"""Rules one of whose values is a level that the others are multiples of, as in online softmax."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from warpsmith.ir.carry import Carry
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Reduction
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.ir.tensor import Operation
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Levels:
    """How a state's values follow its level, a maximum or minimum, as that moves.

    A state at one level is the same state at another one with each value times its factor, and
    states at one level are joined by sums. So many elements may be joined at once: the level of all
    is found first, and the factor of each is computed once.

    Attributes:
        place: of the level among a state's values.
        extreme: the rule that joins levels, "max" or "min".
        factors: of each value over the symbols `before` and `after`, levels; None for the level.
    """

    place: int
    extreme: str
    factors: tuple[Expr | None, ...]
    before: Symbol
    after: Symbol

    def factor(self, place: int, before: Expr, after: Expr) -> Expr:
        """Of a value, as the level goes from one to the other."""
        factor = self.factors[place]
        assert factor is not None
        return substitute(factor, {self.before: before, self.after: after})

    def nearly(self, place: int, before: Expr, after: Expr) -> Expr:
        """The same with exponentials of what is at most 0 in few instructions."""
        return self._nearly(self.factor(place, before, after))

    def joined(self, carry: Carry) -> tuple[Expr, ...]:
        """What a rule makes of two states, with such exponentials."""
        return tuple(map(self._nearly, carry.join))

    def _nearly(self, expr: Expr) -> Expr:
        return _near_exponentials(expr) if self.extreme == "max" else expr


def _near_exponentials(expr: Expr) -> Expr:
    if not isinstance(expr, Apply):
        return expr
    args = tuple(map(_near_exponentials, expr.args))
    near = expr.op == "exp" and expr.dtype is DataType.Float and _is_difference(expr.args[0])
    return Apply("exp_near" if near else expr.op, args, expr.dtype)


def _is_difference(expr: Expr) -> bool:
    return isinstance(expr, Apply) and expr.op == "sub"


def has_levels(operation: Operation | None) -> bool:
    """Whether an operation is a reduction by such a rule."""
    return isinstance(operation, Reduction) and levels_of(operation.carry) is not None


@cache
def levels_of(carry: Carry) -> Levels | None:
    """The levels of a rule; None where it is not of that kind.

    It is where one value is joined as a maximum or minimum, and each other one as `a.x * f(a.level,
    level) + b.x * f(b.level, level)`. Then, as the rule is associative, f from one level to another
    and on to a third is f from the first to the third, and elements may be taken in one step.
    """
    if not carry.commutative or len(carry.states) < 2:
        return None
    for place, joined in enumerate(carry.join):
        pair = tuple(carry.symbols(side)[place] for side in "ab")
        if isinstance(joined, Apply) and joined.op in _EXTREMES and set(joined.args) == set(pair):
            before, after = (Symbol(name, joined.dtype) for name in ("before", "after"))
            factors = [
                None if k == place else _factor(carry, place, k, joined, before, after)
                for k in range(len(carry.states))
            ]
            if factors.count(None) == 1:
                return Levels(place, _EXTREMES[joined.op], tuple(factors), before, after)
    return None


_EXTREMES = {"maximum": "max", "minimum": "min"}


def _factor(
    carry: Carry, place: int, other: int, level: Expr, before: Symbol, after: Symbol
) -> Expr | None:
    """What a value is multiplied by; None where it is not a sum of such products."""
    joined = substitute(carry.join[other], {level: after})
    if not (isinstance(joined, Apply) and joined.op == "add"):
        return None
    found: list[Expr] = []
    for side in "ab":
        symbols = carry.symbols(side)
        known: dict[Expr, Expr] = {symbols[place]: before}
        of_side = [term for term in joined.args if _product_with(symbols[other], term) is not None]
        if len(of_side) != 1:
            return None
        factor = _product_with(symbols[other], of_side[0])
        assert factor is not None
        found.append(substitute(factor, known))
    same = found[0] == found[1]
    return found[0] if same and _only(found[0], (before, after)) else None


def _product_with(symbol: Symbol, term: Expr) -> Expr | None:
    """The other factor of a product with a symbol."""
    if not (isinstance(term, Apply) and term.op == "mul" and symbol in term.args):
        return None
    first, second = term.args
    return second if first == symbol else first


def _only(expr: Expr, symbols: Sequence[Symbol]) -> bool:
    return all(node in symbols for node in expr.walk() if isinstance(node, Symbol))
