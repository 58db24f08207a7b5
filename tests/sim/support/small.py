"""Small kernels for tests: CUDA C++ to PTX, and a launch of it."""

from functools import cache
from typing import Any

from warpsmith import sim
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source
from warpsmith.sim import Report

# One CTA, one warp: x[i] += 1 for 32 floats.
ADD_ONE = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry add_one(.param .u64 x, .param .u32 count)
{
 .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<3>; .reg .f32 %f;
 ld.param.u64 %rd0, [x];
 ld.param.u32 %r0, [count];
 mov.u32 %r1, %tid.x;
 setp.ge.u32 %p, %r1, %r0;
 @%p bra DONE;
 mul.wide.u32 %rd1, %r1, 4;
 add.s64 %rd2, %rd0, %rd1;
 ld.global.f32 %f, [%rd2];
 add.f32 %f, %f, 0f3F800000;
 st.global.f32 [%rd2], %f;
DONE:
 ret;
}
"""


def add_one_spec(**changes: Any) -> dict[str, Any]:
    """The launch of `add_one`, with some entries changed; None takes one away."""
    spec = {
        "grid": [1],
        "block": [32],
        "buffers": {"x": {"dtype": "float32", "shape": [32], "init": "arange"}},
        "params": [{"ptr": "x"}, {"u32": 32}],
        "outputs": ["x"],
        **changes,
    }
    return {key: value for key, value in spec.items() if value is not None}


@cache
def ptx_of(body: str, parameters: str = "") -> str:
    """PTX of `k`, with these statements."""
    text = f'extern "C" __global__ void k({parameters}) {{\n{body}\n}}\n'
    return compile_source(Source(text=text, entry="k", options=("-lineinfo",), arch="sm_90a")).ptx


def run_body(body: str, *, block: int = 32, schedules: int = 1) -> Report:
    """A report of one CTA that runs these statements."""
    return sim.run(ptx_of(body), {"grid": [1], "block": [block]}, schedules=schedules)
