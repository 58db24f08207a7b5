"""The whole text of small kernels: what changes here was meant to change."""

import textwrap

from tests.support.program import Program
from warpsmith.codegen.cuda import cuda_text
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.printer import kernel_text
from warpsmith.lower.pipeline import lower
from warpsmith.schedule.caches import cache_before
from warpsmith.schedule.transforms import parallelize, set_memory_type, split
from warpsmith.targets.hopper import H200

GRID_X, BLOCK_X, BLOCK_Y = ParallelType.grid_x, ParallelType.block_x, ParallelType.block_y


def transposed() -> Kernel:
    p = Program()
    staged = p.copy(p.input(DataType.Float, (8, 4)))
    set_memory_type(staged, MemoryType.shared)
    output = p.permute(staged, (1, 0))
    p.output(output)
    parallelize(staged, 1, BLOCK_X)
    parallelize(output, 1, BLOCK_X)
    return lower(p.fusion, "transposed", DataType.Int32, target=H200)


def summed() -> Kernel:
    p = Program()
    total = p.reduce("sum", p.input(DataType.Float, (None, 64)), [1])
    p.output(total)
    partial = cache_before(total)
    parallelize(partial, 0, GRID_X)
    parallelize(partial, 1, BLOCK_X)
    parallelize(total, 0, GRID_X)
    return lower(p.fusion, "summed", DataType.Int32, target=H200)


def negated() -> Kernel:
    p = Program()
    output = p.op("neg", p.input(DataType.Float, (None,)))
    p.output(output)
    split(output, 0, 128)
    parallelize(output, 0, GRID_X)
    parallelize(output, 1, BLOCK_X)
    return lower(p.fusion, "negated", DataType.Int, target=H200)


def body_of(kernel: Kernel) -> str:
    """CUDA text from the kernel's signature on."""
    text = cuda_text(kernel, H200)
    return text[text.index('extern "C"') :]


def test_kernel_text_of_a_transpose() -> None:
    assert kernel_text(transposed()) == textwrap.dedent("""\
        kernel transposed
          grid   (1, 1, 1)
          block  (8, 1, 1)
          index  int32
          param  T0: float[32]
          param  T2: float[32]
          shared T1: float[32] at 0
          for i0 < 8 unrolled:
            if lt(block_x, 4):
              T1[add(mul(i0, 4), block_x)] = T0[add(mul(i0, 4), block_x)]
          synchronize  (T1 is written)
          for i1 < 4 unrolled:
            T2[add(mul(i1, 8), block_x)] = T1[add(mul(block_x, 4), i1)]
        """)


def test_cuda_of_a_transpose() -> None:
    assert body_of(transposed()) == textwrap.dedent("""\
        extern "C" __global__ void __launch_bounds__(8) transposed(
            const float* __restrict__ T0,
            float* __restrict__ T2) {
          const int block_x = threadIdx.x;
          extern __shared__ __align__(16) unsigned char ws_shared[];
          float* const T1 = (float*)(ws_shared + 0);
          #pragma unroll
          for (int i0 = 0; i0 < 8; ++i0) {
            if (block_x < 4) {
              T1[i0 * 4 + block_x] = T0[i0 * 4 + block_x];
            }
          }
          __syncthreads();  // T1 is written
          #pragma unroll
          for (int i1 = 0; i1 < 4; ++i1) {
            T2[i1 * 8 + block_x] = T1[block_x * 4 + i1];
          }
        }
        """)


def test_kernel_text_of_a_sum() -> None:
    assert kernel_text(summed()) == textwrap.dedent("""\
        kernel summed
          grid   (T0_size0, 1, 1)
          block  (64, 1, 1)
          index  int32
          param  T0: float[mul(T0_size0, 64)]
          param  T1: float[T0_size0]
          shared T2_scratch: float[2] at 0
          T2: float[1] local
          T2[0] = T0[add(mul(grid_x, 64), block_x)]
          reduce sum T2 x1 over block_x, for the first
          if eq(block_x, 0):
            T1[grid_x] = T2[0]
        """)


def test_cuda_of_a_negation_with_wide_indices() -> None:
    assert body_of(negated()) == textwrap.dedent("""\
        extern "C" __global__ void __launch_bounds__(128) negated(
            const float* __restrict__ T0,
            float* __restrict__ T1,
            const long long T0_size0) {
          const long long grid_x = blockIdx.x;
          const long long block_x = threadIdx.x;
          if ((grid_x * 128 + block_x) < T0_size0) {
            T1[grid_x * 128 + block_x] = (-(T0[grid_x * 128 + block_x]));
          }
        }
        """)
