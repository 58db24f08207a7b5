"""A kernel written by hand that copies tiles by tensor maps, and a plan of calls that uses it.

    T1[i, j] = factor * T0[step * i, j]

A block loads a tile of ROWS x COLUMNS by `T0_map`, multiplies it, and stores it by `T1_map`.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.program import Program
from warpsmith.engine.compiled import CompiledKernel
from warpsmith.engine.launches import CallPlan, plan_call
from warpsmith.engine.planned import PlannedSegment
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.kernel import Kernel, Launch
from warpsmith.kernel.nodes import Buffer
from warpsmith.kernel.tiles import TensorMap
from warpsmith.knobs import Knobs
from warpsmith.lower.passes.lay_out_shared import lay_out_shared
from warpsmith.lower.request import Request
from warpsmith.planner.segment import Segment
from warpsmith.runtime.cache import CubinCache
from warpsmith.runtime.source import Source
from warpsmith.targets.hopper import H200

ROWS, COLUMNS, THREADS = 8, 32, 64

TEXT = f"""
typedef unsigned int u32;
struct alignas(64) ws_tensor_map {{ unsigned long long opaque[16]; }};

extern "C" __global__ void __launch_bounds__({THREADS})
mapped(const float* T0, float* T1, const __grid_constant__ ws_tensor_map T0_map,
       const __grid_constant__ ws_tensor_map T1_map, int T1_size0, float factor) {{
  __shared__ __align__(128) float tile[{ROWS * COLUMNS}];
  __shared__ unsigned long long full;
  const u32 place = (u32)__cvta_generic_to_shared(tile);
  const u32 barrier = (u32)__cvta_generic_to_shared(&full);
  const int column = blockIdx.x * {COLUMNS}, row = blockIdx.y * {ROWS};
  const int from = row * STEP;
  if (threadIdx.x == 0) {{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                 "r"({ROWS * COLUMNS * 4}) : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        " [%0], [%1, {{%2, %3}}], [%4];" ::"r"(place), "l"(&T0_map), "r"(column), "r"(from),
        "r"(barrier) : "memory");
  }}
  __syncthreads();
  u32 done = 0;
  while (!done)
    asm volatile(
        "{{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;"
        " selp.u32 %0, 1, 0, p; }}" : "=r"(done) : "r"(barrier) : "memory");
  for (int i = threadIdx.x; i < {ROWS * COLUMNS}; i += {THREADS}) tile[i] *= factor;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0 && row < T1_size0) {{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
                 " [%1, {{%2, %3}}], [%0];" ::"r"(place), "l"(&T1_map), "r"(column), "r"(row)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }}
}}
"""


def fusion() -> Fusion:
    """`T1 = T0 * factor`, with rows of T0 that may be padded; nothing of it is lowered."""
    p = Program()
    factor = Symbol("factor", DataType.Float)
    x = p.input(DataType.Float, (None, None), contiguity=(False, True))
    p.fusion.inputs.append(factor)
    return p.output(p.op("mul", x, factor)).fusion


def kernel(step: int = 1) -> Kernel:
    """Every `step`th row of T0 counts."""
    rows, columns = Symbol("T1_size0", low=0), Symbol("T0_size1", low=0)
    tensors = ("T0", "T1")
    sizes = {name: Symbol(f"{name}_size0", low=0) for name in tensors}
    strides = {"T0": Symbol("T0_stride0", low=0), "T1": columns}
    steps = {"T0": (1, step), "T1": (1, 1)}
    return lay_out_shared(
        Kernel(
            name="mapped",
            parameters=tuple(
                Buffer(
                    name,
                    DataType.Float,
                    MemoryType.global_,
                    integers.mul(sizes[name], strides[name]),
                    written=name == "T1",
                )
                for name in tensors
            ),
            tensor_maps=tuple(
                TensorMap(
                    name=f"{name}_map",
                    tensor=name,
                    dtype=DataType.Float,
                    sizes=(columns, sizes[name]),
                    strides=(strides[name],),
                    box=(COLUMNS, ROWS),
                    steps=steps[name],
                )
                for name in tensors
            ),
            scalars=(rows, Symbol("factor", DataType.Float)),
            shared=(),
            body=(),
            launch=Launch(
                (integers.ceildiv(columns, COLUMNS), integers.ceildiv(rows, ROWS), integers.ONE),
                (integers.index(THREADS), integers.ONE, integers.ONE),
            ),
            index_type=DataType.Int32,
            derived=((rows, sizes["T0"]),) if step == 1 else (),
        )
    )


def text(step: int = 1) -> str:
    """The CUDA of `kernel(step)`."""
    return TEXT.replace("STEP", str(step))


def call_plan(program: Fusion, values: dict[str, int], folder: Path) -> CallPlan:
    """A call of `fusion()` by the kernel, with sizes and strides by name."""
    cuda = text()
    binary = CubinCache(folder).get_or_compile(Source(text=cuda, entry="mapped", arch="sm_90a"))
    compiled = CompiledKernel(kernel(), cuda, binary, target=H200)
    variant = (None, DataType.Int32, (), Request())
    planned = PlannedSegment(Segment(program, ("T0",), ("T1",), H200), None, {variant: compiled})
    return plan_call(program, (planned,), values, {}, H200, Knobs(cache_dir=folder))
