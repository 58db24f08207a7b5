"""The schedulers of rows, alone and beside sums of columns."""

from __future__ import annotations

from warpsmith.ir.fusion import Fusion
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.candidate import Compared
from warpsmith.schedulers.counts import divides_sums
from warpsmith.schedulers.inner_grid.heuristic import faster
from warpsmith.schedulers.kept import InRegisters
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows import applicability, apply, apply_turns, columns, role, strategy
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.places import places_of_extremes
from warpsmith.schedulers.rows.resident import REGISTER_BYTES
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.rows.two_passes import back_to_two_passes
from warpsmith.values import dataclass

FEW_SPILLS = 16
"""With a masked last pass LayerNorm of 5512x19448 took 136 microseconds, without one 112 (H200)."""


@dataclass(frozen=True)
class _OfRows(InRegisters[Rows]):
    loads_rows = True
    view_of = Rows

    def unspecialized(self, problem: Problem) -> str:
        sizes = (problem.size(a.extent) for t in self.fusion.input_tensors for a in t.shape_axes)
        return "" if 0 in sizes else role.refusal(self.rows, problem)

    def parameters(self, problem: Problem) -> RowParams:
        return strategy.choose(self.rows, problem)

    def predicted(self, problem: Problem) -> Compared:
        return tuple(
            ("a role that loads" if params.warp_specialize else "waves", us)
            for params, us in strategy.candidates(self.rows, problem)
            # of threads that load for themselves beside sums of columns the model knows nothing
            if params.ring or not self.rows.columns
        )

    def shapes(self, problem: Problem) -> list[tuple[float, RowParams]]:
        return strategy.considered(self.rows, problem)

    def finished(self, params: RowParams, problem: Problem) -> RowParams:
        return strategy.finished(self.rows, params, problem)

    def no_ring(self, problem: Problem) -> str:
        return strategy.no_ring(self.rows, problem)

    def multiplies(self, params: RowParams) -> bool:
        if params.warp_specialize:
            return False
        return divides_sums(self.fusion, near=self.near_counts)


class InnerPersistent(_OfRows):
    scheduler = "inner_persistent"
    declines = staticmethod(applicability.refusal)
    few_spills = FEW_SPILLS
    near_counts = in_one_pass = True

    @classmethod
    def prepared(cls, draft: Fusion) -> tuple[Cached, ...]:
        places_of_extremes(draft)
        return super().prepared(draft)

    def unfit(self, problem: Problem) -> str:
        if reason := strategy.unsupported_sizes(self.rows, problem):
            return reason
        grid = self.rows.in_pieces and not self.declined_by("inner_grid")
        return faster(self.rows, problem) if grid else ""

    def multiplies(self, params: RowParams) -> bool:
        narrow = max(self.rows.sizes, default=REGISTER_BYTES) < REGISTER_BYTES
        return narrow and super().multiplies(params)  # others keep all digits of their means

    def symbols(self, params: RowParams, problem: Problem) -> dict[str, int]:
        if not params.warp_specialize:
            return {}
        return {columns.BLOCKS: strategy.blocks(self.rows, params, problem)}

    @staticmethod
    def lay(fusion: Fusion, caches: tuple[Cached, ...], params: RowParams) -> None:
        if params.two_passes:
            back_to_two_passes(fusion)
        (apply_turns if params.warp_specialize else apply).apply(fusion, caches, params)


class InnerOuter(_OfRows):
    scheduler = "inner_outer"
    declines = staticmethod(columns.refusal)
    lay = staticmethod(apply_turns.apply)

    @classmethod
    def prepared(cls, draft: Fusion) -> tuple[Cached, ...]:
        caches = super().prepared(draft)
        draft.bring_first(columns.rows_alone(draft, columns.partial_sums(draft)).operations)
        return caches

    def unfit(self, problem: Problem) -> str:
        return strategy.unsupported_sizes(self.rows, problem)

    @property
    def decides(self) -> tuple[str, ...]:
        return (columns.blocks_of(self.fusion).name,)

    def agreed(self, params: RowParams, problem: Problem) -> dict[str, int]:
        return {self.decides[0]: strategy.blocks(self.rows, params, problem)}
