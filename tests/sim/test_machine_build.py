"""The machine's C: no compiler warning; with sanitizers, no complaint over real kernels."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.support.catalog import TRITON
from warpsmith.sim import isa, library

NATIVE = Path(library.__file__).parent / "native"
SOURCES = sorted(map(str, NATIVE.rglob("*.c")))
SANITIZERS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
# Runs stored PTX on the library that is named first.
RUN = """
import ctypes, sys
from warpsmith.sim import machine
loaded = ctypes.CDLL(sys.argv[1])
machine.library = lambda: loaded
from tests.sim.support.catalog import read_ptx, read_spec
from tests.sim.support.judge import judge
for name in sys.argv[2:]:
    print(name, judge(read_ptx(name), read_spec(name), name, count=4).verdict)
"""


def gcc() -> str:
    found = shutil.which("gcc")
    if found is None:
        pytest.skip("GCC's warnings and sanitizers are asked for, and there is no gcc")
    return found


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("machine")
    (folder / "isa.h").write_text(isa.header())
    return folder


def test_no_warnings(headers: Path) -> None:
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-frounding-math")
    command = [gcc(), *flags, f"-I{headers}", f"-I{NATIVE}", *SOURCES]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_no_complaint_of_the_sanitizers(headers: Path) -> None:
    made = headers / "machine.so"
    flags = ("-std=c11", "-fPIC", "-shared", "-ffp-contract=off", "-frounding-math")
    subprocess.run(
        [
            gcc(),
            *flags,
            *SANITIZERS,
            f"-I{headers}",
            f"-I{NATIVE}",
            *SOURCES,
            "-o",
            str(made),
            "-lm",
        ],
        check=True,
    )
    runtime = subprocess.run(
        [gcc(), "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    environment = {**os.environ, "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0"}
    result = subprocess.run(
        [sys.executable, "-c", RUN, str(made), *TRITON],
        capture_output=True, text=True, check=False, env=environment,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    assert len(result.stdout.splitlines()) == len(TRITON)
