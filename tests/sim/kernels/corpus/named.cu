// y[t] = x[t] turned by one place: group 0 stores tiles to shared memory, group 1 reads them.
//
// Named barriers, 256 threads each: FULL (bar.arrive by group 0, bar.sync by group 1) and FREE
// (bar.arrive by group 1, bar.sync by group 0, from the second tile on).
#include "ptx.cuh"

enum Fault {
  none,
  wrong_count,      // the two sides do not agree on the number of threads
  no_full_arrive,   // group 0 does not say that the last tile is there
  extra_arrive,     // group 1 frees the last tile, and nobody waits for that
  same_id,          // both barriers have one number
  block_id,         // FULL is number 0, with which the block synchronizes as well
  divergent_sync,   // half a warp takes part in the block's barrier
};
#ifndef FAULT
#define FAULT none
#endif
constexpr Fault fault = FAULT;

constexpr u32 GROUP = 128, FULL = fault == block_id ? 0 : 1, FREE = fault == same_id ? FULL : 2;

extern "C" __global__ void __launch_bounds__(2 * GROUP) named(const float* x, float* y, u32 tiles) {
  __shared__ float tile[GROUP];
  const u32 group = threadIdx.x / GROUP, lane = threadIdx.x % GROUP;

#pragma unroll 1
  for (u32 i = 0; i < tiles; ++i) {
    if (group == 0) {
      if (i > 0) named_barrier_sync(FREE, 2 * GROUP);
      tile[lane] = x[i * GROUP + lane];
      if (fault == no_full_arrive && i + 1 == tiles) break;
      named_barrier_arrive(FULL, 2 * GROUP);
      if (fault == block_id) __syncthreads();
    } else {
      named_barrier_sync(FULL, fault == wrong_count ? GROUP : 2 * GROUP);
      y[i * GROUP + lane] = tile[(lane + 1) % GROUP];
      if (fault == extra_arrive || i + 1 < tiles) named_barrier_arrive(FREE, 2 * GROUP);
    }
  }
  if (fault != divergent_sync || lane >= 16) __syncthreads();
}
