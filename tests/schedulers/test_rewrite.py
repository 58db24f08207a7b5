"""Algebra before scheduling: quotients that are rounded to 16 bits anyway."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.program import Program
from warpsmith import knobs, ops
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Pointwise, Reduction
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.evaluate import evaluate
from warpsmith.runtime import arrays
from warpsmith.schedulers.rewrite import rewrite

FLOAT, HALF = DataType.Float, DataType.Half


def quotients(p: Program) -> list[str]:
    rewrite(p.fusion)
    names = [op.op for op in p.fusion.operations if isinstance(op, Pointwise)]
    return [name for name in names if name.startswith("div")]


def test_a_quotient_that_is_rounded_to_16_bits_need_not_be_exact() -> None:
    p = Program()
    ratio = p.op("div", p.input(FLOAT, (None,)), p.input(FLOAT, (None,)))
    p.output(p.cast(ratio, HALF), p.cast(ratio, DataType.BFloat16))
    assert quotients(p) == ["divide_full"]


@pytest.mark.parametrize("dtype", [FLOAT, DataType.Double])
def test_one_that_is_used_otherwise_stays_exact(dtype: DataType) -> None:
    p = Program()
    ratio = p.op("div", p.input(dtype, (None,)), p.input(dtype, (None,)))
    p.output(p.cast(ratio, HALF), p.op("neg", ratio))
    assert quotients(p) == ["div"]


def test_one_that_is_a_result_stays_exact() -> None:
    p = Program()
    ratio = p.op("div", p.input(FLOAT, (None,)), p.input(FLOAT, (None,)))
    p.output(p.cast(ratio, HALF), ratio)
    assert quotients(p) == ["div"]


def test_rounded_quotients_of_extremes_are_right() -> None:
    extremes = [0.0, 1e-45, 1e-40, 1e-30, 1.0, 3.0, 1e30, 3e38, np.inf, -np.inf, np.nan]
    a, b = (grid.ravel().astype(np.float32) for grid in np.meshgrid(extremes, extremes))

    @warpsmith.fuse
    def ratio(a: object, b: object) -> object:
        return ops.cast(ops.div(a, b), DataType.BFloat16)

    with knobs.scope(device="sim"):
        found = arrays.to_numpy(ratio(a, b)).astype(np.float64)
    with np.errstate(all="ignore"):
        exact = (a.astype(np.float64) / b.astype(np.float64)).astype(np.float32)
    expected = exact.astype(arrays.NUMPY_DTYPES["bfloat16"]).astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=2.0**-7, atol=1.2e-38, equal_nan=True)


def exponentials(p: Program) -> list[str]:
    rewrite(p.fusion)
    names = [op.op for op in p.fusion.operations if isinstance(op, Pointwise)]
    return [name for name in names if name.startswith("exp")]


def chosen(p: Program) -> list[str]:
    rewrite(p.fusion)
    return [op.op for op in p.fusion.operations if isinstance(op, Pointwise)]


def test_a_sum_with_what_is_kept_or_nothing_is_chosen() -> None:
    p = Program()
    kept, scaled, other = (p.input(t, (None,)) for t in (DataType.Bool, FLOAT, FLOAT))
    p.output(p.op("add", other, p.op("where", kept, scaled, 0.0)))
    assert chosen(p) == ["add", "where"]
    inputs = [np.array(v) for v in ([True, False], [2.5, np.inf], [4.0, 3.0])]
    given = [inputs[0], *(v.astype(np.float32) for v in inputs[1:])]
    np.testing.assert_array_equal(evaluate(p.fusion, given)[0], [6.5, 3.0])


def test_nothing_is_chosen_of_what_others_need_or_of_another_number() -> None:
    for number, result in ((1.0, False), (0.0, True)):
        p = Program()
        kept, scaled, other = (p.input(t, (None,)) for t in (DataType.Bool, FLOAT, FLOAT))
        inner = p.op("where", kept, scaled, number)
        p.output(p.op("add", inner, other), *([inner] if result else []))
        assert chosen(p) == ["where", "add"]


def sigmoids(p: Program) -> list[str]:
    rewrite(p.fusion)
    names = [op.op for op in p.fusion.operations if isinstance(op, Pointwise)]
    return [name for name in names if name.startswith("si")]


@pytest.mark.parametrize("name", ["silu", "sigmoid"])
def test_a_gate_that_is_rounded_to_16_bits_takes_few_instructions(name: str) -> None:
    p = Program()
    gate = p.op(name, p.input(FLOAT, (None,)))
    p.output(p.cast(p.op("mul", gate, p.input(FLOAT, (None,))), HALF))
    assert sigmoids(p) == [f"{name}_near"]


def test_one_of_which_more_than_products_are_made_stays_exact() -> None:
    p = Program()
    x = p.input(FLOAT, (None,))
    p.output(p.cast(p.op("sub", p.op("silu", x), x), HALF))
    assert sigmoids(p) == ["silu"]


def test_one_of_which_a_float_is_made_stays_exact() -> None:
    p = Program()
    gate = p.op("silu", p.input(FLOAT, (None,)))
    p.output(p.cast(gate, HALF), p.op("neg", gate))
    assert sigmoids(p) == ["silu"]


def test_gates_of_extremes_are_right() -> None:
    sizes = [0.0, 1e-40, 1e-30, 1e-3, 0.5, 1, 4, 16, 60, 86, 87.5, 88.5, 90, 128, 1e30, 3e38]
    x = np.array([*sizes, *(-s for s in sizes), np.inf, -np.inf, np.nan], np.float32)

    @warpsmith.fuse
    def both(x: Any) -> Any:
        return tuple(ops.cast(f(x), DataType.BFloat16) for f in (ops.silu, ops.sigmoid))

    with knobs.scope(device="sim"):
        found = [arrays.to_numpy(each).astype(np.float64) for each in both(x)]
    with np.errstate(all="ignore"):
        sigmoid = 1 / (1 + np.exp(-x.astype(np.float64)))
        silu = x.astype(np.float64) * sigmoid
    for got, exact in zip(found, (silu, sigmoid), strict=True):
        np.testing.assert_allclose(got, exact, rtol=2.0**-8, atol=1e-36, equal_nan=True)


def softened(p: Program, dims: tuple[int, ...] = (1,)) -> tuple[TensorView, TensorView]:
    """`exp(x - max(x))`, and its sum along the rows, both with all dimensions."""
    x = p.input(FLOAT, (None, None))
    along = [dim in dims for dim in range(2)]
    e = p.op("exp", p.op("sub", x, p.broadcast(p.reduce("max", x, dims), along)))
    return e, p.broadcast(p.reduce("sum", e, (1,)), (False, True))


def test_a_softmax_that_is_rounded_to_16_bits_needs_no_exact_exponential() -> None:
    p = Program()
    e, total = softened(p)
    p.output(p.cast(p.op("div", e, total), HALF))
    assert exponentials(p) == ["exp_near"]


def test_nor_does_the_logarithm_of_its_sum() -> None:
    p = Program()
    e, total = softened(p)
    p.output(p.cast(p.op("mul", e, 2.0), HALF), p.cast(p.op("log", total), HALF))
    assert exponentials(p) == ["exp_near"]


def test_nor_does_one_for_the_sum_of_its_row_alone_whatever_is_made_of_that() -> None:
    p = Program()
    _, total = softened(p)
    p.output(p.op("log", total))
    assert exponentials(p) == ["exp_near"]
    p = Program()
    _, total = softened(p, (0,))
    p.output(p.op("log", total))
    assert exponentials(p) == ["exp"]


def test_one_of_which_a_float_result_is_made_stays_exact() -> None:
    p = Program()
    e, total = softened(p)
    p.output(p.cast(e, HALF), p.op("log", total))
    assert exponentials(p) == ["exp"]


@pytest.mark.parametrize("op", ["log", "reciprocal", "sqrt"])
def test_one_that_is_more_than_scaled_stays_exact(op: str) -> None:
    """What is smaller than a normal number would become 0, and this infinite."""
    p = Program()
    e, total = softened(p)
    p.output(p.cast(p.op(op, p.op("div", e, total)), HALF))
    assert exponentials(p) == ["exp"]


def test_one_that_something_is_divided_by_stays_exact() -> None:
    p = Program()
    e, total = softened(p)
    p.output(p.cast(p.op("div", total, e), HALF))
    assert exponentials(p) == ["exp"]


def test_one_whose_sum_may_be_small_stays_exact() -> None:
    """The maximum of a column is taken from it, and rows are summed."""
    p = Program()
    _, total = softened(p, (0,))
    p.output(p.cast(p.op("log", total), HALF))
    assert exponentials(p) == ["exp"]


@pytest.mark.parametrize("less", ["nothing", "elements", "numbers of rows"])
def test_one_of_something_else_than_differences_to_a_number_of_the_row_stays_exact(
    less: str,
) -> None:
    """Gradients find a softmax again, of the largest that they are given."""
    p = Program()
    x, y = p.input(FLOAT, (None, None)), p.input(FLOAT, (None, None))
    most = p.broadcast(p.reduce("max", y, (1,)), (False, True))
    taken = {"elements": y, "numbers of rows": most}.get(less)
    e = p.op("exp", x if taken is None else p.op("sub", x, taken))
    p.output(p.cast(p.reduce("sum", e, (1,)), HALF))
    assert exponentials(p) == ["exp_near" if taken is most else "exp"]


@pytest.mark.parametrize(("most", "wanted"), [(0, "exp_near"), (1, "exp")])
def test_one_of_at_most_nothing_may_be_added_to_others(most: int, wanted: str) -> None:
    p = Program()
    x, y = p.input(FLOAT, (None, None)), p.input(FLOAT, (None, None))
    e = p.op("exp", p.op("minimum", p.op("sub", x, y), most))
    p.output(p.cast(p.op("sub", p.op("mul", e, y), y), HALF))
    assert exponentials(p) == [wanted]


def test_rounded_exponentials_are_right_wherever_they_are_normal() -> None:
    special = [0.0, -0.0, -1e-30, -87.3, -1e30, -3e38, -np.inf]
    x = np.array([[*special, *np.linspace(-87, 0, 500)]], np.float32)

    @warpsmith.fuse
    def softmax(x: Any) -> Any:
        e = ops.exp(x - ops.max(x, [1], keepdim=True))
        return ops.cast(e, DataType.BFloat16), ops.cast(ops.sum(e, [1]), DataType.BFloat16)

    with knobs.scope(device="sim"):
        found = [arrays.to_numpy(result).astype(np.float64) for result in softmax(x)]
        assert "ws_exp_near" in softmax.lower(x).compile().kernels[0].asm["cuda"]
    exact = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(found[0], exact, rtol=2.0**-7, atol=1.2e-38)
    np.testing.assert_allclose(found[1], exact.sum(1), rtol=2.0**-7)


def test_those_of_more_than_one_are_right_too() -> None:
    x = np.array([[0.0, -np.inf, np.inf, np.nan, 90, *np.linspace(-87, 88.5, 500)]], np.float32)

    @warpsmith.fuse
    def again(x: Any, most: Any) -> Any:
        return ops.cast(ops.exp(x - most), DataType.BFloat16)

    with knobs.scope(device="sim"):
        found = arrays.to_numpy(again(x, np.zeros((1, 1), np.float32))).astype(np.float64)
        text = again.lower(x, np.zeros((1, 1), np.float32)).compile().kernels[0].asm["cuda"]
    assert "ws_exp_near" in text
    with np.errstate(over="ignore"):
        exact = np.exp(x).astype(np.float64)
    np.testing.assert_allclose(found, exact, rtol=2.0**-7, atol=1.2e-38)


@pytest.mark.parametrize("x", [-95.0, -88.0])
def test_small_exponentials_that_more_is_made_of_do_not_vanish(x: float) -> None:
    @warpsmith.fuse
    def made(x: Any) -> Any:
        e = ops.exp(x.to(FLOAT))
        likely = ops.exp(x.to(FLOAT) - ops.max(x.to(FLOAT), [1], keepdim=True))
        results = ops.log(ops.sum(e, [1])), ops.log(e), ops.log(likely)
        return tuple(ops.cast(result, DataType.BFloat16) for result in results)

    given = np.array([[x, x, 0.0 * x], [x, x, x]], arrays.NUMPY_DTYPES["bfloat16"])
    with knobs.scope(device="sim"):
        total, same, likely = (arrays.to_numpy(r).astype(np.float64) for r in made(given))
    wide = given.astype(np.float64)
    np.testing.assert_allclose(total, np.log(np.exp(wide).sum(1)), rtol=2.0**-7, atol=1e-6)
    np.testing.assert_allclose(same, wide, rtol=2.0**-7)
    np.testing.assert_allclose(likely, wide - wide.max(1, keepdims=True), rtol=2.0**-7)


Chosen = Callable[[Any, Any, Any], Any]
PLACES = np.array([0, 5, -100, 2, 6, 3])


def _chosen(x: Any, places: Any, values: Any, start: int = 0, other: float = 0.0) -> Any:
    """Of each row the value where a number is the row's place."""
    numbers = ops.iota(6, start, fusion=Fusion.of(x))
    return ops.where(ops.eq(numbers, ops.reshape(places, (-1, 1))), values, other)


