// d = a b^T in bf16, one 64 x 64 tile a CTA: cp.async into a ring, ldmatrix, mma.sync.
//
// Ring `ab` (STAGES stages, 64 rows of 32 values of a and of b each, rows padded to 80 bytes)
//   full: the copying thread waits for its own group, then __syncthreads()
//   free: the same __syncthreads(): iteration k refills the stage that iteration k - 1 read
// One group is committed in every iteration, with or without copies, so that counts stay the same.
#include "ptx.cuh"

#ifndef STAGES
#define STAGES 3
#endif

constexpr u32 TILE = 64, TILE_K = 32, THREADS = 128, PITCH = 40;

PTX void copy_16(u32 to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

PTX void copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <u32 pending>
PTX void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

PTX void ldmatrix_x4(u32 (&r)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

PTX void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cp_async(const bf16* a, const bf16* b, float* d, u32 k_tiles) {
  __shared__ __align__(16) bf16 tile[STAGES][2][TILE * PITCH];
  const u32 row = blockIdx.y * TILE, column = blockIdx.x * TILE, k_size = k_tiles * TILE_K;
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  auto load = [&](u32 k) {
    if (k < k_tiles) {
      for (u32 chunk = threadIdx.x; chunk < TILE * TILE_K / 8; chunk += THREADS) {
        const u32 r = chunk / 4, c = chunk % 4 * 8;
        copy_16(address_of(&tile[k % STAGES][0][r * PITCH + c]),
                a + (row + r) * k_size + k * TILE_K + c);
        copy_16(address_of(&tile[k % STAGES][1][r * PITCH + c]),
                b + (column + r) * k_size + k * TILE_K + c);
      }
    }
    copy_commit();
  };

  float sums[TILE / 8][4] = {};
  for (u32 k = 0; k < STAGES - 1; ++k) load(k);

#pragma unroll 1
  for (u32 k = 0; k < k_tiles; ++k) {
    copy_wait<STAGES - 2>();
    __syncthreads();
    load(k + STAGES - 1);
    const bf16* from_a = tile[k % STAGES][0];
    const bf16* from_b = tile[k % STAGES][1];
#pragma unroll
    for (u32 step = 0; step < TILE_K; step += 16) {
      u32 of_a[4];
      const u32 row_a = warp * 16 + lane % 16;
      ldmatrix_x4(of_a, address_of(from_a + row_a * PITCH + step + lane / 16 * 8));
#pragma unroll
      for (u32 j = 0; j < TILE / 8; j += 2) {
        u32 of_b[4];  // two columns of tiles: the lower and the upper half of k of each
        const u32 row_b = j * 8 + lane / 16 * 8 + lane % 8;
        ldmatrix_x4(of_b, address_of(from_b + row_b * PITCH + step + lane / 8 % 2 * 8));
        mma_m16n8k16(sums[j], of_a, of_b[0], of_b[1]);
        mma_m16n8k16(sums[j + 1], of_a, of_b[2], of_b[3]);
      }
    }
  }

  const u32 columns = gridDim.x * TILE;
  float* out = d + (row + warp * 16 + lane / 4) * columns + column + lane % 4 * 2;
#pragma unroll
  for (u32 j = 0; j < TILE / 8; ++j) {
    out[j * 8] = sums[j][0];
    out[j * 8 + 1] = sums[j][1];
    out[8 * columns + j * 8] = sums[j][2];
    out[8 * columns + j * 8 + 1] = sums[j][3];
  }
}
