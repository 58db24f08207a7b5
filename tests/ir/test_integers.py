"""Simplified index arithmetic has the value of what was written, and proofs are never wrong."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.ir import integers
from warpsmith.ir.bounds import lower_bound, upper_bound
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.polynomials import polynomial
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol, evaluate
from warpsmith.ir.substitution import rebuild, substitute

SIZES = ("n", "m")
LOOPS = ("i", "j", "k")
N, M = (Symbol(name, low=1) for name in SIZES)

ONE_RUN = settings(max_examples=400, deadline=None, derandomize=True, database=None)


@dataclass(frozen=True)
class Pair:
    """An expression as the constructors made it, and what it should be worth."""

    expr: Expr
    meaning: Callable[[dict[str, int]], int]


def leaf(symbol: Symbol) -> Pair:
    return Pair(symbol, lambda values: values[symbol.name])


def number(value: int) -> Pair:
    return Pair(Const(value), lambda values: value)


def loops() -> tuple[Symbol, ...]:
    """Indices below a size, below a constant, and below a quotient of a size."""
    extents = (N, integers.index(4), integers.ceildiv(M, 4))
    return tuple(Symbol(name, extent=e) for name, e in zip(LOOPS, extents, strict=True))


LEAVES = st.one_of(
    st.sampled_from([leaf(symbol) for symbol in (N, M, *loops())]),
    st.integers(0, 9).map(number),
)
POSITIVE = st.one_of(
    st.sampled_from([leaf(N), leaf(M)]), st.sampled_from([1, 2, 3, 4, 8]).map(number)
)

OPERATIONS: dict[str, tuple[Callable[..., Expr], Callable[[int, int], int]]] = {
    "add": (integers.add, operator.add),
    "mul": (integers.mul, operator.mul),
    "minimum": (integers.minimum, min),
    "maximum": (integers.maximum, max),
}
DIVISIONS: dict[str, tuple[Callable[..., Expr], Callable[[int, int], int]]] = {
    "floordiv": (integers.floordiv, operator.floordiv),
    "mod": (integers.mod, operator.mod),
    "ceildiv": (integers.ceildiv, lambda a, b: -(-a // b)),
}


def _joined(children: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    def both(name: str, a: Pair, b: Pair) -> Pair:
        make, mean = {**OPERATIONS, **DIVISIONS}[name]
        return Pair(make(a.expr, b.expr), lambda v: mean(a.meaning(v), b.meaning(v)))

    products = st.builds(lambda a, b: both("mul", a, b), POSITIVE, POSITIVE)
    return st.one_of(
        st.builds(both, st.sampled_from(list(OPERATIONS)), children, children),
        st.builds(both, st.sampled_from(list(DIVISIONS)), children, st.one_of(POSITIVE, products)),
    )


EXPRESSIONS = st.recursive(LEAVES, _joined, max_leaves=9)


@st.composite
def values(draw: st.DrawFn) -> dict[str, int]:
    """Sizes, and loop indices within their extents."""
    found = {name: draw(st.integers(1, 20)) for name in SIZES}
    for symbol in loops():
        assert symbol.extent is not None
        found[symbol.name] = draw(st.integers(0, evaluate(symbol.extent, found) - 1))
    return found


@ONE_RUN
@given(EXPRESSIONS, values())
def test_value_is_kept(pair: Pair, at: dict[str, int]) -> None:
    assert evaluate(pair.expr, at) == pair.meaning(at)


@ONE_RUN
@given(EXPRESSIONS, values())
def test_bounds_hold(pair: Pair, at: dict[str, int]) -> None:
    assert lower_bound(pair.expr) <= pair.meaning(at) <= upper_bound(pair.expr)


@ONE_RUN
def bare(expr: Expr) -> Expr:
    """The same expression, of which nothing is kept yet."""
    if isinstance(expr, Apply):
        return Apply(expr.op, tuple(map(bare, expr.args)), expr.dtype)
    return expr


@ONE_RUN
@given(EXPRESSIONS)
def test_kept_polynomial_is_that_of_the_arguments(pair: Pair) -> None:
    kept, anew = polynomial(pair.expr), polynomial(bare(pair.expr))
    assert list(kept.items()) == list(anew.items())


@given(EXPRESSIONS, EXPRESSIONS, values())
def test_proven_less_is_less(a: Pair, b: Pair, at: dict[str, int]) -> None:
    if integers.provably_less(a.expr, b.expr):
        assert a.meaning(at) < b.meaning(at)


@ONE_RUN
@given(EXPRESSIONS, EXPRESSIONS, values())
def test_predicate_of_less(a: Pair, b: Pair, at: dict[str, int]) -> None:
    assert evaluate(integers.less(a.expr, b.expr), at) == (a.meaning(at) < b.meaning(at))


@ONE_RUN
@given(EXPRESSIONS, st.sampled_from([1, 2, 3, 4, 8, 16]), values(), st.sampled_from([1, 2, 4, 8]))
def test_proven_multiple_is_one(pair: Pair, divisor: int, at: dict[str, int], factor: int) -> None:
    """With the fact that `n` is a multiple of `factor`, where it is one."""
    facts = frozenset({(N, factor)}) if at["n"] % factor == 0 else frozenset()
    if integers.divides(divisor, pair.expr, facts):
        assert pair.meaning(at) % divisor == 0


@ONE_RUN
@given(EXPRESSIONS, EXPRESSIONS, values())
def test_substitution_is_evaluation_in_two_steps(
    outer: Pair, inner: Pair, at: dict[str, int]
) -> None:
    replaced = substitute(outer.expr, {M: integers.add(inner.expr, 1)})
    if any(isinstance(s, Symbol) and s.extent is not None for s in outer.expr.walk()):
        return  # an index's extent may name the symbol that is replaced
    assert evaluate(replaced, at) == outer.meaning({**at, "m": inner.meaning(at) + 1})


A, B, C = loops()

SIMPLIFIED: tuple[tuple[Expr, Expr], ...] = (
    (integers.floordiv(integers.add(integers.mul(A, 4), B), 4), A),
    (integers.mod(integers.add(integers.mul(A, 4), B), 4), B),
    (integers.mod(A, N), A),
    (integers.floordiv(A, N), integers.ZERO),
    (integers.floordiv(integers.floordiv(A, 4), N), integers.floordiv(A, integers.mul(4, N))),
    (integers.ceildiv(integers.mul(N, 8), 4), integers.mul(N, 2)),
    (integers.mod(integers.add(N, A), N), A),
    (integers.sub(integers.add(N, M), M), N),
    (
        integers.add(integers.mul(integers.floordiv(A, 3), 3), integers.mod(A, 3)),
        A,
    ),
    (
        integers.add(
            integers.mul(integers.floordiv(A, M), M, N), integers.mul(integers.mod(A, M), N)
        ),
        integers.mul(A, N),
    ),
    (integers.maximum(N, N), N),
    (integers.less(integers.add(integers.mul(A, 4), B), integers.mul(N, 4)), integers.TRUE),
    (integers.less(integers.mod(M, N), N), integers.TRUE),
    (integers.less(5, 4), integers.FALSE),
)


@pytest.mark.parametrize(("found", "simple"), SIMPLIFIED)
def test_rules(found: Expr, simple: Expr) -> None:
    assert found == simple


def test_sums_are_equal_in_any_order() -> None:
    assert polynomial(integers.add(N, M, 1)) == polynomial(integers.add(1, M, N))


def test_conjunction_counts_a_condition_once() -> None:
    first, second = integers.less(A, 3), integers.less(B, N)
    both = integers.conjunction(first, integers.TRUE, second, first)
    assert integers.conjuncts(both) == (first, second)
    assert integers.conjunction() == integers.TRUE
    assert integers.conjunction(both, second) == both


def test_what_may_be_equal_is_not_less() -> None:
    part = Symbol("part", low=0, extent=integers.ceildiv(N, 4))
    assert integers.provably_less(integers.mul(part, 4), N)
    assert not integers.provably_less(integers.mul(part, 5), N)
    assert not integers.provably_less(integers.mul(part, 4, M), N)
    assert not integers.provably_less(N, N)
    assert not integers.provably_less(M, N)
    assert not integers.provably_less(integers.add(integers.mul(C, 4), B), M)


def test_truth_of_an_expression_is_an_error() -> None:
    with pytest.raises(TypeError, match="known only at run time"):
        bool(integers.less(M, N))


def test_other_operations_are_left_as_they_are() -> None:
    expr = rebuild("exp", (Const(1.0, DataType.Float),), DataType.Float)
    assert expr == Apply("exp", (Const(1.0, DataType.Float),), DataType.Float)


def test_facts_on_products_and_on_multiples_of_them() -> None:
    whole = integers.mul(N, M, 33)
    facts = frozenset({(whole, 8)})
    assert integers.divides(4, whole, facts)
    assert integers.divides(16, integers.mul(whole, 2), facts)
    assert not integers.divides(4, integers.mul(N, M), facts)
    assert not integers.divides(16, whole, facts)


@ONE_RUN
@given(
    st.lists(st.integers(1, 96), min_size=1, max_size=3),
    st.integers(1, 96),
    st.integers(1, 96),
    st.data(),
)
def test_quotients_of_lanes_are_right(
    steps: list[int], lanes: int, radix: int, data: st.DataObject
) -> None:
    """Whether they share one or not."""
    names = [f"i{k}" for k in range(len(steps))]
    outer = [Symbol(name, low=0) for name in names]
    lane = Symbol("lane", extent=Const(lanes), low=0)
    flat = integers.add(*map(integers.mul, outer, steps), lane)
    at = {name: data.draw(st.integers(0, 200)) for name in names}
    at["lane"] = data.draw(st.integers(0, lanes - 1))
    value = sum(at[name] * step for name, step in zip(names, steps, strict=True)) + at["lane"]
    assert evaluate(integers.floordiv(flat, radix), at) == value // radix
    assert evaluate(integers.mod(flat, radix), at) == value % radix


def test_lanes_of_a_vector_share_a_quotient() -> None:
    block, thread = Symbol("block", low=0), Symbol("thread", low=0)
    lane = Symbol("lane", extent=Const(8), low=0)
    base = integers.add(integers.mul(block, 1024), integers.mul(thread, 8))
    flat = integers.add(base, lane)
    assert integers.floordiv(flat, 32000) == integers.floordiv(base, 32000)
    assert integers.mod(flat, 32000) == integers.add(integers.mod(base, 32000), lane)
    assert lane in integers.floordiv(flat, 32004).walk()  # a row ends within a vector


@pytest.mark.parametrize("divisors", [(2, 8), (8, 2)])
def test_what_ends_a_whole_is_left_out_by_the_largest_of_its_divisors(
    divisors: tuple[int, int],
) -> None:
    """Whatever order facts come in: it differs from process to process."""
    i, lane, last = (Symbol(name, extent=Const(n)) for name, n in (("i", 5), ("x", 4), ("e", 2)))
    place = integers.add(integers.mul(i, 8), integers.mul(lane, 2), last)
    facts: Any = tuple((N, divisor) for divisor in divisors)
    assert integers.of_whole(integers.less(place, N), facts) == integers.less(integers.mul(i, 8), N)
