"""Divisions are computed once, outside of the loops, and by multiplication where that is right."""

from typing import Any

import pytest
import torch

from tests.support.launching import check_scheduled, random_inputs
from tests.support.lowering import lowered
from tests.support.program import Program
from warpsmith import fuse, knobs, ops
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Apply
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, Let
from warpsmith.kernel.traversal import expressions, walk
from warpsmith.lower.build import build
from warpsmith.lower.passes.hoist import hoist_indices
from warpsmith.lower.passes.multiply_divisions import multiply_divisions
from warpsmith.lower.pipeline import lower
from warpsmith.schedule.transforms import merge, parallelize, split
from warpsmith.targets.hopper import H200


def permuted() -> Fusion:
    """`[a, b, c] -> [c, a, b]` in one loop of the output's elements: divisions by b and by a."""
    p = Program()
    output = p.permute(p.input(DataType.Float, (None, None, None)), (2, 0, 1))
    p.output(output)
    merge(output, 0)
    merge(output, 0)
    split(output, 0, 2)
    split(output, 0, 32)
    parallelize(output, 0, ParallelType.grid_x)
    parallelize(output, 1, ParallelType.block_x)
    return p.fusion


def operations(kernel: Kernel, *names: str) -> list[Apply]:
    return [
        node
        for statement in walk(kernel.body)
        for expr in expressions(statement)
        for node in expr.walk()
        if isinstance(node, Apply) and node.op in names
    ]


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (8, 4, 16), (1, 31, 2)])
@pytest.mark.parametrize("index_type", [DataType.Int32, DataType.Int])
def test_right_in_both_index_types(index_type: DataType, shape: tuple[int, ...]) -> None:
    fusion = permuted()
    inputs = random_inputs(fusion, {"T0": shape})
    check_scheduled(fusion, fusion, inputs, index_type=index_type)


def test_no_division_is_left_in_32_bits() -> None:
    kernel = lowered(permuted())
    assert operations(kernel, "floordiv", "mod") == []
    assert operations(kernel, "divide") != []
    assert {r.magic.name for r in kernel.reciprocals} <= {s.name for s in kernel.scalars}


def test_64_bits_divide() -> None:
    kernel = lower(permuted(), "test", DataType.Int, target=H200)
    assert kernel.reciprocals == ()
    assert operations(kernel, "divide") == []
    assert operations(kernel, "floordiv") != []


def test_equal_divisions_are_computed_once() -> None:
    kernel = lower(permuted(), "test", DataType.Int, target=H200)
    divisions = operations(kernel, "floordiv", "mod")
    assert len(divisions) == len(set(divisions))


def test_what_does_not_depend_on_a_loop_stands_before_it() -> None:
    kernel = lowered(permuted())
    for loop in (s for s in walk(kernel.body) if isinstance(s, For)):
        for let in (s for s in loop.body if isinstance(s, Let)):
            names = {repr(node) for node in let.value.walk()}
            assert loop.symbol.name in names or any(n.startswith("x") for n in names)


def test_kernels_without_divisions_pass_unchanged() -> None:
    p = Program()
    p.output(p.op("neg", p.input(DataType.Float, (8,))))
    kernel = build(p.fusion, "test", DataType.Int32, target=H200)
    assert hoist_indices(kernel) is kernel
    assert multiply_divisions(kernel) is kernel


def test_lowering_does_not_change_the_fusion() -> None:
    fusion = permuted()
    first = lowered(fusion)
    assert lowered(fusion) == first


def test_a_division_of_what_memory_says_stays_behind_the_load() -> None:
    """Of the place of a column among those of two tensors in turn."""

    def chosen(x: Any, which: Any) -> Any:
        rows, columns = x.shape()
        turns = ops.reshape(ops.stack([x, ops.flip(x, [0])], -1), [rows, columns * 2])
        return ops.index_select(turns, which, 1)

    x, which = torch.randn(3, 2), torch.tensor([3, 0, 2])
    wanted = torch.stack([x, x.flip(0)], -1).flatten(1)[:, which]
    with knobs.scope(device="sim"):
        assert torch.equal(fuse(chosen)(x, which), wanted)
