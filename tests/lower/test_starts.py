"""What a product's kernel does before its agents part: maps, barriers, and the cluster's start."""

from tests.support.lowered_products import kernels
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.clusters import AnnounceStart, AwaitStart, SynchronizeCluster
from warpsmith.kernel.nodes import If
from warpsmith.kernel.rings import ELECTED, InitBarriers
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


def test_blocks_of_a_cluster_fence_all_memory_at_their_end_alone() -> None:
    """That barriers are ready is known by the fence of their initialization (PTX ISA)."""
    body = kernels(tile=(128, 128, 64), cluster=(2, 1), blocks=132)["lower_pipelines"].body
    kinds = [type(s) for s in body]
    assert kinds[:3] == [InitBarriers, AnnounceStart, AwaitStart]
    assert kinds.count(SynchronizeCluster) == 1
    assert kinds[-1] is SynchronizeCluster
    assert all(kind is Branch for kind in kinds[3:-1])
