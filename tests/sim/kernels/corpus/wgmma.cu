// d = a b^T in bf16, 64 x 8: a by tensor copies into a ring of 2, b by ordinary stores, wgmma.
//
// Ring `a` (2 stages of 64 rows of 128 bytes, 128-byte swizzle)
//   full: 1 arrival (thread 0, expect_tx = A_BYTES)
//   free: the batch that read it has retired in every warp: wait_group, then __syncthreads()
// One batch is in flight: iteration k refills the stage that batch k - 1 read.
#include "ptx.cuh"

enum Fault {
  none,
  no_fence,         // accumulators are set by moves and not fenced before the first batch
  touched,          // an accumulator is changed while a batch writes it
  short_wait,       // results are read while the last batch is in flight
  no_commit,        // a wait that has no group to wait for
  early_refill,     // the stage of the batch in flight is refilled
  no_refill_sync,   // thread 0 refills when its own warp has retired the batch
  no_proxy_fence,   // ordinary stores of b are not ordered with wgmma's reads
  missing_warp,     // one warp of the group does not take part
};
#ifndef FAULT
#define FAULT none
#endif
constexpr Fault fault = FAULT;

constexpr u32 STAGES = 2, M = 64, N = 8, TILE_K = 64, SPAN = TILE_K * sizeof(bf16);
constexpr u32 A_BYTES = M * SPAN, B_BYTES = N * SPAN, MAX_TILES = 4;

PTX u64 operand(u32 address) {
  constexpr u64 swizzle_128 = 1ull << 62, rows_of_8 = u64(1024 >> 4) << 32, unused = 1ull << 16;
  return swizzle_128 | rows_of_8 | unused | ((address & 0x3ffff) >> 4);
}

PTX void wgmma_m64n8k16(float (&d)[4], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b));
}

template <u32 pending>
PTX void wgmma_wait(float (&d)[4]) {
  asm volatile("wgmma.wait_group.sync.aligned %4;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "n"(pending)
               : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
    wgmma(const __grid_constant__ TensorMap a_map, const u32* b, float* d, u32 k_tiles) {
  __shared__ __align__(1024) u8 a[STAGES][A_BYTES];
  __shared__ __align__(1024) u32 b_tile[MAX_TILES][B_BYTES / 4];
  __shared__ u64 full[STAGES];
  const u32 thread = threadIdx.x, warp = thread / 32, lane = thread % 32;

  if (thread == 0) {
    for (u32 s = 0; s < STAGES; ++s) mbarrier_init(address_of(&full[s]), 1);
    fence_mbarrier_init();
  }
  __syncthreads();

  auto load = [&](u32 k) {
    const u32 barrier = address_of(&full[k % STAGES]);
    mbarrier_arrive_expect_tx(barrier, A_BYTES);
    tensor_load(address_of(a[k % STAGES]), &a_map, k * TILE_K, 0, barrier);
  };
  if (thread == 0) {
    for (u32 k = 0; k < STAGES && k < k_tiles; ++k) load(k);
  }

  // b in pairs of values: row of 32 pairs, in 8 chunks of 4, the chunk number swizzled by the row.
#pragma unroll 1
  for (u32 k = 0; k < k_tiles; ++k) {
    for (u32 pair = thread; pair < N * 32; pair += 128) {
      const u32 row = pair / 32, chunk = pair / 4 % 8;
      b_tile[k][row * 32 + (chunk ^ row) * 4 + pair % 4] = b[(row * k_tiles + k) * 32 + pair % 32];
    }
  }
  if (fault != no_proxy_fence) fence_proxy_async_shared();
  __syncthreads();

  if (fault == missing_warp && warp == 3) return;
  float sums[4] = {};
#pragma unroll 1
  for (u32 k = 0; k < k_tiles; ++k) {
    mbarrier_wait(address_of(&full[k % STAGES]), k / STAGES % 2);
    const u64 from_a = operand(address_of(a[k % STAGES]));
    const u64 from_b = operand(address_of(b_tile[k]));
    if (fault != no_fence) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (u32 step = 0; step < TILE_K / 16; ++step) {
      wgmma_m64n8k16(sums, from_a + 2 * step, from_b + 2 * step);
    }
    if (fault != no_commit) asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (fault == touched) sums[0] += 1.0f;
    if (fault == early_refill) {
      __syncthreads();
      if (thread == 0 && k + STAGES < k_tiles) load(k + STAGES);
    }
    wgmma_wait<1>(sums);
    if (fault == early_refill) continue;
    if (fault != no_refill_sync) __syncthreads();
    if (thread == 0 && k > 0 && k - 1 + STAGES < k_tiles) load(k - 1 + STAGES);
  }
  if (fault != short_wait) wgmma_wait<0>(sums);

  float* out = d + (warp * 16 + lane / 4) * N + lane % 4 * 2;
  out[0] = sums[0];
  out[1] = sums[1];
  out[8 * N] = sums[2];
  out[8 * N + 1] = sums[3];
}
