// y[r][c] = x[r][c] + x[r][C - 1 - c]: one producer warp, four consumer warps, 1-D bulk copies.
//
// Ring `row` (STAGES stages, ROW_BYTES each)
//   full : 1 arrival  (warp 0, elected lane, expect_tx = ROW_BYTES)
//   empty: 4 arrivals (one elected lane of each consumer warp)
#include "ptx.cuh"

enum Fault {
  none,
  no_init_sync,           // no barrier between init and use
  no_init_fence,          // init is not released to the async proxy
  uninitialized_barrier,  // the last stage's full barrier is never initialized
  no_release_fence,       // reads of a row are not ordered with the copy that overwrites it
  no_release_syncwarp,    // one lane releases the row while others may still read it
  constant_phase,         // consumers always wait for the first phase
  producer_parity,        // the producer's first wait asks for a release that nobody owes
  no_empty_wait,          // the producer does not wait at all
  expect_less,            // 16 bytes fewer than the copy brings
  expect_more,            // 16 bytes more
  double_arrive,          // each consumer warp releases twice
  all_lanes_arrive,       // each lane releases
  silent_warp,            // the last consumer warp never releases
  count_high,             // empty barriers count a warp that does not exist
  early_inval,            // barriers are invalidated while others wait for them
  live_init,              // a barrier in use is initialized again
  past_the_end,           // each copy takes 16 bytes of the next row: the last one has none
  misaligned_source,      // copies begin 8 bytes off
};
#ifndef FAULT
#define FAULT none
#endif
constexpr Fault fault = FAULT;

constexpr u32 STAGES = 3, COLUMNS = 128, WARPS = COLUMNS / 32;
constexpr u32 ROW_BYTES = COLUMNS * sizeof(float) + (fault == past_the_end ? 16 : 0);
constexpr u32 EXPECTED_BYTES = ROW_BYTES - (fault == expect_less ? 16 : 0) +
                               (fault == expect_more ? 16 : 0);

extern "C" __global__ void __launch_bounds__(32 + COLUMNS)
    ring(const float* x, float* y, u32 rows) {
  __shared__ __align__(128) float row[STAGES][COLUMNS + 32];
  __shared__ u64 full[STAGES], empty[STAGES];
  const u32 warp = threadIdx.x / 32;

  if (threadIdx.x == 0) {
    for (u32 s = 0; s < STAGES; ++s) {
      if (fault != uninitialized_barrier || s + 1 < STAGES) mbarrier_init(address_of(&full[s]), 1);
      mbarrier_init(address_of(&empty[s]), WARPS + (fault == count_high));
    }
    if (fault != no_init_fence) fence_mbarrier_init();
  }
  if (fault != no_init_sync) __syncthreads();

  if (warp == 0) {
    if (elect_one()) {
      if (fault == live_init) mbarrier_init(address_of(&full[0]), 1);
#pragma unroll 1
      for (u32 i = 0; i < rows; ++i) {
        const u32 stage = i % STAGES, phase = i / STAGES % 2;
        const u32 parity = fault == producer_parity ? phase : phase ^ 1;
        if (fault != no_empty_wait) mbarrier_wait(address_of(&empty[stage]), parity);
        mbarrier_arrive_expect_tx(address_of(&full[stage]), EXPECTED_BYTES);
        const float* source = x + i * COLUMNS + (fault == misaligned_source ? 2 : 0);
        bulk_load(address_of(row[stage]), source, ROW_BYTES, address_of(&full[stage]));
      }
    }
  } else {
    const u32 column = threadIdx.x - 32;
#pragma unroll 1
    for (u32 i = 0; i < rows; ++i) {
      const u32 stage = i % STAGES, phase = fault == constant_phase ? 0 : i / STAGES % 2;
      mbarrier_wait(address_of(&full[stage]), phase);
      y[i * COLUMNS + column] = row[stage][column] + row[stage][COLUMNS - 1 - column];

      if (fault != no_release_fence) fence_proxy_async_shared();
      if (fault != no_release_syncwarp) __syncwarp();
      if (fault == silent_warp && warp == WARPS) continue;
      const u32 barrier = address_of(&empty[stage]);
      if (fault == all_lanes_arrive || elect_one()) mbarrier_arrive(barrier);
      if (fault == double_arrive && elect_one()) mbarrier_arrive(barrier);
    }
  }

  if (fault != early_inval) __syncthreads();
  if (threadIdx.x == 0) {
    for (u32 s = 0; s < STAGES; ++s) {
      mbarrier_inval(address_of(&full[s]));
      mbarrier_inval(address_of(&empty[s]));
    }
  }
}
