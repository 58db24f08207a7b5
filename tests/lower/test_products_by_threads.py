"""Products without tensor cores: threads sum them, without predicates where that is right."""

import numpy as np
import pytest

from tests.support.contractions import contraction
from tests.support.launching import check_scheduled, random_inputs
from tests.support.lowering import lowered
from tests.support.program import Program
from warpsmith.engine.executable import Executable
from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Const, Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.reductions import Accumulate
from warpsmith.kernel.traversal import children, walk
from warpsmith.lower.vectors import Vectorizer
from warpsmith.ops.evaluate import evaluate
from warpsmith.schedule.caches import cache_after, cache_before, rfactor
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import parallelize, set_memory_type, split

FLOAT = DataType.Float
SHAPES = {"T0": (9, 37), "T1": (37, 70)}


def product(dtype: DataType = FLOAT) -> Program:
    p = Program()
    a, b = (p.input(dtype, (None, None)) for _ in range(2))
    p.output(contraction(p, a, b, ((0, 2), (2, 1))))
    return p


def scheduled(p: Program, *, copies: tuple[MemoryType, ...] = (), depth: int = 8) -> TensorView:
    """Loops `[m grid_x, n block_x | k / depth, depth]`, and copies of operands on their way."""
    fusion = p.fusion
    sums = cache_before(fusion.outputs[0].value)
    made = []
    for tensor in fusion.input_tensors:
        for memory in copies:
            tensor = cache_after(tensor)
            set_memory_type(tensor, memory)
            made.append(tensor)
    split(sums, 1, 32)
    split(sums, -1, depth)
    parallelize(sums, 0, ParallelType.grid_x)
    parallelize(sums, 2, ParallelType.block_x)
    transform_like(sums)
    parallelize_like(sums)
    inline_most(fusion, made)
    inline_at(sums, 3, selected_tensors=[sums], best_effort=True)
    return sums


def guarded(kernel: Kernel) -> bool:
    """Whether a condition stands around some accumulation."""

    def inside(statements: tuple[Statement, ...], held: bool) -> bool:
        return any(
            held
            if isinstance(statement, Accumulate)
            else inside(children(statement), held or hasattr(statement, "condition"))
            for statement in statements
        )

    return inside(kernel.body, False)


LOCAL, SHARED = MemoryType.local, MemoryType.shared


@pytest.mark.few(4)
@pytest.mark.parametrize("dtype", [FLOAT, DataType.Half])
@pytest.mark.parametrize(
    ("copies", "conditions"),
    [((), True), ((LOCAL,), False), ((SHARED,), False), ((LOCAL, SHARED, LOCAL), False)],
)
def test_copies_are_zero_past_the_ends(
    copies: tuple[MemoryType, ...], conditions: bool, dtype: DataType
) -> None:
    """37 summed in steps of 8; what is read from global memory itself keeps its predicate."""
    original, p = product(dtype), product(dtype)
    scheduled(p, copies=copies)
    inputs = random_inputs(p.fusion, SHAPES)
    kernel = check_scheduled(p.fusion, original.fusion, inputs, terms=160)
    assert guarded(kernel) is conditions


def test_a_product_over_threads_is_to_be_rfactored() -> None:
    p = product()
    sums = scheduled(p)
    parallelize(sums, -1, ParallelType.block_y)
    with pytest.raises(ScheduleError, match="WS1009") as refusal:
        lowered(p)
    assert "spread over threads" in str(refusal.value)
    assert "rfactor" in (refusal.value.remedy or "")


def test_a_product_is_rfactored_into_parts_and_their_sum() -> None:
    original, p = product(), product()
    sums = cache_before(p.fusion.outputs[0].value)
    split(sums, -1, 4)
    (part,) = rfactor(sums, [2])
    for tensor in (sums, part, p.fusion.outputs[0].value):
        parallelize(tensor, 0, ParallelType.grid_x)
        parallelize(tensor, 1, ParallelType.grid_y)
    for tensor in (sums, part):
        parallelize(tensor, -1, ParallelType.block_x)
    inputs = random_inputs(p.fusion, {"T0": (3, 22), "T1": (22, 5)})
    inline_at(part, 2, selected_tensors=[part, sums], best_effort=True)
    check_scheduled(p.fusion, original.fusion, inputs, terms=88)
    given = [inputs[t.name] for t in p.fusion.input_tensors]
    (found,), (wanted,) = evaluate(p.fusion, given), evaluate(original.fusion, given)
    np.testing.assert_array_equal(found, wanted)


def test_vectors_lie_along_the_inner_of_two_merged_dimensions() -> None:
    """`r * ((4 * t + lane) / c) + (4 * t + lane) % c` are 4 side by side, where 4 divides c."""
    lane, thread = Symbol("lane", low=0, extent=Const(4)), Symbol("t", low=0)
    rows, columns = Symbol("r", low=0), Symbol("c", low=0)
    place = integers.add(integers.mul(thread, 4), lane)
    index = integers.add(
        integers.mul(rows, integers.floordiv(place, columns)), integers.mod(place, columns)
    )
    vectors = Vectorizer(frozenset(), frozenset({"r", "c"}))
    base = vectors.base(index, lane, 4)
    assert base is not None
    assert lane not in base.walk()
    assert (columns, 4) in vectors.requirements
    along_rows = integers.mul(rows, lane)
    assert vectors.base(along_rows, lane, 4) is None


def test_indices_count_arrays_and_no_products_of_three_sizes() -> None:
    p = product()
    fusion: Fusion = p.fusion.draft()
    zeros = np.zeros((2048, 2048), np.float32)
    call = Executable(fusion).plan_for([zeros, zeros])
    assert call.launches[0].compiled.kernel.index_type is DataType.Int32
    assert {
        s.buffers[0].dtype
        for s in walk(call.launches[0].compiled.kernel.body)
        if isinstance(s, Accumulate)
    } == {FLOAT}
