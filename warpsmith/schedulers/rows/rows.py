"""What a fusion says of its rows, which are needed again after they were reduced."""

from __future__ import annotations

import math
from functools import cached_property

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Pointwise, Reduction
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program, View
from warpsmith.ir.random_blocks import OF_BLOCK
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.caching import Cached, moved, past_l1
from warpsmith.schedulers.layout import InnerRun, find_inner_run
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.applicability import reductions
from warpsmith.schedulers.reduction.shape import memory_ordered
from warpsmith.schedulers.rows.columns import of_rows, partial_sums, rows_alone
from warpsmith.schedulers.rows.reshaped import torn
from warpsmith.schedulers.rows.resident import (
    Choice,
    choices,
    full_size,
    role_may_share,
    weights_of,
)
from warpsmith.values import dataclass


@dataclass(frozen=True)
class Rows:
    """The rows of a fusion with caches, whose sums of columns, where it has any, are cut."""

    fusion: Program
    domains: DomainMap
    caches: tuple[Cached, ...]

    @cached_property
    def residents(self) -> tuple[Choice, ...]:
        """The ways to keep a row."""
        own = of_rows(self.caches, self.columns)
        return choices(self.alone, own, turns=bool(self.columns))

    @cached_property
    def columns(self) -> tuple[TensorView, ...]:
        """The sums of columns that blocks leave."""
        return partial_sums(self.fusion)

    @cached_property
    def alone(self) -> View:
        """The fusion without these."""
        return rows_alone(self.fusion, self.columns)

    @cached_property
    def sums(self) -> tuple[TensorView, ...]:
        """The reductions of rows."""
        return tuple(t for t in reductions(self.fusion) if t not in self.columns)

    @cached_property
    def axes(self) -> tuple[IterDomain, ...]:
        """The dimensions in memory order, as the largest input has them."""
        return memory_ordered(self.domains, self.sums[0], self.caches)

    @property
    def row(self) -> tuple[IterDomain, ...]:
        """Those of a row."""
        return tuple(axis for axis in self.axes if axis.is_reduction)

    @property
    def kept(self) -> tuple[IterDomain, ...]:
        """The others."""
        return tuple(axis for axis in self.axes if not axis.is_reduction)

    @cached_property
    def run(self) -> InnerRun:
        """The fastest of a row, which a vector may walk."""
        return self._tail(reduced=True)

    @property
    def in_pieces(self) -> bool:
        """Whether a row has dimensions outside that run."""
        return len(self.row) > len(self.run.axes) - self.run.start

    @cached_property
    def full(self) -> tuple[Cached, ...]:
        """The copies that have an element for each one of the rows."""
        whole = full_size(self.alone, self.domains, self.caches)
        return tuple(cached for cached in self.caches if cached.register in whole)

    @property
    def loads(self) -> tuple[Cached, ...]:
        """The inputs among these."""
        return tuple(cached for cached in self.full if cached.load)

    @cached_property
    def torn(self) -> str:
        """The name of an input that is reshaped to rows which may lie anywhere in it; or none."""
        return torn(self.fusion, self.reshaped, len(self.kept))

    @property
    def crosswise(self) -> str:
        """The name of an input of full size that does not have its rows along its fastest
        dimension; or none.
        """
        along = {cached.name for cached in (*self.run.walkers, *self.reshaped)}
        return next((cached.name for cached in self.loads if cached.name not in along), "")

    @property
    def reshaped(self) -> tuple[Cached, ...]:
        """The inputs among `loads` that have other dimensions than rows."""
        rows = self.domains.groups(self.axes)
        return tuple(c for c in self.loads if not self.domains.groups(c.copy.shape_axes) <= rows)

    @cached_property
    def weights(self) -> tuple[Cached, ...]:
        """The inputs that all rows share, or several."""
        return weights_of(self.alone, of_rows(self.caches, self.columns))

    def differs(self, weight: Cached) -> bool:
        """Whether what rows share is another one for some of them, as a token's angles are the same
        for all of its heads.
        """
        return not self.domains.groups(self.kept).isdisjoint(
            self.domains.groups(weight.register.root)
        )

    @property
    def loaded(self) -> int:
        """Bytes of inputs of full size, for each element of a row."""
        return sum(cached.memory.dtype.size for cached in self.loads)

    @property
    def stored(self) -> int:
        """The same of results."""
        return sum(cached.memory.dtype.size for cached in self.full if not cached.load)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of an element of each input of full size."""
        return tuple(cached.memory.dtype.size for cached in self.loads)

    @property
    def summed(self) -> int:
        """Bytes of running sums, for each column."""
        return sum(tensor.dtype.size for tensor in self.columns)

    @cached_property
    def operations(self) -> int:
        """On each element of a row, as the program has them."""
        whole = self.domains.groups(self.axes)
        return sum(
            isinstance(operation, Pointwise | Reduction)
            and self.domains.groups(operation.outputs[0].root) == whole
            for operation in self.fusion.operations
        )

    @property
    def draws(self) -> bool:
        """Whether numbers that look random are drawn for them."""
        return any(isinstance(op, Pointwise) and op.op in OF_BLOCK for op in self.fusion.operations)

    @cached_property
    def weights_fit(self) -> bool:
        """Whether a role may bring what all rows share to shared memory."""
        return role_may_share(self.fusion, self.domains, self.loads, self.weights, self.row)

    @cached_property
    def turning(self) -> tuple[Choice, ...]:
        """The ways to keep a row where blocks loop over rows."""
        return self.residents if self.columns else choices(self.alone, self.caches, turns=True)

    def length(self, problem: Problem) -> int:
        """Elements of a row."""
        return math.prod(problem.size(axis.extent) for axis in self.row)

    def count(self, problem: Problem) -> int:
        """Rows of a call."""
        return math.prod(problem.size(axis.extent) for axis in self.kept)

    def past_l1(self, problem: Problem) -> bool:
        """Whether loads of a call's rows are to leave no copy in L1."""
        return past_l1(self.full if self.columns else self.caches, problem)

    def streams(self, problem: Problem) -> bool:
        """The same; beside sums of columns, whether copies of rows are the first to go from the L2,
        where it does not hold all of them.
        """
        beyond = moved(self.full, problem) > problem.target.l2_bytes
        return self.past_l1(problem) and (beyond or not self.columns)

    def _tail(self, *, reduced: bool) -> InnerRun:
        """The inner run of the fastest dimensions that are reduced, or kept."""
        start = len(self.axes)
        while start and self.axes[start - 1].is_reduction == reduced:
            start -= 1
        return find_inner_run(self.domains, self.axes[start:], self.caches)
