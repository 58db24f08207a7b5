// y = x + 1 for tiles taken in another order: one tensor map a CTA, changed on the device.
//
// The kernel's map describes one tile, the first. Each CTA copies it to shared memory,
// sets the address of its own tile, publishes it in global memory (release of the tensor map
// proxy, by warp 0), acquires it, and lets TMA load through it.
#include "ptx.cuh"

constexpr u32 ROWS = 8, COLUMNS = 32, THREADS = 64;
constexpr u32 TILE_BYTES = ROWS * COLUMNS * sizeof(float);

PTX void replace_address(u32 map, const void* address) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(map),
               "l"(address)
               : "memory");
}

PTX void publish(TensorMap* to, u32 from) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
      " [%0], [%1], 128;" ::"l"(to),
      "r"(from)
      : "memory");
}

PTX void acquire(const TensorMap* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS)
    tensormap_replace(const __grid_constant__ TensorMap first, const float* x, TensorMap* maps,
                      float* y) {
  __shared__ __align__(128) float tile[ROWS * COLUMNS];
  __shared__ __align__(128) TensorMap map;
  __shared__ u64 full;
  const u32 thread = threadIdx.x;
  const u32 source = (3 * blockIdx.x + 1) % gridDim.x;

  if (thread == 0) {
    mbarrier_init(address_of(&full), 1);
    fence_mbarrier_init();
  }
  if (thread < 32) {
    if (thread < 16) map.opaque[thread] = first.opaque[thread];
    __syncwarp();
    if (thread == 0) replace_address(address_of(&map), x + source * ROWS * COLUMNS);
    __syncwarp();
    publish(&maps[blockIdx.x], address_of(&map));
  }
  __syncthreads();

  if (thread == 0) {
    acquire(&maps[blockIdx.x]);
    mbarrier_arrive_expect_tx(address_of(&full), TILE_BYTES);
    tensor_load(address_of(tile), &maps[blockIdx.x], 0, 0, address_of(&full));
  }
  mbarrier_wait(address_of(&full), 0);
  for (u32 e = thread; e < ROWS * COLUMNS; e += THREADS) {
    y[blockIdx.x * ROWS * COLUMNS + e] = tile[e] + 1.0f;
  }
}
