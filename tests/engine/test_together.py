"""Blocks that meet: results, what is said of them, and grids for which there is no room."""

import numpy as np
import pytest

from tests.support.grid_meetings import ROWS, shares
from warpsmith import knobs
from warpsmith.errors import DeviceError, ScheduleError
from warpsmith.runtime.launch_kinds import LaunchKind

ROWS_GIVEN = np.random.default_rng(0).uniform(1, 2, (3, ROWS)).astype(np.float32)


@pytest.mark.parametrize("blocks", [1, 4])
def test_every_block_has_the_sum_of_all(blocks: int) -> None:
    definition = shares(blocks)
    with knobs.scope(device="sim"):
        (got,) = definition.manual_execute([ROWS_GIVEN])
        (again,) = definition.manual_execute([ROWS_GIVEN])
        verdict = definition.verify([ROWS_GIVEN], schedules=5).verdict
    wide = ROWS_GIVEN.astype(np.float64)
    np.testing.assert_allclose(got, wide / wide.sum(1, keepdims=True), rtol=1e-6)
    assert np.array_equal(got, again)
    assert verdict == "clean"


def test_they_are_launched_together_and_it_is_said() -> None:
    definition = shares()
    definition.manual_execute([ROWS_GIVEN])
    assert "together    all blocks run at once, and wait for each other" in definition.explain()
    (launch,) = definition.executable(True).plan_for([ROWS_GIVEN]).launches
    assert launch.kind is LaunchKind.TOGETHER
    assert not launch.early


def test_a_grid_without_room_is_refused() -> None:
    many = np.zeros((2000, ROWS), np.float32)
    with pytest.raises(DeviceError, match="all 8000 of its grid .* has room for 4224") as refusal:
        shares().manual_execute([many])
    assert refusal.value.code == "WS0616"


def test_clusters_of_blocks_that_meet_are_refused() -> None:
    with pytest.raises(ScheduleError, match="need it again, in a kernel with clusters") as refusal:
        shares(clusters=2).manual_execute([ROWS_GIVEN])
    assert refusal.value.code == "WS0266"
