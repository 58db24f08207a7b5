"""What kernels of rows took, and by how much a model is to be corrected where they did.

A scheduler's `timings.json` has medians of CUDA events on one device, with the L2 flushed. Its
model is right within some percent; two good shapes often differ by less than that. So at lengths of
rows that were timed, what the model says of a shape is corrected, for the target that was timed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources
from statistics import median
from typing import Any, Generic, TypeVar

from warpsmith.targets.target import Target

NEAR_OPERATIONS = 1.25
"""Rows of so many times the operations, or fewer, are alike."""

UNTIMED = 1.05
"""Of what a model says of a shape, where others were timed and this one was not: those that it
takes for the fastest mostly are slower than it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be done with rows.

    Attributes:
        rows, length: of the tensors.
        loaded, stored: bytes of an element of a row.
        operations: for each element of a row, in all stages.
        evict_last: what is read is the last that leaves the L2.
    """

    rows: int
    length: int
    loaded: int
    stored: int
    operations: int
    evict_last: bool


WorkT = TypeVar("WorkT", bound=Work)
ShapeT = TypeVar("ShapeT")


@dataclass(frozen=True, slots=True)
class Timing(Generic[WorkT, ShapeT]):
    """What was done, who did it, and how many microseconds it took."""

    work: WorkT
    shape: ShapeT
    us: float


def timings(
    package: str,
    work: type[WorkT],
    shape: type[ShapeT],
    target: Target,
    length: int | None = None,
) -> Iterator[Timing[WorkT, ShapeT]]:
    """Those in a package's `timings.json` that a target took, of rows of a length or of all."""
    device, names, rows = _content(package)
    if device not in target.devices:
        return
    at = names.index("length")
    for row in rows:
        if length is None or row[at] == length:
            values = dict(zip(names, row, strict=True))
            yield Timing(_of(work, values), _of(shape, values), values["us"])


def ratios(
    timed: Iterable[Timing[WorkT, ShapeT]], predicted: Callable[[WorkT, ShapeT], float]
) -> Mapping[ShapeT, float]:
    """What was measured over what is predicted, for each shape that was timed."""
    return {t.shape: t.us / predicted(t.work, t.shape) for t in timed}


def nearest(
    timed: Iterable[Timing[WorkT, ShapeT]], works: Sequence[WorkT], *, near_rows: float = math.inf
) -> tuple[Timing[WorkT, ShapeT], ...]:
    """Those of one of the works, or of one with another number of rows: that which comes nearest,
    `near_rows` times as many or fewer.
    """
    alike = [timing for timing in timed if any(_alike(timing.work, work) for work in works)]

    def distance(rows: int) -> float:
        return abs(math.log(rows / max(1, works[0].rows)))

    near = min({timing.work.rows for timing in alike}, key=distance, default=None)
    if near is None or distance(near) > math.log(near_rows):
        return ()
    return tuple(timing for timing in alike if timing.work.rows == near)


def correction(found: Mapping[ShapeT, float], shape: ShapeT) -> float:
    """By how much what the model says of a shape is to be multiplied.

    Of a shape that was not timed it says no more than of most that were.
    """
    if shape in found:
        return found[shape]
    return UNTIMED * max(1.0, median(found.values())) if found else 1.0


@cache
def _content(package: str) -> tuple[str, list[str], list[list[Any]]]:
    content = json.loads(resources.files(package).joinpath("timings.json").read_text())
    return content["gpu"], content["columns"], content["rows"]


_Part = TypeVar("_Part")


def _of(kind: type[_Part], values: Mapping[str, Any]) -> _Part:
    """A part of a row; truths are 0 and 1 there."""
    made = {}
    for field in fields(kind):  # type: ignore[arg-type]
        value = values[field.name]
        made[field.name] = bool(value) if field.type == "bool" else value
    return kind(**made)


def _alike(timed: WorkT, work: WorkT) -> bool:
    """Whether both are the same but for the number of rows, and about as many operations."""
    few, many = sorted((timed.operations, work.operations))
    same = replace(timed, rows=work.rows, operations=work.operations) == work
    return same and many <= NEAR_OPERATIONS * few
