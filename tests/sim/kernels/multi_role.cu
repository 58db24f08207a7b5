// z = x * y, row by row: two producer warps with a tensor each, 256 compute threads.
//
// The kernel of nvFuser's draft on multi-role warp specialization, written anew, with its faults
// one by one: `-DFAULTS=a|b` puts some of them in, `-DFAULTS=every_fault` all that it had.
// Roles (block of 128 x 3 threads, so one warp group for each threadIdx.y)
//   compute: groups 0 and 1, each thread releases a stage by itself
//   load_x, load_y: warps 0 and 1 of group 2, one elected lane each; warps 2 and 3 pad the group
// Ring `xy` (STAGES stages, a row of x and a row of y each)
//   full : one barrier for each producer, 1 arrival (expect_tx = row_bytes)
//   empty: 256 arrivals; the compute threads release every stage once at the start
#include "ptx.cuh"

enum Fault : u32 {
  shared_full = 1,        // both producers arrive at one full barrier with a count of 2
  wrong_warp = 2,         // load_y issues from warp 0 of its group: that is load_x's warp
  idle_fall_through = 4,  // the padding warps compute as well: 320 arrivals on a barrier of 256
  double_release = 8,     // every stage is released twice at the start
  single_warp_dec = 16,   // setmaxnreg by the producers' warps alone
  one_sided_bounds = 32,  // only load_x looks whether the row exists
  no_init_fence = 64,     // init is not released to the async proxy
  no_release_fence = 128, // reads of a stage are not ordered with the copy that overwrites it
  early_inval = 256,      // barriers are invalidated while other warps still use them
  every_fault = 511,
};
#ifndef FAULTS
#define FAULTS 0
#endif
__device__ constexpr bool has(Fault fault) {
  return ((FAULTS) & fault) != 0;
}

constexpr u32 STAGES = 2, COLUMNS = 256, COMPUTE_THREADS = 256;
constexpr u32 ROW_BYTES = COLUMNS * sizeof(float);

struct Shared {
  alignas(128) float x[STAGES][COLUMNS];
  alignas(128) float y[STAGES][COLUMNS];
  u64 full_x[STAGES], full_y[STAGES], empty[STAGES];
};

PTX void load(const float* from, u32 row, u32 rows, u32 i, float (&to)[STAGES][COLUMNS],
              u64 (&full)[STAGES], u64 (&empty)[STAGES], bool issues, bool bounded) {
  const u32 stage = i % STAGES;
  if (elect_one() && issues && (!bounded || row < rows)) {
    mbarrier_wait(address_of(&empty[stage]), i / STAGES % 2);
    mbarrier_arrive_expect_tx(address_of(&full[stage]), ROW_BYTES);
    bulk_load(address_of(to[stage]), from + row * COLUMNS, ROW_BYTES, address_of(&full[stage]));
  }
  __syncwarp();
}

extern "C" __global__ void __launch_bounds__(384, 1)
    multi_role(const float* x, const float* y, float* z, u32 rows) {
  __shared__ Shared shared;
  u64(&full_x)[STAGES] = shared.full_x;
  u64(&full_y)[STAGES] = has(shared_full) ? shared.full_x : shared.full_y;
  const u32 group = threadIdx.y, warp = threadIdx.x / 32;
  const u32 own_rows = (rows + gridDim.x - 1) / gridDim.x, first = own_rows * blockIdx.x;

  if (group == 0 && warp == 0 && elect_one()) {
    for (u32 s = 0; s < STAGES; ++s) {
      mbarrier_init(address_of(&full_x[s]), has(shared_full) ? 2 : 1);
      if (!has(shared_full)) mbarrier_init(address_of(&full_y[s]), 1);
      mbarrier_init(address_of(&shared.empty[s]), COMPUTE_THREADS);
    }
    if (!has(no_init_fence)) fence_mbarrier_init();
  }
  __syncthreads();

  const bool idle = group == 2 && warp >= 2;
  if (group == 2 && !has(single_warp_dec)) registers_decrease<152>();
  if (idle && !has(idle_fall_through)) return;

  if (group == 2 && warp == 0) {
    if (has(single_warp_dec)) registers_decrease<152>();
#pragma unroll 1
    for (u32 i = 0; i < own_rows; ++i) {
      load(x, first + i, rows, i, shared.x, full_x, shared.empty, true, true);
    }
    return;
  }
  if (group == 2 && warp == 1) {
    if (has(single_warp_dec)) registers_decrease<152>();
#pragma unroll 1
    for (u32 i = 0; i < own_rows; ++i) {
      const bool issues = !has(wrong_warp) || warp == 0;
      load(y, first + i, rows, i, shared.y, full_y, shared.empty, issues, !has(one_sided_bounds));
    }
    return;
  }

  if (!idle || has(single_warp_dec)) registers_increase<176>();
  for (u32 s = 0; s < STAGES; ++s) mbarrier_arrive(address_of(&shared.empty[s]));
  if (has(double_release)) {
    for (u32 s = 0; s < STAGES; ++s) mbarrier_arrive(address_of(&shared.empty[s]));
  }
  const u32 column = threadIdx.x + 128 * group;
#pragma unroll 1
  for (u32 i = 0; i < own_rows; ++i) {
    const u32 stage = i % STAGES, phase = i / STAGES % 2;
    if (first + i < rows) {
      mbarrier_wait(address_of(&full_x[stage]), phase);
      if (!has(shared_full)) mbarrier_wait(address_of(&full_y[stage]), phase);
      if (column < COLUMNS) {
        z[(first + i) * COLUMNS + column] = shared.x[stage][column] * shared.y[stage][column];
      }
      if (!has(no_release_fence)) fence_proxy_async_shared();
      mbarrier_arrive(address_of(&shared.empty[stage]));
    }
  }

  if (!has(early_inval)) named_barrier_sync(1, COMPUTE_THREADS);
  if (group == 0 && warp == 0 && elect_one()) {
    for (u32 s = 0; s < STAGES; ++s) {
      mbarrier_inval(address_of(&shared.empty[s]));
      mbarrier_inval(address_of(&full_x[s]));
      if (!has(shared_full)) mbarrier_inval(address_of(&full_y[s]));
    }
  }
}
