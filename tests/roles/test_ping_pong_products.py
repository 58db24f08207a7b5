"""Products by hand whose warp groups take turns: right, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.matmuls import check, operands
from tests.support.ping_pong_products import ping_pong_product
from warpsmith import FusionDefinition, knobs
from warpsmith.errors import ScheduleError


def works(fd: FusionDefinition, sizes: tuple[int, int, int] = (200, 136, 192)) -> None:
    x, weight = operands(*sizes, seed=1)
    with knobs.scope(device="sim"):
        (result,) = fd.manual_execute([x, weight])
    check(result, x, weight)
    verification = fd.verify([x, weight], schedules=2)
    assert verification.verdict == "clean", str(verification)


@pytest.mark.parametrize("groups", [2, 4])
def test_groups_that_would_stage_their_tiles_in_one_place(groups: int) -> None:
    """The last group's tile was stored for all: three of four elements were wrong, and clean."""
    fd = ping_pong_product(groups=groups, allocated="one")
    x, weight = operands(256, 128, 192, seed=1)
    with pytest.raises(ScheduleError, match="WS1101") as caught:
        fd.manual_execute([x, weight])
    assert f"which leaves out [i[{groups} threadIdx.y]]" in str(caught.value)


@pytest.mark.parametrize("groups", [2, 4])
def test_the_remedy_names_the_groups(groups: int) -> None:
    works(ping_pong_product(groups=groups))


def test_a_stage_of_one_group_needs_no_place_for_the_others() -> None:
    works(ping_pong_product(held="one", allocated="one"))


@pytest.mark.parametrize("columns", [128, 192])
def test_tiles_that_are_staged_in_chunks(columns: int) -> None:
    """The loop over chunks says which sums are stored, so it is unrolled."""
    works(ping_pong_product(held="one", allocated="one", columns=columns))


@pytest.mark.parametrize("changes", [{}, {"ordered": False, "stages": 6}])
def test_a_known_number_of_steps(changes: dict[str, Any]) -> None:
    """ptxas serialized products of a loop that it knew to run."""
    works(ping_pong_product(depth=192, **changes))
