"""The simulator's arithmetic by itself: its C files compiled and called through ctypes."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from warpsmith.sim.isa import Combine, Compare, Flag, Mode, Op, Round, Type, header

NATIVE = Path(__file__).parents[3] / "warpsmith" / "sim" / "native"
PARTS = (
    *("alu", "approximate", "atomics", "bits", "compare"),
    *("convert", "floats", "formats", "halves", "integer", "pairs"),
)
FLAGS = (
    *("-O2", "-std=c11", "-Wall", "-Wextra", "-Werror"),
    *("-ffp-contract=off", "-frounding-math", "-fPIC", "-shared"),
)
LANES = 32
ROW = ctypes.c_uint64 * LANES

Values = npt.NDArray[np.uint64]


class Record(ctypes.Structure):
    """`insn` of sim.h."""

    _fields_ = (
        ("op", ctypes.c_uint16),
        ("type", ctypes.c_uint8),
        ("type2", ctypes.c_uint8),
        ("flags", ctypes.c_uint32),
        ("mode", ctypes.c_uint8),
        ("round", ctypes.c_uint8),
        ("compare", ctypes.c_uint8),
        ("combine", ctypes.c_uint8),
        ("space", ctypes.c_uint8),
        ("semantics", ctypes.c_uint8),
        ("scope", ctypes.c_uint8),
        ("vector", ctypes.c_uint8),
        ("rest", ctypes.c_uint8 * 64),
    )


@dataclass(frozen=True, slots=True)
class Result:
    """What an instruction left: both destinations and the carries."""

    d: Values
    d2: Values
    carry: Values


class Refused(Exception):
    """The combination is not one that the arithmetic knows."""


@dataclass(frozen=True, slots=True)
class Alu:
    """The compiled arithmetic."""

    library: ctypes.CDLL

    def run(
        self,
        op: Op,
        type_: Type,
        *sources: npt.ArrayLike,
        type2: Type = Type.NONE,
        mode: Mode = Mode.NONE,
        flags: Flag = Flag.NONE,
        round_: Round = Round.NONE,
        compare: Compare = Compare.NONE,
        combine: Combine = Combine.NONE,
        vector: int = 1,
        carry: npt.ArrayLike | None = None,
    ) -> Result:
        """Run one instruction on any number of operands, a warp at a time."""
        record = Record(
            op=op,
            type=type_,
            type2=type2,
            mode=mode,
            flags=flags,
            round=round_,
            compare=compare,
            combine=combine,
            vector=vector,
        )
        arrays = np.broadcast_arrays(*(np.asarray(source, np.uint64) for source in sources))
        count = arrays[0].size
        padded = -(-count // LANES) * LANES
        rows = [np.resize(array.ravel(), padded) for array in arrays]
        flags_in = np.zeros(padded, np.uint64)
        if carry is not None:
            flags_in[:count] = carry
        d, d2, carries = (np.zeros(padded, np.uint64) for _ in range(3))
        pointers = (ctypes.c_void_p * 5)()
        lane_bits = np.uint64(1) << np.arange(LANES, dtype=np.uint64)
        for at in range(0, padded, LANES):
            for index, row in enumerate(rows):
                pointers[index] = row.ctypes.data + 8 * at
            bits = ctypes.c_uint32(int((flags_in[at : at + LANES] * lane_bits).sum()))
            known = self.library.alu_run(
                ctypes.byref(record),
                ctypes.c_void_p(d.ctypes.data + 8 * at),
                ctypes.c_void_p(d2.ctypes.data + 8 * at),
                pointers,
                ctypes.c_uint32(0xFFFFFFFF),
                ctypes.byref(bits),
            )
            if not known:
                raise Refused(f"{op.name} {type_.name} {type2.name}")
            carries[at : at + LANES] = (np.uint64(bits.value) >> np.arange(32, dtype=np.uint64)) & 1
        return Result(d[:count], d2[:count], carries[:count])


def build(folder: Path) -> Alu:
    """Compile the parts into a shared library in `folder`."""
    (folder / "isa.h").write_text(header())
    library = folder / "alu.so"
    sources = [str(NATIVE / f"{part}.c") for part in PARTS]
    command = ["cc", *FLAGS, f"-I{folder}", "-o", str(library), *sources, "-lm"]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.alu_run.restype = ctypes.c_bool
    loaded.atomic_apply.restype = ctypes.c_uint64
    return Alu(loaded)
