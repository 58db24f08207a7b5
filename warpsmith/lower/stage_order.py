"""How operations of roles come by the stages of a pipeline: in which loops, and in whose turn."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain, ParallelType
from warpsmith.ir.mapping import Group
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.roles import Roles
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Walk:
    """How one operation comes by the stages of a pipeline.

    Attributes:
        depth: loops that are open where it fills or uses one.
        groups_along: the axis of the block along which groups of its role take turns.
        share: stages that a group has in a row.
        ordered: groups come by them one after the other, in a section of their role.
        share_depth: loops that are open where a group's share ends.
    """

    depth: int
    groups_along: ParallelType | None = None
    groups: int = 1
    share: Expr = integers.ONE
    share_depth: int = 0
    ordered: bool = False


def mixed(tensor: TensorView, role: str) -> ScheduleError:
    """Groups take turns in some uses of a pipeline's stages alone."""
    return ScheduleError(
        f"groups take turns on the stages of {tensor.name} in some of its uses by role "
        f"`{role}` and not, or otherwise, in others",
        code="WS0250",
        remedy="bind the loops that number its stages alike, or give one use a copy of its own",
    )


class StageOrder:
    """Finds how each operation walks the stages of a pipeline between roles.

    Args:
        groups_along: the axis along which the fusion is specialized, if it says so.
    """

    def __init__(self, buffers: Buffers, roles: Roles, groups_along: ParallelType | None) -> None:
        self._buffers = buffers
        self._roles = roles
        self._groups_along = groups_along

    def _numbering(self, tensor: TensorView, start: int) -> list[IterDomain]:
        """Loops of the producer whose iterations each fill a stage, or a group's stages."""
        return [
            axis
            for axis in tensor.loop[:start]
            if not axis.parallel.is_of_blocks and self._repeats(axis)
        ]

    def _repeats(self, axis: IterDomain) -> bool:
        """Whether its loop may run more than once: one that is dealt does, whatever its length, as
        a block may get more than one number.
        """
        return axis.parallel.is_dealt or self._buffers.extent(axis) != integers.ONE

    def filling(self, tensor: TensorView, start: int) -> Walk:
        """How the producer comes by stages, which the loops from `start` on walk."""
        numbering = self._numbering(tensor, start)
        bound = [axis for axis in numbering if axis.parallel.is_block]
        if not bound:
            return Walk(start)
        if len(bound) > 1:
            raise ScheduleError(
                f"a stage of {tensor.name} is inside {bound!r}: groups of warps take turns along "
                "one axis of the block only",
                code="WS0250",
                remedy="put the slice position further left",
            )
        return self._in_groups(tensor, numbering, bound[0], Walk(start), tensor.loop)

    def _in_groups(
        self,
        tensor: TensorView,
        numbering: list[IterDomain],
        axis: IterDomain,
        walk: Walk,
        loops: list[IterDomain],
    ) -> Walk:
        """The walk of a group: which is the axis that tells groups apart, how long its share is."""
        place = numbering.index(axis)
        kind = next(
            (a.parallel for a in loops if a.parallel.is_block and self._same(a, axis)), None
        )
        groups = integers.constant(self._buffers.extent(axis))
        share = integers.mul(*map(self._buffers.extent, numbering[place + 1 :]))
        if kind is None or groups is None:
            raise ScheduleError(
                f"groups of warps take turns on the stages of {tensor.name} along {axis!r}, and it "
                "is not known when the kernel is compiled how many",
                code="WS0250",
                remedy="use a constant extent for that loop",
            )
        if self._groups_along not in (None, kind):
            raise ScheduleError(
                f"groups of warps take turns on the stages of {tensor.name} along {kind.name}, and "
                f"the fusion is specialized along {self._groups_along.name}",
                code="WS0250",
                remedy=f"call warp_specialize with ParallelType.{kind.name}, or bind that loop to "
                f"{self._groups_along.name}",
            )
        ends = 1 + max(p for p, a in enumerate(loops) if self._same(a, axis))
        return replace(walk, groups_along=kind, groups=groups, share=share, share_depth=ends)

    def _same(self, a: IterDomain, b: IterDomain) -> bool:
        return self._buffers.domains.same(a, b)

    def reading(self, tensor: TensorView, start: int, reader: Operation, own: Walk) -> Walk:
        """How a reader comes by the stages; checked to be in the order in which they are filled."""
        numbering = self._numbering(tensor, start)
        loops = reader.outputs[0].loop
        groups = [self._group(axis) for axis in numbering]
        depth = self._depth(loops, groups)
        if depth is None:
            raise self._order(tensor, reader, "its loops do not say which stage it is")
        known = self._known(loops[:depth], "u")
        bound = [a for a in loops[:depth] if a.parallel.is_block]
        taken = [a for a in numbering if any(self._same(a, b) for b in bound)]
        if len(taken) > 1:
            raise self._order(tensor, reader, f"{taken!r} are all bound to its block")
        serial = [a for a in loops[:depth] if self._is_serial(a)]
        rest = [a for a in numbering if a not in taken]
        self._check_order(tensor, reader, rest, serial, known)
        walk = Walk(depth)
        if taken:
            if own.groups_along is not None and not self._same_axis(tensor, own, taken[0]):
                raise mixed(tensor, self._roles.of(reader))
            return self._in_groups(tensor, numbering, taken[0], walk, loops)
        return walk

    def _same_axis(self, tensor: TensorView, own: Walk, axis: IterDomain) -> bool:
        return any(a.parallel is own.groups_along and self._same(a, axis) for a in tensor.loop)

    def _depth(self, loops: list[IterDomain], groups: list[Group]) -> int | None:
        """The fewest loops that say which stage it is."""
        for depth in range(len(loops) + 1):
            derivation = Derivation(self._buffers.domains, self._known(loops[:depth], "u"))
            if all(map(derivation.reaches, groups)):
                while depth < len(loops) and loops[depth].parallel.is_grid:
                    depth += 1
                return depth
        return None

    def _check_order(
        self,
        tensor: TensorView,
        reader: Operation,
        filled: list[IterDomain],
        used: list[IterDomain],
        known: dict[Group, Expr],
    ) -> None:
        """Stages are used in the order in which they are filled: both count them alike."""
        counts = [integers.mul(*map(self._buffers.extent, axes)) for axes in (filled, used)]
        if integers.sub(counts[0], counts[1]) != integers.ZERO:
            raise self._order(
                tensor, reader, f"{counts[0]!r} stages are filled and {counts[1]!r} used"
            )
        there = Derivation(self._buffers.domains, known)
        if self._number(filled, there) == self._number(used, there):
            return
        back = Derivation(self._buffers.domains, self._known(tensor.loop[: len(tensor.loop)], "f"))
        groups = map(self._group, used)
        if all(map(back.reaches, groups)) and self._number(filled, back) == self._number(
            used, back
        ):
            return
        raise self._order(
            tensor,
            reader,
            f"stages are filled in the order of {filled!r} and used in that of {used!r}",
        )

    def _number(self, axes: list[IterDomain], derivation: Derivation) -> Expr:
        """Row-major number of an iteration."""
        number: Expr = integers.ZERO
        for axis in axes:
            index = derivation.index(self._group(axis))
            number = integers.add(integers.mul(number, self._buffers.extent(axis)), index)
        return number

    def _known(self, loops: list[IterDomain], name: str) -> dict[Group, Expr]:
        return {
            self._group(axis): integers.ZERO
            if self._buffers.extent(axis) == integers.ONE
            else Symbol(f"{name}{position}", low=0, extent=self._buffers.extent(axis))
            for position, axis in enumerate(loops)
        }

    def _is_serial(self, axis: IterDomain) -> bool:
        return not axis.parallel.is_thread and self._repeats(axis)

    def _group(self, axis: IterDomain) -> Group:
        return self._buffers.domains.group(axis)

    def _order(self, tensor: TensorView, reader: Operation, why: str) -> ScheduleError:
        role = self._roles.of(reader)
        return ScheduleError(
            f"role `{role}` reads {tensor.name} to compute {reader.outputs[0].name}, and does not "
            f"come by its stages as role `{self._roles.of(tensor.definition)}` fills them: {why}",  # type: ignore[arg-type]
            code="WS0247",
            remedy="split, merge and reorder both alike as far as loops stand outside a stage, or "
            "move the slice position",
        )
