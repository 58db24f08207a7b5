// y += x, row by row: 1-D bulk loads into a ring, 1-D bulk reductions out of a double buffer.
//
// Ring `row` (STAGES stages, ROW_BYTES each)
//   full: 1 arrival (thread 0, expect_tx = ROW_BYTES)
//   free: no barrier of its own; every reader fences, then __syncthreads() before the next copy
// Ring `sum` (2 stages, ROW_BYTES each)
//   full: every writer fences, then __syncthreads() before thread 0 issues the reduction
//   free: thread 0 waits until the reduction of two rows ago has read its source
#include "ptx.cuh"

#ifndef STAGES
#define STAGES 4
#endif

constexpr u32 COLUMNS = 256, THREADS = 64;
constexpr u32 ROW_BYTES = COLUMNS * sizeof(float);

PTX void bulk_add(float* to, u32 from, u32 bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
      "r"(from), "r"(bytes)
      : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS)
    bulk_ring(const float* x, float* y, float scale, u32 rows) {
  __shared__ __align__(128) float row[STAGES][COLUMNS];
  __shared__ __align__(128) float sum[2][COLUMNS];
  __shared__ u64 full[STAGES];
  const u64 first_row = blockIdx.x * rows;

  if (threadIdx.x == 0) {
    for (u32 s = 0; s < STAGES; ++s) mbarrier_init(address_of(&full[s]), 1);
    fence_mbarrier_init();
  }
  __syncthreads();

  auto load = [&](u32 i) {
    const u32 barrier = address_of(&full[i % STAGES]);
    mbarrier_arrive_expect_tx(barrier, ROW_BYTES);
    bulk_load(address_of(row[i % STAGES]), x + (first_row + i) * COLUMNS, ROW_BYTES, barrier);
  };

  if (threadIdx.x == 0) {
    for (u32 i = 0; i < STAGES && i < rows; ++i) load(i);
  }

#pragma unroll 1
  for (u32 i = 0; i < rows; ++i) {
    const u32 stage = i % STAGES, side = i % 2;
    if (threadIdx.x == 0) bulk_wait_read<1>();
    __syncthreads();
    mbarrier_wait(address_of(&full[stage]), i / STAGES % 2);
    for (u32 c = threadIdx.x; c < COLUMNS; c += THREADS) sum[side][c] = scale * row[stage][c];
    fence_proxy_async_shared();
    __syncthreads();
    if (threadIdx.x == 0) {
      bulk_add(y + (first_row + i) * COLUMNS, address_of(sum[side]), ROW_BYTES);
      bulk_commit();
      if (i + STAGES < rows) load(i + STAGES);
    }
  }
  if (threadIdx.x == 0) bulk_wait_read<0>();
}
