// total = sum of all rows of x, column by column: persistent CTAs, a grid barrier, CTA 0 adds up.
//
// CTAs may outnumber the rows: one without work still gives its zeros and meets the others.
#include "ptx.cuh"

enum Fault {
  none,
  idle_leaves,      // a CTA without work exits before the barrier that counts it
  no_block_sync,    // thread 0 meets the grid before its CTA's other warps have stored
  relaxed_arrive,   // the arrival does not release the stores
  relaxed_wait,     // the wait does not acquire them
  no_final_sync,    // other warps of CTA 0 do not wait for the thread that met the grid
};
#ifndef FAULT
#define FAULT none
#endif
constexpr Fault fault = FAULT;

constexpr u32 COLUMNS = 64;

PTX void arrive(u32* counter) {
  if (fault == relaxed_arrive) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
  } else {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
  }
}

PTX u32 arrivals(const u32* counter) {
  u32 value;
  if (fault == relaxed_wait) {
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  } else {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  }
  return value;
}

extern "C" __global__ void __launch_bounds__(COLUMNS)
    grid(const float* x, float* partial, u32* counter, float* total, u32 rows) {
  const u32 column = threadIdx.x;
  if (fault == idle_leaves && blockIdx.x >= rows) return;

  float sum = 0.0f;
#pragma unroll 1
  for (u32 row = blockIdx.x; row < rows; row += gridDim.x) sum += x[row * COLUMNS + column];
  partial[blockIdx.x * COLUMNS + column] = sum;
  if (fault != no_block_sync) __syncthreads();
  if (column == 0) arrive(counter);
  if (blockIdx.x != 0) return;

  if (column == 0) {
    while (arrivals(counter) < gridDim.x) {
    }
  }
  if (fault != no_final_sync) __syncthreads();
  sum = 0.0f;
#pragma unroll 1
  for (u32 cta = 0; cta < gridDim.x; ++cta) sum += partial[cta * COLUMNS + column];
  total[column] = sum;
}
