"""The prelude on a GPU: conversions, vectors, and reductions across blocks and grids."""

from typing import Any

import pytest
import torch

from tests.support.block_reductions import CASES, TYPES, Axes, Shape, check
from warpsmith.codegen.prelude import prelude_text
from warpsmith.runtime.arguments import ArgumentBuffer
from warpsmith.runtime.launch import LoadedKernel
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source
from warpsmith.runtime.stream import current_stream

GUARD = 16  # bytes after what a copy may touch


def loaded(text: str, entry: str) -> LoadedKernel:
    return LoadedKernel(compile_source(Source(text=text, entry=entry, arch="sm_90a")), entry, 0)


def launched(
    kernel: LoadedKernel, grid: Shape, block: Shape, shared_bytes: int, formats: str, *values: Any
) -> None:
    buffer = ArgumentBuffer(formats)
    buffer.set(
        tuple(value.data_ptr() if isinstance(value, torch.Tensor) else value for value in values)
    )
    kernel.launch(grid, block, shared_bytes, current_stream(0), buffer)
    torch.cuda.synchronize()


@pytest.mark.parametrize(("block", "axes"), CASES)
def test_reductions(block: Shape, axes: Axes) -> None:
    for name in TYPES:
        check(name, block, axes, device="cuda", launches=2)


@pytest.mark.parametrize("splits", [7, 64])
@pytest.mark.parametrize(("block", "axes"), CASES)
def test_reductions_by_blocks_that_arrive_in_any_order(
    block: Shape, axes: Axes, splits: int
) -> None:
    for name in ("sum", "var_mean"):
        check(name, block, axes, splits, device="cuda", launches=20)


STORAGE_KERNEL = """
extern "C" __global__ void widen(const {ctype}* in, float* one, double* wide) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    one[i] = (float)in[i];
    wide[i] = (double)in[i];
}}
"""
NARROW_KERNEL = """
extern "C" __global__ void narrow(const float* in, {ctype}* one, {ctype}* wide) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    one[i] = {ctype}(in[i]);
    wide[i] = {ctype}((double)in[i]);
}}
"""
HALVES = [
    ("ws_bfloat16", "bfloat16", torch.bfloat16),
    ("ws_half", "half", torch.float16),
]


@pytest.mark.parametrize(("ctype", "piece", "kind"), HALVES)
def test_every_16_bit_float_widens_exactly(ctype: str, piece: str, kind: torch.dtype) -> None:
    kernel = loaded(prelude_text([piece]) + STORAGE_KERNEL.format(ctype=ctype), "widen")
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    one = torch.empty(bits.numel(), device="cuda")
    wide = torch.empty(bits.numel(), dtype=torch.float64, device="cuda")
    launched(kernel, (256, 1, 1), (256, 1, 1), 0, "PPP", bits.cuda(), one, wide)
    expected = bits.view(kind).float()
    for result in (one.cpu(), wide.cpu().float()):
        torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("ctype", "piece", "kind"), HALVES)
def test_floats_narrow_to_the_nearest(ctype: str, piece: str, kind: torch.dtype) -> None:
    kernel = loaded(prelude_text([piece]) + NARROW_KERNEL.format(ctype=ctype), "narrow")
    random = torch.Generator().manual_seed(1)
    bits = torch.randint(-(2**31), 2**31, (2**16,), generator=random, dtype=torch.int64)
    x = bits.to(torch.int32).view(torch.float32)
    # Every tie between neighbours, too: half a step above each 16-bit value.
    halves = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(kind).float()
    x = torch.cat([x, halves, (halves + halves.roll(-1)) / 2])
    results = [torch.empty(x.numel(), dtype=kind, device="cuda") for _ in range(2)]
    grid = (x.numel() // 256, 1, 1)
    launched(kernel, grid, (256, 1, 1), 0, "PPP", x.cuda(), *results)
    for result in results:
        torch.testing.assert_close(result.cpu(), x.to(kind), rtol=0, atol=0, equal_nan=True)


def test_a_double_above_a_tie_rounds_up() -> None:
    body = """
extern "C" __global__ void narrow(const double* in, ws_bfloat16* b, ws_half* h) {
    b[threadIdx.x] = ws_bfloat16(in[threadIdx.x]);
    h[threadIdx.x] = ws_half(in[threadIdx.x]);
}
"""
    kernel = loaded(prelude_text(["bfloat16", "half"]) + body, "narrow")
    # Rounded to float first, both would be ties, and go down to 1.
    x = torch.tensor([1 + 2**-8 + 2**-40, 1 + 2**-11 + 2**-40], dtype=torch.float64)
    b = torch.empty(2, dtype=torch.bfloat16, device="cuda")
    h = torch.empty(2, dtype=torch.float16, device="cuda")
    launched(kernel, (1, 1, 1), (2, 1, 1), 0, "PPP", x.cuda(), b, h)
    assert b[0].item() == 1 + 2**-7
    assert h[1].item() == 1 + 2**-10


@pytest.mark.parametrize("hint", range(5))
def test_vectors_of_every_size_are_copied(hint: int) -> None:
    sizes = (1, 2, 4, 8, 16, 32)
    copies = "\n    ".join(
        f"if (which == {size}) ws_store<unsigned char, {size}, {hint % 2}>"
        f"(out + i * {size}, ws_load<unsigned char, {size}, {hint}>(in + i * {size}));"
        for size in sizes
    )
    body = (
        'extern "C" __global__ void copy(const unsigned char* in, unsigned char* out, int which)'
        f" {{\n    const int i = threadIdx.x;\n    {copies}\n}}\n"
    )
    kernel = loaded(prelude_text(["vector"]) + body, "copy")
    source = torch.randint(0, 256, (64 * 32 + GUARD,), dtype=torch.uint8, device="cuda")
    for size in sizes:
        out = torch.zeros_like(source)
        launched(kernel, (1, 1, 1), (64, 1, 1), 0, "PPi", source, out, size)
        assert torch.equal(out[: 64 * size], source[: 64 * size])
        assert not out[64 * size :].any()
