"""Passes of a loop that lie wholly inside run without predicates, the others with them."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.launching import check_scheduled, random_inputs
from tests.support.lowering import lowered
from tests.support.program import Program
from warpsmith import FusionDefinition, ops
from warpsmith.frontends.lowered import lower_call
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Synchronize
from warpsmith.kernel.traversal import walk
from warpsmith.lower.build import build
from warpsmith.lower.passes.split_full_passes import split_full_passes
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.inline import inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import parallelize, split
from warpsmith.targets.hopper import H200

THREADS, UNROLL = 8, 4


def row_sums(op: str = "sum") -> tuple[Program, TensorView]:
    p = Program()
    total = p.reduce(op, p.copy(p.input(DataType.Float, (None, None))), [1])
    return p.output(p.copy(total)), total


def scheduled(op: str = "sum") -> Fusion:
    """`[rows grid_x, passes, UNROLL, THREADS]`: a pass takes UNROLL * THREADS elements of a row."""
    p, total = row_sums(op)
    split(total, 1, THREADS)
    split(total, 1, UNROLL)
    return in_passes(p.fusion, total)


def in_passes(fusion: Fusion, total: TensorView) -> Fusion:
    """Rows on the grid, whose loops are passes, unrolled ones and threads."""
    parallelize(total, 0, ParallelType.grid_x)
    parallelize(total, 2, ParallelType.unroll)
    parallelize(total, 3, ParallelType.block_x)
    (partial,) = rfactor(total, [1, 2])
    others = [t for t in fusion.tensors if not t.is_input and t not in (total, partial)]
    transform_like(partial, others)
    parallelize_like(partial, selected_tensors=others)
    inline_most(fusion, [t for t in fusion.tensors if not t.is_input])
    return fusion


def rolled(kernel: Kernel) -> list[For]:
    return [s for s in walk(kernel.body) if isinstance(s, For) and not s.unroll]


def guarded(loop: For) -> bool:
    return any(isinstance(s, If) for s in walk(loop.body))


def test_the_first_loop_has_no_predicates_and_the_second_has() -> None:
    kernel = lowered(scheduled())
    assert [guarded(loop) for loop in rolled(kernel)] == [False, True]


@pytest.mark.few(20)
@pytest.mark.parametrize("index_type", [DataType.Int32, DataType.Int])
@pytest.mark.parametrize("length", [1, 7, 31, 32, 33, 63, 64, 65, 96, 127])
@pytest.mark.parametrize("op", ["sum", "max"])
def test_every_element_is_met_once(op: str, length: int, index_type: DataType) -> None:
    meaning = row_sums(op)[0].fusion
    inputs = random_inputs(meaning, {"T0": (3, length)})
    check_scheduled(scheduled(op), meaning, inputs, index_type=index_type, terms=length)


def test_a_loop_without_predicates_stays() -> None:
    kernel = build(scheduled(), "test", DataType.Int32, target=H200)
    bare = For(rolled(kernel)[0].symbol, Const(3), (), unroll=False)
    assert split_full_passes(replace(kernel, body=(bare,))).body == (bare,)


def test_a_loop_with_a_barrier_stays() -> None:
    kernel = build(scheduled(), "test", DataType.Int32, target=H200)
    (loop,) = rolled(kernel)
    met = replace(loop, body=(*loop.body, Synchronize()))
    assert split_full_passes(replace(kernel, body=(met,))).body == (met,)


def test_predicates_of_parts_side_by_side_stay_in_both_loops() -> None:
    """No pass is inside both: without that, all passes would be among the last ones."""
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([64, 32], True) for _ in "xy")
        fd.add_output(ops.sum(ops.cat([x, y], 1), [0]))
    left, right = (np.random.default_rng(k).random((64, 32), np.float32) for k in range(2))
    text = str(lower_call(fd.fusion, [left, right]).compile().asm["cuda"])
    full = text.partition("i0 < full0")[2].partition("i0r")[0]
    assert full.count("if (") == 2  # a part each
    assert "int full0 = x0 < x1 ? x0 : x1;" in text  # no factor is 0 or 1
    wanted = np.concatenate([left, right], 1).sum(0)
    np.testing.assert_allclose(fd.execute([left, right])[0], wanted, rtol=1e-5)
