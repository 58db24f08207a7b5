"""Machine code in words, by NVIDIA's disassembler."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path

from warpsmith.errors import CompileError, DeviceError

_PACKAGE = "nvidia-cuda-nvdisasm"


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
