"""Kernels as compilers emit them: NVRTC's, and the texts that others left beside their sources."""

import re
from functools import cache
from pathlib import Path

import pytest

from warpsmith.sim.isa import Op
from warpsmith.sim.ptx import read

KERNELS = Path(__file__).resolve().parents[1] / "kernels"
SOURCES = sorted(KERNELS.rglob("*.cu"))
TEXTS = sorted(KERNELS.rglob("*.ptx"))

CUDA = r"""
extern "C" __device__ int printf(const char*, ...);
struct Pair { float first; double second; int rest[5]; };
__device__ __noinline__ float sum(float x, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) s += __sinf(x * i);
    return s;
}
__device__ __noinline__ Pair make(float x) {
    Pair p{x, x * 2};
    for (int i = 0; i < 5; i++) p.rest[i] = i * (int)x;
    return p;
}
__constant__ float table[4] = {1, 2, 3, 4.5f};
__device__ int counter = 3;
extern "C" __global__ void calls(float* y, int k, Pair s) {
    __shared__ float near[128];
    extern __shared__ double far[];
    float v = sum(y[threadIdx.x], k) + sum(y[threadIdx.x + 1], k + 1);
    Pair q = make(v);
    near[threadIdx.x] = q.first + q.rest[k] + table[k & 3];
    __syncthreads();
    far[threadIdx.x] = q.second + s.rest[k];
    __syncthreads();
    y[threadIdx.x] = near[127 - threadIdx.x] + far[0];
    if (k == 7) printf("k=%d v=%f\n", k, v);
    atomicAdd(&counter, 1);
    switch (k) {
    case 0: y[0] = 1; break;
    case 1: y[5] = 3; break;
    case 2: y[2] = 7; break;
    case 3: y[9] = 1; break;
    case 4: y[11] = 1; break;
    case 5: __trap();
    case 6: y[8] = 2;
    default: y[1] = 5;
    }
}
extern "C" __global__ void divide(const signed char* a, long long* b, double* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    b[i] = b[i] / a[i] + __popcll(b[i]) + __clz(a[i]);
    c[i] = sqrt(c[i]) / b[i] + __shfl_xor_sync(0xffffffff, c[i], 1);
}
"""


@cache
def compile_ptx(text: str, *options: str) -> str:
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, None, None)
    flags = [b"--gpu-architecture=compute_90a", b"--std=c++17", *(o.encode() for o in options)]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytes(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()
    _, size = nvrtc.nvrtcGetPTXSize(program)
    content = bytes(size)
    nvrtc.nvrtcGetPTX(program, content)
    nvrtc.nvrtcDestroyProgram(program)
    return content.rstrip(b"\0").decode()


def read_all(text: str) -> int:
    """Read each kernel of a text; how many there were."""
    names = re.findall(r"\.entry\s+([\w$]+)", text)
    for name in names:
        program = read(text, name)
        count = len(program.instructions)
        assert program.instructions[-1].op in (Op.EXIT, Op.BRA, Op.TRAP)
        for instruction in program.instructions:
            assert -1 <= instruction.reconverge < count
            assert all(0 <= target < count for target in instruction.targets)
            registers = [o.index for o in instruction.operands if o.is_register]
            assert all(program.slots[each] < program.registers for each in registers)
            assert sum(instruction.groups) == len(instruction.operands)
            assert len(instruction.groups) <= 8
    return len(names)


@pytest.mark.parametrize("options", [(), ("-lineinfo",), ("-G",)], ids=["plain", "lines", "debug"])
def test_nvrtc(options: tuple[str, ...]) -> None:
    text = compile_ptx(CUDA, *options)
    assert read_all(text) == 2
    if "-lineinfo" in options:
        places = {i.place for i in read(text, "calls").instructions}
        lines = CUDA.splitlines()
        assert {"kernel.cu"} == {Path(place.file).name for place in places if place.file}
        assert any("__sinf" in lines[place.source_line - 1] for place in places if place.file)


@pytest.mark.few(7)
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_sources_beside(path: Path) -> None:
    assert read_all(compile_ptx(path.read_text(), f"-I{KERNELS}", f"-I{path.parent}"))


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_texts_beside(path: Path) -> None:
    assert read_all(path.read_text())
