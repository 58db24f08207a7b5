"""Schedules that ask for less, where one that asks for more spills or does not fit a call."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.schedulers.candidate import Params
from warpsmith.schedulers.matmul_by_threads.heuristic import MatmulByThreadsParams
from warpsmith.schedulers.outer_persistent.shapes import OuterPersistentParams
from warpsmith.schedulers.parts.shapes import PartsParams
from warpsmith.schedulers.pointwise.heuristic import PointwiseParams
from warpsmith.schedulers.reduction.heuristic import ReductionParams
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.scan.heuristic import ScanParams


def without_full_passes(params: Params) -> Params:
    """The parameters with predicates on all passes over a row that threads load themselves. Loads
    then stand in one row, and are all under way at once; that is faster, unless it spills, or
    several inputs are loaded: then the compiler has too few predicates, and loads wait for uses.
    """
    if isinstance(params, PartsParams | OuterPersistentParams) and params.masked:
        return params
    if isinstance(params, PartsParams):
        return replace(params, full=0, full_outer=0)
    if isinstance(params, RowParams) and params.across:
        return params
    if isinstance(params, RowParams | OuterPersistentParams):
        return replace(params, full=0)
    return params


def without_vectors(params: Params) -> Params | None:
    """The same schedule without vectors; None where it has none, or is nothing without them."""
    if isinstance(params, PointwiseParams) and (params.vector > 1 or params.ring):
        flat = replace(params, transposed=None, ring=0, width=0, unroll=1)
        return replace(flat, vector=1, vectorized=())
    if isinstance(params, ReductionParams) and params.vector > 1 and not params.ring:
        return replace(params, vector=1, vectorized=())
    if isinstance(params, ScanParams) and params.vectorized:
        return replace(params, vectorized=())
    if isinstance(params, MatmulByThreadsParams) and params.vectorized:
        first, second = (replace(each, vector=1) for each in params.reads)
        return replace(params, reads=(first, second), vectorized=())
    return None
