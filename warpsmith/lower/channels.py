"""Pipelines between roles: where each role comes by their stages, in which order, in whose turn.

The loops of the producer that stand outside a stage number its stages. A reader must come by the
same stages in the same order, in loops of its own: merged ones, split ones, or with others inside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain, ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import Group
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.slices import check_slice
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.kernel.pipelines import Groups, Pipeline
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.rings import slice_start
from warpsmith.lower.roles import Roles


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


class Channels:
    """The pipelines between the roles of a fusion, and how each operation walks their stages.

    Raises:
        ScheduleError: WS0243 and WS0244 for slices, WS0247 where readers come by stages in another
            order than they are filled, WS0248 and WS0250 where groups cannot take turns.
    """

    def __init__(self, fusion: Fusion, buffers: Buffers, roles: Roles) -> None:
        self._buffers = buffers
        self._roles = roles
        self._groups_along = fusion.groups_along
        self._walks: dict[tuple[Operation, str], Walk] = {}
        self._touched: dict[Operation, list[str]] = {}
        for tensor in fusion.computed:
            if roles.crosses(tensor):
                self._add(tensor)

    def at(self, operation: Operation, depth: int) -> list[str]:
        """Those of which the operation fills, or uses, a stage inside its first `depth` loops."""
        names = self._touched.get(operation, [])
        return [n for n in names if self._walks[operation, n].depth == depth]

    def depths(self, operation: Operation) -> list[int]:
        """Loops that are open where the operation fills or uses stages."""
        return [self._walks[operation, name].depth for name in self._touched.get(operation, [])]

    def takes_turns(self, operation: Operation) -> bool:
        """Whether groups come in turn by a pipeline of which the operation fills or uses stages."""
        names = self._touched.get(operation, [])
        return any(self._buffers.made.pipelines[name].groups.roles for name in names)

    def shares_end(self, operation: Operation, depth: int) -> list[str]:
        """Those of which a group's share of several stages ends with its first `depth` loops."""
        names = self._touched.get(operation, [])
        walks = [(name, self._walks[operation, name]) for name in names]
        return [
            n
            for n, walk in walks
            if walk.groups_along is not None
            and walk.share != integers.ONE
            and walk.share_depth == depth
        ]

    def keeps(self, operation: Operation, depth: int) -> bool:
        """Whether the loop at `depth` numbers stages, so that it must run whatever it computes."""
        names = self._touched.get(operation, [])
        return any(depth < self._walks[operation, name].depth for name in names)

    def sections_at(self, operation: Operation, depth: int) -> list[str]:
        """The order by which groups run an operation one after the other, where `depth` loops are
        open in which they take turns.
        """
        section = operation.outputs[0].section
        if not section:
            return []
        depths = {
            self._walks[other, name].share_depth
            for other in self._roles.operations(self._roles.of(operation))
            for name in self._touched.get(other, [])
            if self._walks[other, name].groups_along is not None
        }
        if not depths:
            raise ScheduleError(
                f"{operation.outputs[0].name} is in section `{section}`, and role "
                f"`{self._roles.of(operation)}` has no groups that could follow each other",
                code="WS0250",
                remedy="have groups take turns on stages (stage_slice_position), or drop the order",
            )
        name = f"{self._roles.of(operation)}_{section}"
        return [name] if depth == min(depths) else []

    def groups_along(self, role: str) -> ParallelType | None:
        """The axis along which groups of a role take turns."""
        found = {
            walk.groups_along: name
            for operation in self._roles.operations(role)
            for name in self._touched.get(operation, [])
            if (walk := self._walks[operation, name]).groups_along is not None
        }
        if len(found) > 1:
            listing = " and ".join(f"{kind.name} ({name})" for kind, name in found.items() if kind)
            raise ScheduleError(
                f"groups of role `{role}` take turns along {listing}",
                code="WS0250",
                remedy="bind the loops that number stages to one axis of the block",
            )
        return next(iter(found), None)

    # --- one pipeline ---------------------------------------------------------------------------

    def _add(self, tensor: TensorView) -> None:
        producer = tensor.definition
        assert producer is not None
        start = slice_start(tensor)
        check_slice(tensor, start if start < len(tensor.loop) else None)
        numbering = self._numbering(tensor, start)
        own = self._own_walk(tensor, numbering, start)
        own = replace(own, ordered=bool(tensor.section))
        self._note(producer, tensor, own)
        walks = {self._roles.of(producer): own}
        for role, readers in self._roles.readers(tensor).items():
            for reader in readers:
                walk = self._reading(tensor, numbering, reader, own)
                walk = replace(walk, ordered=bool(reader.outputs[0].section))
                known = walks.setdefault(role, walk)
                if known != replace(walk, depth=known.depth):
                    raise self._mixed(tensor, role)
                self._note(reader, tensor, walk)
        self._buffers.note(self._pipeline(tensor, walks))

    def _note(self, operation: Operation, tensor: TensorView, walk: Walk) -> None:
        self._touched.setdefault(operation, []).append(tensor.name)
        self._walks[operation, tensor.name] = walk

    def _pipeline(self, tensor: TensorView, walks: dict[str, Walk]) -> Pipeline:
        known = self._buffers.pipeline(tensor)
        producer, *consumers = walks
        in_turn = [role for role, walk in walks.items() if walk.groups_along is not None]
        for role in consumers:
            kinds = {role in in_turn for role in consumers}
            if len(kinds) > 1:
                raise self._mixed(tensor, role)
        turns = {(walks[role].groups, walks[role].share) for role in in_turn}
        if len(turns) > 1:
            raise self._mixed(tensor, in_turn[0])
        groups, share = turns.pop() if turns else (1, integers.ONE)
        owned = not (in_turn and all(walks[role].ordered for role in in_turn))
        run = integers.constant(share)
        if owned and run is None:
            raise ScheduleError(
                f"groups of role `{in_turn[0]}` take turns of {share!r} stages of {tensor.name}, a "
                "number that is not known when the kernel is compiled",
                code="WS0248",
                remedy="use constant extents there, or have the groups follow each other: "
                "order_groups",
            )
        if owned and run is not None and known.stages % (groups * run):
            whole = groups * run
            raise ScheduleError(
                f"{groups} groups of role `{in_turn[0]}` take turns of {run} stages of "
                f"{tensor.name}, which has {known.stages}: a group would meet a stage at some of "
                "its uses only, and could take a phase for one that is two behind",
                code="WS0248",
                remedy=f"use a multiple of {whole} stages, such as "
                f"{max(1, round(known.stages / whole)) * whole}",
            )
        return replace(
            known,
            producer=producer,
            consumers=tuple(consumers),
            prefetch=0,
            groups=Groups(groups, share, tuple(in_turn), owned),
        )

    def _mixed(self, tensor: TensorView, role: str) -> ScheduleError:
        return ScheduleError(
            f"groups take turns on the stages of {tensor.name} in some of its uses by role "
            f"`{role}` and not, or otherwise, in others",
            code="WS0250",
            remedy="bind the loops that number its stages alike, or give one use a copy of its own",
        )

    # --- numbering -----------------------------------------------------------------------------

    def _numbering(self, tensor: TensorView, start: int) -> list[IterDomain]:
        """Loops of the producer whose iterations each fill a stage, or a group's stages."""
        return [
            axis
            for axis in tensor.loop[:start]
            if not axis.parallel.is_of_blocks and self._buffers.extent(axis) != integers.ONE
        ]

    def _own_walk(self, tensor: TensorView, numbering: list[IterDomain], start: int) -> Walk:
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

    # --- readers -------------------------------------------------------------------------------

    def _reading(
        self, tensor: TensorView, numbering: list[IterDomain], reader: Operation, own: Walk
    ) -> Walk:
        """How a reader comes by the stages; checked to be in the order in which they are filled."""
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
                raise self._mixed(tensor, self._roles.of(reader))
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
        return not axis.parallel.is_thread and self._buffers.extent(axis) != integers.ONE

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