SUMS: dict[str, tuple[Chosen, bool]] = {
    "one of each row": (lambda x, p, v: ops.sum(_chosen(x, p, v), [1]), True),
    "that stays a dimension": (lambda x, p, v: ops.sum(_chosen(x, p, v), [1], keepdim=True), True),
    "a number": (lambda x, p, v: ops.sum(_chosen(x, p, 2.5), [1]), True),
    "one of a column": (lambda x, p, v: ops.sum(_chosen(x, p, v), [0]), False),
    "all of them": (lambda x, p, v: ops.sum(_chosen(x, p, v)), False),
    "one of values along the row": (lambda x, p, v: ops.sum(_chosen(x, p, x), [1]), False),
    "others than 0": (lambda x, p, v: ops.sum(_chosen(x, p, v, other=1.0), [1]), False),
    "numbers from 1 on": (lambda x, p, v: ops.sum(_chosen(x, p, v, start=1), [1]), False),
    "the largest": (lambda x, p, v: ops.max(_chosen(x, p, v), [1]), False),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_of_which_one_element_counts_is_that_element(name: str) -> None:
    body, chosen = SUMS[name]
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((6, 6)), PLACES, rng.standard_normal((6, 1))]
    given = [array.astype(np.float32) if array.dtype == float else array for array in given]
    fusion = warpsmith.fuse(body).lower(*given).fusion
    (wanted,), better = evaluate(fusion, given), fusion.draft()
    rewrite(better)
    assert chosen != any(isinstance(op, Reduction) for op in better.operations)
    (found,) = evaluate(better, given)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("between", "dtype"),
    [("float32", "float32"), ("uint8", "int64"), ("bfloat16", "float32")],
)
def test_numbers_that_are_no_places_are_summed(between: str, dtype: str) -> None:
    """1.5 lies between two, 300 is 44 in bytes, and 301 in bfloat16."""
    kinds = {each.value: each for each in DataType} | {"float32": DataType.Float}

    def chosen(places: Any, values: Any) -> Any:
        numbers = ops.cast(ops.iota(600, fusion=Fusion.of(values)), kinds[between])
        equal = ops.eq(ops.cast(numbers, kinds[dtype]), ops.reshape(places, (-1, 1)))
        return ops.sum(ops.where(equal, values, 0.0), [1])

    places = np.array([1.5, 44, 300, 301, 600]).astype(dtype)
    given = [places, np.arange(5, dtype=np.float32).reshape(5, 1) + 1]
    fusion = warpsmith.fuse(chosen).lower(*given).fusion
    (wanted,), better = evaluate(fusion, given), fusion.draft()
    rewrite(better)
    (found,) = evaluate(better, given)
    np.testing.assert_array_equal(found, wanted)
