"""What schedulers of rows and columns that stay with blocks have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Reduction, takes_moments
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.caching import Cached, add_caches
from warpsmith.schedulers.candidate import Alternatives, Candidate
from warpsmith.schedulers.counts import divides_sums
from warpsmith.schedulers.outer_persistent.shapes import COPY_SHARE
from warpsmith.schedulers.params import Params
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.apply import SPLITS
from warpsmith.schedulers.reduction.recompute import recompute_after
from warpsmith.schedulers.rows.applicability import stages
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.rows.two_passes import in_two_passes
from warpsmith.values import dataclass

V = TypeVar("V", bound=Rows)
P = TypeVar("P", bound=Params)

AT_ONCE = "at_once"
"""The name of the number of groups of blocks that run at once, where these loop over others."""

BEHIND = "behind"
"""The name of the nanoseconds by which every other one of these begins later."""

STATE_BYTES = 4
"""Of a number that moments have beside a sum, or that is reduced of a channel."""


@dataclass(frozen=True)
class Kept(Candidate, Generic[V]):
    """A fusion whose rows or columns stay with blocks.

    Attributes:
        view_of: the class of `rows`.
    """

    view_of: ClassVar[type[Rows]]

    @cached_property
    def rows(self) -> V:
        """What it says of them."""
        return self.view_of(self.fusion, self.domains, self.caches)  # type: ignore[return-value]

    def shapes(self, problem: Problem) -> Iterable[tuple[float, Any]]:
        """All that could be chosen, behind the microseconds that the model knows."""
        raise NotImplementedError

    def finished(self, params: Any, problem: Problem) -> Any:
        """A shape with what else follows from the call."""
        raise NotImplementedError

    def alternatives(self, problem: Problem) -> Alternatives:
        chosen: Any = self.parameters(problem)
        found = {chosen.words: chosen}
        for _, params in sorted(self.shapes(problem), key=lambda each: each[0]):
            if params.words not in found:
                found[params.words] = self.finished(params, problem)
        return tuple(found.items())


@dataclass(frozen=True)
class InRegisters(Kept[V]):
    """Where they stay in registers.

    Attributes:
        in_one_pass: moments of bfloat16 are, where that is near enough.
    """

    keeps: ClassVar[bool] = True
    in_one_pass: ClassVar[bool] = False

    @classmethod
    def prepared(cls, draft: Fusion) -> tuple[Cached, ...]:
        in_two_passes(draft, or_one=cls.in_one_pass)
        return add_caches(draft)

    @property
    def walked(self) -> Sequence[IterDomain]:
        return Rows(self.fusion, self.domains, self.caches).axes


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsParams(Params):
    """A schedule whose blocks go through their share in turns, meet, and go through it again.

    Attributes:
        vector: adjacent elements per thread and access.
        unroll: accesses of a thread and input in a turn.
        block_x: threads side by side.
        blocks_per_sm: blocks that a multiprocessor holds at once.
        kept: turns that a block keeps in shared memory, besides the last one in registers.
        rounds: blocks loop over groups of columns, rows or images, and meet for each of them.
        vectorized: names of the global tensors accessed in vectors.
    """

    vector: int
    unroll: int
    block_x: int
    blocks_per_sm: int
    kept: int
    rounds: bool = False
    vectorized: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The schedule in a few words."""
        rounds = ", in rounds" if self.rounds else ""
        return (
            f"{self.block_x} threads{self.said}, {self.unroll}x{self.vector} elements, "
            f"{self.blocks_per_sm} blocks, {self.kept} turns kept{rounds}"
        )

    @property
    def said(self) -> str:
        """What else tells these apart, behind the threads."""
        return ""

    @property
    def meets_in_cluster(self) -> bool:
        """Whether those blocks are a cluster, or one; else the launch says how many there are."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsWork:
    """Bytes of a call whose blocks meet once.

    Attributes:
        loaded: of inputs of full size, for each element.
        stored: of outputs of full size, for each element.
        states: of what is reduced, for each result.
        moments: means and variances are among it.
    """

    loaded: int
    stored: int
    states: int
    moments: bool


def fastest(known: Iterable[tuple[float, P]]) -> tuple[float, P] | None:
    """Of shapes behind their times the one that takes least, the first of equal ones; or None."""
    return min(known, key=lambda each: each[0], default=None)


def bytes_of_one_pass(rows: Rows) -> dict[str, Any]:
    """The fields of `TurnsWork` for rows that another scheduler may have, too: it sums squares in a
    second pass, and blocks that meet once have moments in its place.
    """
    depth = max(stages(rows.fusion).values(), default=0)
    states = sum(tensor.dtype.size for tensor in rows.sums) + STATE_BYTES * (depth - 1)
    return _bytes(rows, states, moments=depth > 1)


def _bytes(rows: Rows, states: int, *, moments: bool) -> dict[str, Any]:
    return {"loaded": rows.loaded, "stored": rows.stored, "states": states, "moments": moments}


@dataclass(frozen=True)
class Met(Rows):
    """What blocks of a fusion have of its inputs before they meet, and again behind that."""

    @cached_property
    def loads(self) -> tuple[Cached, ...]:
        """The inputs that have an element for each one that is reduced, once each."""
        found: dict[TensorView, Cached] = {}
        for cached in super().loads:
            found.setdefault(cached.memory, cached)
        return tuple(found.values())

    @property
    def reduced(self) -> tuple[Reduction, ...]:
        """What is reduced before blocks meet."""
        return tuple(op for op in self.fusion.operations if isinstance(op, Reduction))

    @property
    def bytes(self) -> dict[str, Any]:
        """The fields of `TurnsWork`."""
        states = sum(output.dtype.size for op in self.reduced for output in op.outputs)
        return _bytes(self, states, moments=any(map(takes_moments, self.reduced)))

    def unfit(self, problem: Problem) -> str:
        """Why blocks cannot keep what a call reduces, or had better not; empty where they do."""
        raise NotImplementedError

    def shapes(self, problem: Problem) -> Iterable[tuple[float, Any]]:
        """All shapes behind their times."""
        raise NotImplementedError

    def best(self, problem: Problem) -> tuple[float, Any] | None:
        """The fastest shape behind its time; None where there is none."""
        return fastest(self.shapes(problem))

    def at_once(self, params: Any, problem: Problem) -> tuple[int, int]:
        """Groups of blocks of the grid that run at once, and blocks of each, which meet."""
        raise NotImplementedError

    def loaded_by(self, params: Any, problem: Problem) -> int:
        """Bytes that one such group loads."""
        raise NotImplementedError

    def vectorized(self, params: Any, problem: Problem) -> tuple[str, ...]:
        """Names of the global tensors accessed in vectors."""
        return self.run.vectorized(problem, params.vector)


M = TypeVar("M", bound=Met)


@dataclass(frozen=True)
class WithTheGrid(Kept[M]):
    """Where all blocks of a grid, or of a cluster, keep them, which meet once."""

    sums_parts = True

    @classmethod
    def prepared(cls, draft: Fusion) -> tuple[Cached, ...]:
        return recompute_after(draft, add_caches(draft))

    def unfit(self, problem: Problem) -> str:
        if not self.rows.loaded:
            return "all that is reduced is read at computed places, and nothing is kept of that"
        return self.rows.unfit(problem)

    def parameters(self, problem: Problem) -> TurnsParams:
        found = self.rows.best(problem)
        assert found is not None, "sizes are supported where this is asked"
        return self.finished(found[1], problem)

    def shapes(self, problem: Problem) -> Iterable[tuple[float, Any]]:
        return self.rows.shapes(problem)

    def finished(self, params: TurnsParams, problem: Problem) -> TurnsParams:
        return replace(params, vectorized=self.rows.vectorized(params, problem))

    def symbols(self, params: TurnsParams, problem: Problem) -> dict[str, int]:
        if params.meets_in_cluster:
            return {}
        at_once, splits = self.rows.at_once(params, problem)
        if not params.rounds:
            return {SPLITS: splits}
        bytes_ahead = -(-at_once // 2) * self.rows.loaded_by(params, problem)
        rate = COPY_SHARE * problem.target.rates.memory
        behind = round(1e3 * bytes_ahead / rate)
        return {SPLITS: splits, AT_ONCE: at_once, BEHIND: behind}

    def no_ring(self, problem: object) -> str:
        return "what a block has loaded it keeps"

    def multiplies(self, params: TurnsParams) -> bool:
        return divides_sums(self.fusion)
