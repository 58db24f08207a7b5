"""Hand schedules in which the TMA unit copies inputs and outputs of fusions, and their runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from _pytest.mark.structures import ParameterSet

from tests.support.lowering import lowered
from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.codegen.cuda import cuda_text
from warpsmith.frontends.tensor import Tensor
from warpsmith.ops.scalars import numpy_dtype
from warpsmith.targets.hopper import H200

SCHEDULES = 4
"""Orders of warps and copies under which every kernel of these tests must be clean."""


def rarely(*values: object) -> ParameterSet:
    """Values of a test's parameters that only a long run of the tests takes."""
    return pytest.param(*values, marks=pytest.mark.slow)


DTYPES = [
    *map(rarely, (DataType.Float, DataType.BFloat16, DataType.Int, DataType.Int32)),
    DataType.Double,
    DataType.Half,
    DataType.Bool,
    *map(rarely, (DataType.Int8, DataType.Float8_e4m3fn, DataType.Float8_e5m2)),
]
"""Types of elements, those of a size that another has only in a long run."""


@dataclass(frozen=True)
class Tiling:
    """How the threads walk a tensor: in tiles, with so many elements of every dimension.

    Attributes:
        box: elements of a tile along each dimension of the tensor.
        grid: the loop over tiles of the slowest dimension is bound to the grid.
        threads: of a block; they walk the elements of a tile in turn.
        vector: elements that each of them takes at once.
    """

    box: tuple[int, ...]
    grid: bool = False
    threads: int = 32
    vector: int = 1

    @property
    def rank(self) -> int:
        return len(self.box)

    def apply(self, tensor: Tensor) -> None:
        """Split every dimension: tiles outside, the elements of a tile inside."""
        for place, box in enumerate(self.box):
            tensor.split(2 * place, box)
        rank = self.rank
        order = {2 * d: d for d in range(rank)} | {2 * d + 1: rank + d for d in range(rank)}
        tensor.reorder(order)
        if self.grid:
            tensor.axis(0).parallelize(ParallelType.grid_x)

    def share(self, tensor: Tensor, *, vectorized: bool = False) -> None:
        """Divide the elements of a tile among the threads."""
        if self.vector > 1:
            tensor.split(-1, self.vector)
        for _ in range(self.rank - 1):
            tensor.merge(self.rank)
        tensor.split(self.rank, self.threads)
        tensor.axis(self.rank + 1).parallelize(ParallelType.block_x)
        if vectorized and self.vector > 1:
            tensor.axis(-1).parallelize(ParallelType.vectorize)


def loaded(tensor: Tensor, carrier: LoadStoreOpType, swizzle: int = 0) -> Tensor:
    """A copy of an input in shared memory."""
    copy = tensor.cache_after(op_type=carrier)
    copy.set_memory_type(MemoryType.shared)
    if swizzle:
        copy.set_swizzle(swizzle)
    return copy


def stored(tensor: Tensor, carrier: LoadStoreOpType, swizzle: int = 0) -> Tensor:
    """What an output is a copy of, in shared memory."""
    staging = tensor.cache_before(op_type=carrier)
    staging.set_memory_type(MemoryType.shared)
    if swizzle:
        staging.set_swizzle(swizzle)
    return staging


def bind_tile(tensor: Tensor, order: Sequence[int]) -> None:
    """Bind the innermost loops to tma, in the order of memory: the slowest dimension first."""
    first = len(tensor.loop) - len(order)
    tensor.reorder({first + d: first + place for place, d in enumerate(order)})
    if tensor.copied_by is LoadStoreOpType.bulk:
        for _ in order[1:]:
            tensor.merge(first)
    for place in range(first, len(tensor.loop)):
        tensor.axis(place).parallelize(ParallelType.tma)


