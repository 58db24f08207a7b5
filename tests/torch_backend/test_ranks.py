"""Several ranks: data that is spread, layers that are gathered, and tensors that are sliced."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.support.ranks import losses, trained
from warpsmith import fuse
from warpsmith.errors import ArgumentError
from warpsmith.nn import functional

WAYS = (
    "ddp-compiled",
    "ddp-modules",
    "fsdp-compiled",
    "fsdp-modules",
    "tensor-compiled",
    "tensor-eager",
    "tensor-modules",
)


@pytest.mark.slow
def test_losses_of_two_ranks_are_those_of_one() -> None:
    found = trained(2, *WAYS)
    assert set(found) == {"eager", *WAYS}
    want = found["eager"].losses
    assert want[0] - want[1] > 0.1  # a step counts
    for each in found.values():
        np.testing.assert_allclose(each.losses, want, rtol=2e-6)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize("way", ["fsdp-compiled", "tensor-modules"])
def test_a_rank_alone_spreads_and_slices_too(way: str) -> None:
    """All that two ranks do but to wait for each other, in a process that is there already."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        want, found = (losses(each, 2, torch.device("cpu")) for each in ("eager", way))
    finally:
        dist.destroy_process_group()
    assert want[0] - want[1] > 0.01  # a step counts
    np.testing.assert_allclose(found, want, rtol=2e-6)


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    """Of two ranks, of which this is the first; the other one never answers."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield init_device_mesh("cpu", (2,))
    dist.destroy_process_group()


def part(mesh: DeviceMesh, placement: Placement, *shape: int) -> DTensor:
    """This rank's part of a tensor."""
    return DTensor.from_local(torch.randn(shape), mesh, [placement], run_check=False)


def test_rows_stay_where_they_are(mesh: DeviceMesh) -> None:
    x, residual = (part(mesh, Shard(1), 4, 3, 16).requires_grad_() for _ in range(2))
    weight = part(mesh, Replicate(), 16).requires_grad_()
    y, total = functional.add_rms_norm(x, residual, (16,), weight)
    assert y.shape == total.shape == (4, 6, 16)
    assert y.placements == total.placements == (Shard(1),)
    local = x.to_local() + residual.to_local()
    want = torch.nn.functional.rms_norm(local, (16,), weight.to_local())
    torch.testing.assert_close(y.to_local(), want)
    torch.testing.assert_close(total.to_local(), local)
    (y.sum() + total.sum()).backward()
    assert x.grad.placements == residual.grad.placements == (Shard(1),)


def test_what_rows_need_whole_is_brought_together(mesh: DeviceMesh) -> None:
    weight = part(mesh, Replicate(), 16)
    assert functional.rms_norm(part(mesh, Shard(-1), 4, 8), (16,), weight).placements == (
        Replicate(),
    )
    x = part(mesh, Shard(0), 2, 8)
    assert functional.softmax(x, -1).placements == (Shard(0),)
    assert functional.softmax(x, 0).placements == (Replicate(),)
    assert functional.swiglu(x, x).placements == (Shard(0),)
    words = DTensor.from_local(torch.zeros(3, dtype=torch.int64), mesh, [Shard(0)])
    rows = functional.embedding(words, part(mesh, Replicate(), 5, 16))
    assert (rows.shape, rows.placements) == ((6, 16), (Shard(0),))
    loss = functional.cross_entropy(part(mesh, Shard(0), 3, 5), words)
    assert (loss.shape, loss.placements) == ((), (Replicate(),))


def test_places_with_angles_of_their_own_are_no_slices(mesh: DeviceMesh) -> None:
    cos, sin = (part(mesh, Replicate(), 6, 16) for _ in range(2))
    of_places = functional.rotary(part(mesh, Shard(1), 2, 3, 16), cos, sin)
    assert (of_places.shape, of_places.placements) == ((2, 6, 16), (Replicate(),))
    of_rows = functional.rotary(part(mesh, Shard(0), 1, 6, 16), cos, sin)
    assert (of_rows.shape, of_rows.placements) == ((2, 6, 16), (Shard(0),))


def test_refuses_plain_tensors_beside_slices_and_dropout(mesh: DeviceMesh) -> None:
    x = part(mesh, Shard(0), 2, 16)
    with pytest.raises(ArgumentError, match="WS0366.*rms_norm got a DTensor, and beside it"):
        functional.rms_norm(x, (16,), torch.ones(16))
    with pytest.raises(ArgumentError, match="WS0366.*what one device drops"):
        functional.dropout_add_rms_norm(x, x, (16,), dropout_p=0.5)


@fuse
def doubled(x):  # type: ignore[no-untyped-def]
    return x + x


def test_a_tensor_without_memory_is_refused_also_behind_one_with(mesh: DeviceMesh) -> None:
    sliced = part(mesh, Shard(0), 2, 16)
    for _ in range(3):
        doubled(torch.ones(4, 16))
    with pytest.raises(ArgumentError, match="DTensor has no memory of its own.*to_local"):
        doubled(sliced)


def test_what_is_still_sent_is_waited_for(mesh: DeviceMesh) -> None:
    here = torch.randn(4)
    sent = AsyncCollectiveTensor(here)
    torch.testing.assert_close(doubled(sent), here + here)
    assert sent.completed
