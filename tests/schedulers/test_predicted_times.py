"""The model of norms backward, held against the timings that its constants come from."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from statistics import median, quantiles

import pytest

from warpsmith.schedulers import timed
from warpsmith.schedulers.inner_outer.model import Shape, Work, predicted_us
from warpsmith.schedulers.inner_outer.predict import NEAR_ROWS, learned
from warpsmith.schedulers.timed import UNTIMED, correction
from warpsmith.targets.hopper import H200
from warpsmith.tools.predicted_picture import measured, picture

DOCS = Path(__file__).parents[2] / "docs"
Timing = timed.Timing[Work, Shape]


def predicted(timing: Timing) -> float:
    return predicted_us(timing.work, timing.shape, H200)


def corrected(work: Work, shape: Shape) -> float:
    return correction(learned(work, H200), shape)


def lone() -> Timing:
    """The first at whose length one number of rows was timed."""
    counts = defaultdict(set)
    for timing in measured():
        counts[timing.work.length].add(timing.work.rows)
    return next(timing for timing in measured() if len(counts[timing.work.length]) == 1)


def test_half_within_two_and_a_half_percent_and_nine_of_ten_within_eight() -> None:
    errors = [abs(predicted(timing) / timing.us - 1) for timing in measured()]
    assert len(errors) > 1000
    assert median(errors) < 0.025
    assert quantiles(errors, n=10)[-1] < 0.08


def groups() -> list[list[Timing]]:
    """The timings of each work of which eight shapes and more were timed."""
    found = [list(group) for _, group in groupby(measured(), key=lambda each: each.work)]
    return [group for group in found if len(group) >= 8]


def test_what_is_predicted_to_be_fastest_is_near_the_fastest() -> None:
    lost = [
        min(group, key=predicted).us / min(timing.us for timing in group) - 1 for group in groups()
    ]
    assert len(lost) > 50
    assert sum(lost) / len(lost) < 0.025
    assert max(lost) < 0.09


def test_where_shapes_were_timed_the_fastest_of_them_is_taken() -> None:
    for group in groups():
        fastest = min(group, key=lambda timing: timing.us)
        times = [predicted(each) * corrected(each.work, each.shape) for each in group]
        assert min(times) == pytest.approx(fastest.us)


def test_another_number_of_rows_of_that_length_is_corrected_alike() -> None:
    first = lone()
    ratio = first.us / predicted(first)
    for rows in (first.work.rows * 2, first.work.rows + 7):
        assert corrected(replace(first.work, rows=rows), first.shape) == ratio
    few = replace(first.work, rows=int(first.work.rows / NEAR_ROWS) - 1)
    assert corrected(few, first.shape) == 1


def test_what_was_not_timed_is_not_corrected() -> None:
    work, shape = measured()[0].work, measured()[0].shape
    assert corrected(replace(work, length=work.length + 8), shape) == 1
    assert corrected(replace(work, summed=work.summed + 8), shape) == 1
    assert corrected(replace(work, operations=2 * work.operations), shape) == 1
    assert corrected(work, replace(shape, stages=shape.stages + 31)) == UNTIMED


def test_more_work_takes_longer() -> None:
    first = lone()
    work, shape, us = first.work, first.shape, predicted(first)
    assert predicted_us(replace(work, rows=2 * work.rows), shape, H200) > 1.5 * us
    assert predicted_us(replace(work, summed=2 * work.summed), shape, H200) > us
    assert predicted_us(replace(work, averaged=work.averaged + 9), shape, H200) > us
    assert predicted_us(replace(work, operations=40 * work.operations), shape, H200) > us
    assert predicted_us(work, replace(shape, cluster=2), H200) > us
    assert predicted_us(work, replace(shape, stages=3 * shape.stages), H200) > us


def test_no_rows_take_the_start_alone() -> None:
    first = measured()[0]
    assert predicted_us(replace(first.work, rows=0), first.shape, H200) < 12


def test_the_picture_is_that_of_the_measured() -> None:
    name = "pictures/norm-backward-predicted.svg"
    assert (DOCS / name).read_text() == picture(measured())
    assert name in (DOCS / "lessons/norms_backward.md").read_text()
