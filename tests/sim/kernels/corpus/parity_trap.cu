// y = 2 x, row by row: two groups take rows in turn from one ring, each at its own pace.
//
// Group g takes rows g, g + 2, ...; row i lies in stage i % STAGES. With an even number of stages a
// stage belongs to one group, which sees every phase of its barriers. With three, a group meets a
// stage at every other use: copies may land out of order, and a wait for use k + 2 of a stage
// falls through while use k + 1 has not landed.
// Ring `row`: full 1 arrival (producer, expect_tx), empty 2 arrivals (warps of the row's group).
#include "ptx.cuh"

enum Fault { none, three_stages };
#ifndef FAULT
#define FAULT none
#endif
constexpr Fault fault = FAULT;

constexpr u32 STAGES = fault == three_stages ? 3 : 4;
constexpr u32 COLUMNS = 64, GROUPS = 2, WARPS = COLUMNS / 32, ROW_BYTES = COLUMNS * sizeof(float);

extern "C" __global__ void __launch_bounds__(32 + GROUPS * COLUMNS)
    parity_trap(const float* x, float* y, u32 rows) {
  __shared__ __align__(128) float row[STAGES][COLUMNS];
  __shared__ u64 full[STAGES], empty[STAGES];

  if (threadIdx.x == 0) {
    for (u32 s = 0; s < STAGES; ++s) {
      mbarrier_init(address_of(&full[s]), 1);
      mbarrier_init(address_of(&empty[s]), WARPS);
    }
    fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < 32) {
    if (elect_one()) {
#pragma unroll 1
      for (u32 i = 0; i < rows; ++i) {
        const u32 stage = i % STAGES;
        mbarrier_wait(address_of(&empty[stage]), i / STAGES % 2 ^ 1);
        mbarrier_arrive_expect_tx(address_of(&full[stage]), ROW_BYTES);
        bulk_load(address_of(row[stage]), x + i * COLUMNS, ROW_BYTES, address_of(&full[stage]));
      }
    }
  } else {
    const u32 group = (threadIdx.x - 32) / COLUMNS, column = (threadIdx.x - 32) % COLUMNS;
#pragma unroll 1
    for (u32 i = group; i < rows; i += GROUPS) {
      const u32 stage = i % STAGES;
      mbarrier_wait(address_of(&full[stage]), i / STAGES % 2);
      y[i * COLUMNS + column] = 2.0f * row[stage][column];
      fence_proxy_async_shared();
      __syncwarp();
      if (elect_one()) mbarrier_arrive(address_of(&empty[stage]));
    }
  }
}
