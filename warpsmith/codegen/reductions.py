"""Statements that accumulate and reduce, as CUDA text."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.codegen.carries import CarryTexts, StateText
from warpsmith.codegen.lines import block, each_lane
from warpsmith.codegen.teams import Team, together
from warpsmith.codegen.values import ValueText
from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES, MemoryType, ParallelType
from warpsmith.ir.scalar import Const, Expr
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.kernel.products import Multiply
from warpsmith.kernel.reductions import Accumulate, Reduce, ScanElements, WelfordBatch, WelfordStep
from warpsmith.kernel.scratch import block_reduce_scratch, state_room
from warpsmith.kernel.traversal import walk


class ReductionText:
    """Prints them, a list of lines each; nested lines are indented by two spaces."""

    def __init__(self, kernel: Kernel, value: ValueText) -> None:
        self._kernel = kernel
        self._value = value
        self.carries = CarryTexts(value)
        self._temporaries = 0

    def lines(self, statement: Statement, team: Team | None) -> list[str]:
        match statement:
            case Accumulate():
                return self._accumulate(statement)
            case WelfordStep():
                return self._welford_step(statement)
            case ScanElements():
                return self._scan(statement, together(team, statement))
            case Reduce():
                return self._reduce(statement, together(team, statement))
        raise InternalError(f"{type(statement).__name__} reduces nothing")

    # --- one thread ----------------------------------------------------------------------------

    def _accumulate(self, statement: Accumulate) -> list[str]:
        """Join the running state with one more."""
        value, state = self._value, self.carries(statement.carry)
        value.pieces.add("reduce_ops")
        running = [value.place(buffer, statement.index) for buffer in statement.buffers]
        part = ", ".join(map(value, statement.part))
        if any(dtype.is_float and dtype.size == 2 for dtype in statement.carry.dtypes):
            value.pieces.add("narrow_extremes")
        if state.members == ("",):
            pair = f"{part}, {running[0]}" if statement.ahead else f"{running[0]}, {part}"
            return [f"{running[0]} = {state.join}::combine<{state.kind}>({pair});"]
        stores = (f"{place} = {w};" for place, w in zip(running, state.of("w"), strict=True))
        sides = (", ".join(running), part)
        pair = ", ".join(
            f"{state.kind}{{{side}}}" for side in sides[:: -1 if statement.ahead else 1]
        )
        combined = f"const {state.kind} w = {state.join}::combine({pair});"
        return block([combined, " ".join(stores)])

    def _welford_step(self, step: WelfordStep) -> list[str]:
        """All values of a step meet one count, so one reciprocal serves them."""
        value = self._value
        value.pieces.add("welford_batch" if step.joined or step.batch else "welford")
        kind = value.type_name(step.mean.dtype)
        width = len(step.values)
        lines = [f"const {kind} x[{width}] = {{{', '.join(map(value, step.values))}}};"]
        if step.batch is not None:
            lines += self._welford_batch(step, step.batch, kind)
        elif step.joined:
            places = (value.place(b, step.index) for b in (step.mean, step.m2))
            count = value.place(step.count, step.count_index)
            triple = f"{', '.join(places)}, {count}"
            if step.inside:
                lines.append(
                    f"const bool inside[{width}] = {{{', '.join(map(value, step.inside))}}};"
                )
            lines.append(f"ws_welford_join(x, {'inside, ' if step.inside else ''}{triple});")
        else:
            lines += self._welford_lanes(step, kind)
        return block(lines)

    def _welford_lanes(self, step: WelfordStep, kind: str) -> list[str]:
        """Each value updates a mean and m2 of its own, by terms that are never negative."""
        count = self._value.place(step.count, step.count_index)
        mean, m2 = (self._value.place(b, step.index, "k") for b in (step.mean, step.m2))
        return [
            f"{count} += 1;",
            f"const {kind} weight = ws_reciprocal_of_count({count});",
            *each_lane(
                len(step.values),
                f"{{ const {kind} delta = x[k] - {mean}; {mean} += delta * weight; "
                f"{m2} += delta * ws_welford_rest(delta, weight); }}",
            ),
        ]

    def _welford_batch(self, step: WelfordStep, batch: WelfordBatch, kind: str) -> list[str]:
        """The first step of a batch opens it, each collects, and the last one closes it."""
        value, width = self._value, len(step.values)
        triples, lane = (1, "0") if step.joined else (width, "k")
        mean, m2 = (value.place(b, step.index, lane) for b in (step.mean, step.m2))
        count = value.place(step.count, step.count_index)
        shift, total, squares = (
            value.place(b, integers.ZERO, lane) for b in (batch.shift, batch.sum, batch.squares)
        )
        number = value.operand(batch.step)
        start = f"ws_welford_shift(x, {mean}, {count})"
        if not step.joined:
            start = f"{count} == 0 ? x[k] : {mean}"
        return [
            f"if ({number} == 0) {{",
            *each_lane(triples, f"{{ {shift} = {start}; {total} = {squares} = 0; }}"),
            "}",
            *each_lane(width, f"ws_welford_collect(x[k], {shift}, {total}, {squares});"),
            f"if ({number} == {batch.steps - 1}) {{",
            f"{count} += {batch.steps * (width if step.joined else 1)};",
            f"const {kind} weight = ws_reciprocal_of_count({count});",
            *each_lane(
                triples, f"ws_welford_close({shift}, {total}, {squares}, weight, {mean}, {m2});"
            ),
            "}",
        ]

    # --- many threads --------------------------------------------------------------------------

    def _reduce(self, reduce: Reduce, team: Team) -> list[str]:
        """Pack the values, combine them, unpack them."""
        if reduce.blocks > 1:
            raise InternalError(f"{reduce.buffers[0].name} is reduced over a cluster in one go")
        value = self._value
        if reduce.one_count:
            return self._moments(reduce, team)
        value.pieces |= {"reduce_ops", "block_reduce"} | (team.pieces if team.place else set())
        if team.apart in reduce.block_axes:
            if team.whole is None:
                raise InternalError(f"{reduce.buffers[0].name} is reduced across groups of a role")
            team = team.whole
        state = self.carries(reduce.carry)
        kind = state.kind
        name, packed, unpacked = self._packed(state, reduce.buffers, reduce.index)
        own = reduce.last is not None and _is_whole(reduce) and state.members == ("",)
        if own:
            name = reduce.buffers[0].name
        template = f"{state.join}, {reduce.elements}, " + ", ".join(
            "true" if axis in reduce.block_axes else "false" for axis in BLOCK_TYPES
        )
        scratch = f"({kind}*){self._scratch(reduce, team)}"
        dims = [f"ws_int<{dim}>()" if dim.isdecimal() else dim for dim in team.dims]
        who = ", ".join((*dims, *((team.place,) if team.place else ())))
        lines = [] if own else [f"{kind} {name}[{reduce.elements}];"]
        lines += [] if own else each_lane(reduce.elements, packed)
        if reduce.lanes:
            if reduce.grid_axes:
                raise InternalError(f"{name} is reduced by lanes over the grid")
            lane = f"{ParallelType.block_x.name} & 31"
            lines.append(f"ws_warp_reduce<{state.join}>({name}, 31, 0xffffffffu, {lane});")
        elif reduce.block_axes:
            flags = (reduce.fresh is not None, reduce.first)
            said = "".join(f", {str(flag).lower()}" for flag in flags) if any(flags) else ""
            lines.append(f"ws_block_reduce<{template}{said}>({name}, {scratch}, {who});")
        if reduce.grid_axes:
            lines.append(self._across_blocks(reduce, team, template, name, kind, scratch, who))
        lines += [] if own else each_lane(reduce.elements, unpacked)
        flag = [f"bool {reduce.last.name};"] if reduce.last is not None else []
        return [*flag, *block(lines)]

    def _moments(self, reduce: Reduce, team: Team) -> list[str]:
        """As `_reduce`, where all elements of a thread have one number."""
        value = self._value
        value.pieces.add("grid_moments" if reduce.grid_axes else "block_moments")
        name, kind = f"r{self._temporaries}", value.type_name(reduce.carry.dtypes[0])
        self._temporaries += 1
        mean, m2, count = (value.place(buffer, reduce.index, "k") for buffer in reduce.buffers)
        number = value.place(reduce.buffers[2], reduce.index)
        axes = ", ".join("true" if axis in reduce.block_axes else "false" for axis in BLOCK_TYPES)
        scratch, dims = (
            f"({kind}*){reduce.scratch.name}",
            ", ".join(f"ws_int<{d}>()" for d in team.dims),
        )
        lines = [
            f"ws_moments<{reduce.elements}, {kind}> {name};",
            *each_lane(reduce.elements, f"{{ {name}.mean[k] = {mean}; {name}.m2[k] = {m2}; }}"),
            f"{name}.count = {number};",
            f"ws_block_moments<{axes}>({name}, {scratch}, {dims});",
        ]
        if reduce.grid_axes:
            assert reduce.workspace is not None
            assert reduce.semaphore is not None
            split, splits = self._linear(reduce.grid_axes)
            segment, _ = self._linear(tuple(a for a in GRID_TYPES if a not in reduce.grid_axes))
            lines.append(
                f"ws_grid_moments_for_all<{axes}>({name}, ({kind}*){reduce.workspace.name}, "
                f"(unsigned*){reduce.semaphore.name}, {scratch}, {split}, {splits}, "
                f"({segment}) * {splits}, {segment}, {dims});"
            )
        held = f"{mean} = {name}.mean[k]; {m2} = {name}.m2[k]; {count} = {name}.count;"
        return block([*lines, *each_lane(reduce.elements, f"{{ {held} }}")])

    def _scan(self, scan: ScanElements, team: Team) -> list[str]:
        """Pack the values and the state, scan them, unpack them."""
        value, state = self._value, self.carries(scan.carry)
        value.pieces.add("scan" if scan.block_number is None else "grid_scan")
        value.pieces |= team.pieces if team.place else set()
        name, packed, unpacked = self._packed(state, scan.buffers, scan.index)
        running = [value.place(buffer, scan.state_index) for buffer in scan.states]
        carried = list(zip(state.of("running"), running, strict=True))
        start = f"{{{', '.join(running)}}}" if state.members != ("",) else running[0]
        flags = [str(flag).lower() for flag in (scan.exclusive, scan.reverse)]
        across: list[str] = []
        if scan.scratch is None:
            call = f"ws_thread_scan<{state.join}, {', '.join(flags)}>({name}, running);"
        else:
            axes = [str(axis in scan.block_axes).lower() for axis in BLOCK_TYPES]
            who = ", ".join((*team.dims, *((team.place,) if team.place else ())))
            scratch = scan.scratch.name
            if team.group:
                part = integers.floordiv(scan.scratch.size, team.groups)
                scratch = f"({scratch} + {team.group} * {value.operand(part)})"
            turns = [str(scan.turns)] if scan.turns > 1 else []
            call = (
                f"ws_block_scan<{', '.join((state.join, *axes, *flags, *turns))}>"
                f"({name}, running, ({state.kind}*){scratch}, {who});"
            )
            if scan.block_number is not None:
                assert scan.workspace is not None
                assert scan.semaphore is not None
                across.append(
                    f"ws_grid_scan<{', '.join((state.join, *axes, flags[1]))}>"
                    f"({name}, running, ({state.kind}*){scratch}, "
                    f"({state.kind}*){scan.workspace.name}, (unsigned*){scan.semaphore.name}, "
                    f"{value.operand(scan.block_number)}, {value.operand(scan.parts)}, {who});"
                )
        return block(
            [
                f"{state.kind} {name}[{scan.elements}];",
                *each_lane(scan.elements, packed),
                f"{state.kind} running = {start};",
                call,
                *across,
                *each_lane(scan.elements, unpacked),
                " ".join(f"{place} = {held};" for held, place in carried),
            ]
        )

    def _packed(
        self, state: StateText, buffers: Sequence[Buffer], index: Expr
    ) -> tuple[str, str, str]:
        """A new name of states, and for each element `k` what packs values into it, and back."""
        name = f"r{self._temporaries}"
        self._temporaries += 1
        places = [
            (held, self._value.place(buffer, index, "k"))
            for held, buffer in zip(state.of(f"{name}[k]"), buffers, strict=True)
        ]
        packed = " ".join(f"{held} = {place};" for held, place in places)
        unpacked = " ".join(f"{place} = {held};" for held, place in places)
        return name, f"{{ {packed} }}", f"{{ {unpacked} }}"

    def _scratch(self, reduce: Reduce, team: Team) -> str:
        """Where the group's part of the scratch starts, and in it what is fresh."""
        name = reduce.scratch.name
        fresh = integers.ZERO if reduce.fresh is None else reduce.fresh
        after = "" if fresh == integers.ZERO else f" + {self._value.operand(fresh)}"
        if not team.group:
            return f"({name}{after})" if after else name
        part = integers.floordiv(reduce.scratch.size, team.groups)
        room, x, y, z = map(integers.constant, (part, *team.extents))
        if not (room is None or x is None or y is None or z is None):
            rx, ry, rz = (axis in reduce.block_axes for axis in BLOCK_TYPES)
            needed = block_reduce_scratch(reduce.elements, (rx, ry, rz), (x, y, z))
            needed *= state_room(reduce.carry)[1]
            if room < needed:
                raise InternalError(
                    f"{name} has {room} elements for each of {team.groups} groups, and "
                    f"{needed} are needed"
                )
        return f"({name} + {team.group} * {self._value.operand(part)}{after})"

    def _across_blocks(
        self,
        reduce: Reduce,
        team: Team,
        template: str,
        name: str,
        kind: str,
        scratch: str,
        who: str,
    ) -> str:
        """Each group of a role is a segment of its own, besides those of the grid."""
        called = "ws_grid_reduce_for_all" if reduce.meets else "ws_grid_reduce"
        told = "" if reduce.last is None else f"{reduce.last.name} = "
        assert reduce.workspace is not None
        assert reduce.semaphore is not None
        self._value.pieces.add("grid_meeting" if reduce.meets else "grid_reduce")
        if reduce.shared is not None:
            if team.group:
                raise InternalError(
                    f"{name} is of groups that take turns, and of blocks that share"
                )
            of = reduce.shared
            asked = of.number, of.count, of.place, of.segment
            split, splits, place, segment = map(self._value, asked)
            template += self._apart(reduce)
        else:
            split, splits = self._linear(reduce.grid_axes)
            segment, _ = self._linear(tuple(a for a in GRID_TYPES if a not in reduce.grid_axes))
            if team.group:
                segment = f"{segment} * {team.groups} + {team.group}"
            place = f"({segment}) * {splits}"
        return (
            f"{told}{called}<{template}>({name}, "
            f"({kind}*){reduce.workspace.name}, (unsigned*){reduce.semaphore.name}, {scratch}, "
            f"{split}, {splits}, {place}, {segment}, {who});"
        )

    def _apart(self, reduce: Reduce) -> str:
        """Sums that threads carry beside products have their registers one further than these, so
        that no addition reads both from one bank.
        """
        products = {s.accumulators for s in walk(self._kernel.body) if isinstance(s, Multiply)}
        beside = products and not reduce.meets and products.isdisjoint(reduce.buffers)
        return ", 1" if beside else ""

    def _linear(self, axes: tuple[ParallelType, ...]) -> tuple[str, str]:
        """Row-major index over some grid axes, and their number; unused axes are left out."""
        used = [a for a in axes if self._kernel.launch.grid[GRID_TYPES.index(a)] != integers.ONE]
        if not used:
            return "0", "1"
        index = ""
        for axis in reversed(used):
            letter = axis.name[-1]
            index = (
                f"({index} * gridDim.{letter} + blockIdx.{letter})"
                if index
                else (f"blockIdx.{letter}")
            )
        count = " * ".join(f"gridDim.{axis.name[-1]}" for axis in used)
        return f"(int)({index})", f"(int)({count})"


def _is_whole(reduce: Reduce) -> bool:
    """Whether a reduction is of one whole array of registers, which need not be packed."""
    (buffer, *others) = reduce.buffers
    local = buffer.memory is MemoryType.local and not (buffer.packed or others)
    local = local and reduce.elements > 1  # one alone is no array
    return local and reduce.index == integers.ZERO and buffer.size == Const(reduce.elements)
