"""Machine code in words, by NVIDIA's disassembler."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import MappingProxyType

from warpsmith.errors import CompileError, DeviceError

_PACKAGE = "nvidia-cuda-nvdisasm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Instructions of roles, as they stand in a text.

    Attributes:
        register_changes: `setmaxnreg`; in SASS `USETMAXREG`.
        products: `wgmma.mma_async`; in SASS `HGMMA` for halves, `IGMMA` and `QGMMA` for bytes.
        waits: `mbarrier.try_wait`; in SASS `SYNCS.PHASECHK`, one or two a wait, since ptxas may
            put the second and later tries elsewhere than the first.
    """

    register_changes: int
    products: int
    waits: int


_PTX: Mapping[str, str] = MappingProxyType(
    {
        "register_changes": r"\bsetmaxnreg\.",
        "products": r"\bwgmma\.mma_async\.",
        "waits": r"\bmbarrier\.try_wait\.",
    }
)
_SASS: Mapping[str, str] = MappingProxyType(
    {
        "register_changes": r"\bUSETMAXREG\.",
        "products": r"\b[HIQ]GMMA\.",
        "waits": r"\bSYNCS\.PHASECHK\.",
    }
)


def ptx_counts(ptx: str) -> Counts:
    """What a PTX text asks for; comments do not count."""
    bare = re.sub(r"//[^\n]*", "", ptx)
    return Counts(**{name: len(re.findall(pattern, bare)) for name, pattern in _PTX.items()})


def sass_counts(sass: str) -> Counts:
    """What stands in machine code, as `disassemble` prints it."""
    return Counts(**{name: len(re.findall(pattern, sass)) for name, pattern in _SASS.items()})


def check_emitted(ptx: str, sass: str, entry: str) -> None:
    """Refuse machine code in which instructions of roles are missing that the PTX has.

    ptxas may copy a wait or a product, when it unrolls a loop; a change of registers stands once.

    Raises CompileError WS0512 naming the instruction and both counts.
    """
    asked, found = ptx_counts(ptx), sass_counts(sass)
    pairs = (
        ("setmaxnreg", asked.register_changes, "USETMAXREG", found.register_changes, False),
        ("wgmma.mma_async", asked.products, "HGMMA", found.products, True),
        ("mbarrier.try_wait", asked.waits, "SYNCS.PHASECHK", found.waits, True),
    )
    wrong = [
        f"{there} {code} for {number} {name}"
        for name, number, code, there, copied in pairs
        if there < number or (there > number and not copied)
    ]
    if wrong:
        raise CompileError(
            f"the machine code of kernel `{entry}` has {', '.join(wrong)} in PTX",
            code="WS0512",
            remedy="look for ptxas's remarks in the log",
        )


def disassemble(cubin: bytes) -> str:
    """The SASS of a cubin.

    Raises DeviceError where nvdisasm is not installed, CompileError where it refuses the cubin.
    """
    program = _program()
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        result = subprocess.run(
            [program, "--print-code", file.name], capture_output=True, text=True, check=False
        )
    if result.returncode != 0:
        raise CompileError(f"nvdisasm refused the cubin: {result.stderr.strip()}")
    return result.stdout


def _program() -> str:
    """The program of the Python package, so that it fits NVRTC's, or else the one on the path."""
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.name == "nvdisasm" and path.is_file():
            return str(path)
    found = shutil.which("nvdisasm")
    if found is None:
        raise DeviceError(
            "there is no nvdisasm to disassemble with", remedy=f"install `pip install {_PACKAGE}`"
        )
    return found
