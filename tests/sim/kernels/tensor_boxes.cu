// One box of a tensor of RANK dimensions, in by one tensor copy and out by another.
//
//   raw = shared memory as the load leaves it: swizzled, with zeros for what lies out of bounds, and
//         with UNTOUCHED where nothing was written
//   the tensor behind `to` gets the same box at a place of its own, as far as it lies within
#include "ptx.cuh"

#ifndef RANK
#define RANK 2
#endif

constexpr u32 THREADS = 64, MAX_BYTES = 8192, UNTOUCHED = 0xcdcdcdcd;

struct Places {
  int from[5], to[5];  // innermost first; only RANK of each count
};

#define LOAD(rank, places, barrier)                                                               \
  "cp.async.bulk.tensor." rank "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"       \
  " [%0], [%1, {" places "}], [" barrier "];"
#define STORE(rank, places) \
  "cp.async.bulk.tensor." rank "d.global.shared::cta.tile.bulk_group [%1, {" places "}], [%0];"

PTX void load_box(u32 to, const TensorMap* map, const int (&at)[5], u32 barrier) {
#if RANK == 1
  asm volatile(LOAD("1", "%2", "%3")::"r"(to), "l"(map), "r"(at[0]), "r"(barrier) : "memory");
#elif RANK == 2
  asm volatile(LOAD("2", "%2, %3", "%4")::"r"(to), "l"(map), "r"(at[0]), "r"(at[1]), "r"(barrier)
               : "memory");
#elif RANK == 3
  asm volatile(LOAD("3", "%2, %3, %4", "%5")::"r"(to), "l"(map), "r"(at[0]), "r"(at[1]),
               "r"(at[2]), "r"(barrier)
               : "memory");
#elif RANK == 4
  asm volatile(LOAD("4", "%2, %3, %4, %5", "%6")::"r"(to), "l"(map), "r"(at[0]), "r"(at[1]),
               "r"(at[2]), "r"(at[3]), "r"(barrier)
               : "memory");
#else
  asm volatile(LOAD("5", "%2, %3, %4, %5, %6", "%7")::"r"(to), "l"(map), "r"(at[0]), "r"(at[1]),
               "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(barrier)
               : "memory");
#endif
}

PTX void store_box(u32 from, const TensorMap* map, const int (&at)[5]) {
#if RANK == 1
  asm volatile(STORE("1", "%2")::"r"(from), "l"(map), "r"(at[0]) : "memory");
#elif RANK == 2
  asm volatile(STORE("2", "%2, %3")::"r"(from), "l"(map), "r"(at[0]), "r"(at[1]) : "memory");
#elif RANK == 3
  asm volatile(STORE("3", "%2, %3, %4")::"r"(from), "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2])
               : "memory");
#elif RANK == 4
  asm volatile(STORE("4", "%2, %3, %4, %5")::"r"(from), "l"(map), "r"(at[0]), "r"(at[1]),
               "r"(at[2]), "r"(at[3])
               : "memory");
#else
  asm volatile(STORE("5", "%2, %3, %4, %5, %6")::"r"(from), "l"(map), "r"(at[0]), "r"(at[1]),
               "r"(at[2]), "r"(at[3]), "r"(at[4])
               : "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
    tensor_boxes(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to,
                 u32* raw, u32 raw_bytes, u32 box_bytes,
                 const __grid_constant__ Places places) {
  __shared__ __align__(1024) u32 box[MAX_BYTES / 4];
  __shared__ u64 full;

  if (threadIdx.x == 0) {
    mbarrier_init(address_of(&full), 1);
    fence_mbarrier_init();
  }
  for (u32 i = threadIdx.x; i < MAX_BYTES / 4; i += THREADS) box[i] = UNTOUCHED;
  fence_proxy_async_shared();
  __syncthreads();

  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(address_of(&full), box_bytes);
    load_box(address_of(box), &from, places.from, address_of(&full));
  }
  __syncwarp();
  mbarrier_wait(address_of(&full), 0);
  for (u32 i = threadIdx.x; i < raw_bytes / 4; i += THREADS) raw[i] = box[i];

  if (threadIdx.x == 0) {  // the load is complete and nobody has written since: no fence
    store_box(address_of(box), &to, places.to);
    bulk_commit();
    bulk_wait_read<0>();
  }
}
