// Warp collectives and atomics over integers, taken modulo 32: one output for each.
//
//   counts   : how often each of 32 values occurs (atom.shared by match leaders, then red.global)
//   scans    : inclusive prefix sums of each warp's 32 values (shfl.up)
//   rotated  : each warp's values turned by one place (shfl.idx)
//   extremes : least and greatest value and the or of each warp (redux)
//   odd      : which lanes of each warp hold an odd value (vote.ballot, checked by vote.any / all)
//   last     : greatest value of all with its index, by a loop of compare-and-swap
#include "ptx.cuh"

constexpr u32 THREADS = 128, VALUES = 32, ALL = 0xffffffff;

PTX u32 add_shared(u32 address, u32 amount) {
  u32 before;
  asm volatile("atom.shared.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(address), "r"(amount)
               : "memory");
  return before;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    atomics_shuffles(const u32* x, u32* counts, u32* scans, u32* rotated, u32* extremes, u32* odd,
                     u64* last) {
  __shared__ u32 histogram[VALUES];
  const u32 lane = threadIdx.x % 32;
  const u32 index = blockIdx.x * THREADS + threadIdx.x, warp = index / 32;
  const u32 value = x[index] % VALUES;

  if (threadIdx.x < VALUES) histogram[threadIdx.x] = 0;
  __syncthreads();
  const u32 same = __match_any_sync(ALL, value);
  if (lane == __ffs(same) - 1) add_shared(address_of(&histogram[value]), __popc(same));
  __syncthreads();
  if (threadIdx.x < VALUES && histogram[threadIdx.x] > 0) {
    atomicAdd(&counts[threadIdx.x], histogram[threadIdx.x]);
  }
  __syncwarp();

  u32 sum = value;
#pragma unroll
  for (u32 distance = 1; distance < 32; distance *= 2) {
    const u32 below = __shfl_up_sync(ALL, sum, distance);
    if (lane >= distance) sum += below;
  }
  scans[index] = sum;
  rotated[index] = __shfl_sync(ALL, value, (lane + 1) % 32);

  const u32 least = __reduce_min_sync(ALL, value), greatest = __reduce_max_sync(ALL, value);
  const u32 bits = __reduce_or_sync(ALL, value);
  if (lane < 3) extremes[warp * 3 + lane] = lane == 0 ? least : lane == 1 ? greatest : bits;
  __syncwarp();

  const u32 ballot = __ballot_sync(ALL, value % 2);
  const bool consistent = __any_sync(ALL, value % 2) == (ballot != 0) &&
                          __all_sync(ALL, value % 2) == (ballot == ALL);
  if (lane == 0) odd[warp] = consistent ? ballot : 0;

  const u64 own = static_cast<u64>(value) << 32 | index;
  u64 seen = atomicMax(last, 0ull);
  while (seen < own) {
    const u64 before = atomicCAS(last, seen, own);
    if (before == seen) break;
    seen = before;
  }
}
