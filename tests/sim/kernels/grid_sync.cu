// Steps of a moving average over a ring of values: all CTAs meet after each step.
//
// Step t reads the side t % 2 of `values` and writes the other one. Between steps every CTA adds
// one to `counter` (release) and waits until all have (acquire); the counter only grows.
#include "ptx.cuh"

constexpr u32 THREADS = 64;

PTX void add_release(u32* counter, u32 amount) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(amount) : "memory");
}

PTX u32 load_acquire(const u32* counter) {
  u32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}

PTX void grid_barrier(u32* counter, u32 target) {
  __syncthreads();
  if (threadIdx.x == 0) {
    add_release(counter, 1);
    while (load_acquire(counter) < target) asm volatile("nanosleep.u32 40;");
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS)
    grid_sync(float* values, u32* counter, u32 steps) {
  const u32 size = gridDim.x * THREADS;
  const u32 own = blockIdx.x * THREADS + threadIdx.x;
  const u32 left = (own + size - 1) % size, right = (own + 1) % size;

#pragma unroll 1
  for (u32 step = 0; step < steps; ++step) {
    const float* from = values + step % 2 * size;
    float* to = values + (step + 1) % 2 * size;
    to[own] = 0.25f * from[left] + 0.5f * from[own] + 0.25f * from[right];
    if (step + 1 < steps) grid_barrier(counter, (step + 1) * gridDim.x);
  }
}
