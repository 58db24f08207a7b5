"""Waits that end: every wait of a kernel gets a site, which names what it waits for."""

from dataclasses import fields, replace

import pytest

from tests.support.lowering import lowered
from tests.support.ping_pong_products import ping_pong_product
from tests.support.role_kernels import CASES, check
from tests.support.tiling import Tiling, loading
from warpsmith.codegen.cuda import cuda_text
from warpsmith.errors import InternalError
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.rings import Await
from warpsmith.kernel.traversal import walk
from warpsmith.kernel.waits import WatchedAwait, wait_sites
from warpsmith.lower.passes.watch_waits import watch_waits
from warpsmith.targets.hopper import H200

LIMIT = 2_000_000_000


def ring_kernel() -> Kernel:
    """A kernel without roles, of one ring with three stages."""
    kernel = lowered(loading(Tiling((8, 16)), stages=3))
    (ring,) = kernel.pipelines
    return replace(kernel, pipelines=(replace(ring, where="model.py:12"),))


def awaits(kernel: Kernel) -> list[Await]:
    return [s for s in walk(kernel.body) if isinstance(s, Await)]


def test_every_wait_is_watched_and_otherwise_the_same() -> None:
    kernel = ring_kernel()
    before, after = awaits(kernel), awaits(watch_waits(kernel, LIMIT))
    assert len(before) == len(after) > 1
    for old, new in zip(before, after, strict=True):
        assert isinstance(new, WatchedAwait)
        assert new.limit == LIMIT
        assert Await(**{f.name: getattr(new, f.name) for f in fields(Await)}) == old


def test_sites_tell_what_is_waited_for() -> None:
    kernel = ring_kernel()
    watched = watch_waits(kernel, LIMIT)
    sites = wait_sites(watched.body)
    assert [site.number for site in sites] == list(range(len(awaits(kernel))))
    assert {(s.role, s.ring, s.buffers, s.where) for s in sites} == {
        ("", "ring0", ("T2",), "model.py:12")
    }
    for wait, site in zip(awaits(watched), sites, strict=True):
        assert site.full == wait.barrier.name.endswith("_full")
    assert {site.full for site in sites} == {True, False}


def test_groups_that_wait_for_their_turn_have_sites() -> None:
    """A kernel whose groups follow each other could not be watched at all."""
    watched = watch_waits(lowered(ping_pong_product()), LIMIT)
    turns = {(site.role, site.ring) for site in wait_sites(watched.body) if not site.buffers}
    assert turns == {("compute", "compute_main"), ("compute", "compute_epilogue")}


@pytest.mark.parametrize("name", CASES)
def test_sites_name_their_roles(name: str) -> None:
    kernel = CASES[name]().kernel
    watched = watch_waits(kernel, LIMIT)
    for branch in watched.body:
        if isinstance(branch, Branch):
            sites = wait_sites(branch.body)
            assert {site.role for site in sites} <= {branch.agent.name}
    assert len(wait_sites(watched.body)) == len(awaits(kernel)) > 1


@pytest.mark.few(6)
@pytest.mark.parametrize("name", CASES)
def test_kernels_with_roles_run_as_before(name: str) -> None:
    case = CASES[name]()
    check(replace(case, kernel=watch_waits(case.kernel, LIMIT)), schedules=4)


def test_a_kernel_without_waits_stays_the_same() -> None:
    kernel = replace(ring_kernel(), body=(), pipelines=())
    assert watch_waits(kernel, LIMIT) is kernel


def test_a_wait_for_a_barrier_of_no_ring_is_an_internal_error() -> None:
    kernel = replace(ring_kernel(), pipelines=())
    with pytest.raises(InternalError, match="ring0_empty is waited for and belongs to no pipeline"):
        watch_waits(kernel, LIMIT)


def test_only_watched_kernels_have_the_text() -> None:
    kernel = ring_kernel()
    plain, watched = (
        cuda_text(kernel, H200),
        cuda_text(watch_waits(kernel, LIMIT), H200),
    )
    assert "watchdog" not in plain
    assert "globaltimer" not in plain
    assert watched.count("__device__ ws_watchdog_record* ws_watchdog;") == 1
    body = watched[watched.index('extern "C"') :]
    for number in range(len(awaits(kernel))):
        assert f", {number}, " in body
    assert body.count(f", {LIMIT}ull);") == len(awaits(kernel))
