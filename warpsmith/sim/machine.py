"""One launch on the machine, under one schedule."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from warpsmith.errors import SimulationError
from warpsmith.sim import records
from warpsmith.sim.isa import Space, Window
from warpsmith.sim.library import library
from warpsmith.sim.program import Program, Variable
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

Array = NDArray[Any]
Dim3 = tuple[int, int, int]

_PRINTED: Final = 1 << 20  # bytes: as much as the driver keeps
_EVENTS: Final = 1 << 20


class Order(IntEnum):
    """Who runs first, and when copies land."""

    ROUND_ROBIN = 0
    PRODUCER_FIRST = 1
    CONSUMER_FIRST = 2
    RANDOM = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """An array of global memory; unless `defined`, its bytes must be written before being read.

    Where it is `open`, accesses may read the rest of the 16 bytes that it ends in: on a GPU they
    are there, and may be anything. What is `settled` the kernel before does not write, so an early
    one may read it before it waits.
    """

    name: str
    array: Array
    defined: bool = True
    open: bool = False
    settled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A program and everything that it is launched with, and on.

    `parameters` are the bytes of the parameter buffer. `registers` is what a thread has at entry.
    An `early` one starts while the kernel before runs, and must wait before it touches buffers. Of
    one that starts `together` all CTAs run at once; of another one no more than a cluster need.
    """

    program: Program
    grid: Dim3
    block: Dim3
    cluster: Dim3
    dynamic_shared: int
    registers: int
    buffers: tuple[Buffer, ...]
    parameters: bytes
    target: Target
    early: bool = False
    together: bool = False

    @property
    def shared_end(self) -> int:
        """The end of a CTA's shared memory, its system part included."""
        program = self.program
        static = int(Window.SHARED_START) + program.shared_bytes
        start = static if program.dynamic_start is None else program.dynamic_start
        return max(start + self.dynamic_shared, static)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run left: findings as records, counts, and the buffers after it.

    `events` are those of a timeline, as records; `events_lost` counts those for which there was no
    room.
    """

    findings: Array
    statistics: dict[str, int]
    arrays: dict[str, Array]
    printed: str
    events: Array
    events_lost: int


def check_shared(launch: Launch) -> None:
    """Raise SimulationError where a CTA takes more shared memory than there is."""
    taken = launch.shared_end - int(Window.SHARED_START)
    most = launch.target.family.limits.block_shared
    if taken > most:
        raise SimulationError(
            f"a CTA takes {taken} bytes of shared memory",
            code="WS0801",
            remedy=f"at most {most} are there",
        )


def check_together(launch: Launch) -> None:
    """Raise SimulationError where CTAs that are to run at once have no room."""
    ctas, most = int(np.prod(launch.grid)), resident_ctas(launch)
    if launch.together and ctas > most:
        raise SimulationError(
            f"{ctas} CTAs are to run at once, and {launch.target.name} has room for {most}",
            code="WS0805",
            remedy="launch fewer, or smaller ones",
        )


def address_of(position: int) -> int:
    """The address of the buffer at `position` among those of the launch."""
    return int(Window.BUFFERS) + (position + 1 << 32)


def run_once(
    launch: Launch,
    packed: records.Packed,
    *,
    order: Order,
    seed: int,
    budget: int,
    traced: bool = False,
) -> Outcome:
    """Run to the end, to a deadlock or to `budget` warp instructions. Inputs are left alone.

    `traced` keeps events for a timeline.
    """
    before = [np.ascontiguousarray(buffer.array) for buffer in launch.buffers]
    after = [np.empty_like(array) for array in before]
    buffers = (records.Buffer * max(len(before), 1))(
        *(
            records.Buffer(
                old.ctypes.data,
                new.ctypes.data,
                old.nbytes,
                buffer.defined,
                buffer.open,
                buffer.settled,
            )
            for old, new, buffer in zip(before, after, launch.buffers, strict=True)
        )
    )
    program = launch.program
    images = [
        *(_image(program.variables, space) for space in (Space.GLOBAL, Space.CONST)),
        np.frombuffer(launch.parameters + bytes(16), np.uint8),
    ]
    findings = np.zeros(records.MAX_FINDINGS, records.FINDING)
    events = np.empty(_EVENTS if traced else 0, records.EVENT)
    printed = np.empty(_PRINTED, np.uint8)
    result = records.Result(findings=findings.ctypes.data)
    code = packed.code
    request = records.Launch(
        code=code.ctypes.data,
        operands=packed.operands.ctypes.data,
        targets=packed.targets.ctypes.data,
        buffers=ctypes.addressof(buffers),
        module=images[0].ctypes.data,
        constant=images[1].ctypes.data,
        params=images[2].ctypes.data,
        module_size=len(images[0]),
        constant_size=len(images[1]),
        params_size=len(launch.parameters),
        seed=seed,
        budget=budget,
        code_count=len(code),
        register_count=program.registers,
        local_bytes=-(-program.local_bytes // 16) * 16,
        buffer_count=len(before),
        grid=launch.grid,
        block=launch.block,
        cluster=launch.cluster,
        shared_static=int(Window.SHARED_START) + program.shared_bytes,
        shared_total=launch.shared_end,
        entry_registers=launch.registers,
        resident=_resident(launch, order),
        order=order,
        early=launch.early,
        event_capacity=len(events),
        events=events.ctypes.data if traced else None,
        printed=printed.ctypes.data,
        printed_capacity=len(printed),
    )
    library().sim_run(ctypes.byref(request), ctypes.byref(result))
    return Outcome(
        findings=findings[: result.finding_count],
        statistics={name: int(getattr(result, name)) for name in records.STATISTICS},
        arrays={buffer.name: array for buffer, array in zip(launch.buffers, after, strict=True)},
        printed=printed[: result.printed_size].tobytes().decode(errors="replace"),
        events=events[: result.event_count],
        events_lost=int(result.events_lost),
    )


def block_index(launch: Launch, cta: int) -> Dim3:
    """The blockIdx of a CTA: the machine counts the CTAs of a cluster one behind the other."""
    cluster, rank = divmod(cta, int(np.prod(launch.cluster)))
    index = []
    for extent, part in zip(launch.grid, launch.cluster, strict=True):
        cluster, at = divmod(cluster, extent // part)
        rank, inner = divmod(rank, part)
        index.append(at * part + inner)
    x, y, z = index
    return x, y, z


def _resident(launch: Launch, order: Order) -> int:
    """CTAs that run at once: in one order only as many as any device must have room for."""
    if order is Order.PRODUCER_FIRST and not launch.together:
        return int(np.prod(launch.cluster))
    return resident_ctas(launch)


def resident_ctas(launch: Launch) -> int:
    """CTAs that the target holds at once, a whole number of clusters."""
    limits = launch.target.family.limits
    threads = -(-int(np.prod(launch.block)) // WARP) * WARP
    shared = -(-launch.shared_end // limits.shared_step) * limits.shared_step
    per_sm = min(
        limits.sm_shared // shared,
        limits.sm_registers // (limits.allotted(launch.registers) * threads),
        limits.sm_threads // threads,
        limits.sm_blocks,
    )
    size = int(np.prod(launch.cluster))
    return max(per_sm * launch.target.sm_count // size, 1) * size


def _image(variables: Iterable[Variable], space: Space) -> Array:
    """The initial bytes of a space of the module."""
    base = int(Window.MODULE if space is Space.GLOBAL else Window.CONST)
    mine = [variable for variable in variables if variable.space is space]
    size = max((each.address - base + each.size for each in mine), default=0)
    image = np.zeros(size + 16, np.uint8)
    for each in mine:
        start = each.address - base
        image[start : start + len(each.initial)] = np.frombuffer(each.initial, np.uint8)
    return image
