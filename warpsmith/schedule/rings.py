"""Circular buffers: stages through which a tensor is loaded ahead of its use."""

from __future__ import annotations

from warpsmith.callers import caller_line
from warpsmith.errors import ScheduleError
from warpsmith.ir.copies import CircularBuffer
from warpsmith.ir.domains import BLOCK_TYPES, MemoryType, ParallelType
from warpsmith.ir.exprs import Move
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.slices import check_slice
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.carriers import copied_source
from warpsmith.schedule.roles import LOAD, set_registers, set_role


def circular_buffer(
    tensor: TensorView,
    number_of_stages: int,
    prefetch_distance: int | None = None,
    *,
    ring: str = "",
    role: str = "",
    stage_slice_position: int | None = None,
    interval: int = 0,
) -> TensorView:
    """Keep several iterations of a tensor in memory, so that its copy runs ahead of its readers.

    The innermost serial loop that it shares with its readers turns the stages. Calling it again
    replaces what was said before.

    Args:
        tensor: a copy, or in registers what is moved from an input; or a value in shared memory
            that nothing reads but TMA stores, whose stages let the next value be computed while the
            last one is still being stored.
        number_of_stages: 2 or more; memory grows with them.
        prefetch_distance: iterations that the copy is ahead of its use, at most
            `number_of_stages - 1`, which is the default. Negative values count from the number of
            stages: -1 is the default, too.
        ring: tensors that one loop turns, with equal stages and prefetch, share their barriers if
            they name the same ring; those of a later loop of the same role the stages, too.
        role: warps of their own that fill the stages, by a name that the tensors of one role share;
            the readers' warps then wait for stages, not for each other. They run ahead as far as
            stages are free, whatever the prefetch.
        stage_slice_position: with roles, how many of the tensor's loops stand outside a stage: a
            stage is what the loops from there on walk. By default those inside the turning loop.
        interval: nanoseconds for each load: the first ones, which run ahead, begin at once, and
            the n-th behind them not before n intervals are over since the kernel's start. Blocks
            that do not run ahead of each other read memory in its order. For loads by the TMA unit
            that no role asks for.

    Raises:
        ScheduleError: WS0280 to WS0284, and WS0238 and WS0240 to WS0244 for roles and slices.
            Lowering refuses what only the finished schedule shows: no loop that could turn the
            stages, more shared memory than a block has, or an interval that nobody keeps.
    """
    _check_place(tensor)
    _check_stages(tensor, number_of_stages)
    prefetch = _prefetch(tensor, number_of_stages, prefetch_distance)
    if not role and not tensor.role:
        _check_copy(tensor)
    check_slice(tensor, stage_slice_position)
    _check_interval(tensor, interval)
    if role:
        set_role(tensor, role)
    tensor.buffering = CircularBuffer(
        number_of_stages, prefetch, ring, stage_slice_position, interval, caller_line()
    )
    return tensor


def _check_place(tensor: TensorView) -> None:
    """Stages are made in shared memory and registers; who calls the kernel owns global memory."""
    if tensor.is_input:
        raise ScheduleError(
            f"{tensor.name} is an input of the fusion, which lies in global memory as a whole and "
            "has no stages",
            code="WS0280",
            remedy=f"buffer its cache: {tensor.name}.cache_after()",
        )
    if tensor.is_output:
        raise ScheduleError(
            f"{tensor.name} is an output of the fusion, which lies in global memory as a whole and "
            "has no stages",
            code="WS0281",
            remedy=f"buffer its cache: {tensor.name}.cache_before()",
        )


def _check_stages(tensor: TensorView, stages: object) -> None:
    if not _is_integer(stages) or stages < 2:  # type: ignore[operator]  # an integer by then
        raise ScheduleError(
            f"{stages!r} stages for {tensor.name}: a circular buffer has an integer number of "
            "them, 2 or more",
            code="WS0282",
            remedy="use 2 or more, or leave the tensor without a circular buffer",
        )


def _prefetch(tensor: TensorView, stages: int, distance: int | None) -> int:
    """The prefetch distance from 0 to `stages - 1` that a caller's number stands for."""
    if distance is None:
        return stages - 1
    if not _is_integer(distance) or not -stages <= distance < stages:
        raise ScheduleError(
            f"prefetch distance {distance!r} of {tensor.name} with {stages} stages: its copy is 0 "
            f"to {stages - 1} iterations ahead, and one stage is left to its readers",
            code="WS0283",
            remedy=f"use 0 to {stages - 1}, or {-stages} to -1 to count from {stages}",
        )
    return distance + stages if distance < 0 else distance


def _check_interval(tensor: TensorView, interval: object) -> None:
    if not _is_integer(interval) or not 0 <= interval < 2**31:  # type: ignore[operator]
        raise ScheduleError(
            f"interval {interval!r} of {tensor.name}: it is a number of nanoseconds",
            code="WS0238",
            remedy=f"use 0 to {2**31 - 1}, or leave the interval out",
        )


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_copy(tensor: TensorView) -> None:
    definition = tensor.definition
    moved = isinstance(definition, Move) and definition.source.is_input
    in_registers = moved and tensor.memory is MemoryType.local
    if copied_source(tensor) is None and not in_registers and not _is_stored_by_tma(tensor):
        raise ScheduleError(
            f"{tensor.name} is computed, and only a copy of a tensor can run ahead of its readers",
            code="WS0284",
            remedy="buffer the copy that the computation reads; or, to store from stages, set its "
            f"memory to shared and let nothing read {tensor.name} but outputs that TMA copies",
        )


def _is_stored_by_tma(tensor: TensorView) -> bool:
    """Whether TMA copies the tensor from shared memory to outputs, and nothing else reads it."""
    readers = Fusion.of(tensor).consumers(tensor)
    return (
        tensor.memory is MemoryType.shared
        and bool(readers)
        and all(reader.is_output and reader.copied_by.is_tma for reader in readers)
    )


def warp_specialize(
    tensor: TensorView,
    number_of_stages: int,
    prefetch_distance: int,
    parallel_type: ParallelType,
    num_registers: tuple[int, int] | None = None,
    *,
    stage_slice_position: int | None = None,
) -> TensorView:
    """Have the role `load` fill the stages of a tensor; nvFuser's name for it.

    Args:
        tensor, number_of_stages, prefetch_distance, stage_slice_position: as in `circular_buffer`.
        parallel_type: block_x, block_y or block_z: the axis along which groups of warps may take
            turns. The role's warps are beside those that the axes of the block make up.
        num_registers: of a thread of the role `load`, and of the others; derived if absent.

    Raises:
        ScheduleError: WS0250 for another axis than block_x, block_y and block_z, or than the one
            given before; as `circular_buffer` and `set_registers`.
    """
    fusion = Fusion.of(tensor)
    if parallel_type not in BLOCK_TYPES:
        raise ScheduleError(
            f"{parallel_type!r} is no axis of the block",
            code="WS0250",
            remedy="use ParallelType.block_x, block_y or block_z",
        )
    if fusion.groups_along not in (None, parallel_type):
        raise ScheduleError(
            f"{tensor.name} is specialized along {parallel_type.name}, and another tensor of the "
            f"fusion along {fusion.groups_along.name}",
            code="WS0250",
            remedy="use one axis for all",
        )
    circular_buffer(
        tensor,
        number_of_stages,
        prefetch_distance,
        role=LOAD,
        stage_slice_position=stage_slice_position,
    )
    fusion.groups_along = parallel_type
    if num_registers is not None:
        set_registers(fusion, num_registers)
    return tensor
