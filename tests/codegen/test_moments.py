"""Moments of several results under one number: what triples would have been, bit for bit."""

import numpy as np
import pytest

from tests.codegen.test_prelude import compiled
from warpsmith import sim
from warpsmith.codegen.prelude import prelude_text
from warpsmith.kernel.scratch import block_reduce_scratch
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.sass import disassemble
from warpsmith.runtime.source import Source

Block = tuple[int, int, int]
Axes = tuple[bool, bool, bool]

CASES: list[tuple[Block, Axes]] = [
    ((8, 64, 1), (False, True, False)),  # lanes halve what they have, then sixteen parts
    ((2, 32, 1), (False, True, False)),  # more lanes alike than results
    ((40, 6, 1), (False, True, False)),  # no whole warps, more results than threads
    ((4, 8, 1), (False, True, False)),  # lanes alone
    ((1, 4, 16), (False, True, True)),
    ((64, 3, 1), (True, False, False)),
]


@pytest.mark.few(2)
@pytest.mark.parametrize("count", [4, 8])
@pytest.mark.parametrize(("block", "axes"), CASES)
def test_moments_are_those_of_triples(block: Block, axes: Axes, count: int) -> None:
    """Of threads that have none, too; two calls with the same scratch, and words behind it."""
    bx, by, bz = block
    threads, words = bx * by * bz, 3 * count
    flags = ", ".join(str(axis).lower() for axis in axes)
    dims = ", ".join(f"ws_int<{extent}>()" for extent in block)
    scratch = 3 * block_reduce_scratch(count, axes, block)
    body = f"""
extern "C" __global__ void k(const float* in, float* out) {{
    __shared__ __align__(16) float scratch[{scratch + 4}];
    const int thread = threadIdx.x + {bx} * (threadIdx.y + {by} * threadIdx.z);
    if (thread == 0) scratch[{scratch}] = 123;
    for (int round = 0; round < 2; ++round) {{
        const float number = (thread + round) % 3;
        ws_welford<float> triples[{count}];
        ws_moments<{count}, float> values;
        for (int n = 0; n < {count}; ++n) {{
            const float x = number == 0 ? 0 : in[thread * {count} + n];
            triples[n] = {{x, 0.5f * x * x, number}};
            values.mean[n] = x, values.m2[n] = 0.5f * x * x;
        }}
        values.count = number;
        ws_block_reduce<ws_welford_combine, {count}, {flags}>(
            triples, (ws_welford<float>*)scratch, {dims});
        __syncthreads();
        ws_block_moments<{flags}>(values, scratch, {dims});
        float* const own = out + (round * {threads} + thread) * {2 * words};
        for (int n = 0; n < {count}; ++n) {{
            own[n] = triples[n].mean, own[{count} + n] = triples[n].m2;
            own[{2 * count} + n] = triples[n].count;
            own[{words} + n] = values.mean[n], own[{words + count} + n] = values.m2[n];
            own[{words + 2 * count} + n] = values.count;
        }}
    }}
    __syncthreads();
    if (thread == 0 && scratch[{scratch}] != 123) out[0] = -1;
}}
"""
    text = prelude_text(["reduce_ops", "block_moments"]) + body
    ptx = compile_source(Source(text=text, entry="k", arch="sm_90a")).ptx
    shape = [2 * threads * 2 * words]
    spec = {
        "grid": [1],
        "block": list(block),
        "buffers": {
            "in": {"dtype": "float32", "shape": [threads * count], "init": "arange"},
            "out": {"dtype": "float32", "shape": shape, "init": "zeros"},
        },
        "params": [{"ptr": "in"}, {"ptr": "out"}],
        "outputs": ["out"],
    }
    report = sim.run(ptx, spec, schedules=2)
    assert report.verdict == "clean", str(report)
    triples, moments = np.moveaxis(report.arrays["out"].reshape(-1, 2, words), 1, 0)
    np.testing.assert_array_equal(moments, triples)
    assert moments[:, -1].max() > 0


def test_lanes_exchange_two_words_of_a_result_and_one_number() -> None:
    """Eight results of four lanes: 4 + 2 of them, in place of three words each."""
    body = (
        "extern __shared__ float memory[];\nws_moments<8, float> v = {};\n"
        "#pragma unroll\nfor (int n = 0; n < 8; ++n) v.mean[n] = data[n * 64 + threadIdx.y];\n"
        "#pragma unroll\nfor (int n = 0; n < 8; ++n) v.m2[n] = data[n + 999 * threadIdx.y];\n"
        "v.count = data[threadIdx.x];\n"
        "ws_block_moments<false, true, false>(v, memory, ws_int<8>(), ws_int<64>(), ws_int<1>());\n"
        "#pragma unroll\nfor (int n = 0; n < 8; ++n) data[n] = v.mean[n] + v.m2[n];"
    )
    binary = compiled(["reduce_ops", "block_moments"], "float* data", body)
    lanes = disassemble(binary.cubin).split("STS")[0]
    assert lanes.count("SHFL.BFLY") == 2 * (4 + 2) + 2
    assert lanes.count("MUFU.RCP") == 2
    assert binary.stack_bytes == 0
