"""Disassembling."""

from importlib import metadata
from pathlib import Path

import pytest

from warpsmith.errors import CompileError, DeviceError
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.sass import disassemble
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
