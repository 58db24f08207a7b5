"""The prelude on a GPU: conversions, vectors, and reductions across blocks and grids."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from warpsmith.codegen.prelude import prelude_text
from warpsmith.kernel.scratch import block_reduce_scratch, grid_workspace_elements, kept_threads
from warpsmith.runtime.arguments import ArgumentBuffer
from warpsmith.runtime.launch import LoadedKernel
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source
from warpsmith.runtime.stream import current_stream

Shape = tuple[int, int, int]
Axes = tuple[bool, bool, bool]

BLOCKS: list[Shape] = [
    (32, 1, 1),
    (64, 1, 1),
    (96, 1, 1),
    (100, 1, 1),
    (256, 1, 1),
    (1024, 1, 1),
    (32, 8, 1),
    (16, 16, 1),
    (8, 32, 1),
    (8, 12, 1),
    (3, 5, 7),
    (4, 4, 8),
]


def useful_axes(block: Shape) -> list[Axes]:
    """Every choice of axes that has something to reduce along each of them."""
    choices = ((False, True) if extent > 1 else (False,) for extent in block)
    return [(x, y, z) for x, y, z in itertools.product(*choices) if x or y or z]


CASES = [(block, axes) for block in BLOCKS for axes in useful_axes(block)]
COUNTS = (1, 2, 8)
FOR_THE_FIRST = ("ws_sum", "ws_prod")
"""Reductions whose results only the first threads get, too: words and others."""
OPS = {
    "ws_sum": ("float", torch.float32),
    "ws_prod": ("double", torch.float64),
    "ws_max": ("float", torch.float32),
    "ws_min": ("long long", torch.int64),
}
EMPTY = 1e30  # stands for "no element" in Welford's inputs
GUARD = 16  # words after what a reduction may touch


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


def cpp(axes: Axes) -> str:
    return ", ".join("true" if axis else "false" for axis in axes)


def drawn(op: str, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Values whose reduction is exact in any order."""
    random = torch.Generator().manual_seed(seed)
    if op == "ws_min":
        return torch.randint(-(2**62), 2**62, shape, generator=random)
    if op == "ws_prod":
        return (torch.randint(0, 2, shape, generator=random) * 2 - 1).to(torch.float64)
    values = torch.randint(-8, 9, shape, generator=random).to(torch.float32)
    if op == "ws_max":
        values[torch.rand(shape, generator=random) < 0.001] = torch.nan
    return values


