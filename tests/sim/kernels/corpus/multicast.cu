// y of both CTAs of a pair = x: CTA 0 loads one row and multicasts it.
//
//   full (one in each CTA): 1 arrival (thread 0 of that CTA, expect_tx = ROW_BYTES)
// Cluster barriers: the barriers exist and expect their bytes | nobody has left.
#include "ptx.cuh"

enum Fault {
  none,
  no_init_fence,     // the relaxed arrival does not say that the barriers exist
  peer_leaves,       // CTA 1 has no work and exits while the row is on its way to it
  peer_expects_not,  // CTA 1 does not announce the bytes that come to it
};
#ifndef FAULT
#define FAULT none
#endif
constexpr Fault fault = FAULT;

constexpr u32 COLUMNS = 128, ROW_BYTES = COLUMNS * sizeof(float);

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(COLUMNS)
    multicast(const float* x, float* y) {
  __shared__ __align__(128) float row[COLUMNS];
  __shared__ u64 full;
  const u32 rank = cluster_rank(), barrier = address_of(&full);

  if (threadIdx.x == 0) {
    mbarrier_init(barrier, 1);
    if (fault != no_init_fence) fence_mbarrier_init();
    if (fault == peer_expects_not && rank == 1) {
      mbarrier_arrive(barrier);
    } else {
      mbarrier_arrive_expect_tx(barrier, ROW_BYTES);
    }
  }
  __syncwarp();
  cluster_arrive_relaxed();
  cluster_wait();

  if (fault == peer_leaves && rank == 1) return;
  if (rank == 0 && threadIdx.x == 0) {
    bulk_load_multicast(address_of(row), x, ROW_BYTES, barrier, 0b11);
  }
  __syncwarp();
  mbarrier_wait_cluster(barrier, 0);
  y[blockIdx.x * COLUMNS + threadIdx.x] = row[threadIdx.x];
  if (fault != peer_leaves) cluster_sync();
}
