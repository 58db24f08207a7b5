"""Somebody else's kernel on the simulator: what is wrong with it, and where.

    python examples/check_kernel.py

`warpsmith.sim` takes PTX of any compiler (nvcc, Triton, CuTe; here NVRTC on a CUDA text) and needs
no GPU. The kernel below doubles rows that bulk copies bring through two stages. Nothing keeps the
copy of row 2 from landing while a slow warp still reads row 0 from the same stage; whether that
shows on a GPU is luck.
"""

import numpy as np

from warpsmith import sim
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Source

CUDA = """
using u32 = unsigned; using u64 = unsigned long long;

__device__ u32 shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ void load(float* to, const float* from, u64* full) {   // asked for by one thread
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;"
               :: "r"(shared(full)) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1], 512, [%2];"
               :: "r"(shared(to)), "l"(from), "r"(shared(full)) : "memory");
}

__device__ void wait(u64* full, u32 parity) {
  asm volatile("{ .reg .pred p;"
               "L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra L; }"
               :: "r"(shared(full)), "r"(parity) : "memory");
}

extern "C" __global__ void doubled(const float* x, float* y, u32 rows) {
  __shared__ __align__(128) float stage[2][128];
  __shared__ u64 full[2];
  const u32 t = threadIdx.x;
  if (t == 0) {
    for (u32 s = 0; s < 2; ++s)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared(&full[s])) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (u32 s = 0; s < 2; ++s) load(stage[s], x + 128 * s, &full[s]);
  }
  __syncthreads();
#pragma unroll 1
  for (u32 i = 0; i < rows; ++i) {
    wait(&full[i % 2], i / 2 % 2);
    y[128 * i + t] = 2 * stage[i % 2][t];
    /* all are done with the stage */
    if (t == 0 && i + 2 < rows) load(stage[i % 2], x + 128 * (i + 2), &full[i % 2]);
  }
}
"""
MENDED = CUDA.replace(
    "/* all are done with the stage */",
    'asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); __syncthreads();',
)

ROWS = 6
SPEC = {
    "grid": [1],
    "block": [128],
    "buffers": {
        "x": {"dtype": "float32", "shape": [ROWS, 128], "init": "arange"},
        "y": {"dtype": "float32", "shape": [ROWS, 128], "init": "nan"},
    },
    "params": [{"ptr": "x"}, {"ptr": "y"}, {"u32": ROWS}],
}


def checked(cuda: str) -> sim.Report:
    """The kernel under eight orders of warps and copies, its result against what is right."""
    ptx = compile_source(
        Source(text=cuda, entry="doubled", arch="sm_90a", options=("-lineinfo",))
    ).ptx
    wanted = 2 * np.arange(ROWS * 128, dtype=np.float32).reshape(ROWS, 128)
    return sim.run(ptx, SPEC, schedules=8, expect={"y": wanted})


def main() -> None:
    report = checked(CUDA)
    print(f"{report.verdict} under {len(report.schedules)} schedules; the first of each kind:\n")
    for kind in dict.fromkeys(finding.kind for finding in report.findings):
        print(next(finding for finding in report.findings if finding.kind == kind), end="\n\n")
    assert report.verdict == "findings"

    report = checked(MENDED)
    print(f"with a fence and a barrier before the refill: {report}")
    assert report.verdict == "clean"


if __name__ == "__main__":
    main()
