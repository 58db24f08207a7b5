"""Kernels that the simulator is timed with: CUDA C++ and the launches of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

TILE_M, TILE_N, TILE_K = 128, 256, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel and its launch, as `warpsmith.sim.run` takes it."""

    entry: str
    cuda: str
    spec: dict[str, Any]


def arithmetic(trips: int) -> Kernel:
    """A loop of multiply-adds in registers: a CTA of eight warps."""
    cuda = """
extern "C" __global__ void arithmetic(float* out, unsigned trips) {
  float a = threadIdx.x, b = 0.5f, c = 0.25f, d = 1.0f;
#pragma unroll 1
  for (unsigned i = 0; i < trips; ++i) {
    a = a * b + c; c = c * b + d; d = d * b + a; a = a * c + d;
    b = b * 0.5f + 0.25f; c = c + d; d = d - a; a = a * b + c;
  }
  out[threadIdx.x] = a;
}
"""
    buffers = {"out": {"dtype": "float32", "shape": [256], "init": "nan"}}
    params = [{"ptr": "out"}, {"u32": trips}]
    spec = {"grid": [1], "block": [256], "buffers": buffers, "params": params}
    return Kernel(entry="arithmetic", cuda=cuda, spec=spec)


def norm_backward(rows: int, columns: int) -> Kernel:
    """dx of RMSNorm, a CTA a row, and dw by atomics: loads, shuffles, barriers, reductions."""
    cuda = f"""
constexpr unsigned COLUMNS = {columns}, THREADS = 256, EACH = COLUMNS / THREADS;
{_WIDTHS}
__device__ float total(float value, float* shared) {{
  for (unsigned d = 16; d; d /= 2) value += __shfl_xor_sync(~0u, value, d);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  for (unsigned i = 0; i < THREADS / 32; ++i) value += shared[i];
  __syncthreads();
  return value;
}}
extern "C" __global__ void __launch_bounds__(THREADS) norm_backward(
    const unsigned short* x, const unsigned short* dy, const unsigned short* w,
    unsigned short* dx, float* dw) {{
  __shared__ float shared[THREADS / 32];
  const unsigned start = blockIdx.x * COLUMNS;
  float xs[EACH], gs[EACH], squares = 0, products = 0;
  for (unsigned i = 0; i < EACH; ++i) {{
    const unsigned column = i * THREADS + threadIdx.x;
    xs[i] = wide(x[start + column]);
    gs[i] = wide(dy[start + column]);
    squares += xs[i] * xs[i];
    products += xs[i] * gs[i] * wide(w[column]);
  }}
  const float r = rsqrtf(total(squares, shared) / COLUMNS + 1e-5f);
  const float mean = total(products, shared) / COLUMNS * r * r;
  for (unsigned i = 0; i < EACH; ++i) {{
    const unsigned column = i * THREADS + threadIdx.x;
    dx[start + column] = narrow(r * (gs[i] * wide(w[column]) - xs[i] * mean));
    atomicAdd(&dw[column], gs[i] * xs[i] * r);
  }}
}}
"""
    whole = {"dtype": "bfloat16", "shape": [rows, columns]}
    buffers = {
        "x": {**whole, "init": "randn"},
        "dy": {**whole, "init": "randn"},
        "w": {"dtype": "bfloat16", "shape": [columns], "init": "randn"},
        "dx": {**whole, "init": "nan"},
        "dw": {"dtype": "float32", "shape": [columns], "init": "zeros"},
    }
    params = [{"ptr": name} for name in buffers]
    spec = {"grid": [rows], "block": [256], "buffers": buffers, "params": params}
    return Kernel(entry="norm_backward", cuda=cuda, spec=spec)


