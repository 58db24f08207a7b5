"""What a product's kernel does before its agents part: maps, barriers, and the cluster's start."""

import pytest

from tests.support.lowered_products import kernels
from warpsmith.ir import integers
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.clusters import AnnounceStart, AwaitStart, SynchronizeCluster
from warpsmith.kernel.nodes import For, If
from warpsmith.kernel.rings import ELECTED, Advance, Await, InitBarriers
from warpsmith.kernel.tiles import PrefetchMap
from warpsmith.lower.passes.prefetch_maps import prefetch_maps


def test_one_thread_asks_for_all_maps_first() -> None:
    kernel = kernels(tile=(128, 128, 64))["prefetch_maps"]
    first = kernel.body[0]
    assert isinstance(first, If)
    assert first.condition == ELECTED
    assert first.body == tuple(PrefetchMap(each.name) for each in kernel.tensor_maps)
    assert len(first.body) == 3
    assert prefetch_maps(kernel) is kernel


def test_blocks_of_a_cluster_do_not_meet_at_their_end() -> None:
    """That barriers are ready is known by the fence of their initialization (PTX ISA), and that
    nobody arrives any more by waits of the role that loads: a meeting would fence all memory.
    """
    kernel = kernels(tile=(128, 128, 64), cluster=(2, 1), blocks=132)["lower_pipelines"]
    kinds = [type(s) for s in kernel.body]
    assert kinds[:3] == [InitBarriers, AnnounceStart, AwaitStart]
    assert all(kind is Branch for kind in kinds[3:])
    (load,) = (s for s in kernel.body if isinstance(s, Branch) and s.agent.name == "load")
    last = load.body[-1]
    assert isinstance(last, For)
    assert last.extent == integers.index(kernel.pipelines[0].stages)
    assert [type(s) for s in last.body] == [Await, Advance]


@pytest.mark.parametrize("once", [True, False])
def test_blocks_with_parts_of_k_meet_at_their_end_if_of_several_tiles(once: bool) -> None:
    """Of one each of them has what all others send, and then nobody reaches it any more."""
    given = {"tile": (64, 64, 64), "splits": 2, "once": once, "blocks": 132, "group": 1}
    body = kernels(**given)["lower_pipelines"].body
    assert isinstance(body[-1], Branch if once else SynchronizeCluster)
