"""The simulator's arithmetic by itself: its C files compiled and called through ctypes."""

import ctypes
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.sim.support.native_library import NATIVE, insn
from warpsmith.sim.isa import Combine, Compare, Flag, Mode, Op, Round, Type, header

PARTS = (
    *("alu", "approximate", "atomics", "bits", "compare"),
    *("convert", "floats", "formats", "halves", "integer", "pairs"),
)
FLAGS = (
    *("-O2", "-std=c11", "-Wall", "-Wextra", "-Werror"),
    *("-ffp-contract=off", "-frounding-math", "-fPIC", "-shared"),
)
LANES = 32

Values = npt.NDArray[np.uint64]


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
        record = insn(
            op,
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
        warps = -(-count // LANES)
        rows = [np.resize(array.ravel(), warps * LANES) for array in arrays]
        d, d2 = np.zeros((2, warps * LANES), np.uint64)
        before = np.zeros(warps * LANES, np.uint8)
        if carry is not None:
            before[:count] = carry
        bits = np.packbits(before, bitorder="little").view(np.uint32)
        pointers = (ctypes.c_void_p * 5)()
        run, at_record, mask = self.library.alu_run, ctypes.addressof(record), 0xFFFFFFFF
        bases = [row.ctypes.data for row in rows]
        at_d, at_d2, at_bits = d.ctypes.data, d2.ctypes.data, bits.ctypes.data
        for warp in range(warps):
            offset = 8 * LANES * warp
            for index, base in enumerate(bases):
                pointers[index] = base + offset
            if not run(
                at_record, at_d + offset, at_d2 + offset, pointers, mask, at_bits + 4 * warp
            ):
                raise Refused(f"{op.name} {type_.name} {type2.name}")
        after = np.unpackbits(bits.view(np.uint8), bitorder="little").astype(np.uint64)
        return Result(d[:count], d2[:count], after[:count])


def build(folder: Path) -> Alu:
    """Compile the parts into a shared library in `folder`."""
    (folder / "isa.h").write_text(header())
    library = folder / "alu.so"
    sources = [str(NATIVE / "arithmetic" / f"{part}.c") for part in PARTS]
    command = ["cc", *FLAGS, f"-I{folder}", f"-I{NATIVE}", "-o", str(library), *sources, "-lm"]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))
    pointer, word = ctypes.c_void_p, ctypes.c_uint32
    loaded.alu_run.argtypes = (pointer, pointer, pointer, pointer, word, pointer)
    loaded.alu_run.restype = ctypes.c_bool
    loaded.atomic_apply.restype = ctypes.c_uint64
    return Alu(loaded)
