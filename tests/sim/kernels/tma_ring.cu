// y = 2 x + 1, tile by tile: tensor copies into a ring, issued and consumed by the same threads.
//
// Ring `tile` (STAGES stages, TILE_BYTES each)
//   full: 1 arrival (thread 0, expect_tx = TILE_BYTES)
//   free: no barrier of its own; every reader fences, then __syncthreads() before the next copy
// Time line: copies 0 .. STAGES-1 are in flight before the loop; iteration i refills its own stage
// with tile i + STAGES.
#include "ptx.cuh"

#ifndef STAGES
#define STAGES 3
#endif

constexpr u32 ROWS = 8, COLUMNS = 64, THREADS = 128;
constexpr u32 TILE_BYTES = ROWS * COLUMNS * sizeof(float);

extern "C" __global__ void __launch_bounds__(THREADS)
    tma_ring(const __grid_constant__ TensorMap x, float* y, u32 tiles) {
  __shared__ __align__(128) float tile[STAGES][ROWS * COLUMNS];
  __shared__ u64 full[STAGES];
  const u32 first_row = blockIdx.x * tiles * ROWS;

  if (threadIdx.x == 0) {
    for (u32 s = 0; s < STAGES; ++s) mbarrier_init(address_of(&full[s]), 1);
    fence_mbarrier_init();
  }
  __syncthreads();

  auto load = [&](u32 i) {
    const u32 stage = i % STAGES;
    const u32 barrier = address_of(&full[stage]);
    mbarrier_arrive_expect_tx(barrier, TILE_BYTES);
    tensor_load(address_of(tile[stage]), &x, 0, first_row + i * ROWS, barrier);
  };

  if (threadIdx.x == 0) {
    for (u32 i = 0; i < STAGES && i < tiles; ++i) load(i);
  }

#pragma unroll 1
  for (u32 i = 0; i < tiles; ++i) {
    const u32 stage = i % STAGES;
    mbarrier_wait(address_of(&full[stage]), i / STAGES % 2);
    float* out = y + (first_row + i * ROWS) * COLUMNS;
    for (u32 e = threadIdx.x; e < ROWS * COLUMNS; e += THREADS) {
      out[e] = 2.0f * tile[stage][e] + 1.0f;
    }
    fence_proxy_async_shared();
    __syncthreads();
    if (threadIdx.x == 0 && i + STAGES < tiles) load(i + STAGES);
  }
}