def reduced(op: str, values: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
    """`values` reduced along `dims`, which stay as extents of 1."""
    if op == "ws_sum":
        return values.sum(dims, keepdim=True)
    for dim in dims:
        if op == "ws_prod":
            values = values.prod(dim, keepdim=True)
        elif op == "ws_max":
            values = values.amax(dim, keepdim=True)  # NaN when there is one
        else:
            values = values.amin(dim, keepdim=True)
    return values


def dims_of(axes: Axes) -> tuple[int, ...]:
    """Dimensions of a [.., z, y, x, n] tensor that the axes x, y, z stand for."""
    return tuple(-2 - index for index, gone in enumerate(axes) if gone)


# Reduces twice over the same scratch with nothing between, then looks whether the words after
# the scratch are as they were.
BLOCK_KERNEL = """
template <class Op, int N, bool First, class T>
__device__ __forceinline__ void reduce_twice(T* data, int scratch, int* overruns) {{
    extern __shared__ __align__(16) double memory[];
    const int thread = threadIdx.x + {bx} * (threadIdx.y + {by} * threadIdx.z);
    int* guard = (int*)((T*)memory + scratch);
    if (thread < {guard}) guard[thread] = 12345 + thread;
    T* mine = data + ((long long)blockIdx.x * {threads} + thread) * (2 * N);
    T first[N], second[N];
    for (int n = 0; n < N; ++n) {{ first[n] = mine[n]; second[n] = mine[N + n]; }}
    __syncthreads();
    ws_block_reduce<Op, N, {axes}, false, First>(first, (T*)memory, {bx}, {by}, {bz});
    ws_block_reduce<Op, N, {axes}, false, First>(second, (T*)memory, {bx}, {by}, {bz});
    for (int n = 0; n < N; ++n) {{ mine[n] = first[n]; mine[N + n] = second[n]; }}
    __syncthreads();
    if (thread < {guard} && guard[thread] != 12345 + thread) atomicAdd(overruns, 1);
}}
extern "C" __global__ void reduce(void* data, int scratch, int* overruns, int which) {{
    switch (which) {{
    {cases}
    }}
}}
"""


@pytest.mark.parametrize(("block", "axes"), CASES)
def test_block_reduce(block: Shape, axes: Axes) -> None:
    bx, by, bz = block
    instances = [(op, count, False) for op, count in itertools.product(OPS, COUNTS)]
    instances += [(op, count, True) for op, count in itertools.product(FOR_THE_FIRST, COUNTS)]
    cases = "\n    ".join(
        f"case {index}: reduce_twice<{op}, {count}, {str(first).lower()}>"
        f"(({OPS[op][0]}*)data, scratch, overruns); break;"
        for index, (op, count, first) in enumerate(instances)
    )
    body = BLOCK_KERNEL.format(
        bx=bx, by=by, bz=bz, threads=bx * by * bz, axes=cpp(axes), guard=GUARD, cases=cases
    )
    kernel = loaded(prelude_text(["reduce_ops", "block_reduce"]) + body, "reduce")
    blocks = 5
    for index, (op, count, first) in enumerate(instances):
        values = drawn(op, (blocks, bz, by, bx, 2 * count), index)
        expected = reduced(op, values, dims_of(axes)).expand(values.shape)
        data = values.cuda()
        overruns = torch.zeros(1, dtype=torch.int32, device="cuda")
        scratch = block_reduce_scratch(count, axes, block)
        shared_bytes = scratch * values.element_size() + 4 * GUARD
        arguments = (data, scratch, overruns, index)
        launched(kernel, (blocks, 1, 1), block, shared_bytes, "PiPi", *arguments)
        found = data.cpu()
        for dim in dims_of(axes) if first else ():  # the others get nothing
            found, expected = found.narrow(dim, 0, 1), expected.narrow(dim, 0, 1)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        assert overruns.item() == 0


WELFORD_KERNEL = """
extern "C" __global__ void reduce(const float* in, ws_welford<float>* out) {{
    extern __shared__ ws_welford<float> memory[];
    const int thread = threadIdx.x + {bx} * (threadIdx.y + {by} * threadIdx.z);
    const long long at = (long long)blockIdx.x * {threads} + thread;
    ws_welford<float> values[2] = {{{{0, 0, 0}}, {{0, 0, 0}}}};
    for (int n = 0; n < 2; ++n)
        for (int i = 0; i < 3; ++i) {{
            const float x = in[(at * 2 + n) * 3 + i];
            if (x < {empty}f) ws_welford_add(values[n], x);
        }}
    ws_block_reduce<ws_welford_combine, 2, {axes}>(values, memory, {bx}, {by}, {bz});
    for (int n = 0; n < 2; ++n) out[at * 2 + n] = values[n];
}}
"""


@pytest.mark.parametrize(("block", "axes"), CASES)
def test_block_welford(block: Shape, axes: Axes) -> None:
    bx, by, bz = block
    threads = bx * by * bz
    body = WELFORD_KERNEL.format(
        bx=bx, by=by, bz=bz, threads=threads, axes=cpp(axes), empty=EMPTY / 10
    )
    kernel = loaded(prelude_text(["reduce_ops", "block_reduce"]) + body, "reduce")
    random = torch.Generator().manual_seed(5)
    x = torch.randn((3, bz, by, bx, 2, 3), generator=random) * 2 + 10
    x[torch.rand(x.shape, generator=random) < 0.4] = EMPTY  # leaves some threads with nothing
    out = torch.full((3, bz, by, bx, 2, 3), torch.nan, device="cuda")
    shared_bytes = 12 * block_reduce_scratch(2, axes, block)
    launched(kernel, (3, 1, 1), block, shared_bytes, "PP", x.cuda(), out)
    mean, m2, count = welford(x, dims_of(axes))
    got = out.cpu()
    assert torch.equal(got[..., 2], count.to(torch.float32).expand(got.shape[:-1]))
    # Relative to the values, which the mean is; some hundred elements lose some digits.
    torch.testing.assert_close(got[..., 0].double(), mean.expand(got.shape[:-1]), rtol=1e-5, atol=0)
    torch.testing.assert_close(
        got[..., 1].double(), m2.expand(got.shape[:-1]), rtol=1e-4, atol=1e-4
    )
    first = got
    for dim in dims_of(axes):
        first = first.narrow(dim - 1, 0, 1)
    assert torch.equal(got, first.expand(got.shape)), "threads disagree in some bits"


def welford(
    x: torch.Tensor, dims: tuple[int, ...]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean, sum of squared distances and number, in float64, over `dims` and the elements."""
    there = x < EMPTY / 10
    wide = torch.where(there, x.double(), 0.0)
    over = (*(dim - 1 for dim in dims), -1)
    count = there.sum(over, keepdim=True)
    mean = wide.sum(over, keepdim=True) / count.clamp(min=1)
    m2 = torch.where(there, (wide - mean) ** 2, 0.0).sum(over, keepdim=True)
    return mean[..., 0], m2[..., 0], count[..., 0]


# Blocks wait by turns that `salt` shuffles, so that another one arrives last in each launch.
GRID_KERNEL = """
extern "C" __global__ void reduce({ctype}* in, {ctype}* out, {ctype}* workspace,
                                  unsigned* semaphore, int splits, unsigned salt) {{
    extern __shared__ double memory[];
    const int thread = threadIdx.x + {bx} * (threadIdx.y + {by} * threadIdx.z);
    const int split = blockIdx.y;
    const long long segment = blockIdx.x;
    {ctype} values[2];
    for (int n = 0; n < 2; ++n)
        values[n] = in[((segment * splits + split) * {threads} + thread) * 2 + n];
    __nanosleep((split * 7919u + (unsigned)segment * 31u + salt * 104729u) % 5u * 3000u);
    ws_block_reduce<{op}, 2, {axes}>(values, ({ctype}*)memory, {bx}, {by}, {bz});
    if (ws_grid_reduce<{op}, 2, {axes}>(values, workspace, semaphore, ({ctype}*)memory, split,
                                        splits, segment, {bx}, {by}, {bz}))
        for (int n = 0; n < 2; ++n) out[(segment * {threads} + thread) * 2 + n] = values[n];
}}
"""
GRID_CASES: list[tuple[Shape, Axes]] = [
    ((256, 1, 1), (True, False, False)),
    ((100, 1, 1), (True, False, False)),
    ((32, 8, 1), (False, True, False)),
    ((32, 8, 1), (True, True, False)),
    ((16, 16, 1), (False, True, False)),
    ((64, 1, 1), (False, False, True)),  # no threads to reduce: blocks only
]
SEGMENTS = 3


def grid_kernel(block: Shape, axes: Axes, op: str, ctype: str) -> LoadedKernel:
    bx, by, bz = block
    body = GRID_KERNEL.format(
        bx=bx, by=by, bz=bz, threads=bx * by * bz, axes=cpp(axes), op=op, ctype=ctype
    )
    return loaded(prelude_text(["reduce_ops", "grid_reduce"]) + body, "reduce")


def grid_runs(
    kernel: LoadedKernel, block: Shape, axes: Axes, splits: int, values: torch.Tensor, width: int
) -> list[torch.Tensor]:
    """Results of four launches that share the workspace; `width` values are one element."""
    threads = int(np.prod(block))
    data = values.cuda()
    elements = grid_workspace_elements(2, kept_threads(axes, block), splits, SEGMENTS) * width
    workspace = torch.full((elements + GUARD,), 77, dtype=values.dtype, device="cuda")
    semaphore = torch.zeros(SEGMENTS, dtype=torch.int32, device="cuda")
    shared_bytes = max(block_reduce_scratch(2, axes, block), 1) * values.element_size() * width
    results = []
    for salt in range(4):
        out = torch.full((SEGMENTS * threads * 2 * width,), 99, dtype=values.dtype, device="cuda")
        arguments = (data, out, workspace, semaphore, splits, salt)
        launched(kernel, (SEGMENTS, splits, 1), block, shared_bytes, "PPPPiI", *arguments)
        assert not semaphore.any(), "the next launch would count from here"
        assert (workspace[elements:] == 77).all()
        results.append(out.cpu())
    return results


@pytest.mark.parametrize("splits", [1, 2, 7, 64])
@pytest.mark.parametrize(("block", "axes"), GRID_CASES)
def test_grid_reduce(block: Shape, axes: Axes, splits: int) -> None:
    bx, by, bz = block
    for op in ("ws_sum", "ws_max", "ws_min"):
        ctype, kind = OPS[op]
        kernel = grid_kernel(block, axes, op, ctype)
        values = drawn(op, (SEGMENTS, splits, bz, by, bx, 2), splits).to(kind)
        expected = reduced(op, values, (1, *dims_of(axes))).expand(SEGMENTS, 1, bz, by, bx, 2)
        for result in grid_runs(kernel, block, axes, splits, values, 1):
            torch.testing.assert_close(result, expected.reshape(-1), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("splits", [2, 7, 64])
@pytest.mark.parametrize(("block", "axes"), GRID_CASES)
def test_grid_reduce_rounds_alike_in_every_launch(block: Shape, axes: Axes, splits: int) -> None:
    bx, by, bz = block
    kernel = grid_kernel(block, axes, "ws_sum", "float")
    random = torch.Generator().manual_seed(splits)
    values = torch.randn((SEGMENTS, splits, bz, by, bx, 2), generator=random)
    results = grid_runs(kernel, block, axes, splits, values, 1)
    assert all(torch.equal(result, results[0]) for result in results)
    exact = values.double().sum((1, *dims_of(axes)), keepdim=True)
    expected = exact.expand(SEGMENTS, 1, bz, by, bx, 2).reshape(-1)
    size = values.numel() ** 0.5
    torch.testing.assert_close(results[0].double(), expected, rtol=0, atol=1e-6 * size)


@pytest.mark.parametrize("splits", [1, 7, 64])
@pytest.mark.parametrize(("block", "axes"), GRID_CASES)
def test_grid_welford(block: Shape, axes: Axes, splits: int) -> None:
    bx, by, bz = block
    kernel = grid_kernel(block, axes, "ws_welford_combine", "ws_welford<float>")
    random = torch.Generator().manual_seed(splits)
    shape = (SEGMENTS, splits, bz, by, bx, 2)
    triples = torch.zeros((*shape, 3))
    triples[..., 0] = torch.randn(shape, generator=random) + 10
    triples[..., 2] = 1.0
    results = grid_runs(kernel, block, axes, splits, triples, 3)
    assert all(torch.equal(result, results[0]) for result in results)
    got = results[0].view(SEGMENTS, bz, by, bx, 2, 3)
    over = (1, *dims_of(axes))
    wide = triples[..., 0].double()
    mean = wide.mean(over, keepdim=True)
    expected = torch.stack(
        [
            mean,
            ((wide - mean) ** 2).sum(over, keepdim=True),
            torch.ones_like(wide).sum(over, keepdim=True),
        ],
        -1,
    )[:, 0].expand(got.shape)
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(got[..., 2].double(), expected[..., 2])


STORAGE_KERNEL = """
extern "C" __global__ void widen(const {ctype}* in, float* one, double* wide, float* eight) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    one[i] = (float)in[i];
    wide[i] = (double)in[i];
    if (i % 8 == 0) {{
        float x[8];
        ws_widen(x, ws_load<{ctype}, 8>(in + i));
        for (int n = 0; n < 8; ++n) eight[i + n] = x[n];
    }}
}}
"""
NARROW_KERNEL = """
extern "C" __global__ void narrow(const float* in, {ctype}* one, {ctype}* wide, {ctype}* eight) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    one[i] = {ctype}(in[i]);
    wide[i] = {ctype}((double)in[i]);
    if (i % 8 == 0) {{
        ws_vec<{ctype}, 8> v;
        float x[8];
        for (int n = 0; n < 8; ++n) x[n] = in[i + n];
        ws_narrow(v, x);
        ws_store<{ctype}, 8>(eight + i, v);
    }}
}}
"""
HALVES = [
    ("ws_bfloat16", "vector_bfloat16", torch.bfloat16),
    ("ws_half", "vector_half", torch.float16),
]


@pytest.mark.parametrize(("ctype", "piece", "kind"), HALVES)
def test_every_16_bit_float_widens_exactly(ctype: str, piece: str, kind: torch.dtype) -> None:
    kernel = loaded(prelude_text([piece]) + STORAGE_KERNEL.format(ctype=ctype), "widen")
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    one, eight = torch.empty(2, bits.numel(), device="cuda").unbind()
    wide = torch.empty(bits.numel(), dtype=torch.float64, device="cuda")
    arguments = (bits.cuda(), one, wide, eight)
    launched(kernel, (256, 1, 1), (256, 1, 1), 0, "PPPP", *arguments)
    expected = bits.view(kind).float()
    for result in (one.cpu(), wide.cpu().float(), eight.cpu()):
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
    results = [torch.empty(x.numel(), dtype=kind, device="cuda") for _ in range(3)]
    grid = (x.numel() // 256, 1, 1)
    launched(kernel, grid, (256, 1, 1), 0, "PPPP", x.cuda(), *results)
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
