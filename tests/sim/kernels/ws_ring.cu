// z = x * y, tile by tile: one producer warp, two consumer warp groups, persistent CTAs.
//
// Roles
//   producer : warp 0 of warp group 0, one elected lane; the other three warps only give registers
//   consumers: warp groups 1 and 2, each half of the rows of every tile
// Ring `xy` (STAGES stages, 2 * TILE_BYTES each)
//   full : 1 arrival  (producer, expect_tx = 2 * TILE_BYTES)
//   empty: 8 arrivals (one elected lane of each consumer warp)
// Registers: 40 x 128 + 232 x 256 = 168 x 384
#include "ptx.cuh"

#ifndef STAGES
#define STAGES 3
#endif

constexpr u32 ROWS = 16, COLUMNS = 64;
constexpr u32 TILE_BYTES = ROWS * COLUMNS * sizeof(float);
constexpr u32 CONSUMER_WARPS = 8;

struct Shared {
  alignas(128) float x[STAGES][ROWS * COLUMNS];
  alignas(128) float y[STAGES][ROWS * COLUMNS];
  u64 full[STAGES];
  u64 empty[STAGES];
};

extern "C" __global__ void __launch_bounds__(384, 1)
    ws_ring(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap y, float* z,
            u32 tiles) {
  __shared__ Shared shared;

  if (threadIdx.x == 0) {
    for (u32 s = 0; s < STAGES; ++s) {
      mbarrier_init(address_of(&shared.full[s]), 1);
      mbarrier_init(address_of(&shared.empty[s]), CONSUMER_WARPS);
    }
    fence_mbarrier_init();
  }
  __syncthreads();

  const u32 group = threadIdx.x / 128;
  if (group == 0) {
    registers_decrease<40>();
    if (threadIdx.x < 32 && elect_one()) {
      u32 stage = 0, phase = 0;
#pragma unroll 1
      for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        mbarrier_wait(address_of(&shared.empty[stage]), phase ^ 1);
        const u32 full = address_of(&shared.full[stage]);
        mbarrier_arrive_expect_tx(full, 2 * TILE_BYTES);
        tensor_load(address_of(shared.x[stage]), &x, 0, tile * ROWS, full);
        tensor_load(address_of(shared.y[stage]), &y, 0, tile * ROWS, full);
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
    }
  } else {
    registers_increase<232>();
    constexpr u32 HALF = ROWS * COLUMNS / 2;
    const u32 half = (group - 1) * HALF;
    u32 stage = 0, phase = 0;
#pragma unroll 1
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      mbarrier_wait(address_of(&shared.full[stage]), phase);
      float* out = z + tile * ROWS * COLUMNS + half;
#pragma unroll
      for (u32 e = threadIdx.x % 128; e < HALF; e += 128) {
        out[e] = shared.x[stage][half + e] * shared.y[stage][half + e];
      }
      fence_proxy_async_shared();
      __syncwarp();
      if (elect_one()) mbarrier_arrive(address_of(&shared.empty[stage]));
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
  }
}
