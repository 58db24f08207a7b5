"""Products by hand whose warp groups take turns: right, or refused."""

from typing import Any

import pytest

from tests.support.matmuls import check, operands
from tests.support.ping_pong_products import ping_pong_product
from tests.support.product_schedules import by_hand
from warpsmith import FusionDefinition, TileOrder, knobs
from warpsmith.errors import ScheduleError

Sizes = tuple[int, int, int]


def works(fd: FusionDefinition, sizes: Sizes = (200, 136, 192), schedules: int = 2) -> None:
    x, weight = operands(*sizes, seed=1)
    with knobs.scope(device="sim"):
        (result,) = fd.manual_execute([x, weight])
    check(result, x, weight)
    verification = fd.verify([x, weight], schedules=schedules)
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


SIZES: dict[str, Sizes] = {
    "one element": (1, 1, 8),
    "one tile, fewer than groups": (64, 64, 64),
    "two tiles, less than a stage along k": (65, 64, 8),
    "an odd number of tiles": (320, 64, 40),
    "no whole tiles": (130, 70, 200),
    "more steps along k than stages": (64, 128, 328),
}
STORES: dict[str, dict[str, Any]] = {
    "through shared memory": {"stored_by": "compute", "bound": True},
    "from registers": {"stored_by": "threads"},
}


@pytest.mark.few(4)
@pytest.mark.parametrize("stores", STORES)
@pytest.mark.parametrize("sizes", SIZES)
def test_groups_that_compute_store(sizes: str, stores: str) -> None:
    """The seed's product: a role loads, groups hand on the tensor cores, and then the way out."""
    works(ping_pong_product(**STORES[stores]), SIZES[sizes], schedules=8)


@pytest.mark.few(3)
@pytest.mark.parametrize("stores", STORES)
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_any_number_of_groups(groups: int, stores: str) -> None:
    ordered = groups > 1
    works(ping_pong_product(groups=groups, ordered=ordered, **STORES[stores]), (130, 136, 40))


def test_tiles_of_the_seed() -> None:
    """64 rows and 256 columns for each of two groups, and the seed's registers."""
    fd = ping_pong_product(columns=256, **STORES["through shared memory"])
    fd.sched.set_registers((40, 232))
    works(fd, (130, 264, 72))
    said = fd.explain()
    assert "load: copy, warp 0, one thread, 40 registers" in said
    assert "compute: multiply, warps 4 to 11, 256 threads, 2 groups, 232 registers" in said
    assert "order       compute_main: 2 groups of compute, one after the other" in said


@pytest.mark.few(2)
@pytest.mark.parametrize("sizes", [(64, 136, 64), (200, 136, 72)])
@pytest.mark.parametrize("stores", STORES)
def test_tiles_in_another_order(stores: str, sizes: Sizes) -> None:
    """Three rows of tiles are walked together, and some of them lie outside.

    Groups passed over those, and with them their own turn and slots: results were wrong.
    """
    works(ping_pong_product(raster=3, **STORES[stores]), sizes)


@pytest.mark.parametrize(
    "order", [TileOrder("rows", band=3), TileOrder("columns", band=2)], ids=str
)
@pytest.mark.parametrize("stores", STORES)
def test_orders_in_which_no_tile_lies_outside(stores: str, order: TileOrder) -> None:
    works(ping_pong_product(order=order, **STORES[stores]), (264, 136, 40))


@pytest.mark.few(2)
@pytest.mark.parametrize("sizes", [(1, 1, 8), (130, 70, 200), (320, 64, 40)])
def test_groups_on_one_tile(sizes: Sizes) -> None:
    """Cooperative: both groups multiply 64 rows each of every tile, and take no turns."""
    fd = by_hand()
    works(fd, sizes, schedules=8)
    assert "in turn" not in fd.explain()
    assert "compute: multiply, warps 4 to 11, 256 threads, " in fd.explain()
