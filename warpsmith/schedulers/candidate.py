"""A fusion made ready for one scheduler: its parameters, and the schedule that is laid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers import kept
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.counts import divides_sums, multiply_by_reciprocals
from warpsmith.schedulers.inner_grid import applicability as rows_grid_can
from warpsmith.schedulers.inner_grid import apply as rows_grid_apply
from warpsmith.schedulers.inner_grid.shapes import InnerGridParams
from warpsmith.schedulers.kept import ROW_SCHEDULERS
from warpsmith.schedulers.matmul import applicability as matmul_can
from warpsmith.schedulers.matmul import apply as matmul_apply
from warpsmith.schedulers.matmul import heuristic as matmul_heuristic
from warpsmith.schedulers.matmul import memory as matmul_memory
from warpsmith.schedulers.matmul import words as matmul_words
from warpsmith.schedulers.matmul.heuristic import MatmulParams
from warpsmith.schedulers.matmul_by_threads import applicability as threads_can
from warpsmith.schedulers.matmul_by_threads import apply as threads_apply
from warpsmith.schedulers.matmul_by_threads import heuristic as threads_heuristic
from warpsmith.schedulers.matmul_by_threads.heuristic import MatmulByThreadsParams
from warpsmith.schedulers.outer_grid import applicability as grid_can
from warpsmith.schedulers.outer_grid import apply as grid_apply
from warpsmith.schedulers.outer_grid.shapes import OuterGridParams
from warpsmith.schedulers.outer_persistent import apply as columns_apply
from warpsmith.schedulers.outer_persistent.shapes import OuterPersistentParams
from warpsmith.schedulers.parts import apply as parts_apply
from warpsmith.schedulers.parts import levels as parts_can
from warpsmith.schedulers.parts.shapes import PartsParams
from warpsmith.schedulers.pointwise import applicability as pointwise_can
from warpsmith.schedulers.pointwise import apply as pointwise_apply
from warpsmith.schedulers.pointwise import heuristic as pointwise_heuristic
from warpsmith.schedulers.pointwise.heuristic import PointwiseParams
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reads import read_by_vectors, read_in_vectors
from warpsmith.schedulers.reduction import applicability as reduction_can
from warpsmith.schedulers.reduction import apply as reduction_apply
from warpsmith.schedulers.reduction import heuristic as reduction_heuristic
from warpsmith.schedulers.reduction.heuristic import ReductionParams
from warpsmith.schedulers.reduction.shape import shape_of
from warpsmith.schedulers.rows import applicability as rows_can
from warpsmith.schedulers.rows import apply as rows_apply
from warpsmith.schedulers.rows import apply_turns, role
from warpsmith.schedulers.rows import columns as row_columns
from warpsmith.schedulers.rows import strategy as row_strategy
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.resident import Choice
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.scan import applicability as scan_applicability
from warpsmith.schedulers.scan import apply as scan_apply
from warpsmith.schedulers.scan import heuristic as scan_heuristic
from warpsmith.schedulers.scan.heuristic import ScanParams
from warpsmith.targets.target import Target

ColumnParams = OuterPersistentParams | OuterGridParams
Params = (
    PointwiseParams
    | ReductionParams
    | RowParams
    | ColumnParams
    | InnerGridParams
    | PartsParams
    | MatmulParams
    | MatmulByThreadsParams
    | ScanParams
)


VECTORS = (
    PointwiseParams | ReductionParams | RowParams | ColumnParams | InnerGridParams | PartsParams
)
"""Parameters of schedules whose innermost loop is a vector of one width."""


Refusal = Callable[[Program, Target], str]

Refusals = tuple[tuple[str, str], ...]
"""By name, why a scheduler cannot take a fusion; an empty reason means that it can."""


def _anywhere(refusal: Callable[[Program], str]) -> Refusal:
    """Of a scheduler that takes the same fusions on every target."""
    return lambda fusion, target: refusal(fusion)


SCHEDULERS = (
    ("pointwise", _anywhere(pointwise_can.refusal)),
    ("reduction", _anywhere(reduction_can.refusal)),
    ("parts", _anywhere(parts_can.refusal)),
    ("inner_persistent", _anywhere(rows_can.refusal)),
    ("inner_grid", _anywhere(rows_grid_can.refusal)),
    ("outer_persistent", _anywhere(rows_can.columns_refusal)),
    ("outer_grid", _anywhere(grid_can.refusal)),
    ("inner_outer", _anywhere(row_columns.refusal)),
    ("matmul", matmul_can.refusal),
    ("matmul_by_threads", _anywhere(threads_can.refusal)),
    ("scan", _anywhere(scan_applicability.refusal)),
)
"""Schedulers in the order in which they are asked: (name, refusal)."""


PERSISTENT = (*ROW_SCHEDULERS, "outer_persistent", "parts")
"""Those that keep in registers what they reduce."""


NO_RING = {
    "matmul": "",
    "matmul_by_threads": "",
    "scan": "a scan waits for what comes before, and loads when it has it",
    "outer_persistent": "a block has its columns once, and its threads load them at once",
    "outer_grid": "what a block has loaded it keeps",
    "inner_grid": "what a block has loaded it keeps",
    "parts": "a block has its rows once, and its threads load them at once",
}
"""By name, why kernels of a scheduler load nothing ahead; empty where theirs do in any case."""


@dataclass(frozen=True)
class Candidate:
    """A fusion with its caches, ready for one scheduler; `refusals` say why others declined.

    Nothing changes the fusion: each schedule is laid on a draft of it.
    `residents` are the ways to keep a row in registers, where that is what the scheduler does.
    """

    fusion: Fusion
    caches: tuple[Cached, ...]
    domains: DomainMap
    scheduler: str
    refusals: Refusals
    residents: tuple[Choice, ...] = ()

    def unsupported_sizes(self, problem: Problem) -> str:
        """Why the scheduler cannot take a call, whose sizes it sees here; empty where it can."""
        if self.scheduler in kept.VIEWS:
            return kept.unsupported_sizes(self._rows, dict(self.refusals), problem)
        if self.scheduler == "matmul":
            return matmul_heuristic.unsupported_sizes(self.fusion, problem)
        return ""

    def unspecialized(self, problem: Problem) -> str:
        """Why no role of its own can load what the kernel computes; empty where one can, or where
        there is nothing to load.
        """
        empty = any(
            0 in map(problem.size, _extents(tensor)) for tensor in self.fusion.input_tensors
        )
        if self.scheduler not in ROW_SCHEDULERS:
            return "the scheduler has no such form"
        return "" if empty else role.refusal(self._rows, problem)

    @property
    def decides(self) -> tuple[str, ...]:
        """Names of the sizes that follow from the parameters, and that other segments see too."""
        return (row_columns.blocks_of(self.fusion).name,) if self.scheduler == "inner_outer" else ()

    def agreed(self, params: Params, problem: Problem) -> dict[str, int]:
        """The values of these."""
        if not isinstance(params, RowParams) or not self.decides:
            return {}
        return {self.decides[0]: row_strategy.blocks(self._rows, params, problem)}

    @cached_property
    def _rows(self) -> Rows:
        view = kept.VIEWS[self.scheduler]
        return view(self.fusion, self.domains, self.caches, self.residents)

    def choose(self, problem: Problem) -> tuple[Params, dict[str, int]]:
        """The schedule's parameters, and the values of its launch symbols."""
        params = self._chosen(problem)
        symbols = self.symbols(params, problem)
        if not isinstance(params, VECTORS) or (
            isinstance(params, PointwiseParams) and not params.exact
        ):
            return params, symbols
        across = isinstance(params, PointwiseParams) and params.across
        names = read_in_vectors(self.fusion, problem, params.vector, across=across)
        return replace(params, vectorized=(*params.vectorized, *names)), symbols

    def _chosen(self, problem: Problem) -> Params:
        if self.scheduler == "pointwise":
            return pointwise_heuristic.choose(self.fusion, self.domains, self.caches, problem)
        if self.scheduler == "matmul":
            return matmul_heuristic.choose(self.fusion, problem)
        if self.scheduler == "matmul_by_threads":
            return threads_heuristic.choose(self.fusion, self.domains, self.caches, problem)
        if self.scheduler in kept.VIEWS:
            return kept.choose(self._rows, problem)
        if self.scheduler == "scan":
            return scan_heuristic.choose(self.fusion, self.domains, self.caches, problem)
        return reduction_heuristic.choose(self.fusion, self.domains, self.caches, problem)

    def symbols(self, params: Params, problem: Problem) -> dict[str, int]:
        """The values of the launch symbols that a schedule of these parameters has in a call."""
        match params:
            case PointwiseParams() if params.ring > 1:
                return {pointwise_apply.BLOCKS: pointwise_heuristic.blocks(params, problem)}
            case MatmulByThreadsParams() if params.shared:
                sharing = threads_heuristic.sharing(self.fusion, params, problem)
                return {reduction_apply.SPLITS: sharing}
            case RowParams() if params.warp_specialize and not self.decides:
                blocks = row_strategy.blocks(self._rows, params, problem)
                return {row_columns.BLOCKS: blocks}
            case OuterGridParams() | InnerGridParams():
                splits = kept.splits(self._rows, params, problem)
                return {reduction_apply.SPLITS: splits} if splits else {}
            case ReductionParams() if params.splits:
                shape = shape_of(self.fusion, self.domains, self.caches)
                splits = reduction_heuristic.splits(shape, params, problem)
                return {reduction_apply.SPLITS: splits}
        return {}

    def predicted(self, problem: Problem) -> tuple[tuple[str, float], ...]:
        """The strategies that were compared, with the microseconds that each is predicted to take:
        for as many rows as the model chooses by, which stand for those of the call.
        """
        if self.scheduler in ROW_SCHEDULERS:
            rows = self._rows
            return tuple(
                (_strategy(params), us)
                for params, us in row_strategy.candidates(rows, problem)
                # of threads that load for themselves beside sums of columns the model knows nothing
                if params.ring or not rows.columns
            )
        if self.scheduler == "matmul":
            return matmul_words.compared(matmul_heuristic.works_of(self.fusion, problem), problem)
        if self.scheduler == "matmul_by_threads":
            return tuple((p.words, us) for p, us in self._by_threads(problem) if us)
        if self.scheduler == "scan":
            shared = scan_heuristic.candidates(self.fusion, self.domains, self.caches, problem)
            return tuple((params.words, us) for params, us in shared)
        return ()

    def alternatives(self, problem: Problem) -> tuple[tuple[str, Params], ...]:
        """By name, the schedules that autotuning may choose from, the fastest predicted first; none
        where others than parameters follow from the choice.
        """
        if self.scheduler == "matmul":
            ranked = matmul_heuristic.ranked(self.fusion, problem)
            return tuple((matmul_words.shortly(p), p) for p, _ in ranked)
        if self.scheduler == "matmul_by_threads":
            return tuple((p.words, p) for p, _ in self._by_threads(problem))
        if self.scheduler == "scan":
            found = scan_heuristic.candidates(self.fusion, self.domains, self.caches, problem)
            return tuple((p.words, p) for p, _ in sorted(found, key=lambda each: each[1]))
        return ()

    def _by_threads(self, problem: Problem) -> list[tuple[MatmulByThreadsParams, float]]:
        return threads_heuristic.ranked(self.fusion, self.domains, self.caches, problem)

    def advice(self, problem: Problem) -> tuple[str, ...]:
        """What keeps a call from a faster path, and what its user could change."""
        if self.scheduler != "matmul":
            return ()
        product = matmul_heuristic.product_of(self.fusion)
        unstaged = matmul_memory.unstaged(self.fusion, product, problem)
        works = matmul_heuristic.works_of(self.fusion, problem)
        return tuple(matmul_words.advice(works, problem, unstaged))

    def no_ring(self, problem: Problem) -> str:
        """Why loads do not run ahead through shared memory; empty where they do."""
        if self.scheduler == "pointwise":
            return pointwise_heuristic.no_ring(self.fusion, self.domains, self.caches, problem)
        if self.scheduler in ROW_SCHEDULERS:
            return row_strategy.no_ring(self._rows, problem)
        if self.scheduler in NO_RING:
            return NO_RING[self.scheduler]
        return reduction_heuristic.ring_refusal(self.fusion, self.domains, self.caches, problem)

    def elements(self, params: Params) -> int:
        """Of rows, those that a thread has at a time; 0 where rows do not stay in registers."""
        if not isinstance(params, RowParams):
            return 0
        return params.unroll * params.vector * params.rows_per_thread

    def multiplies(self, params: Params) -> bool:
        """Whether `scheduled` multiplies where the fusion divides."""
        rows = isinstance(params, RowParams) and not params.warp_specialize
        turns = rows and self.scheduler == "inner_outer"
        return (turns or self.scheduler == "outer_persistent") and divides_sums(self.fusion)

    def scheduled(self, params: Params) -> Fusion:
        """A draft of the fusion with the schedule laid on it."""
        fusion = self.fusion.draft()
        tensors = {tensor.number: tensor for tensor in fusion.tensors}
        caches = tuple(cached.within(tensors) for cached in self.caches)
        if self.multiplies(params):
            multiply_by_reciprocals(fusion)
        if isinstance(params, PointwiseParams):
            pointwise_apply.apply(fusion, caches, params)
        elif isinstance(params, MatmulParams):
            matmul_apply.apply(fusion, caches, params)
        elif isinstance(params, MatmulByThreadsParams):
            threads_apply.apply(fusion, caches, params)
        elif isinstance(params, ScanParams):
            scan_apply.apply(fusion, caches, params)
        elif isinstance(params, OuterPersistentParams):
            columns_apply.apply(fusion, caches, params)
        elif isinstance(params, OuterGridParams):
            grid_apply.apply(fusion, caches, params)
        elif isinstance(params, InnerGridParams):
            rows_grid_apply.apply(fusion, caches, params)
        elif isinstance(params, PartsParams):
            parts_apply.apply(fusion, caches, params)
        elif isinstance(params, RowParams):
            turns = params.warp_specialize or self.scheduler == "inner_outer"
            (apply_turns if turns else rows_apply).apply(fusion, caches, params)
        else:
            reduction_apply.apply(fusion, caches, params)
        if isinstance(params, VECTORS):
            read_by_vectors(fusion, params.vectorized, params.vector)
        return fusion


def _strategy(params: RowParams) -> str:
    return "a role that loads" if params.warp_specialize else "waves"


def _extents(tensor: TensorView) -> tuple[Expr, ...]:
    return tuple(axis.extent for axis in tensor.shape_axes)
