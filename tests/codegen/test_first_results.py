"""`ws_block_reduce` for the first threads alone: what these get, and where it keeps its parts."""

import itertools

import numpy as np
import pytest

from warpsmith import sim
from warpsmith.codegen.prelude import prelude_text
from warpsmith.kernel.scratch import block_reduce_scratch
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source

Block = tuple[int, int, int]
Axes = tuple[bool, bool, bool]

CASES: list[tuple[Block, Axes]] = [
    ((64, 2, 1), (False, True, False)),
    ((32, 4, 1), (False, True, False)),
    ((8, 16, 1), (False, True, False)),  # lanes first, then four parts
    ((8, 12, 1), (False, True, False)),
    ((16, 2, 3), (False, True, True)),
    ((24, 5, 1), (False, True, False)),
    ((16, 17, 1), (False, True, False)),  # more parts than one thread combines
    ((64, 3, 1), (True, False, False)),  # whole warps
    ((20, 3, 1), (True, True, False)),
]
COUNTS = (1, 3, 4, 8)


@pytest.mark.few(3)
@pytest.mark.parametrize(("block", "axes"), CASES)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", ["float", "double"])
def test_sums_of_the_first(block: Block, axes: Axes, count: int, kind: str) -> None:
    """Two calls with the same scratch; words behind it stay as they are."""
    bx, by, bz = block
    threads = bx * by * bz
    flags = ", ".join(str(axis).lower() for axis in axes)
    scratch = block_reduce_scratch(count, axes, block)
    body = f"""
extern "C" __global__ void k(const {kind}* in, {kind}* out) {{
    __shared__ __align__(16) {kind} scratch[{scratch + 1}];
    const int thread = threadIdx.x + {bx} * (threadIdx.y + {by} * threadIdx.z);
    if (thread == 0) scratch[{scratch}] = 123;
    for (int round = 0; round < 2; ++round) {{
        {kind} values[{count}];
        for (int n = 0; n < {count}; ++n) values[n] = in[thread * {count} + n] + round;
        ws_block_reduce<ws_sum, {count}, {flags}, false, true>(values, scratch, {bx}, {by}, {bz});
        for (int n = 0; n < {count}; ++n)
            out[(round * {threads} + thread) * {count} + n] = values[n];
    }}
    __syncthreads();
    if (thread == 0 && scratch[{scratch}] != 123) out[0] = -1;
}}
"""
    text = prelude_text(["reduce_ops", "block_reduce"]) + body
    ptx = compile_source(Source(text=text, entry="k", arch="sm_90a")).ptx
    dtype = {"float": "float32", "double": "float64"}[kind]
    spec = {
        "grid": [1],
        "block": list(block),
        "buffers": {
            "in": {"dtype": dtype, "shape": [threads * count], "init": "arange"},
            "out": {"dtype": dtype, "shape": [2 * threads * count], "init": "zeros"},
        },
        "params": [{"ptr": "in"}, {"ptr": "out"}],
        "outputs": ["out"],
    }
    report = sim.run(ptx, spec, schedules=4)
    assert report.verdict == "clean", str(report)
    values = np.arange(threads * count).reshape(bz, by, bx, count)
    along = tuple(2 - place for place, gone in enumerate(axes) if gone)
    first = tuple(slice(0, 1) if 2 - place in along else slice(None) for place in (2, 1, 0))
    found = report.arrays["out"].reshape(2, bz, by, bx, count)
    for turn in range(2):
        expected = (values + turn).sum(along, keepdims=True)
        np.testing.assert_array_equal(found[turn][first], expected)


def test_every_case_has_several_parts() -> None:
    assert all(
        block_reduce_scratch(count, axes, block) > 0
        for (block, axes), count in itertools.product(CASES, COUNTS)
    )
