"""The judge sees what is wrong, knows what it cannot know, and reads a program as its text says."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.programs import bounds, judge, samples
from tests.programs.bounds import Bounded
from tests.programs.generate import TINY, generate
from tests.programs.judge import Mode, judged, valid
from tests.programs.meaning import Meaning
from tests.programs.program import Input, Layout, Program, Ref, Shape, Size, Statement
from tests.programs.rules import pointwise
from tests.programs.run import program_of
from tests.programs.values import Value, perhaps_stored
from warpsmith.engine import plan
from warpsmith.errors import ScheduleError
from warpsmith.ir.dtypes import DataType

SIZES = {"n0": Size(6), "n1": Size(5, static=True)}
X = Input("t0", DataType.Float, (("n0",), ("n1",)))


def one(op: str, *args: Any, given: Input = X, **options: Any) -> Program:
    """A program of one operation on `t0`."""
    statement = Statement(("t1",), op, (Ref("t0"), *args), tuple(options.items()))
    return Program(SIZES, (given,), (statement,), (("t1", ""),))


def changed(change: Callable[[np.ndarray], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every call return something else than it computed."""
    run = judge._run

    def wrong(*args: Any) -> list[np.ndarray]:
        results = [np.array(result) for result in run(*args)]
        for result in results:
            change(result)
        return results

    monkeypatch.setattr(judge, "_run", wrong)


