// y[t] = x[t] + y[t - 1] / 2: two groups take tiles in turn and hand a carry to each other.
//
// Group g takes tiles g, g + 2, ... Reading a tile overlaps with the other group's turn; the carry
// in shared memory is touched only in one's own turn.
// Named barrier 1 + g begins a turn of group g (256 threads: bar.sync by group g, bar.arrive by the
// other). Tile 0 needs no leave and the last tile gives none, so every arrival has its sync.
#include "ptx.cuh"

constexpr u32 GROUP = 128;

extern "C" __global__ void __launch_bounds__(2 * GROUP)
    pingpong(const float* x, float* y, u32 tiles) {
  __shared__ float carry[GROUP];
  const u32 group = threadIdx.x / GROUP, lane = threadIdx.x % GROUP;

#pragma unroll 1
  for (u32 tile = group; tile < tiles; tile += 2) {
    const float value = x[tile * GROUP + lane];
    if (tile > 0) named_barrier_sync(1 + group, 2 * GROUP);
    const float before = tile > 0 ? carry[GROUP - 1 - lane] : 0.0f;
    if (tile > 0) named_barrier_sync(3 + group, GROUP);
    const float sum = value + 0.5f * before;
    carry[lane] = sum;
    if (tile + 1 < tiles) named_barrier_arrive(2 - group, 2 * GROUP);
    y[tile * GROUP + lane] = sum;
  }
}
