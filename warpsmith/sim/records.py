"""The machine's C records: programs packed for it, and what it hands back."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from warpsmith.sim.program import Instruction, Operand, Program
from warpsmith.values import dataclass

INSTRUCTION: Final = np.dtype(
    [
        *(("op", "u2"), ("type", "u1"), ("type2", "u1"), ("flags", "u4")),
        *((name, "u1") for name in ("mode", "round", "compare", "combine")),
        *((name, "u1") for name in ("space", "semantics", "scope", "vector")),
        *(("groups", "u1", 8), ("group_count", "u1"), ("guard_negated", "u1")),
        *((name, "u2") for name in ("operand_count", "m", "n", "k", "unused")),
        *(("guard", "i4"), ("first_operand", "u4"), ("target", "i4"), ("reconverge", "i4")),
        *(("first_target", "u4"), ("target_count", "u4"), ("line", "u4")),
    ]
)
OPERAND: Final = np.dtype(
    [("kind", "u1"), ("negated", "u1"), ("unused", "u2"), ("index", "i4"), ("value", "i8")]
)
MESSAGE_BYTES: Final = 600
MAX_FINDINGS: Final = 64
FINDING: Final = np.dtype(
    [
        ("kind", "u4"),
        *((name, "i4") for name in ("pc", "other_pc", "cta", "warp", "lane")),
        *((name, "i4") for name in ("other_cta", "other_warp", "other_lane", "buffer")),
        ("address", "u8"),
        *(("barrier", "i4"), ("phase", "i4"), ("count", "u4"), ("message", f"S{MESSAGE_BYTES}")),
    ],
    align=True,
)
EVENT: Final = np.dtype(
    [
        *(("kind", "u4"), ("cta", "u4"), ("warp", "i4"), ("pc", "i4")),
        *(("begin", "u8"), ("end", "u8"), ("executed", "u8"), ("value", "u8")),
        *(("barrier", "i4"), ("phase", "i4"), ("number", "u4"), ("unused", "u4")),
    ]
)
STATISTICS: Final = (
    *("instructions", "cycles", "waits", "blocked_waits", "wait_cycles"),
    *("global_read", "global_written", "shared_read", "shared_written"),
    *("copied_in", "copied_out", "peer", "max_in_flight"),
)


class Buffer(ctypes.Structure):
    """`sim_buffer`"""

    _fields_ = (
        ("bytes", ctypes.c_void_p),
        ("result", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
        ("defined", ctypes.c_uint32),
        ("open", ctypes.c_uint32),
        ("settled", ctypes.c_uint32),
    )


class Launch(ctypes.Structure):
    """`sim_launch`"""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("code", "operands", "targets", "buffers")),
        *((name, ctypes.c_void_p) for name in ("module", "constant", "params")),
        *((f"{name}_size", ctypes.c_uint64) for name in ("module", "constant", "params")),
        *(("seed", ctypes.c_uint64), ("budget", ctypes.c_uint64)),
        *((name, ctypes.c_uint32) for name in ("code_count", "register_count")),
        *((name, ctypes.c_uint32) for name in ("local_bytes", "buffer_count")),
        *((name, ctypes.c_uint32 * 3) for name in ("grid", "block", "cluster")),
        *((name, ctypes.c_uint32) for name in ("shared_static", "shared_total")),
        *((name, ctypes.c_uint32) for name in ("entry_registers", "resident", "order", "early")),
        *(("event_capacity", ctypes.c_uint32), ("events", ctypes.c_void_p)),
        *(("printed", ctypes.c_void_p), ("printed_capacity", ctypes.c_uint64)),
    )


class Result(ctypes.Structure):
    """`sim_result`"""

    _fields_ = (
        ("findings", ctypes.c_void_p),
        ("finding_count", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in STATISTICS),
        *(("printed_size", ctypes.c_uint64), ("events_lost", ctypes.c_uint64)),
        ("event_count", ctypes.c_uint32),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A program as arrays of records."""

    code: NDArray[Any]
    operands: NDArray[Any]
    targets: NDArray[np.int32]


def pack(program: Program) -> Packed:
    """The records of a program."""
    operands: list[Operand] = []
    targets: list[int] = []
    rows: list[tuple[object, ...]] = []
    for instruction in program.instructions:
        rows.append(_row(instruction, len(operands), len(targets)))
        operands += instruction.operands
        targets += instruction.targets
    code = np.array(rows, INSTRUCTION)
    packed = np.array([_operand(each) for each in operands] or [(0,) * 5], OPERAND)
    slots = np.array(program.slots, np.int32)
    for index, names in (
        (code["guard"], code["guard"] >= 0),
        (packed["index"], np.array([each.is_register for each in operands] or [False])),
    ):
        index[names] = slots[index[names]]
    return Packed(code=code, operands=packed, targets=np.array(targets or [0], np.int32))


def _row(i: Instruction, first_operand: int, first_target: int) -> tuple[object, ...]:
    groups = (*i.groups, *(0,) * 8)[:8]
    does, guard = i.does, i.guard
    return (
        *(does.op, does.type, does.type2, does.flags),
        *(does.mode, does.round, does.compare, does.combine),
        *(does.space, does.semantics, does.scope, does.vector),
        *(groups, len(i.groups), guard is not None and guard.negated),
        *(len(i.operands), *does.shape, 0),
        *(-1 if guard is None else guard.index, first_operand, i.target, i.reconverge),
        *(first_target, len(i.targets), i.place.line),
    )


def _operand(operand: Operand) -> tuple[object, ...]:
    value = operand.value & 0xFFFF_FFFF_FFFF_FFFF
    signed = value - (1 << 64) if value >> 63 else value
    return (operand.kind, operand.negated, 0, operand.index, signed)
