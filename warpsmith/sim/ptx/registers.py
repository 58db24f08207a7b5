"""Registers that live within one basic block share slots: one costs every warp 256 bytes."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from warpsmith.sim.isa import Flag, Mode, Op, Type
from warpsmith.sim.program import Instruction
from warpsmith.sim.ptx.flow import graph_of
from warpsmith.values import dataclass

_PAIRS = (Op.SETP, Op.LOP3, Op.SHFL, Op.MATCH, Op.ELECT)
_GROUPS = (Op.LD, Op.ATOM, Op.LDMATRIX, Op.UNPACK, Op.MMA, Op.WGMMA)
_COPIES = (Op.MOV, Op.PACK, Op.UNPACK)
_REDUCING = (Mode.AND, Mode.OR, Mode.POPC)
_SILENT = frozenset(
    (
        *(Op.NOP, Op.BRA, Op.BRX, Op.EXIT, Op.TRAP, Op.BRKPT, Op.NANOSLEEP, Op.ASSERT, Op.GRIDDEP),
        *(Op.ST, Op.RED, Op.STMATRIX, Op.ST_ASYNC, Op.RED_ASYNC),
        *(Op.CP_ASYNC, Op.CP_ASYNC_COMMIT, Op.CP_ASYNC_WAIT, Op.CP_ASYNC_ARRIVE),
        *(Op.BULK_LOAD, Op.BULK_STORE, Op.BULK_COPY, Op.BULK_REDUCE, Op.BULK_COMMIT, Op.BULK_WAIT),
        *(Op.TENSOR_LOAD, Op.TENSOR_STORE, Op.TENSOR_REDUCE),
        *(Op.TENSORMAP_REPLACE, Op.TENSORMAP_COPY),
        *(Op.WARP_SYNC, Op.CLUSTER_BARRIER, Op.FENCE, Op.SETMAXNREG),
        *(Op.MBARRIER_INIT, Op.MBARRIER_INVAL, Op.MBARRIER_EXPECT_TX, Op.MBARRIER_COMPLETE_TX),
        *(Op.WGMMA_FENCE, Op.WGMMA_COMMIT, Op.WGMMA_WAIT),
    )
)
"""Operations without a destination."""


def written(instruction: Instruction) -> int:
    """How many operands, the first ones, an instruction writes."""
    op = instruction.op
    if op in _SILENT:
        return 0
    if op in _GROUPS:
        return instruction.groups[0]
    if op in _PAIRS and instruction.does.flags & Flag.PREDICATE:
        return 2
    if op is Op.BAR:
        return 1 if instruction.does.mode in _REDUCING else 0
    return 1


@dataclass(frozen=True, slots=True)
class Life:
    """A register within its only block: the instructions that define it first and use it last."""

    register: int
    first: int
    last: int


def share_slots(
    instructions: Sequence[Instruction], names: Sequence[str]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The slot of each register, and the name of each slot's first owner.

    Both registers of `mov %r1; st %r1; mov %r2; st %r2` have slot 0.

    A register takes part when all its uses stand in one block and the first of them defines it
    without a guard and without reading it. Registers of `wgmma` and, beside them, those that are
    copied do not: they are in use, or marked so, beyond what the text shows.
    """
    lives = _lives(instructions)
    slots: dict[int, int] = {}
    owners: list[str] = []
    local = {life.register for group in lives for life in group}
    for register, name in enumerate(names):
        if register not in local:
            slots[register] = len(owners)
            owners.append(name)
    shared = len(owners)
    for group in lives:
        free = list(range(shared, len(owners)))
        busy: list[tuple[int, int]] = []
        for life in group:
            while busy and busy[0][0] < life.first:
                heappush(free, heappop(busy)[1])
            if free:
                slot = heappop(free)
            else:
                slot = len(owners)
                owners.append(names[life.register])
            slots[life.register] = slot
            heappush(busy, (life.last, slot))
    return tuple(slots[register] for register in range(len(names))), tuple(owners)


def _lives(instructions: Sequence[Instruction]) -> list[list[Life]]:
    """The registers that may share, block by block, in the order of their definitions."""
    graph = graph_of(instructions)
    has_wgmma = any(i.op is Op.WGMMA for i in instructions)
    home: dict[int, int] = {}
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    barred: set[int] = set()
    for block in range(len(graph.starts)):
        for index in range(*graph.extent(block)):
            instruction = instructions[index]
            op, guard = instruction.op, instruction.guard
            out = written(instruction)
            bar = (
                op is Op.WGMMA
                or (has_wgmma and op in _COPIES)
                or instruction.does.type is Type.B128
            )
            touched = [] if guard is None else [guard.index]
            sources = touched + [o.index for o in instruction.operands[out:] if o.is_register]
            targets = [o.index for o in instruction.operands[:out] if o.is_register]
            for register in (*sources, *targets):
                if home.setdefault(register, block) != block or bar:
                    barred.add(register)
                last[register] = index
            for register in sources:
                if register not in first:
                    barred.add(register)
            for register in targets:
                if register not in first:
                    first[register] = index
                    if guard is not None:
                        barred.add(register)
    groups: list[list[Life]] = [[] for _ in graph.starts]
    for register, index in first.items():
        if register not in barred:
            groups[home[register]].append(Life(register, index, last[register]))
    return [sorted(group, key=lambda life: life.first) for group in groups if group]
