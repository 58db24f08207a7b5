"""When a role of its own loads rows, and in which shape."""

from __future__ import annotations

from typing import Any

from warpsmith.schedulers.layout import stage_bytes, unfit_for_bulk, unfit_for_copies
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows import specialized
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.predict import Predictor
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.rows.specialized import Streamed

LEAST_BYTES = 1024
"""Rows of fewer bytes are not loaded ahead: one thread asks for each of them apart."""

RINGS_BYTES = (65536, 98304, 131072)
"""Bytes of rows that a multiprocessor's rings are to hold: the less where there are few rows, the
more where there are many, mostly."""

NO_LOADS = "no input has an element for each one of the rows"
IN_PIECES = "rows lie in several pieces"
CROSSWISE = "does not have its rows along its fastest dimension"
TORN = "is reshaped to rows, which may lie anywhere in it"


def refusal(rows: Rows, problem: Problem) -> str:
    """Why the rows of a call cannot be loaded by a role; empty where they can."""
    return unfit(rows, problem) or specialized.refusal(_streamed(rows, problem))


def unfit(rows: Rows, problem: Problem, least: int = 16) -> str:
    """Why no role can load such rows, in copies of `least` bytes or more, whatever its shape: as
    they are, or in whole chunks.
    """
    if len(rows.row) == len(rows.axes):
        return "all is one row"
    if rows.in_pieces:
        return IN_PIECES
    if not rows.loads:
        return NO_LOADS
    if rows.torn:
        return f"{rows.torn} {TORN}"
    if rows.crosswise:
        return f"{rows.crosswise} {CROSSWISE}"
    return unfit_for_bulk(rows.loads, rows.length(problem), problem, least)


def choose(rows: Rows, problem: Problem, predictor: Predictor, least: int = 16) -> RowParams | None:
    """The parameters predicted to take the least time, of rows of so many bytes or more; None where
    no role can load them.
    """
    if unfit(rows, problem, least) or rows.length(problem) == 0:
        return None
    return specialized.fastest(_streamed(rows, problem), predictor, **_tried(rows))


def shapes(rows: Rows, problem: Problem, least: int) -> list[RowParams]:
    """All those whose registers are not scarce, of rows of so many bytes or more."""
    if unfit(rows, problem, least):
        return []
    return list(specialized.unhurried(_streamed(rows, problem), **_tried(rows)))


def _tried(rows: Rows) -> dict[str, Any]:
    """Of shapes, which rows of a thread and which rings are tried."""
    if rows.columns:
        return {"rings_bytes": RINGS_BYTES}
    return {"most_kept": 1, "rings_bytes": (RINGS_BYTES[0], RINGS_BYTES[-1])}


def _streamed(rows: Rows, problem: Problem) -> Streamed:
    length, vector = rows.length(problem), rows.run.vector(problem)
    chunks = bool(unfit_for_copies(rows.loads, length, problem))
    return Streamed(
        length=length,
        vector=vector,
        loaded=rows.loaded,
        summed=rows.summed,
        residents=rows.turning,
        limits=problem.target.family.limits,
        widened=1 if rows.columns else len(rows.loads),
        weights_fit=not chunks and rows.weights_fit,
        stage=stage_bytes(rows.loads, length, length, chunks=chunks),
        chunks=chunks,
        vectorized=rows.run.vectorized(problem, vector),
    )
