"""Statements about rings as CUDA text."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.codegen.teams import Team, together
from warpsmith.codegen.values import ValueText
from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.clock import AwaitClock, StartClock
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.kernel.rings import (
    Advance,
    Arrive,
    ArriveByWarp,
    Await,
    AwaitCopies,
    Begin,
    CommitCopies,
    Cursor,
    Expect,
    FenceProxy,
    InitBarriers,
    InvalidateBarriers,
    Jump,
    TileCopy,
)
from warpsmith.kernel.tiles import PrefetchMap, PrefetchTile, TensorMap, TileDim
from warpsmith.kernel.waits import WatchedAwait
from warpsmith.layouts.swizzle import HARDWARE


class RingText:
    """Prints them, a list of lines each; nested lines are indented by two spaces."""

    def __init__(self, kernel: Kernel, value: ValueText) -> None:
        self._value = value
        self._maps = {_key(tensor_map): tensor_map.name for tensor_map in kernel.tensor_maps}

    def lines(self, statement: Statement, team: Team | None, mine: str = "") -> list[str]:
        """
        Args:
            mine: what calls end with that are for one lane of the warp that comes to them; empty
                where one thread comes.
        """
        value = self._value
        match statement:
            case Begin(cursor=cursor, stage=start):
                starts = {cursor.stage: value(start)}
                text = ", ".join(f"{s.name} = {starts.get(s, '0')}" for s in cursor.symbols)
                return [f"int {text};"]
            case Advance(cursor=cursor, by=by):
                return [self._advance(cursor, by)]
            case Jump(cursor=cursor, by=by):
                return self._jump(cursor, by)
            case InitBarriers():
                return self._init(statement)
            case InvalidateBarriers(barriers=barriers):
                value.pieces |= {"barrier", "bulk_groups", "elect"}
                ends = [f"  ws_barrier_end({b.name}, {value(b.size)});" for b in barriers]
                return ["if (elected) {", *ends, "  ws_fence_async();", "}"]
            case Expect(barrier=barrier, stage=stage, bytes=amount, arrives=arrives):
                call = "ws_barrier_arrive_expect" if arrives else "ws_barrier_expect"
                return [f"{call}({self._barrier(barrier, stage)}, {value(amount)}{mine});"]
            case WatchedAwait(barrier=barrier, stage=stage, parity=parity, site=site, limit=limit):
                value.pieces.add("watchdog")
                waited = f"{self._barrier(barrier, stage)}, {value(parity)}"
                return [f"ws_barrier_wait({waited}, {site.number}, {value(stage)}, {limit}ull);"]
            case Await(barrier=barrier, stage=stage, parity=parity):
                return [f"ws_barrier_wait({self._barrier(barrier, stage)}, {value(parity)});"]
            case StartClock():
                value.pieces.add("clock")
                return ["const unsigned long long ws_began = ws_nanoseconds();"]
            case AwaitClock(times=times, nanoseconds=nanoseconds):
                value.pieces.add("clock")
                return [f"ws_await_clock(ws_began, {value(times)}, {nanoseconds});"]
            case ArriveByWarp(barrier=barrier, stage=stage):
                thread = together(team, statement).release
                return [f"ws_barrier_release({self._barrier(barrier, stage)}{thread});"]
            case Arrive(barrier=barrier, stage=stage):
                return [f"ws_barrier_arrive({self._barrier(barrier, stage)}{mine});"]
            case FenceProxy(of_cluster=of_cluster):
                value.pieces.add("cluster" if of_cluster else "bulk_groups")
                return ["ws_cluster_fence_async();" if of_cluster else "ws_fence_async();"]
            case CommitCopies(bulk=bulk):
                value.pieces.add("bulk_groups" if bulk else "cp_async")
                return ["ws_bulk_commit();" if bulk else "ws_cp_async_commit();"]
            case AwaitCopies(bulk=bulk, pending=pending):
                value.pieces.add("bulk_groups" if bulk else "cp_async")
                return [f"{'ws_bulk_wait' if bulk else 'ws_cp_async_wait'}<{pending}>();"]
            case TileCopy(how=LoadStoreOpType.tma):
                return self._guarded(statement, self._tensor(statement, mine))
            case TileCopy(how=LoadStoreOpType.bulk):
                return self._guarded(statement, self._bulk(statement, mine))
            case TileCopy():
                return self._by_threads(statement, together(team, statement))
            case PrefetchTile(dims=dims):
                value.pieces.add("prefetch")
                name = self._maps[_key(statement.tensor_map)]
                return [f"ws_tensor_prefetch({name}, {self._places(dims)});"]
            case PrefetchMap(name=name):
                return [f'asm volatile("prefetch.tensormap [%0];" :: "l"(&{name}) : "memory");']
        raise InternalError(
            f"{type(statement).__name__} has no CUDA text: it wants a case in the file of its kind "
            "in codegen/"
        )

    def _jump(self, cursor: Cursor, by: Expr) -> list[str]:
        stage, amount = self._value(cursor.stage), self._value(by)
        if cursor.stages == 1:
            return [f"{cursor.phase.name} ^= (int)({amount}) & 1;"]
        return [
            "{",
            f"  const int to = {stage} + (int)({amount});",
            f"  {stage} = to % {cursor.stages};",
            f"  {cursor.phase.name} ^= to / {cursor.stages} & 1;",
            "}",
        ]

    def _advance(self, cursor: Cursor, by: int) -> str:
        flip = f"{cursor.phase.name} ^= 1;"
        if by == cursor.stages:
            return flip
        stage = self._value(cursor.stage)
        if by == 1:
            return f"if (++{stage} == {cursor.stages}) {{ {stage} = 0; {flip} }}"
        wrapped = f"{stage} -= {cursor.stages}; {flip}"
        return f"if (({stage} += {by}) >= {cursor.stages}) {{ {wrapped} }}"

    def _barrier(self, barrier: Buffer, stage: Expr) -> str:
        self._value.pieces.add("barrier")
        return self._value.address(barrier, stage)

    def _init(self, statement: InitBarriers) -> list[str]:
        self._value.pieces |= {"barrier", "elect"}
        lines = ["if (elected) {"]
        for barrier, arrivals in statement.arrivals:
            count = "(ws_threads() + 31) / 32" if arrivals is None else self._value(arrivals)
            stages = self._value(barrier.size)
            lines.append(f"  ws_barrier_init({barrier.name}, {stages}, {count});")
        return [*lines, "  ws_barriers_ready();", "}"]

    def _guarded(self, copy: TileCopy, text: str) -> list[str]:
        """The copy where its condition holds; a load through a map counts its bytes anyway."""
        asks = copy.stores or copy.how is not LoadStoreOpType.tma
        if not asks or copy.condition == integers.TRUE:
            return [text]
        return [f"if ({self._value(copy.condition)}) {text}"]

    def _shared(self, copy: TileCopy) -> str:
        if copy.index == integers.ZERO:
            return copy.shared.name
        return f"{copy.shared.name} + {self._value(copy.index)}"

    def _tensor(self, copy: TileCopy, mine: str) -> str:
        self._value.pieces.add("tensor")
        name = self._maps[_key(copy.tensor_map)]
        places = self._places(copy.dims)
        if copy.stores:
            return f"ws_tensor_store({name}, {self._shared(copy)}, {places}{mine});"
        assert copy.barrier is not None
        barrier = self._barrier(*copy.barrier)
        if copy.multicast is not None:
            call = "ws_tensor_multicast"
            barrier += f", (unsigned short){self._value.operand(copy.multicast.mask)}"
        else:
            call = "ws_tensor_load"
        if copy.evict_first:
            call += "_once"
        if call != "ws_tensor_load":
            self._value.pieces.add(call.removeprefix("ws_"))
        return f"{call}({self._shared(copy)}, {name}, {barrier}, {places}{mine});"

    def _places(self, dims: Sequence[TileDim]) -> str:
        """Coordinates of a box's first element, fastest first."""
        return ", ".join(f"(int){self._value.operand(dim.first)}" for dim in reversed(dims))

    def _bulk(self, copy: TileCopy, mine: str) -> str:
        self._value.pieces.add("bulk")
        amount = self._value(integers.mul(copy.inside, copy.memory.dtype.size))
        memory = f"{copy.memory.name} + {self._value(copy.start)}"
        if copy.stores:
            return f"ws_bulk_store({memory}, {self._shared(copy)}, {amount}{mine});"
        assert copy.barrier is not None
        barrier = self._barrier(*copy.barrier)
        load = "ws_bulk_load<true>" if copy.evict_last else "ws_bulk_load"
        if copy.evict_first:
            self._value.pieces.add("bulk_load_once")
            load = "ws_bulk_load_once"
        return f"{load}({self._shared(copy)}, {memory}, {amount}, {barrier}{mine});"

    def _by_threads(self, copy: TileCopy, team: Team) -> list[str]:
        """Pieces of the box in turn over all threads, each where it is inside."""
        value = self._value
        value.pieces |= {"address", "cp_async"}
        kind = value.type_name(DataType.Index)
        size = copy.memory.dtype.size
        step = copy.width // size
        count = value.operand(integers.floordiv(copy.elements, step))
        lines = [
            f"for (int piece = {team.thread}; piece < {count}; piece += {team.threads}) {{",
            "  int left = piece;",
        ]
        indices = []
        for number, dim in reversed(list(enumerate(copy.dims))):
            last = number == len(copy.dims) - 1
            box = integers.floordiv(dim.box, step) if last else integers.index(dim.box)
            pieces = value.operand(box)
            stride = dim.step * (step if last else 1)
            inside = f"left % {pieces} * {stride}" if box != integers.ONE else "0"
            lines.append(f"  const {kind} k{number} = {value.operand(dim.first)} + {inside};")
            if box != integers.ONE:
                lines.append(f"  left /= {pieces};")
            indices.append((f"k{number}", dim))
        bounds = [f"{name} < {value.operand(dim.size)}" for name, dim in indices]
        if copy.condition != integers.TRUE:
            bounds.insert(0, f"({value(copy.condition)})")
        place = " + ".join(
            name if dim.stride == integers.ONE else f"{name} * {value.operand(dim.stride)}"
            for name, dim in indices
        )
        lines.append(f"  const int stage = {self._permuted(copy, f'piece * {step}')};")
        shared, memory = f"{self._shared(copy)} + stage", f"{copy.memory.name} + {place}"
        if copy.zeros:
            lines.append(f"  const bool inside = {' && '.join(bounds)};")
            return [*lines, f"  {self._piece(copy, shared, memory)}", "}"]
        lines += [f"  if ({' && '.join(bounds)}) {{", f"    {self._piece(copy, shared, memory)}"]
        return [*lines, "  }", "}"]

    def _permuted(self, copy: TileCopy, index: str) -> str:
        """An element's place once the chunks of its row have traded places."""
        if not copy.swizzle:
            return index
        line, lines, chunk = HARDWARE[copy.swizzle].terms(copy.memory.dtype.size)
        return f"({index}) ^ (({index}) / {line} % {lines} * {chunk})"

    def _piece(self, copy: TileCopy, shared: str, memory: str) -> str:
        """One piece; where zeros are asked for, as `inside` says."""
        if copy.how is LoadStoreOpType.cp_async:
            if copy.zeros:
                self._value.pieces.add("cp_async_or_zeros")
                source = f"inside ? {memory} : {copy.memory.name}"
                return f"ws_cp_async_or_zeros<{copy.width}>({shared}, {source}, inside);"
            return f"ws_cp_async<{copy.width}>({shared}, {memory});"
        self._value.pieces.add("vector")
        kind = self._value.type_name(copy.memory.dtype)
        vector = f"ws_vec<{kind}, {copy.width // copy.memory.dtype.size}>"
        target, source = (memory, shared) if copy.stores else (shared, memory)
        read = f"*(const {vector}*)({source})"
        read = f"inside ? {read} : {vector}{{}}" if copy.zeros else read
        return f"*({vector}*)({target}) = {read};"


def _key(tensor_map: TensorMap) -> tuple[object, ...]:
    t = tensor_map
    return (t.tensor, t.sizes, t.strides, t.box, t.steps, t.swizzle, t.rounds)
