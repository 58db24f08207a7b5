"""Clusters in CUDA text: ranks, launches, what is sent to other blocks, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from tests.protocol.edits import edited, instead
from tests.roles.test_cluster_rows import Rows
from tests.support.by_hand import kernel_of
from tests.support.exchanged_sums import summed
from tests.support.simulating import reported
from warpsmith.codegen.cuda import cuda_text
from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.clusters import ReleaseRemote, StoreAsync, SynchronizeCluster, rank_in
from warpsmith.kernel.kernel import Kernel, Launch
from warpsmith.kernel.nodes import Buffer, Element, If, Statement, Store
from warpsmith.kernel.rings import ELECTED, Await, Expect, InitBarriers
from warpsmith.lower.passes.lay_out_shared import lay_out_shared
from warpsmith.lower.passes.watch_waits import watch_waits
from warpsmith.ops.scalars import numpy_dtype
from warpsmith.targets.hopper import H200

ZERO, ONE = integers.ZERO, integers.ONE
X = Symbol("block_x", low=0, extent=Const(32))


# --- types and ranks ---------------------------------------------------------------------------


def rotating(dtype: DataType) -> Kernel:
    """Each block of a cluster of three sends its elements to the next one.

    Thread x has element x of the block.
    """
    launch = Launch((Const(3), ONE, ONE), (Const(32), ONE, ONE), cluster=(3, 1, 1))
    rank = rank_in(launch)
    x, y = (Buffer(n, dtype, MemoryType.global_, Const(96), n == "Y") for n in "XY")
    tile = Buffer("tile", dtype, MemoryType.shared, Const(32))
    barrier = Buffer("barrier", DataType.Int, MemoryType.shared, ONE)
    place = integers.add(integers.mul(rank, 32), X)
    following = integers.mod(integers.add(rank, 1), 3)
    body = (
        InitBarriers(((barrier, ONE),)),
        If(ELECTED, (Expect(barrier, ZERO, Const(32 * dtype.size)),)),
        SynchronizeCluster("started"),
        StoreAsync(tile, X, Element(x, place), following, barrier, ZERO),
        Await(barrier, ZERO, ZERO, of_cluster=True),
        Store(y, place, Element(tile, X)),
    )
    return lay_out_shared(
        kernel_of(*body, launch=launch, parameters=(x, y), shared=(tile, barrier))
    )


@pytest.mark.parametrize(
    "dtype", [d for d in DataType if d is not DataType.Index and d.size in (4, 8)]
)
def test_elements_of_every_type(dtype: DataType) -> None:
    x = (np.random.default_rng(0).integers(0, 2, 96) * 55 - 11).astype(numpy_dtype(dtype))
    report = reported(rotating(dtype), {}, {"X": x}, schedules=4)
    assert report.verdict == "clean", str(report)
    np.testing.assert_array_equal(report.arrays["Y"], np.roll(x.reshape(3, 32), 1, 0).reshape(-1))


def test_ranks_count_x_fastest() -> None:
    """A cluster of 2 x 3 x 2 blocks in a grid of 4 x 3 x 4; each block tells its rank."""
    grid, cluster = (4, 3, 4), (2, 3, 2)
    gx, gy, gz = (Symbol(f"grid_{axis}", low=0) for axis in "xyz")
    y = Buffer("Y", DataType.Int32, MemoryType.global_, Const(48))
    place = integers.add(gx, integers.mul(gy, 4), integers.mul(gz, 12))
    launch = Launch(tuple(map(Const, grid)), (ONE, ONE, ONE), cluster=cluster)
    rank = Apply("cast", (rank_in(launch),), DataType.Int32)
    kernel = lay_out_shared(kernel_of(Store(y, place, rank), launch=launch, parameters=(y,)))
    report = reported(kernel, {}, {}, schedules=1)
    assert report.verdict == "clean", str(report)
    z, row, x = np.indices((4, 3, 4))
    np.testing.assert_array_equal(
        report.arrays["Y"].reshape(4, 3, 4), x % 2 + 2 * (row % 3 + 3 * (z % 2))
    )


# --- text and refusals -------------------------------------------------------------------------


def test_the_text_of_a_launch() -> None:
    text = cuda_text(summed(blocks=4), H200)
    assert "void __cluster_dims__(1, 1, 4) __launch_bounds__(64) rows(" in text
    assert text.count("ws_cluster_rank();") == 1
    assert text.count("  ws_cluster_meet();  // ") == 1


def test_watched_waits() -> None:
    text = cuda_text(watch_waits(summed(), 10**9), H200)
    wait = "ws_cluster_wait(exchange0_full + exchange0_stage, exchange0_phase"
    assert f"{wait}, 0, exchange0_stage, 1000000000ull);" in text


def in_launch(cluster: tuple[int, int, int]) -> Kernel:
    kernel = summed()
    return replace(kernel, launch=replace(kernel.launch, cluster=cluster))


def in_role(name: str, statement: Statement) -> Kernel:
    """The statement as the last one of a role."""
    kernel = Rows().kernel()
    body = (
        replace(s, body=(*s.body, statement))
        if isinstance(s, Branch) and s.agent.name == name
        else s
        for s in kernel.body
    )
    return replace(kernel, body=tuple(body))


def sending(buffer: Buffer) -> Kernel:
    return edited(summed(), instead(StoreAsync, lambda s: replace(s, buffer=buffer)))


MEET = SynchronizeCluster("again")
BARRIER = Buffer("exchange0_full", DataType.Int, MemoryType.shared, Const(2))
REFUSED = {
    "too many blocks": (lambda: in_launch((17, 1, 1)), "runs no cluster"),
    "no blocks": (lambda: in_launch((2, 0, 1)), "runs no cluster of"),
    "no cluster": (lambda: in_launch((1, 1, 1)), "in a launch without clusters"),
    "in a role": (lambda: in_role("compute", MEET), "for all threads, and stands in a role"),
    "in one thread": (lambda: in_role("load", MEET), "for all threads, and stands in a role"),
    "warps in one thread": (
        lambda: in_role("load", ReleaseRemote(BARRIER, ZERO, (ZERO,))),
        "ReleaseRemote is for warps",
    ),
    "registers": (
        lambda: sending(Buffer("sum", DataType.Float, MemoryType.local, ONE)),
        "sum is not in shared memory",
    ),
    "two bytes": (lambda: rotating(DataType.Half), "no 4 or 8 bytes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    make, words = REFUSED[name]
    with pytest.raises(InternalError, match=words):
        cuda_text(make(), H200)
