"""Vector accesses: their widths, what a launch must check for them, and short last vectors."""

import numpy as np
import pytest

from tests.support.launching import check_scheduled, laid_out, random_inputs
from tests.support.program import Program
from tests.support.simulating import Fault
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import CopyVector
from warpsmith.kernel.traversal import walk
from warpsmith.lower.pipeline import lower
from warpsmith.schedule.caches import cache_after, cache_before
from warpsmith.schedule.inline import inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import merge, parallelize, set_memory_type, split
from warpsmith.targets.hopper import H200


def vectorized(
    p: Program,
    width: int,
    *,
    loads: bool = True,
    stores: bool = True,
    merged: bool = True,
    threads: int = 32,
) -> Program:
    """`[grid_x, block_x, vector]` over the output, vectors on the copies."""
    output = p.fusion.outputs[0].value
    copies = [cache_after(t) for t in p.fusion.input_tensors] if loads else []
    cache_before(output)
    while merged and len(output.loop) > 1:
        merge(output, 0)
    split(output, -1, width)
    while len(output.loop) > 2:
        merge(output, 0)
    split(output, 0, threads)
    parallelize(output, 0, ParallelType.grid_x)
    parallelize(output, 1, ParallelType.block_x)
    transform_like(output)
    parallelize_like(output)
    for copy in [*copies, *([output] if stores else [])]:
        parallelize(copy, -1, ParallelType.vectorize)
    inline_most(p.fusion)
    return p


def negated(*sizes: int | None, dtype: DataType = DataType.Float, **layout: object) -> Program:
    p = Program()
    p.output(p.op("neg", p.input(dtype, sizes, **layout)))
    return p


def widths(kernel: Kernel) -> set[int]:
    return {s.width for s in walk(kernel.body) if isinstance(s, CopyVector)}


def by_pairs(kernel: Kernel) -> list[bool]:
    """Of each store of vectors to global memory."""
    copies = (s for s in walk(kernel.body) if isinstance(s, CopyVector))
    return [copy.by_pairs for copy in copies if copy.target.memory is MemoryType.global_]


@pytest.mark.parametrize("size", [4, 8, 24, 1000])
@pytest.mark.parametrize("width", [2, 4])
def test_whole_vectors(width: int, size: int) -> None:
    original, p = negated(None), vectorized(negated(None), width)
    inputs = random_inputs(original.fusion, {"T0": (size,)})
    kernel = check_scheduled(p.fusion, original.fusion, inputs)
    assert widths(kernel) == {width}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 33, 1001])
def test_short_last_vector_of_a_contiguous_tensor(size: int) -> None:
    original, p = negated(None), vectorized(negated(None), 4)
    inputs = random_inputs(original.fusion, {"T0": (size,)})
    check_scheduled(p.fusion, original.fusion, inputs)


@pytest.mark.parametrize("shape", [(3, 8), (5, 4), (7, 3)])
def test_rows_of_a_merged_matrix(shape: tuple[int, int]) -> None:
    original, p = negated(None, None), vectorized(negated(None, None), 4)
    inputs = random_inputs(original.fusion, {"T0": shape})
    check_scheduled(p.fusion, original.fusion, inputs)


def test_vectors_along_rows_need_rows_of_whole_vectors() -> None:
    original = negated(None, None)
    p = vectorized(negated(None, None), 4, merged=False)
    good = random_inputs(original.fusion, {"T0": (3, 8)})
    check_scheduled(p.fusion, original.fusion, good)
    bad = random_inputs(original.fusion, {"T0": (3, 7)})
    with pytest.raises(Fault, match="the launch needs T0_size1 to be a multiple of 4"):
        check_scheduled(p.fusion, original.fusion, bad)


def test_run_time_strides_need_to_be_whole_vectors() -> None:
    def program() -> Program:
        return negated(None, None, contiguity=(False, True))

    original, p = program(), vectorized(program(), 4, merged=False)
    tensor = original.fusion.input_tensors[0]
    array = np.arange(24, dtype=np.float32).reshape(3, 8)
    check_scheduled(p.fusion, original.fusion, {"T0": laid_out(tensor, array, padding=4)})
    with pytest.raises(Fault, match="the launch needs T0_stride0 to be a multiple of 4"):
        check_scheduled(p.fusion, original.fusion, {"T0": laid_out(tensor, array, padding=3)})


@pytest.mark.parametrize(
    ("dtype", "width", "alignment"),
    [(DataType.BFloat16, 8, 16), (DataType.Float, 8, 16), (DataType.Bool, 4, 4)],
)
def test_addresses_are_aligned_to_an_access(dtype: DataType, width: int, alignment: int) -> None:
    p = Program()
    p.output(p.copy(p.input(dtype, (None,))))
    kernel = lower(vectorized(p, width).fusion, "test", target=H200)
    assert dict(kernel.alignments) == {"T0": alignment, "T1": alignment}


def test_shared_memory_in_vectors() -> None:
    def program() -> Program:
        p = Program()
        p.output(p.copy(p.copy(p.input(DataType.Float, (32, 8)))))
        return p

    original, p = program(), program()
    shared, output = (op.outputs[0] for op in p.fusion.operations)
    set_memory_type(shared, MemoryType.shared)
    register = cache_after(p.fusion.input_tensors[0])
    late = cache_after(shared)
    for tensor in (register, shared, late, output):
        split(tensor, 1, 4)
        parallelize(tensor, 0, ParallelType.block_x)
        parallelize(tensor, 2, ParallelType.vectorize)
    inputs = random_inputs(original.fusion, {"T0": (32, 8)})
    kernel = check_scheduled(p.fusion, original.fusion, inputs)
    copies = [s for s in walk(kernel.body) if isinstance(s, CopyVector)]
    assert [(s.source.memory, s.target.memory) for s in copies] == [
        (MemoryType.global_, MemoryType.local),
        (MemoryType.local, MemoryType.shared),
        (MemoryType.shared, MemoryType.local),
        (MemoryType.local, MemoryType.global_),
    ]


@pytest.mark.parametrize(
    ("threads", "width", "pairs"),
    [(64, 8, True), (40, 16, True), (64, 4, False), (33, 8, False), (1, 8, False)],
)
def test_lanes_store_whole_sectors_in_pairs(threads: int, width: int, pairs: bool) -> None:
    """Vectors of more than 16 bytes, where a block has an even number of lanes. Warps that are not
    full, and those in which some lanes have nothing, store alone.
    """
    original, p = negated(None), vectorized(negated(None), width, threads=threads)
    inputs = random_inputs(original.fusion, {"T0": (3 * threads * width - 2 * width - 1,)})
    kernel = check_scheduled(p.fusion, original.fusion, inputs)
    assert by_pairs(kernel) == [pairs]


def test_lanes_that_walk_rows_store_alone() -> None:
    original, p = negated(None, 32), negated(None, 32)
    output = p.fusion.outputs[0].value
    cache_before(output)
    split(output, 1, 8)
    split(output, 0, 4)  # [rows / 4, 4 rows, 4 vectors, 8]
    transform_like(output)
    parallelize(output, 0, ParallelType.grid_x)
    parallelize(output, 1, ParallelType.block_x)
    parallelize_like(output)
    parallelize(output, -1, ParallelType.vectorize)
    inline_most(p.fusion)
    inputs = random_inputs(original.fusion, {"T0": (9, 32)})
    assert by_pairs(check_scheduled(p.fusion, original.fusion, inputs)) == [False]
