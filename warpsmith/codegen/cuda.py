"""Prints a kernel as CUDA C++: prelude pieces that it uses, then one `extern "C"` function."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from warpsmith.codegen.bytes import computed_bytes
from warpsmith.codegen.cleared import cleared
from warpsmith.codegen.clusters import cluster_bound, cluster_lines, is_of_cluster, rank_lines
from warpsmith.codegen.prelude import prelude_text
from warpsmith.codegen.products import product_lines
from warpsmith.codegen.reductions import ReductionText
from warpsmith.codegen.rings import RingText
from warpsmith.codegen.roles import (
    Bundle,
    asks_for,
    bounds,
    branches_of,
    bundles,
    conditions,
    register_lines,
    warps_of,
)
from warpsmith.codegen.shuffles import draw_lines, keep_lines, own_line, shuffle_lines
from warpsmith.codegen.teams import Team, group_of, thread_lines, together, whole_block
from warpsmith.codegen.values import ValueText
from warpsmith.codegen.vectors import has_predicate, vector_lines, where_lines
from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.clusters import RANK
from warpsmith.kernel.elected import ELECTED_LANE, ELECTED_WARP, ByLane, Converge, CopyIf
from warpsmith.kernel.kernel import Kernel, layout_of
from warpsmith.kernel.nodes import (
    Comment,
    CopyVector,
    Declare,
    For,
    If,
    Let,
    PrefetchVector,
    Statement,
    Store,
    Synchronize,
)
from warpsmith.kernel.products import BY_WARPS
from warpsmith.kernel.random_words import DrawByQuads, KeepBits
from warpsmith.kernel.reductions import Accumulate, Reduce, ScanElements, WelfordStep
from warpsmith.kernel.rings import ELECTED, InitBarriers, TileCopy
from warpsmith.kernel.shuffles import Shuffle, TakeOwn
from warpsmith.kernel.succession import AdmitNext, AwaitPrevious
from warpsmith.kernel.tile_scheduler import ReadTile, TakeTile, WithTile
from warpsmith.kernel.traversal import expressions, walk
from warpsmith.targets.family import WARP, Limits
from warpsmith.targets.target import Target
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Printed:
    """CUDA C++ of a kernel whose name is still open; it includes nothing.

    Attributes:
        places: (number, line from 1 on) of all lines of each statement that has a number.
        owners: (line, statement) of all lines of the body; one with a body has head and end.
    """

    before_name: str
    after_name: str
    places: tuple[tuple[int, int], ...] = ()
    owners: tuple[tuple[int, Statement], ...] = ()

    def named(self, name: str) -> str:
        return f"{self.before_name}{name}{self.after_name}"


def printed(kernel: Kernel, target: Target) -> Printed:
    """CUDA C++ of a kernel, for any name."""
    return _Printer(kernel, target.family.limits).printed()


def cuda_text(kernel: Kernel, target: Target) -> str:
    """CUDA C++ of a kernel under its own name."""
    return printed(kernel, target).named(kernel.name)


class _Printer:
    def __init__(self, kernel: Kernel, limits: Limits) -> None:
        self._kernel = kernel
        self._limits = limits
        self._value = ValueText(kernel.index_type)
        self._rings = RingText(kernel, self._value)
        self._reductions = ReductionText(kernel, self._value)
        self._branches = branches_of(kernel)
        loops = (each for each in walk(kernel.body) if isinstance(each, For))
        self._turns = any(not loop.unroll for loop in loops)
        self._nodes = [
            node
            for statement in walk(kernel.body)
            for expr in expressions(statement)
            for node in expr.walk()
        ]
        self._names = {node.name for node in self._nodes if isinstance(node, Symbol)}
        self._lines: list[str] = []
        self._places: list[tuple[int, int]] = []
        self._owner: Statement | None = None
        self._owners: list[tuple[int, Statement]] = []
        self._depth = 1

    def printed(self) -> Printed:
        self._value.cleared = cleared(self._kernel.body)
        self._value.computed_bytes = computed_bytes(self._kernel.body)
        self._thread_indices()
        self._elected()
        self._shared()
        team = whole_block(self._kernel, self._value)
        statements = self._kernel.body
        first = statements.index(self._branches[0]) if self._branches else len(statements)
        self._body(statements[:first], team)
        if self._branches:
            self._dispatch()
        self._body(statements[first + len(self._branches) :], team)
        start, parameters = self._signature()
        body = "\n".join(self._lines)
        carries = self._reductions.carries.text()  # may need more pieces
        prelude = prelude_text(self._value.pieces) + carries
        notes = "".join(f"// {note}\n" for note in self._kernel.notes)
        before, after = f"{prelude}\n{notes}{start}", f"{parameters} {{\n"
        first = (before + after).count("\n") + 1
        places = tuple((number, first + line) for number, line in self._places)
        owners = tuple((first + line, statement) for line, statement in self._owners)
        return Printed(before, f"{after}{body}\n}}\n", places, owners)

    # --- frame ---------------------------------------------------------------------------------

    def _signature(self) -> tuple[str, str]:
        """What stands before the kernel's name, and its parameters."""
        kernel = self._kernel
        parameters = []
        # The kernel before an early one may still write: nothing may be read ahead of the wait, as
        # compilers may what is restricted, nor on the path of data that nobody writes.
        alone = "" if kernel.early else "__restrict__ "
        for buffer in kernel.parameters:
            kind = self._value.type_name(buffer.dtype)
            constant = "" if buffer.written else "const "
            parameters.append(f"{constant}{kind}* {alone}{buffer.name}")
        for tensor_map in kernel.tensor_maps:
            self._value.pieces.add("tensor")
            parameters.append(f"const __grid_constant__ ws_tensor_map {tensor_map.name}")
        parameters += [f"const {self._value.type_name(s.dtype)} {s.name}" for s in kernel.scalars]
        threads, blocks = bounds(kernel)
        at_once = f", {blocks}" if blocks else ""
        bound = f" __launch_bounds__({threads}{at_once})" if threads else ""
        bound = cluster_bound(kernel, self._limits) + bound
        listing = ",\n    ".join(parameters)
        return f'extern "C" __global__ void{bound} ', f"(\n    {listing})"

    def _thread_indices(self) -> None:
        kernel = self._kernel
        kind = self._value.type_name(DataType.Index)
        dims = [*zip(GRID_TYPES, kernel.launch.grid, strict=True)]
        if not self._branches:  # each role counts its own threads
            dims += zip(BLOCK_TYPES, kernel.launch.block, strict=True)
        for axis, extent in dims:
            if extent != integers.ONE:
                down = kernel.launch.last_first and axis is ParallelType.grid_x
                index = f"gridDim.x - 1 - {axis.value}" if down else axis.value
                self._line(f"const {kind} {axis.name} = {index};")
        if RANK in self._names:
            self._all(rank_lines(kernel, self._value))

    def _elected(self) -> None:
        """Choose, once, the thread that asks for copies; with roles, one of each warp."""
        if self._branches:
            self._value.pieces.add("roles")
            self._line("const int warp = ws_warp();")
            self._line(f"const bool {ELECTED_LANE.name} = ws_elect_lane();")
            self._line(f"const bool {ELECTED.name} = {ELECTED_LANE.name} && warp == 0;")
            return
        barriers = any(isinstance(s, InitBarriers) for s in self._kernel.body)
        if barriers or not self._names.isdisjoint((ELECTED.name, ELECTED_WARP.name)):
            self._value.pieces.add("elect")
            self._line(f"const bool {ELECTED_WARP.name} = ws_first_warp();")
            self._line(f"const bool {ELECTED_LANE.name} = ws_elect_lane();")
            both = f"{ELECTED_LANE.name} && {ELECTED_WARP.name}"
            self._line(f"const bool {ELECTED.name} = {both};")

    def _shared(self) -> None:
        if not self._kernel.shared:
            return
        layout = layout_of(self._kernel)
        self._line(f"extern __shared__ __align__({layout.alignment}) unsigned char ws_shared[];")
        for place in layout.places:
            name, kind = place.buffer.name, self._value.type_name(place.buffer.dtype)
            start = self._value(place.start)
            self._line(f"{kind}* const {name} = ({kind}*)(ws_shared + {start});")

    def _line(self, text: str) -> None:
        if self._owner is not None:
            self._owners.append((len(self._lines), self._owner))
        self._lines.append("  " * self._depth + text)

    def _all(self, lines: list[str]) -> None:
        for line in lines:
            self._line(line)

    def _block(self, head: str, body: tuple[Statement, ...], team: Team | None) -> None:
        with self._braces(head + " {"):
            self._body(body, team)

    @contextmanager
    def _braces(self, head: str) -> Iterator[None]:
        self._line(head)
        self._depth += 1
        yield
        self._depth -= 1
        self._line("}")

    # --- roles ---------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Each warp group first changes its registers, as one; then each warp goes to its role."""
        threads, _ = bounds(self._kernel)
        warps = None if threads is None else -(-threads // WARP)
        found = bundles(self._branches, warps)
        ranges = tuple((bundle.start, bundle.end) for bundle in found)
        chained = ""
        for bundle, condition in zip(found, conditions(ranges, 0, warps), strict=True):
            with self._braces(f"{chained}{f'if ({condition}) ' if condition else ''}{{"):
                lines = register_lines(bundle, self._kernel, self._limits)
                self._value.pieces |= {"registers"} if lines else set()
                self._all(lines)
                self._bundle(bundle)
            chained = "else "

    def _bundle(self, bundle: Bundle) -> None:
        chained = ""
        tests = conditions(warps_of(bundle.branches), bundle.start, bundle.end)
        for branch, condition in zip(bundle.branches, tests, strict=True):
            self._line(f"// {branch.agent.name}")
            if condition or chained:
                with self._braces(f"{chained}{f'if ({condition}) ' if condition else ''}{{"):
                    self._branch(branch)
            else:
                self._branch(branch)
            chained = "else "

    def _branch(self, branch: Branch) -> None:
        agent = branch.agent
        if agent.elected:
            self._block(f"if ({ELECTED_LANE.name})", branch.body, None)
            return
        kind = self._value.type_name(DataType.Index)
        self._all(thread_lines(agent, self._value, kind))
        first = f"warp - group * {self._value(agent.group_warps)}" if agent.groups > 1 else "warp"
        leads = f"{first} == {agent.first_warp}"
        if asks_for(ELECTED_WARP, branch.body):
            self._line(f"const bool {ELECTED_WARP.name} = {leads};")
        if asks_for(ELECTED, branch.body):
            self._line(f"const bool {ELECTED.name} = {ELECTED_LANE.name} && {leads};")
        self._body(branch.body, group_of(agent, self._value))

    # --- statements ----------------------------------------------------------------------------

    def _body(self, statements: tuple[Statement, ...], team: Team | None) -> None:
        for statement in statements:
            self._statement(statement, team)

    def _statement(self, statement: Statement, team: Team | None) -> None:
        value = self._value
        ordering = statement.body[0] if isinstance(statement, ByLane) else statement
        first = len(self._lines)
        around, self._owner = self._owner, statement
        match statement:
            case Declare(buffer=buffer):
                self._line(f"{value.registers(buffer)};")
            case Let(symbol=symbol, value=expr):
                kind = value.type_name(symbol.dtype)
                self._line(f"const {kind} {symbol.name} = {value(expr)};")
            case For(symbol=symbol, extent=extent, body=body):
                some = "" if statement.unroll else f" {statement.together}"
                self._line(f"#pragma unroll{some}")
                kind, name = value.type_name(DataType.Index), symbol.name
                bound = value.operand(extent)
                self._block(f"for ({kind} {name} = 0; {name} < {bound}; ++{name})", body, team)
            case If(condition=condition, body=(CopyVector() as copy,)) if has_predicate(
                copy, turns=self._turns
            ):
                early = self._kernel.early
                self._all(where_lines(copy, value(condition), value, early=early))
            case If(condition=condition, body=body) | CopyIf(condition=condition, body=body):
                self._block(f"if ({value(condition)})", body, team)
            case Store(buffer=buffer, index=index, value=expr):
                self._line(f"{value.place(buffer, index)} = {value(expr)};")
            case CopyVector():
                self._all(vector_lines(statement, value, early=self._kernel.early))
            case PrefetchVector(source=source, index=index):
                place = f"{source.name} + {value.operand(index)}"
                self._line(f'asm volatile("prefetch.global.L2 [%0];" :: "l"({place}));')
            case Accumulate() | WelfordStep() | Reduce() | ScanElements():
                self._all(self._reductions.lines(statement, team))
            case Synchronize(why=why):
                value.pieces |= together(team, statement).pieces
                meeting = together(team, statement).meeting
                self._line(f"{meeting}{f'  // {why}' if why else ''}")
            case TakeTile(symbol=symbol, counter=counter, count=count, target=target, index=index):
                value.pieces.add("tiles")
                taken = f"ws_take({counter.name}, {value(count)})"
                self._line(f"const {value.type_name(symbol.dtype)} {symbol.name} = {taken};")
                self._line(f"{value.place(target, index)} = {symbol.name};")
            case ReadTile(symbol=symbol, source=source, index=index):
                kind = value.type_name(symbol.dtype)
                self._line(f"const {kind} {symbol.name} = {value.place(source, index)};")
            case WithTile(symbol=tile, count=count, body=body):
                self._line(f"if ({value.operand(tile)} >= {value.operand(count)}) break;")
                self._body(body, team)
            case Converge():
                self._line("__syncwarp();")
            case AwaitPrevious():
                value.pieces.add("await_previous")
                self._line("ws_await_previous();")
            case AdmitNext():
                value.pieces.add("admit_next")
                self._line("ws_admit_next();")
            case ByLane(body=(mine,)):
                if isinstance(mine, TileCopy):  # the warp has tested its condition
                    mine = replace(mine, condition=integers.TRUE)
                self._all(self._rings.lines(mine, team, f", {ELECTED_LANE.name}"))
            case Shuffle():
                self._all(shuffle_lines(statement, value, team))
            case TakeOwn():
                self._line(own_line(statement, value))
            case DrawByQuads():
                self._all(draw_lines(statement, value))
            case KeepBits():
                self._all(keep_lines(statement, value))
            case Comment(text=text):
                self._line(f"// {text}")
            case _ if isinstance(statement, BY_WARPS):
                self._all(product_lines(statement, value, team))
            case _ if is_of_cluster(statement):
                self._all(cluster_lines(statement, value, team))
            case _:
                self._all(self._rings.lines(statement, team))
        self._owner = around
        if ordering.number:
            lines = range(first, len(self._lines))
            self._places += [(ordering.number, line) for line in lines]
