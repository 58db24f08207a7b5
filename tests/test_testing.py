"""warpsmith.testing: tolerances, comparisons, and how often and in what order `do_bench` runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from warpsmith import testing
from warpsmith.errors import ArgumentError, DeviceError
from warpsmith.testing import (
    Tolerance,
    assert_close,
    do_bench,
    do_bench_interleaved,
    relative_error,
    tolerance,
)


class FakeTimer:
    """Takes 2 ms a run by its own account, and numbers the runs."""

    def __init__(self) -> None:
        self.started = 0

    def cost(self, fn: Any) -> Any:
        fn()
        return testing._Cost(ms=2.0, flushes=3)

    def run(self, fn: Any, flushes: int, grad_to_none: Any = None) -> float:
        assert flushes == 3
        for tensor in grad_to_none or ():
            tensor.grad = None
        fn()
        self.started += 1
        return float(self.started)

    def times(self, runs: list[float]) -> list[float]:
        return list(runs)


@pytest.fixture
def fake_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "_Timer", FakeTimer)


def test_tolerance_grows_with_the_reduction_and_ends_at_the_stored_precision() -> None:
    assert tolerance("int64") == Tolerance(0.0, 0.0)
    assert 2.0**-7 <= tolerance("bfloat16").relative < 2.0**-6
    short, long = tolerance("float", 16), tolerance("float", 16384)
    assert short.relative < long.relative < 1e-3
    assert short.absolute < long.absolute < 0.1
    assert tolerance("double", 16384).absolute < 1e-9


@pytest.mark.parametrize(
    "dtype",
    [
        *(np.float16, ml_dtypes.bfloat16, np.float32),
        *(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
    ],
)
def test_rounding_of_a_result_is_close(dtype: Any) -> None:
    exact = np.random.default_rng(0).standard_normal(1000)
    assert_close(exact.astype(dtype), exact)


def test_two_units_in_the_last_place_are_not_close() -> None:
    exact = np.array([1.0, 2.0, 3.0])
    off = exact.copy()
    off[1] += 2 * 2.0**-6  # at 2 a unit of bfloat16 is 2**-6
    with pytest.raises(AssertionError, match=r"dx: 1 of 3 elements differ; worst at \(1,\): got 2"):
        assert_close(off.astype(ml_dtypes.bfloat16), exact, name="dx")


def test_a_dropped_term_of_a_long_sum_is_seen() -> None:
    terms = np.random.default_rng(0).standard_normal(16384) + 3.0
    total = np.array([terms.sum()])
    assert_close(total.astype(np.float32), total, reduction_length=terms.size)
    short = (total - terms[0]).astype(np.float32)
    with pytest.raises(AssertionError, match="1 of 1"):
        assert_close(short, total, reduction_length=terms.size)


def test_not_a_number_and_infinity_equal_themselves_only() -> None:
    special = np.array([np.nan, np.inf, -np.inf])
    assert_close(special.astype(np.float32), special)
    for position, wrong in ((0, 0.0), (1, 1e30), (2, np.inf), (1, np.nan)):
        got = special.astype(np.float32)
        got[position] = wrong
        with pytest.raises(AssertionError, match=rf"worst at \({position},\)"):
            assert_close(got, special)
    with pytest.raises(AssertionError, match="expected 1.0"):
        assert_close(np.array([np.inf], np.float32), np.array([1.0]))


def test_integers_are_exact_beyond_what_a_double_holds() -> None:
    large = np.array([2**62 + 1])
    assert_close(large, large)
    with pytest.raises(AssertionError, match="1 of 1"):
        assert_close(large + 1, large)


def test_shapes_must_agree() -> None:
    with pytest.raises(AssertionError, match=r"shape \(1, 3\), expected \(3,\)"):
        assert_close(np.zeros((1, 3)), np.zeros(3))


def test_tensors_are_compared_with_arrays_and_tensors() -> None:
    exact = torch.randn(64, 3, dtype=torch.float64)
    assert_close(exact.to(torch.bfloat16), exact)
    assert_close(exact.to(torch.float32), exact.numpy())
    off = exact.to(torch.float32)
    off[5, 2] += 1.0
    with pytest.raises(AssertionError, match=r"worst at \(5, 2\)"):
        assert_close(off, exact)


def test_a_tolerance_of_ones_own_is_obeyed() -> None:
    assert_close(np.array([1.5]), np.array([1.0]), within=Tolerance(0.0, 0.5))
    with pytest.raises(AssertionError):
        assert_close(np.array([1.5]), np.array([1.0]), within=Tolerance(0.0, 0.4))


def test_relative_error_is_that_of_the_norms() -> None:
    assert relative_error(np.array([3.0, 5.0]), np.array([3.0, 4.0])) == pytest.approx(0.2)
    assert relative_error(torch.tensor([3.0, 5.0]), torch.tensor([3.0, 4.0])) == pytest.approx(0.2)
    assert relative_error(np.array([0.5]), np.array([0.0])) == 0.5
    assert np.isnan(relative_error(np.array([np.nan, 1.0]), np.array([1.0, 1.0])))


@pytest.mark.usefixtures("fake_timer")
def test_do_bench_runs_as_long_as_it_is_told() -> None:
    calls: list[int] = []
    times = do_bench(lambda: calls.append(0), warmup=10, rep=20, return_mode="all")
    assert times == [float(run) for run in range(1, 11)]  # 20 ms of 2 ms each
    assert len(calls) == 1 + 1 + 5 + 10  # first call, cost, warmup, counted


@pytest.mark.usefixtures("fake_timer")
@pytest.mark.parametrize(
    ("mode", "expected"), [("mean", 2.5), ("median", 2.5), ("min", 1.0), ("max", 4.0)]
)
def test_do_bench_summarizes(mode: Any, expected: float) -> None:
    assert do_bench(lambda: None, rep=8, return_mode=mode) == expected


@pytest.mark.usefixtures("fake_timer")
def test_do_bench_gives_one_quantile_as_a_number_and_several_as_a_list() -> None:
    assert do_bench(lambda: None, rep=10, quantiles=[0.5]) == 3.0
    assert do_bench(lambda: None, rep=10, quantiles=(0.0, 1.0)) == [1.0, 5.0]


@pytest.mark.usefixtures("fake_timer")
def test_do_bench_drops_gradients_before_each_run() -> None:
    tensor = torch.zeros(1, requires_grad=True)
    seen: list[bool] = []

    def step() -> None:
        seen.append(tensor.grad is None)
        tensor.grad = torch.ones(1)

    do_bench(step, warmup=0, rep=6, grad_to_none=[tensor])
    assert seen[-3:] == [True, True, True]


@pytest.mark.usefixtures("fake_timer")
def test_interleaved_functions_take_turns_with_a_rotating_start() -> None:
    order: list[str] = []
    functions = {name: (lambda n=name: order.append(n)) for name in "abc"}
    medians = do_bench_interleaved(functions, warmup=0, rep=10)
    assert "".join(order[-15:]) == "abcbcacababcbca"
    assert set(medians) == {"a", "b", "c"}
    assert do_bench_interleaved({}) == {}


class FakeEvent:
    """On a GPU that takes 1 ms for a flush, and 5 for a run; `host` says how far the host is."""

    now = host = 0.0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at = FakeEvent.now = max(FakeEvent.now, FakeEvent.host)

    def query(self) -> bool:
        return self.at <= FakeEvent.host

    def elapsed_time(self, stop: FakeEvent) -> float:
        return stop.at - self.at


@pytest.mark.parametrize(("delays", "median"), [((0, 0, 7, 0, 9), 5.0), ((7, 7, 9), 12.0)])
def test_runs_for_which_the_gpu_waited_do_not_count_where_others_do(
    monkeypatch: pytest.MonkeyPatch, delays: tuple[int, ...], median: float
) -> None:
    def work(ms: float) -> None:
        FakeEvent.now = max(FakeEvent.now, FakeEvent.host) + ms

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch, "empty", lambda *_, **__: SimpleNamespace(zero_=lambda: work(1)))
    monkeypatch.setattr(FakeEvent, "now", 0.0)
    monkeypatch.setattr(FakeEvent, "host", 0.0)
    timer = testing._Timer()
    runs = []
    for delay in delays:

        def late(ms: int = delay) -> None:
            if ms:  # the queue is empty, and the host takes so long to launch
                FakeEvent.host = FakeEvent.now + ms
            work(5)

        runs.append(timer.run(late, flushes=1))
    assert np.median(timer.times(runs)) == median


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"return_mode": "average"}, "WS0330.*'average'.*min, max, mean, median, all"),
        ({"quantiles": [0.5, 50]}, "WS0331.*50 is not within 0 and 1"),
    ],
)
def test_do_bench_names_an_argument_that_it_cannot_take(arguments: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        do_bench(lambda: None, **arguments)


def test_timing_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="timing needs a GPU"):
        do_bench(lambda: None)
