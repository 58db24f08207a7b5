"""Ranges of scalars, and what they do not depend on, held against all values."""

import itertools
import math
from collections.abc import Iterator
from random import Random

import pytest

from tests.protocol.random_expressions import random_number, random_truth
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol, evaluate
from warpsmith.kernel.rings import Cursor
from warpsmith.protocol.ranges import RANGES, Range
from warpsmith.protocol.scalars import _OPERATIONS, Scope, UnknownError

OPERANDS = {"cast": 1, "where": 3, "divide": 4}
DIVISIONS = ("floordiv", "divide", "ceildiv", "mod")

OUTER, INNER = Symbol("i", low=0), Symbol("j", low=0)
CURSOR = Cursor("c", 3)


def test_every_operation_with_a_range_is_known() -> None:
    assert set(RANGES) - {"logical_and"} <= set(_OPERATIONS)


def result(op: str, operands: tuple[int, ...]) -> int:
    """What the operation is, by another way than the one that is tested."""
    if op == "divide":
        return operands[0] // operands[1]
    return evaluate(Apply(op, tuple(map(Const, operands)), DataType.Index), {})


def random_range(random: Random, *, least: int = -6) -> tuple[int, int]:
    low = random.randint(least, 6)
    return low, low + random.choice((0, 0, 1, 2, 5))


def operands(random: Random, op: str) -> list[tuple[int, int]]:
    count = OPERANDS.get(op, 2)
    found = [random_range(random) for _ in range(count)]
    if op in DIVISIONS:
        found[1] = random_range(random, least=1)
    if op == "divide":
        found[2:] = [(1, 1), (0, 0)]
    return found


@pytest.mark.parametrize("op", sorted(RANGES))
def test_a_range_holds_all_results(op: str) -> None:
    random = Random(op)
    exact = 0
    for _ in range(400):
        ranges = operands(random, op)
        low, high = RANGES[op](*ranges)
        results = {
            result(op, values)
            for values in itertools.product(*(range(a, b + 1) for a, b in ranges))
        }
        assert low <= min(results), (ranges, low, min(results))
        assert high >= max(results), (ranges, high, max(results))
        exact += (low, high) == (min(results), max(results))
    assert exact > 100, "a range that is everything would say nothing"


@pytest.mark.parametrize("op", sorted(RANGES))
def test_ranges_without_ends(op: str) -> None:
    """Wider operands never make a range narrower, and nothing becomes not-a-number."""
    random = Random(op)
    for _ in range(400):
        ranges = operands(random, op)
        narrow: Range = RANGES[op](*ranges)
        wide: list[Range] = [
            (
                a if random.random() < 0.6 or (op in DIVISIONS and n) else -math.inf,
                b if random.random() < 0.6 or (op == "divide" and n > 1) else math.inf,
            )
            for n, (a, b) in enumerate(ranges)
        ]
        low, high = RANGES[op](*wide)
        assert low <= narrow[0], (ranges, wide)
        assert high >= narrow[1], (ranges, wide)


def test_large_integers_are_exact() -> None:
    """Beyond 2**53 a float is no integer's own any more."""
    large = 1 << 60
    assert RANGES["mul"]((large, large + 1), (1, 1)) == (large, large + 1)
    assert RANGES["floordiv"]((large, large + 1), (1, 1)) == (large, large + 1)
    assert RANGES["ceildiv"]((large, large + 1), (1, 1)) == (large, large + 1)
    shifted = Apply("add", (OUTER, Const(large)), OUTER.dtype)
    scalar = scope().scalar(Apply("mul", (shifted, Const(1)), OUTER.dtype))
    assert not scalar.independent("i", {"i": (0, 1)})


def scope() -> Scope:
    found = Scope({}, loops={"i", "j"})
    found.begin(CURSOR)
    return found


def random_exprs(random: Random) -> Iterator[Expr]:
    leaves = (OUTER, OUTER, INNER, CURSOR.stage, CURSOR.phase)
    for _ in range(500):
        make = random.choice((random_number, random_truth))
        yield make(random, leaves, random.randint(1, 4))


@pytest.mark.few(1)
@pytest.mark.parametrize("batch", range(8))
def test_what_is_called_independent_is_the_same_for_all_values(batch: int) -> None:
    random = Random(batch)
    independent = dependent = 0
    for expr in random_exprs(random):
        scalar = scope().scalar(expr)
        ranges = {"i": random_range(random, least=0), "j": random_range(random, least=0)}
        whole = scalar.range(ranges)
        alike = scalar.independent("i", ranges)
        i_range, j_range = (range(ranges[n][0], ranges[n][1] + 1) for n in "ij")
        differs = False
        for j, place in itertools.product(j_range, range(6)):
            others = {"j": j, "c_stage": place % 3, "c_phase": place // 3}
            results = {evaluate(expr, {**others, "i": i}) for i in i_range}
            assert whole[0] <= min(results), (expr, ranges)
            assert whole[1] >= max(results), (expr, ranges)
            differs = differs or len(set(map(int, results))) > 1
            assert not (alike and differs), (expr, ranges)
            for i in i_range:
                assert scalar({"i": i, "j": j, "c": place}) == evaluate(expr, {**others, "i": i})
        independent += alike and "i" in scalar.names
        dependent += differs
    assert independent > 30
    assert dependent > 50


def apply(op: str, operands: tuple[Expr, ...]) -> Expr:
    return Apply(op, operands, DataType.Index)


def test_equal_expressions_are_one_scalar() -> None:
    """What depends on an index is looked at once, wherever it stands."""
    one, other = (apply("add", (apply("mul", (OUTER, Const(4))), INNER)) for _ in range(2))
    here = scope()
    assert one is not other
    assert here.scalar(one) is here.scalar(other)
    assert here.scalar(one) is not here.scalar(apply("add", (INNER, OUTER)))
    for low in (CURSOR.stage, CURSOR.phase):
        product = here.scalar(apply("mul", (low, OUTER)))
        for place in range(6):
            wanted = (place % 3 if low == CURSOR.stage else place // 3) * 5
            assert product({"i": 5, "c": place}) == wanted


def test_a_name_stands_for_its_latest_meaning() -> None:
    name = Symbol("n")
    here = Scope({}, loops={"i"})
    with pytest.raises(UnknownError):
        here.scalar(name)
    for factor in (2, 3):
        here.let("n", apply("mul", (OUTER, Const(factor))))
        assert here.scalar(name)({"i": 5}) == 5 * factor
        assert here.scalar(apply("add", (name, Const(1))))({"i": 5}) == 5 * factor + 1
    here.leave("i")
    with pytest.raises(UnknownError):
        here.scalar(name)
    here.enter("i")
    assert here.scalar(name)({"i": 5}) == 15
    here.begin(Cursor("c", 3))
    assert here.scalar(CURSOR.phase)({"c": 5}) == 1
    here.begin(Cursor("c", 5))
    assert here.scalar(CURSOR.stage)({"c": 9}) == 4
