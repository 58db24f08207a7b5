// y = x - mean over all rows, column by column: a cluster of 4 reduces through distributed memory.
//
// Each CTA sums its own rows into `partial`. CTA r then adds up columns r, r + 4, ... of all four
// (ld.shared::cluster) and gives the means to all four (st.shared::cluster).
// Cluster barriers: partial sums exist | means exist. Nobody touches a peer after the second one.
#include "ptx.cuh"

constexpr u32 COLUMNS = 128, CTAS = 4;

PTX float load_cluster(u32 address) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

PTX void store_cluster(u32 address, float value) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

extern "C" __global__ void __cluster_dims__(CTAS, 1, 1) __launch_bounds__(COLUMNS)
    dsmem(const float* x, float* y, u32 rows) {
  __shared__ float partial[COLUMNS], mean[COLUMNS];
  const u32 rank = cluster_rank(), thread = threadIdx.x;
  const u64 first = static_cast<u64>(blockIdx.x) * rows * COLUMNS;

  float sum = 0.0f;
#pragma unroll 1
  for (u32 row = 0; row < rows; ++row) sum += x[first + row * COLUMNS + thread];
  partial[thread] = sum;
  cluster_sync();

  if (thread < COLUMNS / CTAS) {
    const u32 column = thread * CTAS + rank;
    float total = 0.0f;
    for (u32 cta = 0; cta < CTAS; ++cta) {
      total += load_cluster(map_to_rank(address_of(&partial[column]), cta));
    }
    for (u32 cta = 0; cta < CTAS; ++cta) {
      store_cluster(map_to_rank(address_of(&mean[column]), cta), total / (CTAS * rows));
    }
  }
  __syncwarp();
  cluster_sync();

  const float shift = mean[thread];
#pragma unroll 1
  for (u32 row = 0; row < rows; ++row) {
    y[first + row * COLUMNS + thread] = x[first + row * COLUMNS + thread] - shift;
  }
}