@pytest.mark.parametrize("dtype", [DataType.Float, DataType.Double, DataType.BFloat16])
@pytest.mark.parametrize("op", ["exp", "neg", "sum", "var"])
def test_one_wrong_element_is_found(
    op: str, dtype: DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = one(op, given=Input("t0", dtype, X.dims))
    assert judged(program, "reference").kind == "passed"
    changed(lambda result: np.multiply.at(result, (0,) * result.ndim, 1.02), monkeypatch)
    assert judged(program, "reference").kind == "wrong"


def test_a_schedule_that_fails_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks has not to make errors of warnings."""

    def fails(*args: Any) -> None:
        raise ScheduleError("too many loops", code="WS0262", remedy="none")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert judged(one("exp"), "plan").kind == "passed"
        monkeypatch.setattr(plan.PlannedSegment, "_kernel", fails)
        verdict = judged(one("exp"), "plan")
    assert (verdict.kind, verdict.code) == ("crashed", "PlanWarning")
    assert "pointwise takes a part of the program, but its schedule fails" in verdict.message


def test_a_missing_write_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(lambda result: result[-1:].fill(np.nan), monkeypatch)
    verdict = judged(one("exp"), "reference")
    assert verdict.kind == "wrong"
    assert "5 of 30 elements are wrong" in verdict.message


def test_types_and_shapes_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "_run", lambda *args: [np.zeros((6, 5), np.float64)])
    assert "is float64(6, 5), and should be float32(6, 5)" in judged(one("exp"), "sim").message
    monkeypatch.setattr(judge, "_run", lambda *args: [np.zeros((6, 1), np.float32)])
    assert "is float32(6, 1)" in judged(one("exp"), "sim").message


def test_comparisons_within_the_error_are_left_out() -> None:
    third = Bounded(DataType.Float, np.array([1.0, 2.0]), np.array([1e-7, 1e-7]))
    near = Bounded(DataType.Float, np.array([1.0 + 5e-8, 2.1]), np.zeros(2))
    found = samples.decided(np.less, (third, near))
    np.testing.assert_array_equal(found.unknown, [True, False])


def test_floor_near_a_whole_number_may_be_either() -> None:
    x = Bounded(DataType.Float, np.array([2.0, 2.5]), np.array([1e-6, 1e-6]))
    found = samples.sampled(np.floor, DataType.Float, (x,), ulps=0)
    np.testing.assert_array_equal(found.unknown, [True, False])
    assert found.error[1] == 0


def test_a_remainder_may_be_any_where_the_quotient_is_large() -> None:
    """1.77 million times an error of a unit in the last place is half of the divisor."""
    x = bounds.exact(DataType.Float, np.array([1.8435581, 1.8435581]))
    y = Bounded(DataType.Float, np.array([1.0397926e-06, 0.3]), np.array([3e-13, 1e-7]))
    found = pointwise.computed("fmod", DataType.Float, DataType.Float, (x, y))
    np.testing.assert_array_equal(found.unknown, [True, False])


def test_no_one_knows_the_sign_of_a_nan() -> None:
    x = bounds.exact(DataType.Float, np.array([np.nan, -np.nan, 0.0, -np.inf, 2.0]))
    found = samples.decided(np.signbit, (x,))
    np.testing.assert_array_equal(found.unknown, [True, True, True, False, False])
    assert not samples.decided(np.isnan, (x,)).unknown.any()
    assert not samples.sampled(np.negative, DataType.Float, (x,), ulps=0).unknown.any()


@pytest.mark.parametrize("dtype", [DataType.Half, DataType.Float])
def test_signs_of_nans_are_left_out_of_comparison(dtype: DataType) -> None:
    """The reference has NumPy's sign of inf - inf, and the simulator that of a GPU."""
    lines = [("t1", "sub", "t0", "t0"), ("t2", "add", "t0", "t1"), ("t3", "neg", "t2")]
    steps = [Statement((to,), op, tuple(map(Ref, of))) for to, op, *of in lines]
    steps.append(Statement(("t4",), "signbit", (Ref("t3"),)))
    given = Input("t0", dtype, X.dims, values="special")
    program = Program(SIZES, (given,), tuple(steps), (("t3", ""), ("t4", "")))
    for mode in ("reference", "sim"):
        assert judged(program, mode).kind == "passed"


def test_errors_grow_through_steep_functions() -> None:
    x = Bounded(DataType.Float, np.array([10.0]), np.array([1e-4]))
    found = samples.sampled(np.exp, DataType.Float, (x,), ulps=2)
    assert found.error[0] >= np.exp(10.0) * 1e-4
    assert found.error[0] <= np.exp(10.0) * 3e-4


def test_a_cast_rounds_and_only_doubt_leaves_an_error() -> None:
    x = Bounded(DataType.Float, np.array([1.001, 1.0 + 2**-8]), np.array([1e-6, 1e-6]))
    found = bounds.converted(x, DataType.BFloat16)
    assert found.value[0] == 1.0
    assert found.error[0] == 0.0
    assert found.error[1] == 2**-7


def test_sums_that_cancel_are_wide() -> None:
    x = bounds.exact(DataType.Float, np.array([[1e4, -1e4, 1.0]]))
    assert bounds.summed(x, (1,), DataType.Float).error[0] > 1e-3


def test_programs_of_which_little_is_known_are_skipped() -> None:
    doubt = Statement(("t1",), "log", (Ref("t0"),))
    program = Program(
        SIZES, (Input("t0", DataType.Float, X.dims, values="whole"),), (doubt,), (("t1", ""),)
    )
    assert judged(program, "reference").kind == "passed"  # NaN and infinity are known
    nearly = Statement(("t2",), "sub", (Ref("t1"), Ref("t1")))
    again = Statement(("t3",), "reciprocal", (Ref("t2"),))
    unknown = Program(SIZES, (X,), (one("exp").statements[0], nearly, again), (("t3", ""),))
    assert judged(unknown, "reference").kind == "skipped"


def test_rules_are_checked_without_warpsmith() -> None:
    assert valid(one("permute", (1, 0)))
    assert not valid(one("permute", (1, 1)))
    assert not valid(one("squeeze", (0,)))
    assert not valid(one("reshape", Shape((("n1",), ("n0",)))))
    assert not valid(one("bitwise_and", 3))


def test_refusals_and_crashes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    gap = Input("t0", DataType.Float, X.dims, Layout(gaps=(1,)))
    program = one("exp", given=gap)
    assert judged(program, "plan").kind == "passed"
    monkeypatch.setattr(Layout, "strides", lambda self, shape: (1, 6))
    assert judged(program, "plan").code == "WS0308"

    def breaks(*args: Any) -> None:
        raise KeyError("T7")

    monkeypatch.setattr(judge, "plan_only", breaks)
    verdict = judged(one("exp"), "plan")
    assert (verdict.kind, verdict.code) == ("crashed", "KeyError")


def test_the_text_runs_as_it_stands() -> None:
    from warpsmith import knobs

    with knobs.scope(device="reference"):
        exec(generate(3, TINY).text(), {})


def test_what_another_kernel_reads_may_be_rounded_on_the_way() -> None:
    """Exponentials of half numbers are stored as such where a sum comes between, and only there."""
    half = Input("t0", DataType.Half, X.dims)
    exp = Statement(("t1",), "exp", (Ref("t0"),))
    total = Statement(("t2",), "sum", (Ref("t1"), (0,)))
    errors = []
    for statements in ((exp,), (exp, total)):
        meaning = Meaning(Program(SIZES, (half,), statements, (("t1", ""),)))
        meaning.run()
        wide = meaning.values["t1"].wide
        errors.append(wide.error / np.abs(wide.value))
    assert np.all(errors[0] < 2**-16)
    assert np.all((errors[1] > 2**-11) & (errors[1] < 2**-10))


def test_roundings_of_equal_numbers_add_up() -> None:
    """A sum of one number again and again may be off by as many roundings, others by their root."""
    equal = np.full((2, 4096), 3.3)
    other = equal + np.arange(4096) / 4096
    most = np.where(np.arange(4096) % 16, equal, other)
    for make in (
        lambda x: bounds.summed(x, (1,), DataType.Double).error,
        lambda x: bounds.accumulated(x, 1, DataType.Double, exclusive=False).error[:, -1],
    ):
        ones, others, mosts = (make(bounds.exact(DataType.Double, x)) for x in (equal, other, most))
        assert np.all(ones > 30 * others)
        assert np.all(mosts > 30 * others)


def test_half_numbers_beyond_their_range_may_be_infinite_in_memory() -> None:
    """The difference of two, which one kernel finds in Float, is NaN where they were stored."""
    wide = bounds.exact(DataType.Float, np.array([7e4, 6e4]))
    stored = perhaps_stored(Value(DataType.Half, ("n",), wide))
    np.testing.assert_array_equal(stored.wide.unknown, [True, False])
    bfloat = perhaps_stored(Value(DataType.BFloat16, ("n",), wide))
    assert not bfloat.wide.unknown.any()


@pytest.mark.parametrize(
    ("seed", "mode"),
    [
        pytest.param(261600916, "gpu", id="a product of Doubles that is asked for in Float"),
        pytest.param(261605344, "gpu", id="the variance of one number that is infinite"),
        pytest.param(269002685, "gpu", id="an infinite factor of what rounding may make 0"),
        pytest.param(261800207, "sim", id="such a product that is read before it is rounded"),
    ],
)
def test_what_was_called_wrong_and_was_right(seed: int, mode: Mode) -> None:
    verdict = judged(program_of(seed, mode), "reference")
    assert verdict.kind == "passed", verdict.message


@pytest.mark.parametrize("dtype", [DataType.Int8, DataType.Int16, DataType.UInt8, DataType.Int32])
def test_bits_that_come_from_the_left_are_zeros_of_the_type(dtype: DataType) -> None:
    program = one("logical_right_shift", 1, given=Input("t0", dtype, (("n0",), ("n1",))))
    assert judged(program, "reference").kind == "passed"
