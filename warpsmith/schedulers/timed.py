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
from importlib import import_module
from pathlib import Path
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
    works: Sequence[WorkT] | None = None,
) -> Iterator[Timing[WorkT, ShapeT]]:
    """Those in a package's `timings.json` that a target took, of what is like one of the works, or
    of all.
    """
    device, names, rows = _content(package)
    if device not in target.devices:
        return
    place = {name: position for position, name in enumerate(names)}
    lengths = None if works is None else {each.length for each in works}
    done, used = _Reader(work, place), _Reader(shape, place)
    wanted: dict[WorkT, bool] = {}
    for row in rows:
        if lengths is not None and row[place["length"]] not in lengths:
            continue
        timed = done(row)
        if timed not in wanted:
            wanted[timed] = works is None or any(_alike(timed, each) for each in works)
        if wanted[timed]:
            yield Timing(timed, used(row), row[place["us"]])


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
    found = list(timed)
    done = {t.work for t in found}
    wanted = {each for each in done if any(_alike(each, work) for work in works)}
    alike = [timing for timing in found if timing.work in wanted]

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
    folder = Path(str(import_module(package).__file__))
    content = json.loads(folder.with_name("timings.json").read_text())
    return content["gpu"], content["columns"], content["rows"]


_Part = TypeVar("_Part")


class _Reader(Generic[_Part]):
    """Makes a part of rows, equal ones once; truths are 0 and 1 there."""

    def __init__(self, kind: type[_Part], place: Mapping[str, int]) -> None:
        self._kind = kind
        self._parts = [(f.name, f.type == "bool") for f in fields(kind)]  # type: ignore[arg-type]
        self._places = [place[name] for name, _ in self._parts]
        self._known: dict[tuple[Any, ...], _Part] = {}

    def __call__(self, row: Sequence[Any]) -> _Part:
        values = tuple([row[place] for place in self._places])
        if values not in self._known:
            pairs = zip(self._parts, values, strict=True)
            made = {name: bool(value) if truth else value for (name, truth), value in pairs}
            self._known[values] = self._kind(**made)
        return self._known[values]


def _alike(timed: WorkT, work: WorkT) -> bool:
    """Whether both are the same but for the number of rows, and about as many operations."""
    few, many = sorted((timed.operations, work.operations))
    same = many <= NEAR_OPERATIONS * few
    return same and replace(timed, rows=work.rows, operations=work.operations) == work
