"""Which blocks of a cluster are looked at, and for how many they stand."""

from dataclasses import replace

from tests.lower.test_exchanges import fewer_in_one_block, summed, to_one_block, values
from tests.protocol.edits import refused
from tests.roles.test_multicast_faults import right as product
from tests.roles.test_multicast_faults import values_of
from warpsmith.ir import integers
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Let
from warpsmith.protocol.alike import standing
from warpsmith.protocol.extract import skeleton_of
from warpsmith.protocol.launched import launch_values


def ranks(kernel: Kernel, sizes: dict[str, int], **sent: int) -> list[tuple[int, ...]]:
    """Of each block that is looked at, the ranks of those that it stands for.

    Args:
        sent: by `to0`, `to1`, .. bytes that a statement sends there.
    """
    known = launch_values(kernel, sizes, (0, 0, 0))
    gifts = [{int(to[2:]): amount for to, amount in sent.items()}] if sent else []
    return [each.ranks for each in standing(kernel, known, {}, gifts)]


def test_one_block_stands_for_all_others() -> None:
    kernel = summed()
    assert ranks(kernel, values()) == [(0,), (1, 2)]
    skeleton = skeleton_of(kernel, launch_values(kernel, values(), (0, 0, 0)))
    names = {actor.name for actor in skeleton.actors}
    assert names == {f"{b}: block, warp {w}" for b in ("block 0", "blocks 1 to 2") for w in (0, 1)}


def test_blocks_that_synchronization_tells_apart_are_all_looked_at() -> None:
    assert ranks(fewer_in_one_block(summed()), values()) == [(0,), (1,), (2,)]
    assert ranks(product(), values_of(product())) == [(0,), (1,)]


def test_blocks_that_get_less_are_looked_at_apart() -> None:
    assert ranks(summed(), values(), to0=8, to1=8) == [(0,), (1,), (2,)]
    assert ranks(summed(), values(), to0=8, to1=8, to2=8) == [(0,), (1, 2)]


def test_a_name_of_two_values_tells_nothing() -> None:
    kernel = summed()
    name = Symbol("twice", low=0)
    lets = (Let(name, integers.ZERO), Let(name, integers.ONE))
    assert ranks(replace(kernel, body=(*lets, *kernel.body)), values()) == [(0,), (1,), (2,)]


def test_parts_that_meet_in_one_place() -> None:
    refused(to_one_block(summed()), values(), "WS0917", "several parts are sent to element")
