"""What this machine can do: the size-matched ceiling of a problem, and its rates.

Bytes over bandwidth is no honest ceiling: at small sizes even a copy does not reach it, since
launch, ramp and tail count. So a problem is held against the fastest plain pass over the same
bytes, launch included, timed in the same run and in turn with the problem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.problem import ITEM_BYTES, Problem, torch_dtype
from warpsmith.knobs import current
from warpsmith.runtime.arguments import ArgumentBuffer
from warpsmith.runtime.cache import CubinCache
from warpsmith.runtime.driver import device_properties
from warpsmith.runtime.launch import LoadedKernel
from warpsmith.runtime.source import Source
from warpsmith.runtime.stream import current_stream
from warpsmith.testing import do_bench_interleaved

PREFIX = "ceiling:"
"""Names of ceilings start with it, among the functions that are timed together."""

_SHAPES = (
    (2, 1024, 8),
    (4, 512, 8),
    (0, 256, 2),
    (0, 512, 2),
    (0, 1024, 2),
    (0, 512, 4),
    (0, 1024, 4),
    (0, 256, 8),
)
"""Blocks a multiprocessor (0: as many as cover all at once), threads a block, 16-byte loads."""

_READ = """
__device__ __forceinline__ uint4 load(const uint4* from) {
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
  return v;
}
extern "C" __global__ void __launch_bounds__(1024)
read_pass(const uint4* __restrict__ source, unsigned long long count, unsigned* sink) {
  const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
  unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
  unsigned sum = 0;
  for (; i + (LOADS - 1) * step < count; i += LOADS * step) {
    uint4 held[LOADS];
#pragma unroll
    for (int j = 0; j < LOADS; ++j) held[j] = load(source + i + j * step);
#pragma unroll
    for (int j = 0; j < LOADS; ++j) sum += held[j].x ^ held[j].y ^ held[j].z ^ held[j].w;
  }
  for (; i < count; i += step) {
    const uint4 held = load(source + i);
    sum += held.x ^ held.y ^ held.z ^ held.w;
  }
  // A store that hardly ever happens keeps the loads alive.
  if (sum == 0x9e3779b9u) *sink = sum;
}
"""


TENSOR_RATE = {"bfloat16": 989.4e12}
"""Operations a second of an H200's tensor cores, dense, at its highest clock (NVIDIA's data sheet).
Long products are slower: the board's power does not allow that clock."""


def multiplying_us(problem: Problem) -> float:
    """Microseconds that tensor cores need at least for a problem's products."""
    return 1e6 * problem.operations / TENSOR_RATE[problem.dtype]


def copy_elements(bytes_moved: int, item_bytes: int) -> int:
    """Elements of a tensor whose copy moves `bytes_moved`: each is read once and written once."""
    return max(1, bytes_moved // (2 * item_bytes))


def add_elements(bytes_moved: int, item_bytes: int) -> int:
    """Elements of three tensors of which two are read and one is written."""
    return max(1, bytes_moved // (3 * item_bytes))


def ceilings_of(problem: Problem) -> dict[str, Callable[[], object]]:
    """The plain passes that a problem is held against, to be timed in turn with it."""
    if problem.ceiling == "tensor_cores":
        return {}
    if problem.ceiling == "read":
        passes = read_passes(problem.bytes_moved)
    else:
        passes = traffic_passes(problem.bytes_moved, problem.dtype)
    return {PREFIX + name: fn for name, fn in passes.items()}


def traffic_passes(bytes_moved: int, dtype: str) -> dict[str, Callable[[], object]]:
    """PyTorch's copy and add that move `bytes_moved`."""
    import torch

    of, item_bytes = torch_dtype(dtype), ITEM_BYTES[dtype]
    source = torch.randn(copy_elements(bytes_moved, item_bytes), dtype=of, device="cuda")
    target = torch.empty_like(source)
    left = torch.randn(add_elements(bytes_moved, item_bytes), dtype=of, device="cuda")
    right = torch.randn_like(left)
    total = torch.empty_like(left)
    return {
        "copy": lambda: target.copy_(source),
        "add": lambda: torch.add(left, right, out=total),
    }


def read_passes(byte_count: int) -> dict[str, Callable[[], object]]:
    """Passes that read `byte_count` bytes and write next to nothing.

    PyTorch's sum and amax over floats, and a kernel that does nothing but load, in a few shapes.
    The bytes are a problem's reads and writes together: a read is the cheaper of the two, so no
    problem is flattered.
    """
    import torch

    count = max(1, byte_count // 16)
    source = torch.randn(count * 4, dtype=torch.float32, device="cuda")
    passes: dict[str, Callable[[], object]] = {
        "sum": lambda: torch.sum(source),
        "amax": lambda: torch.amax(source),
    }
    read = _Reader(source)
    for per_sm, threads, loads in _SHAPES:
        passes[f"read_{per_sm}x{threads}x{loads}"] = read.with_shape(per_sm, threads, loads)
    return passes


class _Reader:
    """The read kernel, bound to a tensor."""

    def __init__(self, source: Any) -> None:
        import torch

        self._ordinal: int = source.get_device()
        self._kernels: dict[int, LoadedKernel] = {}
        self._count = source.numel() // 4
        self._sink = torch.zeros(1, dtype=torch.int32, device=source.device)
        self._source = source  # kept alive while its address is in use
        self._arguments = ArgumentBuffer("PQP")
        self._arguments.set((source.data_ptr(), self._count, self._sink.data_ptr()))

    def _kernel(self, loads: int) -> LoadedKernel:
        if loads not in self._kernels:
            text = Source(text=_READ.replace("LOADS", str(loads)), entry="read_pass", arch="sm_90a")
            binary = CubinCache(current().cache_dir).get_or_compile(text)
            self._kernels[loads] = LoadedKernel(binary, "read_pass", self._ordinal)
        return self._kernels[loads]

    def with_shape(self, per_sm: int, threads: int, loads: int) -> Callable[[], object]:
        kernel = self._kernel(loads)
        blocks = per_sm * device_properties(self._ordinal).sm_count
        if blocks == 0:
            blocks = max(1, -(-self._count // (threads * loads)))

        def start() -> None:
            kernel.launch(
                (blocks, 1, 1),
                (threads, 1, 1),
                0,
                current_stream(self._ordinal),
                self._arguments,
            )

        return start


def rates(byte_count: int = 2**32) -> dict[str, float]:
    """TB/s that the device reaches on `byte_count` bytes: `copy`, `read` and `write`."""
    import torch

    target = torch.empty(byte_count // 4, dtype=torch.float32, device="cuda")
    found = {}
    for kind, passes in (
        ("copy", traffic_passes(byte_count, "float")),
        ("read", read_passes(byte_count)),
        ("write", {"fill": lambda: target.fill_(1.0)}),
    ):
        times = do_bench_interleaved(passes, warmup=5, rep=30)
        found[kind] = byte_count / min(times.values()) / 1e9
    return found
