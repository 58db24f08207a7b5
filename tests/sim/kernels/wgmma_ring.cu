// d = a b^T in bf16, a 128 x 256 tile a CTA: tensor copies into a ring, wgmma, tensor stores.
//
// Roles
//   producer : warp 0 of warp group 0, one elected lane
//   consumers: warp groups 1 and 2, 64 rows of the tile each (m64n256k16)
// Ring `ab` (STAGES stages, 16 KiB of a and 32 KiB of b each, 128-byte swizzle)
//   full : 1 arrival  (producer, expect_tx = 48 KiB)
//   empty: 8 arrivals (one elected lane of each consumer warp, when the batch that read it retired)
// Steady state of a consumer: wait full[i], issue batch i, wait until batch i - 1 has retired,
// release stage i - 1. So one batch is always in flight.
// Epilogue, each group by itself: registers, stmatrix, fence, group barrier, four tensor stores.
#include "ptx.cuh"

#ifndef STAGES
#define STAGES 3
#endif

constexpr u32 TILE_M = 128, TILE_N = 256, TILE_K = 64, GROUP_M = 64;
constexpr u32 SPAN = TILE_K * sizeof(bf16);  // one row of a swizzled tile: 128 bytes
constexpr u32 A_BYTES = TILE_M * SPAN, B_BYTES = TILE_N * SPAN;
constexpr u32 BOX_BYTES = GROUP_M * SPAN;  // what one tensor store takes: 64 rows of 64 columns
constexpr u32 CONSUMER_WARPS = 8;

struct Shared {
  alignas(1024) u8 a[STAGES][A_BYTES];
  alignas(1024) u8 b[STAGES][B_BYTES];
  alignas(1024) u8 d[TILE_N / 64][2][BOX_BYTES];
  u64 full[STAGES];
  u64 empty[STAGES];
};

// A tile of rows of 128 bytes, swizzled by 128 bytes, contiguous in k: 1024 bytes for 8 rows.
PTX u64 operand(u32 address) {
  constexpr u64 swizzle_128 = 1ull << 62, rows_of_8 = u64(1024 >> 4) << 32, unused = 1ull << 16;
  return swizzle_128 | rows_of_8 | unused | ((address & 0x3ffff) >> 4);
}

#define EIGHT(i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define THIRTY_TWO(i) EIGHT(i), EIGHT(i + 8), EIGHT(i + 16), EIGHT(i + 24)

PTX void wgmma_m64n256k16(float (&d)[128], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "
      "%127}, %128, %129, 1, 1, 1, 0, 0;"
      : THIRTY_TWO(0), THIRTY_TWO(32), THIRTY_TWO(64), THIRTY_TWO(96)
      : "l"(a), "l"(b));
}

PTX void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

PTX void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// At most `pending` batches are in flight. Names the accumulators, so that no use moves before it.
template <u32 pending>
PTX void wgmma_wait(float (&d)[128]) {
  asm volatile("wgmma.wait_group.sync.aligned %128;"
               : THIRTY_TWO(0), THIRTY_TWO(32), THIRTY_TWO(64), THIRTY_TWO(96)
               : "n"(pending)
               : "memory");
}

PTX void stmatrix_x4(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(r0), "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}

extern "C" __global__ void __launch_bounds__(384, 1)
    wgmma_ring(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
               const __grid_constant__ TensorMap d, u32 k_tiles) {
  extern __shared__ __align__(1024) u8 memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const u32 row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;

  if (threadIdx.x == 0) {
    for (u32 s = 0; s < STAGES; ++s) {
      mbarrier_init(address_of(&shared.full[s]), 1);
      mbarrier_init(address_of(&shared.empty[s]), CONSUMER_WARPS);
    }
    fence_mbarrier_init();
  }
  __syncthreads();

  const u32 group = threadIdx.x / 128;
  if (group == 0) {
    registers_decrease<40>();
    if (threadIdx.x < 32 && elect_one()) {
      u32 stage = 0, phase = 0;
#pragma unroll 1
      for (u32 k = 0; k < k_tiles; ++k) {
        mbarrier_wait(address_of(&shared.empty[stage]), phase ^ 1);
        const u32 full = address_of(&shared.full[stage]);
        mbarrier_arrive_expect_tx(full, A_BYTES + B_BYTES);
        tensor_load(address_of(shared.a[stage]), &a, k * TILE_K, row, full);
        tensor_load(address_of(shared.b[stage]), &b, k * TILE_K, column, full);
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
    }
  } else {
    registers_increase<232>();
    const u32 part = group - 1;
    float sums[128] = {};
    u32 stage = 0, phase = 0, previous = 0;
#pragma unroll 1
    for (u32 k = 0; k < k_tiles; ++k) {
      mbarrier_wait(address_of(&shared.full[stage]), phase);
      const u64 from_a = operand(address_of(shared.a[stage]) + part * BOX_BYTES);
      const u64 from_b = operand(address_of(shared.b[stage]));
      wgmma_fence();
#pragma unroll
      for (u32 step = 0; step < TILE_K / 16; ++step) {
        wgmma_m64n256k16(sums, from_a + 2 * step, from_b + 2 * step);  // 32 bytes on
      }
      wgmma_commit();
      wgmma_wait<1>(sums);
      __syncwarp();
      if (k > 0 && elect_one()) mbarrier_arrive(address_of(&shared.empty[previous]));
      previous = stage;
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    wgmma_wait<0>(sums);

    const u32 thread = threadIdx.x % 128, lane = thread % 32;
    const u32 at_row = thread / 32 * 16 + lane % 16;
    const u32 at_column = lane / 16;  // in chunks of 8 columns, 16 bytes
#pragma unroll
    for (u32 j = 0; j < TILE_N / 8; j += 2) {  // two chunks at a time
      const u32 chunk = (j % 8 + at_column) ^ at_row % 8;
      const u32 place = address_of(shared.d[j / 8][part]) + at_row * SPAN + chunk * 16;
      stmatrix_x4(place, pack(sums[4 * j], sums[4 * j + 1]), pack(sums[4 * j + 2], sums[4 * j + 3]),
                  pack(sums[4 * j + 4], sums[4 * j + 5]), pack(sums[4 * j + 6], sums[4 * j + 7]));
    }
    fence_proxy_async_shared();
    named_barrier_sync(group, 128);
    if (thread / 32 == 0 && elect_one()) {
      for (u32 box = 0; box < TILE_N / 64; ++box) {
        tensor_store(&d, column + box * 64, row + part * GROUP_M, address_of(shared.d[box][part]));
      }
      bulk_commit();
      bulk_wait_read<0>();
    }
  }
}
