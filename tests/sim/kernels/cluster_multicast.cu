// y = x summed over pairs of rows' tiles: each CTA of a pair loads half of every tile for both.
//
// Roles: warp 0 produces (one elected lane), warps 1 to 4 consume. Both CTAs see every tile; CTA r
// of the pair writes the columns of its own half of the output.
// Ring `tile` (STAGES stages, TILE_BYTES each, the same in both CTAs)
//   full : 1 arrival  (own producer, expect_tx = TILE_BYTES: own half and the peer's half)
//   empty: 8 arrivals (4 consumer warps, elected lanes, x 2 CTAs), since a copy fills both CTAs
// Both CTAs sync at the start (barriers exist) and at the end (nobody arrives at an exited CTA).
#include "ptx.cuh"

#ifndef STAGES
#define STAGES 3
#endif

constexpr u32 ROWS = 16, COLUMNS = 64, CTAS = 2;
constexpr u32 TILE_BYTES = ROWS * COLUMNS * sizeof(float);
constexpr u32 CONSUMER_WARPS = 4, HALF_ROWS = ROWS / CTAS;

struct Shared {
  alignas(128) float tile[STAGES][ROWS * COLUMNS];
  u64 full[STAGES];
  u64 empty[STAGES];
};

extern "C" __global__ void __cluster_dims__(CTAS, 1, 1) __launch_bounds__(32 + 32 * CONSUMER_WARPS)
    cluster_multicast(const __grid_constant__ TensorMap x, float* y, u32 tiles) {
  __shared__ Shared shared;
  const u32 rank = cluster_rank();
  const u32 first_tile = blockIdx.x / CTAS * tiles;

  if (threadIdx.x == 0) {
    for (u32 s = 0; s < STAGES; ++s) {
      mbarrier_init(address_of(&shared.full[s]), 1);
      mbarrier_init(address_of(&shared.empty[s]), CONSUMER_WARPS * CTAS);
    }
    fence_mbarrier_init();
  }
  __syncwarp();
  cluster_sync();

  if (threadIdx.x < 32) {
    if (elect_one()) {
      u32 stage = 0, phase = 0;
#pragma unroll 1
      for (u32 i = 0; i < tiles; ++i) {
        mbarrier_wait_cluster(address_of(&shared.empty[stage]), phase ^ 1);
        const u32 full = address_of(&shared.full[stage]);
        mbarrier_arrive_expect_tx(full, TILE_BYTES);
        tensor_load_multicast(address_of(&shared.tile[stage][rank * HALF_ROWS * COLUMNS]), &x, 0,
                              (first_tile + i) * ROWS + rank * HALF_ROWS, full, 0b11);
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
    }
  } else {
    const u32 thread = threadIdx.x - 32;
    const u32 column = rank * (COLUMNS / CTAS) + thread % (COLUMNS / CTAS);
    const u32 top = thread / (COLUMNS / CTAS);
    u32 stage = 0, phase = 0;
#pragma unroll 1
    for (u32 i = 0; i < tiles; ++i) {
      mbarrier_wait_cluster(address_of(&shared.full[stage]), phase);
#pragma unroll
      for (u32 r = top; r < HALF_ROWS; r += 4) {
        const float upper = shared.tile[stage][r * COLUMNS + column];
        const float lower = shared.tile[stage][(r + HALF_ROWS) * COLUMNS + column];
        y[((first_tile + i) * HALF_ROWS + r) * COLUMNS + column] = upper + lower;
      }
      fence_proxy_async();
      __syncwarp();
      if (elect_one()) {
        const u32 empty = address_of(&shared.empty[stage]);
        for (u32 cta = 0; cta < CTAS; ++cta) mbarrier_arrive_cluster(map_to_rank(empty, cta));
      }
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
  }
  __syncwarp();
  cluster_sync();
}
