"""Statements about rings as CUDA text."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.codegen.teams import Team, together
from warpsmith.codegen.tiles_by_threads import by_threads, place_in_shared
from warpsmith.codegen.values import ValueText
from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
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
                return by_threads(statement, together(team, statement), value)
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

    def _tensor(self, copy: TileCopy, mine: str) -> str:
        self._value.pieces.add("tensor")
        name = self._maps[_key(copy.tensor_map)]
        places = self._places(copy.dims)
        if copy.stores:
            return f"ws_tensor_store({name}, {place_in_shared(copy, self._value)}, {places}{mine});"
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
        return f"{call}({place_in_shared(copy, self._value)}, {name}, {barrier}, {places}{mine});"

    def _places(self, dims: Sequence[TileDim]) -> str:
        """Coordinates of a box's first element, fastest first."""
        return ", ".join(f"(int){self._value.operand(dim.first)}" for dim in reversed(dims))

    def _bulk(self, copy: TileCopy, mine: str) -> str:
        self._value.pieces.add("bulk")
        amount = self._value(integers.mul(copy.inside, copy.memory.dtype.size))
        memory = f"{copy.memory.name} + {self._value(copy.start)}"
        if copy.stores:
            return f"ws_bulk_store({memory}, {place_in_shared(copy, self._value)}, {amount}{mine});"
        assert copy.barrier is not None
        barrier = self._barrier(*copy.barrier)
        load = "ws_bulk_load<true>" if copy.evict_last else "ws_bulk_load"
        if copy.evict_first:
            self._value.pieces.add("bulk_load_once")
            load = "ws_bulk_load_once"
        return f"{load}({place_in_shared(copy, self._value)}, {memory}, {amount}, {barrier}{mine});"


def _key(tensor_map: TensorMap) -> tuple[object, ...]:
    t = tensor_map
    return (t.tensor, t.sizes, t.strides, t.box, t.steps, t.swizzle, t.rounds)
