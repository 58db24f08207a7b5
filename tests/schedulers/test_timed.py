"""What timings of kernels add to what models say of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import pytest

from warpsmith.schedulers import normalization
from warpsmith.schedulers.normalization.model import Shape, Work, predicted_us
from warpsmith.schedulers.normalization.predict import learned
from warpsmith.schedulers.timed import (
    NEAR_OPERATIONS,
    UNTIMED,
    Timing,
    correction,
    nearest,
    ratios,
    timings,
)
from warpsmith.targets.hopper import H200


def forward(*works: Work) -> list[Timing[Work, Shape]]:
    return list(timings(normalization.__name__, Work, Shape, H200, works or None))


def predicted(work: Work, shape: Shape) -> float:
    return predicted_us(work, shape, H200)


def test_where_shapes_were_timed_the_fastest_of_them_is_predicted_to_be() -> None:
    groups = [list(group) for _, group in groupby(forward(), key=lambda timing: timing.work)]
    assert len(groups) > 60
    for group in groups:
        found = learned((group[0].work,), H200)
        near = [timing for timing in group if timing.shape in found]
        times = {t.shape: predicted(t.work, t.shape) * correction(found, t.shape) for t in near}
        assert min(times.values()) <= 1.01 * min(timing.us for timing in near)


def test_truths_are_truths_again() -> None:
    first = forward()[0]
    assert type(first.work.evict_last) is bool
    assert type(first.shape.masked) is bool


def test_only_what_is_alike_is_read() -> None:
    whole = forward()
    assert {4096, 131072} <= {timing.work.length for timing in whole}
    first, last = whole[0].work, whole[-1].work
    for works in ((first,), (last,), (first, last)):
        found = forward(*works)
        assert found == [t for t in whole if any(nearest([t], (work,)) for work in works)]
        assert len(found) > 1
    assert forward(replace(first, length=4099)) == []


def one(**changes: object) -> Timing[Work, Shape]:
    first = next(timing for timing in forward() if timing.work.length == 4096)
    return Timing(replace(first.work, **changes), first.shape, 7.0)  # type: ignore[arg-type]


def test_the_nearest_number_of_rows_counts() -> None:
    few, many = one(rows=100), one(rows=10000)
    shapes = [replace(few.shape, threads=threads) for threads in (32, 64)]
    timed = [
        Timing(few.work, shapes[0], 7.0),
        Timing(many.work, shapes[0], 9.0),
        Timing(many.work, shapes[1], 8.0),
    ]

    def found(rows: int, near_rows: float = 1e9) -> dict[Shape, float]:
        work = replace(few.work, rows=rows)
        near = nearest(timed, (work,), near_rows=near_rows)
        return dict(ratios(near, lambda work, shape: 2.0))

    assert found(200) == {shapes[0]: 3.5}
    assert found(5000) == {shapes[0]: 4.5, shapes[1]: 4.0}
    assert found(0) == {shapes[0]: 3.5}
    assert found(10000 * 3, near_rows=2.0) == {}
    assert found(10000 * 3, near_rows=4.0) == {shapes[0]: 4.5, shapes[1]: 4.0}


@pytest.mark.parametrize("field", ["loaded", "stored", "stages", "costly", "length"])
def test_other_work_is_not_alike(field: str) -> None:
    timed = one()
    other = replace(timed.work, **{field: getattr(timed.work, field) + 1})
    assert nearest([timed], (other,)) == ()
    other = replace(timed.work, evict_last=not timed.work.evict_last)
    assert nearest([timed], (other,)) == ()


def test_about_as_many_operations_are_alike() -> None:
    timed = one(operations=100)
    more, fewer = int(100 * NEAR_OPERATIONS), int(100 / NEAR_OPERATIONS)
    for operations, alike in ((more, True), (fewer, True), (more + 2, False), (fewer - 2, False)):
        work = replace(timed.work, operations=operations)
        assert bool(nearest([timed], (work,))) is alike


def test_what_was_not_timed_counts_more_only_where_something_was() -> None:
    timed = one()
    other = replace(timed.shape, threads=timed.shape.threads + 32)
    assert correction({}, other) == 1
    assert correction({timed.shape: 0.9}, timed.shape) == 0.9
    assert correction({timed.shape: 0.9}, other) == UNTIMED


def test_timings_of_the_nearest_number_of_rows() -> None:
    timed = one()
    others = [
        replace(timed, work=replace(timed.work, rows=timed.work.rows * n)) for n in (1, 4, 32)
    ]
    for asked, found in ((1, 0), (3, 1), (10, 1), (20, 2)):
        work = replace(timed.work, rows=timed.work.rows * asked)
        assert nearest(others, (work,)) == (others[found],)
    far = replace(timed.work, rows=timed.work.rows * 300)
    assert nearest(others, (far,), near_rows=8.0) == ()


def test_what_was_not_timed_is_taken_to_be_no_faster_than_the_model_is_wrong() -> None:
    timed = one()
    found = {
        replace(timed.shape, threads=32 * n): ratio for n, ratio in enumerate((1.1, 1.2, 1.9), 1)
    }
    other = replace(timed.shape, threads=999)
    assert correction(found, other) == UNTIMED * 1.2
