// y = -x, row by row: a ring that the same threads fill and read, as a pipeliner writes it.
//
// Prologue: rows 0 .. STAGES-1 are in flight. Main loop: wait for row i, use it, refill its stage
// with row i + STAGES. The faults show at some trip counts only.
#include "ptx.cuh"

enum Fault {
  none,
  whole_prologue,   // STAGES copies, however few rows there are: shows below STAGES rows
  refill_too_far,   // one refill past the last row: shows from STAGES rows on
  at_least_one,     // the loop tests its count at the end: shows at 0 rows
  tail_dropped,     // the loop handles two rows a trip and forgets an odd one
  never_refilled,   // the loop goes on after the prologue's rows: shows above STAGES rows
};
#ifndef FAULT
#define FAULT none
#endif
constexpr Fault fault = FAULT;

constexpr u32 STAGES = 3, COLUMNS = 128, ROW_BYTES = COLUMNS * sizeof(float);

extern "C" __global__ void __launch_bounds__(COLUMNS) prologue(const float* x, float* y, u32 rows) {
  __shared__ __align__(128) float row[STAGES][COLUMNS];
  __shared__ u64 full[STAGES];

  if (threadIdx.x == 0) {
    for (u32 s = 0; s < STAGES; ++s) mbarrier_init(address_of(&full[s]), 1);
    fence_mbarrier_init();
  }
  __syncthreads();

  auto load = [&](u32 i) {
    const u32 barrier = address_of(&full[i % STAGES]);
    mbarrier_arrive_expect_tx(barrier, ROW_BYTES);
    bulk_load(address_of(row[i % STAGES]), x + i * COLUMNS, ROW_BYTES, barrier);
  };

  const u32 first = fault == whole_prologue || rows > STAGES ? STAGES : rows;
  if (threadIdx.x == 0) {
    for (u32 i = 0; i < first; ++i) load(i);
  }

  u32 handled = rows;
  if (fault == tail_dropped) handled = rows / 2 * 2;
  if (fault == at_least_one && rows == 0) handled = 1;
  const u32 loaded = fault == refill_too_far ? rows + 1 : fault == never_refilled ? 0 : rows;
#pragma unroll 1
  for (u32 i = 0; i < handled; ++i) {
    mbarrier_wait(address_of(&full[i % STAGES]), i / STAGES % 2);
    y[i * COLUMNS + threadIdx.x] = -row[i % STAGES][threadIdx.x];
    fence_proxy_async_shared();
    __syncthreads();
    if (threadIdx.x == 0 && i + STAGES < loaded) load(i + STAGES);
  }
}
