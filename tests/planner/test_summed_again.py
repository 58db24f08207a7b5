"""Sums that are summed again are one kernel, though nothing but their origin is common."""

import pytest

from bench.images import Images
from bench.instance_norm import instance_norm_bwd
from bench.row_shapes import plan
from tests.support.program import Program
from warpsmith.ir.dtypes import DataType
from warpsmith.planner.summed_again import walk_sums_together


@pytest.mark.parametrize("inner", [False, True], ids=["nchw", "nhwc"])
def test_sums_of_all_images_are_one_kernel(inner: bool) -> None:
    segments = plan(instance_norm_bwd(Images(3, 64, 6, inner), "float")).segments
    first, second = (each.candidate.scheduler for each in segments if each.candidate)
    assert first.endswith("_persistent")
    assert second == "reduction"


def test_sums_of_other_dimensions_stay_apart() -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None, None))
    first, second = p.reduce("sum", x, [2]), p.reduce("sum", x, [0])
    p.output(p.reduce("sum", first, [0]), p.reduce("sum", second, [1]))
    walk_sums_together(p.fusion)
    assert p.fusion.together == ()
