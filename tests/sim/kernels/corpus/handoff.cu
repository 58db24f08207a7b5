// y[r] = reverse(x[r]): warp 0 stores a row to shared memory, warp 1 reads it.
//
// Ring `row` (2 stages, 32 values each)
//   full : 1 arrival (lane 0 of warp 0, after the warp's stores)
//   empty: 1 arrival (lane 0 of warp 1, after the warp's loads)
// No asynchronous copy and no cluster: after init, __syncthreads() is enough.
#include "ptx.cuh"

enum Fault {
  none,
  no_full_syncwarp,   // one lane arrives for the stores of 32
  no_empty_syncwarp,  // one lane arrives for the loads of 32
  relaxed_arrive,     // the arrival does not release the stores
  no_full_wait,       // the reader does not wait
  aliased,            // both stages lie in the same memory
  unwritten,          // the reader looks one value past what was stored
  past_the_end,       // the reader writes one row too far
  misaligned_load,    // a pair of values is loaded from an odd place
  trapped,            // a check that fails
};
#ifndef FAULT
#define FAULT none
#endif
constexpr Fault fault = FAULT;

constexpr u32 STAGES = 2;

PTX void mbarrier_arrive_relaxed(u32 barrier) {
  asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

PTX float load_pair(u32 address) {
  float low, high;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
               : "=f"(low), "=f"(high)
               : "r"(address)
               : "memory");
  return low + high;
}

extern "C" __global__ void __launch_bounds__(64) handoff(const float* x, float* y, u32 rows) {
  __shared__ __align__(16) float row[STAGES][64];
  __shared__ u64 full[STAGES], empty[STAGES];
  const u32 lane = threadIdx.x % 32;

  if (threadIdx.x == 0) {
    for (u32 s = 0; s < STAGES; ++s) {
      mbarrier_init(address_of(&full[s]), 1);
      mbarrier_init(address_of(&empty[s]), 1);
    }
  }
  __syncthreads();

  auto place = [&](u32 i) { return row[fault == aliased ? 0 : i % STAGES]; };

  if (threadIdx.x < 32) {
#pragma unroll 1
    for (u32 i = 0; i < rows; ++i) {
      mbarrier_wait(address_of(&empty[i % STAGES]), i / STAGES % 2 ^ 1);
      place(i)[lane] = x[i * 32 + lane];
      if (fault != no_full_syncwarp) __syncwarp();
      const u32 barrier = address_of(&full[i % STAGES]);
      if (lane == 0) {
        if (fault == relaxed_arrive) {
          mbarrier_arrive_relaxed(barrier);
        } else {
          mbarrier_arrive(barrier);
        }
      }
      __syncwarp();
    }
  } else {
#pragma unroll 1
    for (u32 i = 0; i < rows; ++i) {
      if (fault != no_full_wait) mbarrier_wait(address_of(&full[i % STAGES]), i / STAGES % 2);
      float value = place(i)[31 - lane + (fault == unwritten)];
      if (fault == misaligned_load) value = load_pair(address_of(&place(i)[lane / 2]));
      if (fault == trapped && i + 1 == rows) asm volatile("trap;");
      y[(i + (fault == past_the_end)) * 32 + lane] = value;
      if (fault != no_empty_syncwarp) __syncwarp();
      if (lane == 0) mbarrier_arrive(address_of(&empty[i % STAGES]));
      __syncwarp();
    }
  }
}
