"""The model of norms backward, held against the timings that its constants come from."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from warpsmith.schedulers.inner_outer.predict import Shape, Work, predicted_us

DATA = Path(__file__).parents[2] / "docs/lessons/data/norm-backward-params.json"
SM_COUNT = 132

OPERATIONS = {
    ("layer_norm_bwd", "bfloat16"): 19,
    ("layer_norm_bwd", "float"): 16,
    ("rms_norm_bwd", "bfloat16"): 15,
    ("rms_norm_bwd", "float"): 12,
}
"""On each element, as `rows_of` counts them in bench/norm_backward.py's programs."""


def timed() -> list[tuple[Work, Shape, float]]:
    content = json.loads(DATA.read_text())
    return [_case(dict(zip(content["columns"], row, strict=True))) for row in content["rows"]]


def _case(row: dict[str, Any]) -> tuple[Work, Shape, float]:
    item = 2 if row["dtype"] == "bfloat16" else 4
    work = Work(
        rows=row["rows"],
        length=row["columns"],
        loaded=2 * item,
        stored=item,
        summed=8 if row["problem"] == "layer_norm_bwd" else 4,
        operations=OPERATIONS[row["problem"], row["dtype"]],
    )
    shape = Shape(
        threads=row["threads"],
        elements=row["elements"],
        side=row["side"],
        kept=row["kept"],
        slots=row["slots"],
        blocks_per_sm=row["blocks_per_sm"],
        apart=bool(row["role"]),
        cached=not row["reread"],
    )
    return work, shape, row["us"]


def predicted(work: Work, shape: Shape) -> float:
    return predicted_us(work, shape, SM_COUNT)


def test_half_within_two_percent_and_nine_of_ten_within_six() -> None:
    errors = [abs(predicted(work, shape) / us - 1) for work, shape, us in timed()]
    assert len(errors) > 900
    assert median(errors) < 0.02
    assert quantiles(errors, n=10)[-1] < 0.06


def test_what_is_predicted_to_be_fastest_is_near_the_fastest() -> None:
    """At the sizes of which ten shapes and more were timed."""
    lost = []
    for _, group in groupby(sorted(timed(), key=_size), key=_size):
        cases = list(group)
        if len(cases) >= 10:
            chosen = min(cases, key=lambda case: predicted(case[0], case[1]))
            lost.append(chosen[2] / min(us for _, _, us in cases) - 1)
    assert len(lost) > 20
    assert sum(lost) / len(lost) < 0.03
    assert max(lost) < 0.1


def _size(case: tuple[Work, Shape, float]) -> tuple[int, ...]:
    work = case[0]
    return work.rows, work.length, work.loaded, work.summed


def test_more_work_takes_longer() -> None:
    work, shape, _ = timed()[0]
    us = predicted(work, shape)
    assert predicted(replace(work, rows=2 * work.rows), shape) > 1.5 * us
    assert predicted(replace(work, summed=2 * work.summed), shape) > us
    assert predicted(replace(work, operations=40 * work.operations), shape) > us
    assert predicted(work, replace(shape, cluster=2)) > us


def test_no_rows_take_the_start_alone() -> None:
    work, shape, _ = timed()[0]
    assert predicted(replace(work, rows=0), shape) < 12
