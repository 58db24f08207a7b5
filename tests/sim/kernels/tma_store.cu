// y = x * x, tile by tile: ordinary loads, a double-buffered staging tile, tensor stores.
//
// Ring `staging` (2 stages, TILE_BYTES each)
//   full: every writer fences, then __syncthreads() before thread 0 issues the store
//   free: thread 0 waits until the store of two tiles ago has read it, then __syncthreads()
#include "ptx.cuh"

constexpr u32 ROWS = 8, COLUMNS = 64, THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS)
    tma_store(const float* x, const __grid_constant__ TensorMap y, u32 tiles) {
  __shared__ __align__(128) float staging[2][ROWS * COLUMNS];
  const bool issuer = threadIdx.x / 32 == 0 && elect_one();

#pragma unroll 1
  for (u32 i = 0; i < tiles; ++i) {
    const u32 side = i % 2;
    const u32 row = (blockIdx.x * tiles + i) * ROWS;
    if (issuer) bulk_wait_read<1>();
    __syncthreads();
    for (u32 e = threadIdx.x; e < ROWS * COLUMNS; e += THREADS) {
      const float value = x[row * COLUMNS + e];
      staging[side][e] = value * value;
    }
    fence_proxy_async_shared();
    __syncthreads();
    if (issuer) {
      tensor_store(&y, 0, row, address_of(staging[side]));
      bulk_commit();
    }
  }
  if (issuer) bulk_wait_read<0>();
}
