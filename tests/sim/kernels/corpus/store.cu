// y = x + 1 by bulk stores from a double buffer; then z = 2 y, read back in the same kernel.
//
// Ring `staging` (2 stages, ROW_BYTES each)
//   full: every writer fences, then __syncthreads() before thread 0 issues the store
//   free: thread 0 waits until the store of two rows ago has read it, then __syncthreads()
// Reading y back needs more: the stores must be complete, which wait_group without .read says.
#include "ptx.cuh"

enum Fault {
  none,
  no_store_fence,     // the store may not see what was written to the staging buffer
  issuer_fence_only,  // thread 0 fences for itself before the barrier, nobody else does
  no_store_sync,      // the store begins before all threads have written
  no_read_wait,       // the buffer is written again while a store may still read it
  wait_by_another,    // groups belong to a thread: thread 32 has none to wait for
  read_wait_only,     // sources read is not data visible
  early_exit,         // no wait at the end, and y is not read back
};
#ifndef FAULT
#define FAULT none
#endif
constexpr Fault fault = FAULT;

constexpr u32 COLUMNS = 128, ROW_BYTES = COLUMNS * sizeof(float);

extern "C" __global__ void __launch_bounds__(COLUMNS)
    store(const float* x, float* y, float* z, u32 rows) {
  __shared__ __align__(128) float staging[2][COLUMNS];
  const u32 column = threadIdx.x;
  const bool issuer = column == 0;
  const bool waiter = column == (fault == wait_by_another ? 32 : 0);

#pragma unroll 1
  for (u32 i = 0; i < rows; ++i) {
    if (fault != no_read_wait && waiter) bulk_wait_read<1>();
    __syncthreads();
    staging[i % 2][column] = x[i * COLUMNS + column] + 1.0f;
    if (fault != no_store_fence && (fault != issuer_fence_only || issuer)) {
      fence_proxy_async_shared();
    }
    if (fault != no_store_sync) __syncthreads();
    if (issuer) {
      bulk_store(y + i * COLUMNS, address_of(staging[i % 2]), ROW_BYTES);
      bulk_commit();
    }
  }

  if (fault == early_exit) return;
  if (issuer) {
    if (fault == read_wait_only) {
      bulk_wait_read<0>();
    } else {
      bulk_wait<0>();
    }
  }
  __syncthreads();
#pragma unroll 1
  for (u32 i = 0; i < rows; ++i) z[i * COLUMNS + column] = 2.0f * y[i * COLUMNS + column];
}
