"""References that divide axes of one element."""

from typing import Any

import pytest

from warpsmith import FusionDefinition, ParallelType


def _row_sums(fd: FusionDefinition) -> list[Any]:
    """A tensor of rows, their sums with a dimension of one element, and both added."""
    x = fd.define_tensor([-1, -1], True)
    doubled = fd.ops.add(x, x)
    total = fd.ops.sum(doubled, [1], keepdim=True)
    result = fd.ops.add(doubled, total)
    fd.add_output(result)
    return [doubled, total, result]


@pytest.mark.parametrize("inner", [True, False])
def test_rows_are_divided_as_what_they_are_added_to(inner: bool) -> None:
    with FusionDefinition() as fd:
        tensors = _row_sums(fd)
        doubled, total, result = tensors
        total.split(1, 8, inner)
        total.reorder({1: 2, 2: 1})
        fd.sched.transform_like(total)
        sizes = {str(list(each.loop)).replace("r[", "i[") for each in fd.fusion.computed}
        assert len(sizes) == 1
        assert "i[8]" in sizes.pop()
        total.axis(0).parallelize(ParallelType.grid_x)
        fd.sched.parallelize_like(total)
        assert result.loop[0].parallel is doubled.loop[0].parallel is ParallelType.grid_x


def test_tensors_that_lack_the_elements_too_are_computed_once() -> None:
    with FusionDefinition() as fd:
        _, total, result = _row_sums(fd)
        scaled = fd.ops.mul(total, 2.0)
        fd.add_output(scaled)
        before = list(result.loop)
        total.split(1, 8)
        fd.sched.transform_like(total, [scaled])
        assert len(scaled.loop) == 1
        assert list(result.loop) == before, "it was not selected"
