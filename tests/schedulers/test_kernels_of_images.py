"""Which kernel norms of images get: short planes, and blocks that are alone on a multiprocessor."""

import pytest

from bench.group_norm import group_norm_bwd
from bench.images import Images
from bench.instance_norm import instance_norm, instance_norm_bwd
from bench.row_shapes import plan
from tests.schedulers.test_parts import Make, check_right
from warpsmith.schedulers.parts.shapes import PartsParams
from warpsmith.schedulers.rows import few
from warpsmith.schedulers.rows.params import RowParams


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("make", "size", "dtype"),
    [
        (instance_norm_bwd, (40, 32, 7), "bfloat16"),
        (instance_norm, (40, 64, 7), "bfloat16"),
        (instance_norm_bwd, (40, 32, 9), "float"),
        (group_norm_bwd, (2, 64, 7), "bfloat16"),
    ],
)
def test_vectors_go_across_the_ends_of_short_planes(
    make: Make, size: tuple[int, int, int], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(few, "MOST", 0)  # single elements of few are as fast
    problem = make(Images(*size, False), dtype)
    params = plan(problem).launches[0].params
    assert isinstance(params, PartsParams | RowParams)
    assert params.across
    check_right(problem)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("size", "scheduler"),
    [((29, 704, 41), "outer_grid"), ((182, 896, 8), "outer_persistent")],
    ids=str,
)
def test_a_grid_has_what_a_block_for_itself_has_a_multiprocessor_for(
    size: tuple[int, int, int], scheduler: str
) -> None:
    """The first took 91.6 µs by blocks of 512 threads, of which one fits; 75.7 by a grid."""
    call = plan(instance_norm_bwd(Images(*size, inner=True), "bfloat16"))
    chosen = call.segments[call.launches[0].segment].candidate
    assert chosen is not None
    assert chosen.scheduler == scheduler
    assert len(call.launches) == 2
