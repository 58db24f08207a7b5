"""CUDA C++ of small kernels with warp groups of different registers, and with products."""

_REGISTERS = ", ".join(f"%{number}" for number in range(64))
_OUTPUTS = ", ".join(f'"+f"(sums[{number}])' for number in range(64))
_FENCE = 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");'


def two_budgets(bound: str, fewer: int | None, more: int | None, kept: int = 20) -> str:
    """A warp group that gives registers away, and others that take some and keep `kept` values."""
    dec = f'asm volatile("setmaxnreg.dec.sync.aligned.u32 {fewer};");' if fewer else ""
    inc = f'asm volatile("setmaxnreg.inc.sync.aligned.u32 {more};");' if more else ""
    return f"""
extern "C" __global__ void {bound} k(const float* x, float* y, int n) {{
    const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
    if (warp < 4) {{
        {dec}
        y[threadIdx.x] = 1;
    }} else {{
        {inc}
        float kept[{kept}];
        #pragma unroll
        for (int i = 0; i < {kept}; ++i) kept[i] = x[i * n + threadIdx.x];
        #pragma unroll
        for (int i = 0; i < {kept}; ++i) y[i * n + threadIdx.x] = kept[i] * kept[{kept} - 1 - i];
    }}
}}
"""


def product(*, between: str = "") -> str:
    """Products of 64 x 128 x 16 in a loop; `between` stands before the wait for each."""
    return f"""
extern "C" __global__ void __launch_bounds__(128, 1)
k(float* y, unsigned long long a, unsigned long long b, int n) {{
    float sums[64];
    #pragma unroll
    for (int i = 0; i < 64; ++i) sums[i] = i;
    #pragma unroll 1
    for (int s = 0; s < n; ++s) {{
        {_FENCE}
        asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
                     "{{{_REGISTERS}}}, %64, %65, 1, 1, 1, 0, 0;"
                     : {_OUTPUTS} : "l"(a + s), "l"(b + s));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        {between}
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }}
    #pragma unroll
    for (int i = 0; i < 64; ++i) y[i * 128 + threadIdx.x] = sums[i];
}}
"""


WAITS = """
__device__ __forceinline__ void await(long long* barrier, int parity) {
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;"
                 " @p bra DONE; bra AGAIN; DONE: }"
                 :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory");
}
extern "C" __global__ void k(float* y, int n) {
    __shared__ long long barriers[2];
    await(barriers, 0);
    y[threadIdx.x] = 1;
    #pragma unroll 1
    for (int i = 0; i < n; ++i) await(barriers + 1, i & 1);
}
"""
"""Two waits for barriers (of an uninitialized barrier: it is only compiled)."""
