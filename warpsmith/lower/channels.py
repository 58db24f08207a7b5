"""Pipelines between roles: where each role comes by their stages, in which order, in whose turn.

The loops of the producer that stand outside a stage number its stages. A reader must come by the
same stages in the same order, in loops of its own: merged ones, split ones, or with others inside.
"""

from __future__ import annotations

from dataclasses import replace

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.slices import check_slice
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.kernel.pipelines import Groups, Pipeline
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.rings import slice_start
from warpsmith.lower.roles import Roles
from warpsmith.lower.stage_order import StageOrder, Walk, mixed


class Channels:
    """The pipelines between the roles of a fusion, and how each operation walks their stages.

    Raises:
        ScheduleError: WS0243 and WS0244 for slices, WS0247 where readers come by stages in another
            order than they are filled, WS0248 and WS0250 where groups cannot take turns.
    """

    def __init__(self, fusion: Fusion, buffers: Buffers, roles: Roles) -> None:
        self._buffers = buffers
        self._roles = roles
        self._stages = StageOrder(buffers, roles, fusion.groups_along)
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
        return [depth for _, depth in self.walked(operation)]

    def walked(self, operation: Operation) -> list[tuple[str, int]]:
        """Pipelines of which the operation fills or uses stages, and how many loops are open."""
        names = self._touched.get(operation, [])
        return [(name, self._walks[operation, name].depth) for name in names]

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
        own = replace(self._stages.filling(tensor, start), ordered=bool(tensor.section))
        self._note(producer, tensor, own)
        walks = {self._roles.of(producer): own}
        for role, readers in self._roles.readers(tensor).items():
            for reader in readers:
                walk = self._stages.reading(tensor, start, reader, own)
                walk = replace(walk, ordered=bool(reader.outputs[0].section))
                known = walks.setdefault(role, walk)
                if known != replace(walk, depth=known.depth):
                    raise mixed(tensor, role)
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
                raise mixed(tensor, role)
        turns = {(walks[role].groups, walks[role].share) for role in in_turn}
        if len(turns) > 1:
            raise mixed(tensor, in_turn[0])
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
