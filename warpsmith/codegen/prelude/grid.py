"""Reductions across blocks, within one launch."""

from __future__ import annotations

from warpsmith.codegen.prelude.piece import Piece

# Thread 0's fences cover the whole block: the barriers before and after it make the other threads'
# writes and reads part of the chain that its atomic operation orders.
_GRID_REDUCE = """
// Reads at the level of the GPU: past L1, which may hold what was there before.
__device__ __forceinline__ float ws_load_relaxed(const float* from) {
    float x;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(x) : "l"(from) : "memory");
    return x;
}
__device__ __forceinline__ double ws_load_relaxed(const double* from) {
    double x;
    asm volatile("ld.relaxed.gpu.global.f64 %0, [%1];" : "=d"(x) : "l"(from) : "memory");
    return x;
}
__device__ __forceinline__ int ws_load_relaxed(const int* from) {
    int x;
    asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
    return x;
}
__device__ __forceinline__ long long ws_load_relaxed(const long long* from) {
    long long x;
    asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(x) : "l"(from) : "memory");
    return x;
}
template <class T>
__device__ __forceinline__ ws_welford<T> ws_load_relaxed(const ws_welford<T>* from) {
    return {ws_load_relaxed(&from->mean), ws_load_relaxed(&from->m2),
            ws_load_relaxed(&from->count)};
}
// Combines what `splits` blocks hold, of which this is number `split`. Values come from
// ws_block_reduce over the same axes: threads that differ only there hold the same. Returns true
// in the block that arrives last, whose threads then all have the result, and false in the others.
// The order of combining is that of `split`, whoever arrives last.
// `workspace` has grid_workspace_elements(...) elements; `semaphore` has one word a segment, 0
// before the launch and 0 again after it. Each call of a kernel needs a workspace and semaphores
// of its own. All threads of the block must call it; `splits` is the same for all.
template <class Op, int N, bool RX, bool RY, bool RZ, class T>
__device__ __forceinline__ bool ws_grid_reduce(
    T (&values)[N], T* workspace, unsigned* semaphore, T* scratch, int split, int splits,
    long long segment, int bx, int by, int bz) {
    if (splits == 1) return true;
    const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    const int rx = RX ? bx : 1, ry = RY ? by : 1, rz = RZ ? bz : 1;
    const int parts = rx * ry * rz;
    const int part = (RX ? tx : 0) + rx * ((RY ? ty : 0) + ry * (RZ ? tz : 0));
    const int kx = RX ? 1 : bx, ky = RY ? 1 : by, kz = RZ ? 1 : bz;
    const int kept = kx * ky * kz;
    const int key = (RX ? 0 : tx) + kx * ((RY ? 0 : ty) + ky * (RZ ? 0 : tz));
    T* partials = workspace + segment * splits * N * kept + key;
    if (part == 0) {
        #pragma unroll
        for (int n = 0; n < N; ++n) partials[((long long)split * N + n) * kept] = values[n];
    }
    __syncthreads();
    bool last = false;
    if ((tx | ty | tz) == 0) {
        __threadfence();
        last = atomicAdd(semaphore + segment, 1u) == (unsigned)splits - 1u;
        if (last) semaphore[segment] = 0u;  // nobody else will look before the next launch
        __threadfence();
    }
    if (!__syncthreads_or(last)) return false;
    #pragma unroll
    for (int n = 0; n < N; ++n) values[n] = Op::template identity<T>();
    #pragma unroll 4
    for (int other = part; other < splits; other += parts) {
        #pragma unroll
        for (int n = 0; n < N; ++n)
            values[n] = Op::combine(
                values[n], ws_load_relaxed(partials + ((long long)other * N + n) * kept));
    }
    ws_block_reduce<Op, N, RX, RY, RZ>(values, scratch, bx, by, bz);
    return true;
}
"""

GRID = (Piece(name="grid_reduce", needs=("block_reduce",), text=_GRID_REDUCE),)
