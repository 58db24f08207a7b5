"""Where an element of a tensor lies: index expressions from the loops around an operation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from warpsmith.errors import InternalError, ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.integers import Facts
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.scalar import Expr
from warpsmith.ir.strides import strides
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.lower.layouts import row_of
from warpsmith.lower.threads import Threads
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class MemoryDim:
    """A dimension of a tensor in global memory: where in it, of how many, elements apart."""

    index: Expr
    extent: Expr
    stride: Expr


class Access:
    """Indices of one operation's tensors, given the loops around it.

    Args:
        operation: its loops are those of its first output.
        derivation: from the values of its loop axes.
    """

    def __init__(
        self, domains: DomainMap, threads: Threads, operation: Operation, derivation: Derivation
    ) -> None:
        self._domains = domains
        self._threads = threads
        self.output = operation.outputs[0]
        self._operation = operation
        self._derivation = derivation

    def axis(self, axis: IterDomain) -> Expr:
        """Index of an axis; a broadcast axis that nothing widens has only index 0."""
        group = self._domains.group(axis)
        if self._derivation.reaches(group):
            return self._derivation.index(group)
        if axis.is_broadcast or axis.extent == integers.ONE:
            return integers.ZERO
        raise InternalError(
            f"no index for {axis!r} of {self.output.name} from its loops {self.output.loop!r}"
        )

    def steps(self, axis: IterDomain) -> bool:
        """Whether loops that walk an axis have gone on from its first element."""
        if not self._derivation.reaches(self._domains.group(axis)):
            return self.axis(axis) != integers.ZERO
        return self._derivation.steps(self._domains.group(axis))

    def reaches(self, group: Group) -> bool:
        """Whether the loops determine the index of a group."""
        return self._derivation.reaches(group)

    def index(self, group: Group) -> Expr:
        """Index of a group that the loops determine."""
        return self._derivation.index(group)

    def of_input(self, tensor: TensorView) -> Expr:
        """Element index of a fusion input, in memory."""
        return integers.add(*(integers.mul(d.index, d.stride) for d in self.input_dims(tensor)))

    def of_output(self) -> Expr:
        """Element index of the operation's output in global memory."""
        return integers.add(*(integers.mul(d.index, d.stride) for d in self.output_dims()))

    def input_dims(self, tensor: TensorView) -> tuple[MemoryDim, ...]:
        """Dimensions of a fusion input, broadcast ones left out.

        Its extents are those of the axes that it is paired with: equal ones have one name then.
        """
        partner = dict(self._operation.pairs(tensor))
        extents = [
            self._extent(partner[axis]) if axis in partner else axis.extent
            for axis in tensor.shape_axes
        ]
        steps = strides(tensor, extents)
        return tuple(
            MemoryDim(self.axis(partner[axis]), extent, step)
            for axis, extent, step in zip(tensor.shape_axes, extents, steps, strict=True)
            if not axis.is_broadcast and axis in partner
        )

    def output_dims(self) -> tuple[MemoryDim, ...]:
        """Dimensions of the operation's output in global memory, broadcast ones left out."""
        axes = self.output.shape_axes
        extents = [self._extent(a) for a in axes]
        return tuple(
            MemoryDim(self.axis(axis), extent, step)
            for axis, extent, step in zip(axes, extents, strides(self.output, extents), strict=True)
            if not axis.is_broadcast
        )

    def _extent(self, axis: IterDomain) -> Expr:
        if axis.is_broadcast:
            return integers.ONE
        return self._domains.extent_of(axis)

    def allocated(self, tensor: TensorView, layout: tuple[IterDomain, ...]) -> Expr:
        """Element index in a local or shared buffer that holds the axes `layout`, row-major."""
        index: Expr = integers.ZERO
        for position, axis in enumerate(layout):
            extent = self._domains.extent_of(axis)
            if position == len(layout) - 1:
                extent = row_of(tensor, extent)
            index = integers.add(integers.mul(index, extent), self.axis(axis))
        return index

    def bounds(self, axes: tuple[IterDomain, ...], facts: Facts) -> Expr:
        """Predicate under which indices of `axes`, and threads, lie inside their extents."""
        return integers.conjunction(self.inside(axes, facts), self.thread_bounds())

    def inside(self, axes: tuple[IterDomain, ...], facts: Facts, *, begins: bool = True) -> Expr:
        """Predicate under which the indices of `axes` lie inside their extents; without `begins`,
        those of rows that begin anywhere may lie before a row.
        """
        inside = self._derivation.inside if begins else self._derivation.ends
        return integers.conjunction(
            *(
                integers.of_whole(inside(group), facts)
                for axis in axes
                for group in self.inexact(axis, facts)
            )
        )

    def within(self, axes: Iterable[IterDomain]) -> Expr:
        """Predicate under which the indices of `axes` themselves lie inside their extents."""
        groups = dict.fromkeys(map(self._domains.group, axes))
        return integers.conjunction(*map(self._derivation.inside, groups))

    def inexact(self, axis: IterDomain, facts: Facts) -> tuple[Group, ...]:
        """The axis, and what it is split into, as far as indices may run past the ends."""
        return self._derivation.inexact_splits(self._domains.group(axis), facts)

    def outer_parts(self, axis: IterDomain) -> tuple[Group, ...]:
        """The axis and its outer parts: past the end of one of them is past the axis's, too."""
        return tuple(self._derivation.outer_parts(self._domains.group(axis)))

    def thread_bounds(self) -> Expr:
        """Predicate that this thread's indices lie inside the loops bound to them."""
        conditions = []
        for axis in self.output.loop:
            if axis.parallel.is_thread:
                extent = self._domains.extent_of(axis)
                if extent != self._threads.extents[axis.parallel]:
                    conditions.append(integers.less(self._threads.symbols[axis.parallel], extent))
        return integers.conjunction(*conditions)

    def check_same_threads(
        self, tensor: TensorView, independent: frozenset[IterDomain], *, passes: bool = False
    ) -> None:
        """Refuse to read a value that another thread (or block, or group of warps) holds.

        `independent` axes are those that do not tell the tensor's values apart: every thread
        along one computes the same. What `passes` between roles is ordered by its ring.
        """
        if tensor.memory is MemoryType.global_:
            return
        if tensor.lanes is not None:
            self._check_same_lanes(tensor.lanes, tensor)
        self.check_same_groups(tensor, independent, passes=passes)

    def check_same_groups(
        self, tensor: TensorView, independent: frozenset[IterDomain], *, passes: bool = False
    ) -> None:
        """The same of fragments of what tensor cores computed, whichever lanes hold them."""
        local = tensor.memory is MemoryType.local
        for axis in self._of_others(tensor, independent):
            if axis.parallel is self._threads.groups_along and not passes:
                raise ScheduleError(
                    f"{self.output.name} reads elements of {tensor.name} that other groups "
                    f"compute, which take turns along {axis.parallel.name} and do not meet",
                    code="WS0255",
                    remedy=f"let them pass through stages: give {tensor.name} a role of its own",
                )
            if axis.parallel.is_of_blocks or local:
                wanted = "global" if axis.parallel.is_of_blocks else "shared"
                raise ScheduleError(
                    f"{self.output.name} reads elements of {tensor.name} that other threads "
                    f"compute: {axis!r} is bound to {axis.parallel.name} there",
                    code="WS0261",
                    remedy=f"bind both alike, or set {tensor.name}'s memory to {wanted}",
                )

    def _check_same_lanes(self, lanes: IterDomain, tensor: TensorView) -> None:
        """Refuse to read another thread's fragment of what tensor cores computed."""
        group = self._domains.group(lanes)
        known = self._derivation.reaches(group)
        own = self._threads.in_warps
        if not known or integers.sub(self.index(group), own) != integers.ZERO:
            raise ScheduleError(
                f"{self.output.name} reads fragments of {tensor.name} that other threads hold",
                code="WS1001",
                remedy=f"call split_fragments on {self.output.name} where its loops over the rows "
                "and the columns of the product are the innermost, and bind the first of what it "
                "makes to block_x, or with quads the first two to block_y and block_x",
            )

    def reads_own(self, tensor: TensorView, independent: frozenset[IterDomain]) -> bool:
        """Whether each thread reads only those elements of a tensor that it computed itself."""
        return not any(self._of_others(tensor, independent))

    def _of_others(
        self, tensor: TensorView, independent: frozenset[IterDomain]
    ) -> Iterator[IterDomain]:
        """Axes along which elements that are read were computed by other threads or blocks."""
        for axis in tensor.loop:
            if not axis.parallel.is_thread or axis.is_reduction or axis in independent:
                continue
            group = self._domains.group(axis)
            if self._domains.extent(group) == integers.ONE:
                continue
            known = self._derivation.reaches(group)
            if not known or self.index(group) != self._own_index(axis.parallel):
                yield axis

    def _own_index(self, kind: ParallelType) -> Expr | None:
        """This thread's, or its block's; where tiles are dealt, that of the tile's block."""
        loops = self.output.loop
        if kind.is_of_blocks and loops and loops[0].parallel.is_dealt:
            own = next((axis for axis in loops if axis.parallel is kind), None)
            return None if own is None else self.index(self._domains.group(own))
        return self._threads.symbols.get(kind)