def loading(
    tiling: Tiling,
    carrier: LoadStoreOpType = LoadStoreOpType.tma,
    *,
    stages: int = 0,
    prefetch: int | None = None,
    swizzle: int = 0,
    dtype: DataType = DataType.Float,
    contiguity: bool | Sequence[bool | None] = True,
    stride_order: Sequence[int] | None = None,
    shape: Sequence[int] | None = None,
    inline: int | None = None,
    chunks: bool = False,
) -> FusionDefinition:
    """`y = x` (floats doubled) with a tile of x in shared memory at a time.

    Args:
        chunks: it comes in whole chunks.
        inline: loops that the tile shares with its readers; all of those over tiles if absent.
    """
    with FusionDefinition() as fd:
        shape = [-1] * tiling.rank if shape is None else shape
        x = fd.define_tensor(shape, contiguity, dtype, stride_order=stride_order)
        y = fd.ops.add(x, x) if dtype.is_float else fd.ops.set(x)
        y = fd.ops.cast(y, dtype)
        fd.add_output(y)
        copy = loaded(x, carrier, swizzle)
        copy.load_chunks(chunks)
        read = copy.cache_after() if tiling.vector > 1 else None
        y.cache_before()
        tiling.apply(y)
        fd.sched.transform_like(y)
        fd.sched.parallelize_like(y)
        fd.sched.inline_at(y, tiling.rank if inline is None else inline, selected_tensors=[copy])
        bind_tile(copy, x.memory_order())
        others = [t for t in fd.fusion.tensors if t is not copy and not t.is_input]
        for tensor in others:
            tiling.share(tensor, vectorized=tensor is y or tensor is read)
        if stages:
            copy.circular_buffer(stages, prefetch)
        fd.sched.inline_most(others)
    return fd


def storing(
    tiling: Tiling,
    carrier: LoadStoreOpType = LoadStoreOpType.tma,
    *,
    stages: int = 0,
    swizzle: int = 0,
    load: LoadStoreOpType | None = None,
    load_stages: int = 0,
    dtype: DataType = DataType.Float,
    shape: Sequence[int] | None = None,
    inline: int | None = None,
    outputs: int = 1,
) -> FusionDefinition:
    """`y = x + 1` (of several outputs the second `x + 2`), with tiles of each y in shared memory.

    Args:
        stages: stages of each y; none turns them with 0.
        load: what carries x to shared memory as well, through `load_stages` stages; None for
            registers.
        inline: loops that a tile shares with its store; all of those over tiles if absent.
    """
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1] * tiling.rank if shape is None else shape, True, dtype)
        results = [fd.ops.cast(fd.ops.add(x, k + 1), dtype) for k in range(outputs)]
        for y in results:
            fd.add_output(y)
        copy = x.cache_after() if load is None else loaded(x, load)
        staged = [stored(y, carrier, swizzle) for y in results]
        tiling.apply(results[0])
        fd.sched.transform_like(results[0])
        fd.sched.parallelize_like(results[0])
        depth = tiling.rank if inline is None else inline
        for y in results:
            fd.sched.inline_at(y, depth, selected_tensors=[copy, *staged])
            bind_tile(y, range(tiling.rank))
        if load is not None:
            bind_tile(copy, range(tiling.rank))
        apart = {id(t) for t in (*results, *fd.fusion.input_tensors)}
        if load is not None:
            apart.add(id(copy))
        others = [t for t in fd.fusion.tensors if id(t) not in apart]
        for tensor in others:
            tiling.share(tensor)
        for tensor in staged if stages else ():
            tensor.circular_buffer(stages)
        if load_stages:
            copy.circular_buffer(load_stages)
        inner = {id(t) for t in staged}
        fd.sched.inline_most([t for t in others if id(t) not in inner])
    return fd


def random_array(shape: Sequence[int], dtype: DataType = DataType.Float) -> np.ndarray:
    """Small whole numbers, which every type holds, and whose sums it holds too."""
    end = 2 if dtype is DataType.Bool else 4 if dtype.is_float8 else 100
    numbers = np.random.default_rng().integers(0, end, shape)
    return numbers.astype(numpy_dtype(dtype))


def check_exact(found: np.ndarray, expected: np.ndarray) -> None:
    """Equality of all elements, the expected ones computed in float64."""
    np.testing.assert_array_equal(found.astype(np.float64), expected)


def run_clean(
    fd: FusionDefinition, inputs: Sequence[object], schedules: int = SCHEDULES
) -> list[np.ndarray]:
    """Results of the schedule as it was laid; the simulator must find nothing in the kernel."""
    results = fd.manual_execute(inputs)
    verification = fd.verify(inputs, schedules=schedules, scheduled=True)
    assert verification.verdict == "clean", str(verification)
    return results


def text_of(fd: FusionDefinition) -> str:
    """Its CUDA text without the prelude."""
    text = cuda_text(lowered(fd), H200)
    return text[text.index('extern "C"') :]


def doubled(fd: FusionDefinition, x: np.ndarray) -> None:
    """The fusion doubles floats, and copies the rest."""
    (y,) = run_clean(fd, [x])
    factor = 2 if fd.fusion.input_tensors[0].dtype.is_float else 1
    check_exact(y, x.astype(np.float64) * factor)
