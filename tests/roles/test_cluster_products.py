"""Blocks of a cluster that load for each other, by public primitives: right and clean."""

from typing import Any

import numpy as np
import pytest

from tests.support.cluster_products import cluster_product, rows_plus_row, two_rows
from tests.support.lowering import lowered
from tests.support.matmuls import check, operands
from warpsmith import FusionDefinition, knobs
from warpsmith.kernel.pipelines import Pipeline
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.traversal import walk


def sharing(fd: FusionDefinition) -> dict[str, tuple[tuple[int, ...], ...]]:
    """By the names of tensors in stages, which blocks load for each other."""
    kernel = lowered(fd)
    return {c.name: c.sharing for pipeline in kernel.pipelines for c in pipeline.contents}


def clean(fd: FusionDefinition, *inputs: Any) -> np.ndarray:
    with knobs.scope(device="sim"):
        (result,) = fd.manual_execute([*inputs])
    verification = fd.verify([*inputs], schedules=2)
    assert verification.verdict == "clean", str(verification)
    return np.asarray(result)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("cluster", "sizes"),
    [
        ((2, 1), (128, 64, 256)),
        ((2, 1), (300, 130, 72)),  # some blocks of the last clusters have nothing to do
        ((1, 2), (70, 200, 136)),
        ((4, 1), (40, 100, 72)),  # of four blocks, three
        ((2, 2), (150, 80, 136)),
    ],
)
def test_products_whose_operands_come_by_multicast(
    cluster: tuple[int, int], sizes: tuple[int, int, int]
) -> None:
    fd = cluster_product(cluster)
    x, weight = operands(*sizes, seed=1)
    check(clean(fd, x, weight), x, weight)


def test_two_warp_groups_a_block() -> None:
    fd = cluster_product((2, 1), tile=(128, 128, 64))
    x, weight = operands(256, 128, 136, seed=1)
    check(clean(fd, x, weight), x, weight)


@pytest.mark.parametrize("cluster", [(2, 1), (2, 2)])
def test_warps_that_load_for_themselves_and_for_others(cluster: tuple[int, int]) -> None:
    fd = cluster_product(cluster, role=None)
    x, weight = operands(200, 136, 264, seed=1)
    check(clean(fd, x, weight), x, weight)
    assert "by multicast to 2 blocks" in fd.explain()


@pytest.mark.parametrize("cluster", [(2, 1), (2, 2)])
def test_groups_that_take_turns(cluster: tuple[int, int]) -> None:
    fd = cluster_product(cluster, ping_pong=True)
    x, weight = operands(200, 136, 136, seed=1)
    check(clean(fd, x, weight), x, weight)


@pytest.mark.parametrize("band", [2, 3])
def test_tiles_of_a_cluster_that_are_not_a_box(band: int) -> None:
    """The block of rank 0 may have nothing to do where that of rank 1 has: four rows of tiles in
    bands of three."""
    fd = cluster_product((2, 1), band=band, grid=1)
    x, weight = operands(4 * 64, 3 * 64, 72, seed=1)
    check(clean(fd, x, weight), x, weight)


def test_more_blocks_of_a_cluster_than_tiles_to_loop_over() -> None:
    fd = cluster_product((1, 2), grid=3)
    x, weight = operands(0, 64, 64, seed=1)
    with knobs.scope(device="sim"):
        (result,) = fd.manual_execute([x, weight])
    assert np.asarray(result).shape == (0, 64)


def test_nothing_to_sum() -> None:
    x, weight = operands(128, 64, 0, seed=1)
    assert not clean(cluster_product((2, 1)), x, weight).astype(np.float32).any()


def test_who_loads_for_whom_follows_from_the_loops() -> None:
    a, b = "T5", "T6"
    both = ((0, 1),)
    assert sharing(cluster_product((1, 1))) == {a: (), b: ()}
    assert sharing(cluster_product((2, 1))) == {a: (), b: both}
    assert sharing(cluster_product((1, 2))) == {a: both, b: ()}
    assert sharing(cluster_product((2, 2))) == {a: ((0, 1), (2, 3)), b: ((0, 2), (1, 3))}


def test_a_stage_waits_for_all_that_it_is_loaded_into() -> None:
    kernel = lowered(cluster_product((2, 2)).fusion)
    (pipeline,) = kernel.pipelines
    assert isinstance(pipeline, Pipeline)
    assert pipeline.peers == ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))
    copies = [s for s in walk(kernel.body) if isinstance(s, TileCopy)]
    assert [[dim.box for dim in copy.dims] for copy in copies] == [[32, 64], [32, 64]]


def test_a_tile_that_cannot_be_cut_is_loaded_by_each_block() -> None:
    """Eight blocks would load eight rows each of 64, and sixteen four."""
    assert sharing(cluster_product((8, 1)))["T6"] == (tuple(range(8)),)
    assert sharing(cluster_product((16, 1)))["T6"] == ()


@pytest.mark.few(1)
@pytest.mark.parametrize("stored_by_role", [False, True])
@pytest.mark.parametrize(("blocks", "rows"), [(2, 20), (4, 36)])
def test_a_row_for_all_blocks_that_threads_read(
    blocks: int, rows: int, stored_by_role: bool
) -> None:
    fd = rows_plus_row(blocks, stored_by_role=stored_by_role)
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype(np.float32) for s in ((rows, 300), (300,)))
    np.testing.assert_allclose(clean(fd, x, w), x + w)
    assert f"T5 by multicast to {blocks} blocks" in fd.explain()


@pytest.mark.few(2)
@pytest.mark.parametrize(("stages", "once"), [(1, True), (1, False), (3, False)])
def test_a_row_for_all_blocks_in_one_role(stages: int, once: bool) -> None:
    fd = rows_plus_row(2, role=None, stages=stages, once=once)
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype(np.float32) for s in ((20, 700), (700,)))
    np.testing.assert_allclose(clean(fd, x, w), x + w)
    assert "T5 by multicast to 2 blocks" in fd.explain()


def test_stages_that_other_blocks_fill_lie_apart() -> None:
    """A block that is in its second loop would fill what another still reads in its first."""
    alone, together = (lowered(two_rows(n)).offsets for n in (1, 2))
    assert alone
    assert not together
    random = np.random.default_rng(0)
    v, w = (random.standard_normal(700).astype(np.float32) for _ in range(2))
    x, y = (random.standard_normal((20, 700)).astype(np.float32) for _ in range(2))
    fd = two_rows()
    with knobs.scope(device="sim"):
        added, multiplied = fd.manual_execute([v, w, x, y])
    np.testing.assert_allclose(added, x + v)
    np.testing.assert_allclose(multiplied, y * w)
    assert fd.verify([v, w, x, y], schedules=2).verdict == "clean"


def test_what_the_tma_unit_cannot_copy_each_block_copies_for_itself() -> None:
    """Rows of 149 elements begin at no multiples of 16 bytes; the one row for all does."""
    fd = rows_plus_row(2)
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype(np.float32) for s in ((20, 149), (149,)))
    np.testing.assert_allclose(clean(fd, x, w), x + w)
    assert "T4 is copied by the threads" in fd.explain()
    assert "T5 by multicast to 2 blocks" in fd.explain()
