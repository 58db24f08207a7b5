"""The C of the simulator's core, or a part of it, as a library for ctypes."""

import ctypes
import subprocess
from pathlib import Path

from warpsmith.sim import isa

NATIVE = Path(isa.__file__).parent / "native"
FLAGS = (
    *("-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"),
    *("-fPIC", "-shared"),
)


def build(folder: Path, sources: tuple[str, ...]) -> ctypes.CDLL:
    """Compile `sources` of the native folder into `folder` and load the result."""
    (folder / "isa.h").write_text(isa.header())
    library = folder / "part.so"
    paths = [str(NATIVE / source) for source in sources]
    command = ["cc", *FLAGS, f"-I{folder}", f"-I{NATIVE}", *paths, "-o", str(library), "-lm"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


class Insn(ctypes.Structure):
    """`insn` of sim.h."""

    _fields_ = (
        *(("op", ctypes.c_uint16), ("type", ctypes.c_uint8), ("type2", ctypes.c_uint8)),
        ("flags", ctypes.c_uint32),
        *((name, ctypes.c_uint8) for name in ("mode", "round", "compare", "combine")),
        *((name, ctypes.c_uint8) for name in ("space", "semantics", "scope", "vector")),
        ("groups", ctypes.c_uint8 * 8),
        *(("group_count", ctypes.c_uint8), ("guard_negated", ctypes.c_uint8)),
        *((name, ctypes.c_uint16) for name in ("operand_count", "m", "n", "k", "unused")),
        *(("guard", ctypes.c_int32), ("first_operand", ctypes.c_uint32)),
        *(("target", ctypes.c_int32), ("reconverge", ctypes.c_int32)),
        *((name, ctypes.c_uint32) for name in ("first_target", "target_count", "line")),
    )


def insn(op: isa.Op, **fields: int) -> Insn:
    """A record with the defaults of `program.Instruction`."""
    return Insn(op=op, **{"vector": 1, "guard": -1, "target": -1, "reconverge": -1, **fields})