def matmul_tile(k: int) -> Kernel:
    """One 128 x 256 tile of a b^T in bf16: tensor copies into two stages, wgmma, plain stores."""
    sums = ", ".join(f"%{i}" for i in range(128))
    outputs = ", ".join(f'"+f"(d[{i}])' for i in range(128))
    cuda = f"""
constexpr unsigned TILES = {k // TILE_K};
constexpr unsigned A_BYTES = {TILE_M * TILE_K * 2}, B_BYTES = {TILE_N * TILE_K * 2};
{_WIDTHS}
struct alignas(64) Map {{ unsigned char bytes[128]; }};
__device__ unsigned at(const void* p) {{ return __cvta_generic_to_shared(p); }}
__device__ void copy(unsigned to, const Map* map, unsigned x, unsigned barrier) {{
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {{%2, 0}}], [%3];"
               :: "r"(to), "l"(map), "r"(x), "r"(barrier) : "memory");
}}
__device__ void fill(unsigned char (*stage)[A_BYTES + B_BYTES], unsigned long long* full,
                     const Map* a, const Map* b, unsigned tile) {{
  const unsigned barrier = at(&full[tile % 2]), to = at(stage[tile % 2]);
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(barrier), "r"(A_BYTES + B_BYTES) : "memory");
  copy(to, a, tile * {TILE_K}, barrier);
  copy(to + A_BYTES, b, tile * {TILE_K}, barrier);
}}
__device__ unsigned long long operand(unsigned address) {{
  return 1ull << 62 | 64ull << 32 | 1ull << 16 | (address & 0x3ffff) >> 4;
}}
extern "C" __global__ void __launch_bounds__(256, 1) matmul_tile(
    const __grid_constant__ Map a, const __grid_constant__ Map b, unsigned short* out) {{
  extern __shared__ __align__(1024) unsigned char memory[];
  auto* stage = reinterpret_cast<unsigned char (*)[A_BYTES + B_BYTES]>(memory);
  auto* full = reinterpret_cast<unsigned long long*>(memory + 2 * (A_BYTES + B_BYTES));
  const unsigned group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {{
    for (int s = 0; s < 2; ++s)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&full[s])) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }}
  __syncthreads();
  if (threadIdx.x == 0) for (unsigned t = 0; t < 2 && t < TILES; ++t) fill(stage, full, &a, &b, t);
  float d[128] = {{}};
  for (unsigned t = 0; t < TILES; ++t) {{
    asm volatile("{{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;"
                 " @!p bra W; }}"
                 :: "r"(at(&full[t % 2])), "r"(t / 2 % 2) : "memory");
    const unsigned from = at(stage[t % 2]);
    asm volatile("wgmma.fence.sync.aligned;" : {outputs} :: "memory");
    for (unsigned step = 0; step < {TILE_K // 16}; ++step)
      asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
                   "{{{sums}}}, %128, %129, 1, 1, 1, 0, 0;" : {outputs}
                   : "l"(operand(from + group * (A_BYTES / 2)) + 2 * step),
                     "l"(operand(from + A_BYTES) + 2 * step));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" : {outputs} :: "memory");
    __syncthreads();
    if (threadIdx.x == 0 && t + 2 < TILES) fill(stage, full, &a, &b, t + 2);
  }}
  for (unsigned i = 0; i < 128; ++i) {{
    const unsigned row = group * 64 + warp * 16 + lane / 4 + i / 2 % 2 * 8;
    out[row * {TILE_N} + i / 4 * 8 + lane % 4 * 2 + i % 2] = narrow(d[i]);
  }}
}}
"""
    shapes = {"a": TILE_M, "b": TILE_N}
    buffers: dict[str, Any] = {
        name: {"dtype": "bfloat16", "shape": [rows, k], "init": "randn"}
        for name, rows in shapes.items()
    }
    params: list[dict[str, Any]] = [
        {
            "tensormap": {
                "buffer": name,
                "dtype": "bfloat16",
                "dims": [k, rows],
                "strides_bytes": [2 * k],
                "box": [TILE_K, rows],
                "swizzle": "128B",
            }
        }
        for name, rows in shapes.items()
    ]
    buffers["out"] = {"dtype": "bfloat16", "shape": [TILE_M, TILE_N], "init": "nan"}
    spec = {
        "grid": [1],
        "block": [256],
        "shared_bytes": 2 * 2 * TILE_K * (TILE_M + TILE_N) + 16,
        "buffers": buffers,
        "params": [*params, {"ptr": "out"}],
    }
    return Kernel(entry="matmul_tile", cuda=cuda, spec=spec)


def unrolled(steps: int) -> Kernel:
    """Straight-line code of about eight lines of PTX a step: something to read."""
    lines = "\n".join(
        f"  x = in[i + {n}]; sum += x * x; if (x > {n}.0f) out[i + {n}] = sum;"
        for n in range(steps)
    )
    cuda = f"""
extern "C" __global__ void unrolled(const float* in, float* out) {{
  const unsigned i = threadIdx.x;
  float x, sum = 0;
{lines}
}}
"""
    return Kernel(entry="unrolled", cuda=cuda, spec={})


_WIDTHS = """
__device__ float wide(unsigned short bits) { return __uint_as_float(unsigned(bits) << 16); }
__device__ unsigned short narrow(float value) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
"""
