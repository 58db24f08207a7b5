"""Disassembling."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from tests.support.role_sources import WAITS, product, two_budgets
from warpsmith.errors import CompileError, DeviceError
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.sass import Counts, check_emitted, disassemble, ptx_counts, sass_counts
from warpsmith.runtime.source import Source

SOURCE = Source(
    text='extern "C" __global__ void one(float* x) { x[threadIdx.x] += 1; }',
    entry="one",
    arch="sm_90a",
)


def test_machine_code_is_readable() -> None:
    text = disassemble(compile_source(SOURCE).cubin)
    assert ".text.one" in text
    assert "FADD" in text
    assert "EXIT" in text


def test_a_broken_cubin_is_refused() -> None:
    with pytest.raises(CompileError, match="nvdisasm refused the cubin: nvdisasm"):
        disassemble(b"not an ELF file")


def test_without_the_program_the_package_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", missing)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match="install `pip install nvidia-cuda-nvdisasm`"):
        disassemble(b"")


def forms(text: str) -> tuple[str, str]:
    """PTX and SASS of the kernel `k`."""
    binary = compile_source(Source(text=text, entry="k", arch="sm_90a"))
    return binary.ptx, disassemble(binary.cubin)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("text", "asked", "found"),
    [
        (two_budgets("__launch_bounds__(384, 1)", 24, 240), (2, 0, 0), (2, 0, 0)),
        (product(), (0, 1, 0), (0, 1, 0)),
        (WAITS, (0, 0, 2), (0, 0, 2)),
        # Unrolled by four, with what is left over, and again where the first try fails.
        (WAITS.replace("#pragma unroll 1", ""), (0, 0, 6), (0, 0, 12)),
    ],
)
def test_instructions_of_roles_are_counted(
    text: str, asked: tuple[int, int, int], found: tuple[int, int, int]
) -> None:
    ptx, sass = forms(text)
    names = ("register_changes", "products", "waits")
    assert ptx_counts(ptx) == Counts(**dict(zip(names, asked, strict=True)))
    assert sass_counts(sass) == Counts(**dict(zip(names, found, strict=True)))
    check_emitted(ptx, sass, "k")


def test_budgets_that_ptxas_dropped_are_missed() -> None:
    ptx, sass = forms(two_budgets("__launch_bounds__(384)", 24, 240))
    with pytest.raises(CompileError, match=r"WS0512\].*`k` has 0 USETMAXREG for 2 setmaxnreg in"):
        check_emitted(ptx, sass, "k")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (product(), "HGMMA", "0 HGMMA for 1 wgmma.mma_async"),
        (WAITS, "SYNCS.PHASECHK", "0 SYNCS.PHASECHK for 2 mbarrier.try_wait"),
    ],
)
def test_missing_products_and_waits_are_missed(text: str, line: str, words: str) -> None:
    ptx, sass = forms(text)
    without = "\n".join(each for each in sass.splitlines() if line not in each)
    with pytest.raises(CompileError, match=words):
        check_emitted(ptx, without, "k")
