"""Hand-offs between the groups of a product, which has five tiles."""

from functools import cache

from tests.support.lowering import lowered
from tests.support.ping_pong_products import ping_pong_product
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.products import AwaitProducts
from warpsmith.kernel.rings import ArriveByWarp
from warpsmith.kernel.traversal import walk

SIZES = {
    f"T{tensor}_{name}": value
    for tensor, rows in ((0, 320), (1, 64))
    for name, value in {"size0": rows, "size1": 192, "stride0": 192, "stride1": 1}.items()
}
"""Five tiles: of the first block's, two are the first group's and one is the other's."""

MAIN, EPILOGUE = "compute_main_turn", "compute_epilogue_turn"


@cache
def product() -> Kernel:
    fd = ping_pong_product(stored_by="compute", bound=True)
    return lowered(fd)


def test_tensor_cores_are_handed_on_before_the_last_products_are_over() -> None:
    """So that they have the next group's at once."""
    (branch,) = (s for s in product().body if isinstance(s, Branch) and s.agent.name == "compute")
    inside = list(walk(branch.body))
    (over,) = (n for n, s in enumerate(inside) if isinstance(s, AwaitProducts) and not s.pending)
    handed, released = (
        max(n for n, s in enumerate(inside) if isinstance(s, ArriveByWarp) and s.barrier.name == b)
        for b in (MAIN, "ring0_empty")
    )
    assert handed < over < released
