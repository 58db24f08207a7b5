// y[r] of a CTA = x[r] of its peer: each stores into the other's shared memory and says so there.
//
// Ring `inbox` (2 stages, 64 values each), written by the peer
//   full : 2 arrivals (lane 0 of each of the peer's warps, release.cluster)
//   empty: 2 arrivals (lane 0 of each warp of the peer that read its inbox, release.cluster)
// Cluster barriers: the barriers exist | nobody arrives at an exited CTA.
#include "ptx.cuh"

enum Fault {
  none,
  cta_scope_arrive,  // the remote arrival releases to the wrong CTA only
  cta_scope_wait,    // the wait acquires from the wrong CTA only
  no_start_sync,     // the peer's barriers may not exist yet
  local_start_sync,  // they may not either: only this CTA's do
  no_end_sync,       // the peer may still arrive here when this CTA has exited
};
#ifndef FAULT
#define FAULT none
#endif
constexpr Fault fault = FAULT;

constexpr u32 STAGES = 2, COLUMNS = 64, WARPS = COLUMNS / 32;

PTX void arrive(u32 barrier) {
  if (fault == cta_scope_arrive) {
    asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" ::"r"(barrier)
                 : "memory");
  } else {
    mbarrier_arrive_cluster(barrier);
  }
}

PTX void wait(u32 barrier, u32 parity) {
  if (fault == cta_scope_wait) {
    mbarrier_wait(barrier, parity);
  } else {
    mbarrier_wait_cluster(barrier, parity);
  }
}

PTX void store_cluster(u32 address, float value) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(COLUMNS)
    cluster(const float* x, float* y, u32 rows) {
  __shared__ float inbox[STAGES][COLUMNS];
  __shared__ u64 full[STAGES], empty[STAGES];
  const u32 peer = cluster_rank() ^ 1, column = threadIdx.x, lane = column % 32;
  const u32 first = blockIdx.x * rows;

  if (column == 0) {
    for (u32 s = 0; s < STAGES; ++s) {
      mbarrier_init(address_of(&full[s]), WARPS);
      mbarrier_init(address_of(&empty[s]), WARPS);
    }
    fence_mbarrier_init();
  }
  __syncwarp();
  if (fault == local_start_sync) {
    __syncthreads();
  } else if (fault != no_start_sync) {
    cluster_sync();
  }

#pragma unroll 1
  for (u32 i = 0; i < rows; ++i) {
    const u32 stage = i % STAGES, phase = i / STAGES % 2;
    wait(address_of(&empty[stage]), phase ^ 1);
    const float value = x[(first + i) * COLUMNS + column];
    store_cluster(map_to_rank(address_of(&inbox[stage][column]), peer), value);
    __syncwarp();
    if (lane == 0) arrive(map_to_rank(address_of(&full[stage]), peer));
    __syncwarp();

    wait(address_of(&full[stage]), phase);
    y[(first + i) * COLUMNS + column] = inbox[stage][COLUMNS - 1 - column];
    __syncwarp();
    if (lane == 0) arrive(map_to_rank(address_of(&empty[stage]), peer));
    __syncwarp();
  }
  if (fault != no_end_sync) cluster_sync();
}
