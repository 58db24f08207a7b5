// Backward of RMSNorm in bf16: dx row by row, dw over all rows, in one launch.
//
// With r = 1 / sqrt(mean(x^2) + eps) and g = dy * w:
//   dx = r * (g - x * r^2 * mean(g * x)),  dw = sum over rows of dy * x * r
// A CTA takes rows in turn, 8 columns a thread; dw stays in registers, goes to `partial`, and the
// last CTA to arrive at `counter` adds the partial sums up.
#include "ptx.cuh"

constexpr u32 COLUMNS = 2048, THREADS = 256, WARPS = THREADS / 32, WIDTH = COLUMNS / THREADS;

struct alignas(16) Vector {
  u32 pairs[WIDTH / 2];
};

PTX void widen(const Vector& vector, float (&values)[WIDTH]) {
#pragma unroll
  for (u32 i = 0; i < WIDTH; ++i) {
    values[i] = widen(static_cast<bf16>(vector.pairs[i / 2] >> (i % 2 * 16)));
  }
}

PTX float warp_sum(float value) {
#pragma unroll
  for (u32 distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

PTX u32 add_acquire_release(u32* counter, u32 amount) {
  u32 before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(amount)
               : "memory");
  return before;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    norm_backward(const Vector* x, const Vector* dy, const Vector* w, Vector* dx, float* dw,
                  float* partial, u32* counter, u32 rows, float eps) {
  __shared__ float squares[2][WARPS], products[2][WARPS];
  __shared__ u32 arrived;
  const u32 thread = threadIdx.x, warp = thread / 32;

  float weights[WIDTH], sums[WIDTH] = {};
  widen(w[thread], weights);

  u32 side = 0;
#pragma unroll 1
  for (u32 row = blockIdx.x; row < rows; row += gridDim.x, side ^= 1) {
    float xs[WIDTH], dys[WIDTH];
    widen(x[row * THREADS + thread], xs);
    widen(dy[row * THREADS + thread], dys);

    float square = 0.0f, product = 0.0f;
#pragma unroll
    for (u32 i = 0; i < WIDTH; ++i) {
      square += xs[i] * xs[i];
      product += dys[i] * weights[i] * xs[i];
    }
    square = warp_sum(square);
    product = warp_sum(product);
    if (thread % 32 == 0) {
      squares[side][warp] = square;
      products[side][warp] = product;
    }
    __syncthreads();  // the two sides alternate, so one barrier a row is enough
    square = product = 0.0f;
#pragma unroll
    for (u32 i = 0; i < WARPS; ++i) {
      square += squares[side][i];
      product += products[side][i];
    }

    const float r = rsqrtf(square / COLUMNS + eps);
    const float shift = r * r * product / COLUMNS;
    Vector result;
#pragma unroll
    for (u32 i = 0; i < WIDTH; i += 2) {
      const float low = r * (dys[i] * weights[i] - xs[i] * shift);
      const float high = r * (dys[i + 1] * weights[i + 1] - xs[i + 1] * shift);
      result.pairs[i / 2] = pack(low, high);
      sums[i] += dys[i] * xs[i] * r;
      sums[i + 1] += dys[i + 1] * xs[i + 1] * r;
    }
    dx[row * THREADS + thread] = result;
  }

#pragma unroll
  for (u32 i = 0; i < WIDTH; ++i) partial[blockIdx.x * COLUMNS + thread * WIDTH + i] = sums[i];
  __syncthreads();
  if (thread == 0) arrived = add_acquire_release(counter, 1);
  __syncthreads();
  if (arrived == gridDim.x - 1) {
    for (u32 column = thread; column < COLUMNS; column += THREADS) {
      float sum = 0.0f;
#pragma unroll 1
      for (u32 cta = 0; cta < gridDim.x; ++cta) sum += partial[cta * COLUMNS + column];
      dw[column] = sum;
    }
  }
}
