"""The model of norms backward, held against the timings that its constants come from."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from statistics import median, quantiles

from warpsmith.schedulers.inner_outer.predict import predicted_us
from warpsmith.tools.predicted_picture import SM_COUNT, Timing, picture, timings

DOCS = Path(__file__).parents[2] / "docs"


def timed() -> list[Timing]:
    return timings(json.loads((DOCS / "lessons/data/norm-backward-params.json").read_text()))


def test_half_within_two_percent_and_nine_of_ten_within_six() -> None:
    errors = [abs(timing.predicted / timing.us - 1) for timing in timed()]
    assert len(errors) > 900
    assert median(errors) < 0.02
    assert quantiles(errors, n=10)[-1] < 0.06


def test_what_is_predicted_to_be_fastest_is_near_the_fastest() -> None:
    """At the sizes of which ten shapes and more were timed."""
    lost = []
    for _, group in groupby(sorted(timed(), key=_size), key=_size):
        cases = list(group)
        if len(cases) >= 10:
            chosen = min(cases, key=lambda timing: timing.predicted)
            lost.append(chosen.us / min(timing.us for timing in cases) - 1)
    assert len(lost) > 20
    assert sum(lost) / len(lost) < 0.03
    assert max(lost) < 0.1


def _size(timing: Timing) -> tuple[int, ...]:
    work = timing.work
    return work.rows, work.length, work.loaded, work.summed


def test_more_work_takes_longer() -> None:
    first = timed()[0]
    work, shape, us = first.work, first.shape, first.predicted
    assert predicted_us(replace(work, rows=2 * work.rows), shape, SM_COUNT) > 1.5 * us
    assert predicted_us(replace(work, summed=2 * work.summed), shape, SM_COUNT) > us
    assert predicted_us(replace(work, operations=40 * work.operations), shape, SM_COUNT) > us
    assert predicted_us(work, replace(shape, cluster=2), SM_COUNT) > us


def test_no_rows_take_the_start_alone() -> None:
    first = timed()[0]
    assert predicted_us(replace(first.work, rows=0), first.shape, SM_COUNT) < 12


def test_the_picture_is_that_of_the_timings() -> None:
    assert (DOCS / "pictures/norm-backward-predicted.svg").read_text() == picture(timed())
    assert "pictures/norm-backward-predicted.svg" in (DOCS / "lessons/norms.md").read_text()
