"""Kernels of meetings on the simulator, whole and with one planned statement less."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tests.support.meeting_kernels import Meeting
from tests.support.meeting_parts import COLUMNS, DEPTH, HALF, ROWS, SUMS, THREADS, Body
from tests.support.simulating import reported
from warpsmith.kernel.clusters import AnnounceStart, AwaitStart, SynchronizeCluster
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement, Synchronize
from warpsmith.kernel.products import AwaitProducts, CommitProducts, FenceProducts
from warpsmith.kernel.rings import (
    Arrive,
    ArriveByWarp,
    Await,
    AwaitCopies,
    CommitCopies,
    Expect,
    FenceProxy,
    InitBarriers,
)
from warpsmith.kernel.traversal import children
from warpsmith.ops.scalars import numpy_dtype

SCHEDULES = 16

PLANNED = (
    AnnounceStart,
    AwaitStart,
    InitBarriers,
    Synchronize,
    SynchronizeCluster,
    FenceProxy,
    CommitCopies,
    AwaitCopies,
    FenceProducts,
    CommitProducts,
    AwaitProducts,
    Expect,
    Await,
    ArriveByWarp,
    Arrive,
)
"""Statements that order others: what the passes put into the kernels here, which had none."""

# --- what is right -----------------------------------------------------------------------------


def given(meeting: Meeting) -> np.ndarray:
    """Whole numbers, so small that no sum of products is rounded."""
    random = np.random.default_rng(6)
    shape = (meeting.place.turns, ROWS, DEPTH)
    return random.integers(-2, 3, shape).astype(numpy_dtype(HALF))


def expected(meeting: Meeting) -> np.ndarray:
    """All results; NaN where none is stored."""
    turns = meeting.place.turns
    result = np.full((turns, THREADS, ROWS * DEPTH // THREADS), np.nan)
    pairs = meeting.straight or meeting.pairs * turns
    for turn, (tile, (_, reader)) in enumerate(zip(given(meeting), pairs, strict=True)):
        if meeting.adds:
            result[0, :, :SUMS] = np.nan_to_num(result[0, :, :SUMS]) + _multiplied(tile)
        elif reader == "wgmma":
            result[turn, :, :SUMS] = _multiplied(tile)
        else:
            result[turn] = tile.reshape(result[turn].shape)
    return result.reshape(-1)


def _multiplied(tile: np.ndarray) -> np.ndarray:
    """Products by thread, with the elements that a thread has next to each other."""
    wide = tile.astype(np.float32)
    whole = wide @ wide[:COLUMNS].T
    thread, number = np.arange(THREADS)[:, None], np.arange(SUMS)
    rows = 16 * (thread // 32) + 8 * (number // 2) + thread % 32 // 4
    columns = 2 * (thread % 4) + number % 2
    return np.asarray(whole[rows, columns])


# --- runs --------------------------------------------------------------------------------------


def objections(meeting: Meeting, kernel: Kernel, schedules: int = SCHEDULES) -> list[str]:
    """What is wrong with a kernel: the kinds of the simulator's findings, and results."""
    x, known = given(meeting), expected(meeting)
    report = reported(kernel, {}, {"X": x}, schedules=schedules)
    assert report.verdict != "incomplete", report
    if report.verdict == "findings":
        return sorted({finding.kind for finding in report.findings})
    found = report.arrays["Y"].astype(np.float32)
    return [] if np.array_equal(found, known, equal_nan=True) else ["wrong results"]


def objects(meeting: Meeting, kernel: Kernel) -> bool:
    """Whether some schedule shows that a kernel is wrong; few are tried first."""
    return bool(objections(meeting, kernel, 2) or objections(meeting, kernel))


# --- one statement less ------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """A kernel with one planned statement less, or with a wait that lets one group more be open.

    Attributes:
        name: the statement's class, and its number among those of the class in the text.
    """

    name: str
    kernel: Kernel


def mutants(kernel: Kernel) -> Iterator[Mutant]:
    """All kernels with one planned statement less."""
    numbers: dict[str, int] = {}
    for path, statement in _planned(kernel.body, ()):
        kind = type(statement).__name__
        name = f"{kind} {numbers.setdefault(kind, 0)}"
        numbers[kind] += 1
        yield Mutant(f"{name} removed", replace(kernel, body=_put(kernel.body, path, ())))
        if isinstance(statement, AwaitCopies | AwaitProducts):
            more = replace(statement, pending=statement.pending + 1)
            body = _put(kernel.body, path, (more,))
            yield Mutant(f"{name} with one more pending", replace(kernel, body=body))


def planned(kernel: Kernel) -> list[Statement]:
    """The statements that order others, as they stand in the text."""
    return [statement for _, statement in _planned(kernel.body, ())]


def _planned(body: Body, at: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Statement]]:
    for place, statement in enumerate(body):
        if isinstance(statement, PLANNED):
            yield (*at, place), statement
        yield from _planned(children(statement), (*at, place))


def _put(body: Body, path: tuple[int, ...], new: Body) -> Body:
    """The body with other statements at a place; what is left empty around it goes, too."""
    place, *rest = path
    old = body[place]
    if rest:
        inner = _put(children(old), tuple(rest), new)
        new = (replace(old, body=inner),) if inner else ()  # type: ignore[call-arg]
    return (*body[:place], *new, *body[place + 1 :])
