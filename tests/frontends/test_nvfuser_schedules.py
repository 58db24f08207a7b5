"""Schedules by hand in nvFuser's words, and its schedulers."""

import pytest
import torch

from tests.support.nvfuser_schedules import centred, transposed
from warpsmith.frontends import nvfuser_direct as nvfuser
from warpsmith.frontends.nvfuser_direct import FusionDefinition, ParallelType


def test_a_schedule_by_hand() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = fd.ops.exp(x)
        fd.add_output(y)
        cache = x.cache_after()
        y.split(0, 32)
        fd.sched.transform_like(y)
        y.axis(0).parallelize(ParallelType.grid_x)
        y.axis(1).parallelize(ParallelType.block_x)
        fd.sched.parallelize_like(y)
        fd.sched.inline_most()
        with pytest.raises(RuntimeError, match="WS02"):
            y.split(5, 2)
    assert "blockIdx.x" in str(cache)
    assert "grid_x * 32 + block_x" in fd.fusion.print_kernel()
    given = torch.randn(100)
    (found,) = fd.manual_validate([given])
    torch.testing.assert_close(found, given.exp())
    with pytest.raises(AssertionError, match="KernelExecutor already exists"):
        fd.execute([given])


def test_a_result_that_is_reduced_by_hand() -> None:
    """nvFuser reduces as it stores; here a copy of what was reduced is stored."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        y = fd.ops.sum(x, [1])
        fd.add_output(y)
        y.axis(0).parallelize(ParallelType.grid_x)
        y.axis(1).parallelize(ParallelType.block_x)
    assert "__global__" in fd.fusion.print_kernel()
    given = torch.randn(5, 64)
    for _ in range(2):
        (found,) = fd.manual_execute([given])
        torch.testing.assert_close(found, given.sum(1))


def test_a_copy_by_tma_that_threads_are_to_ask_for() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], [True])
        y = fd.ops.set(x)
        fd.add_output(y)
        tile = x.cache_after(nvfuser.LoadStoreOpType.tma)
        tile.set_memory_type(nvfuser.MemoryType.shared)
        for each in (tile, y):
            each.split(0, 64).split(0, 2)
            each.axis(0).parallelize(ParallelType.grid_x)
        tile.axis(1).parallelize(ParallelType.block_x)
        tile.axis(2).parallelize(ParallelType.tma)
        y.axis(2).parallelize(ParallelType.block_x)
    given = torch.randn(300)
    (found,) = fd.manual_execute([given])
    assert torch.equal(found, given)


def test_a_store_by_tma_around_other_loops() -> None:
    """Loops are bound in the order of the tile; TMA copies the two of 8 elements at once."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [True, True])
        y = fd.ops.set(x)
        fd.add_output(y)
        tile = y.cache_before(nvfuser.LoadStoreOpType.tma)
        tile.set_memory_type(nvfuser.MemoryType.shared)
        for each in (tile, y):
            each.split(1, 8).split(0, 8)
        tile.reorder({1: 2})
        tile.set_allocation_domain(tile.get_loop_domain(), True)
        tile.merge(-2, -1)
        kinds = (ParallelType.grid_x, ParallelType.grid_y, ParallelType.block_x)
        for axis, kind in enumerate(kinds):
            tile.axis(axis).parallelize(kind)
        for axis, kind in enumerate((kinds[0], ParallelType.tma, kinds[1], ParallelType.tma)):
            y.axis(axis).parallelize(kind)
    assert "__global__" in fd.fusion.print_kernel()
    given = torch.randn(20, 24)
    (found,) = fd.manual_execute([given])
    assert found.equal(given)


def test_schedulers_are_asked() -> None:
    given = [torch.randn(8, 64)]
    with FusionDefinition() as fd:
        x = fd.from_pytorch(given[0])
        fd.add_output(fd.ops.sum(fd.ops.exp(x), [1]))
        kinds = nvfuser.SchedulerType
        assert fd.sched.find_compatible_schedulers(fd.fusion, given) == [kinds.reduction]
        can, why = fd.sched.can_schedule(fd.fusion, kinds.pointwise, given)
        assert not can
        assert why == "Scheduler _pointwise_ ***rejected*** because : cannot find reference tensor"
        with pytest.raises(RuntimeError, match="Could not schedule fusion with the SchedulerType"):
            fd.sched.compute_heuristics(fd.fusion, kinds.matmul, given)
        chosen = fd.sched.schedule(fd.fusion, kinds.reduction, given)
    (found,) = fd.manual_execute(given, chosen)
    torch.testing.assert_close(found, given[0].exp().sum(1))
    assert "reduction" in repr(chosen)
    assert isinstance(chosen, nvfuser.ReductionParams)


def test_parameters_are_plain_values() -> None:
    given = [torch.randn(64, 64)]
    with FusionDefinition() as fd:
        x = fd.from_pytorch(given[0])
        fd.add_output(fd.ops.exp(x))
        chosen = fd.sched.compute_heuristics(fd.fusion, nvfuser.SchedulerType.pointwise, given)
        assert isinstance(chosen, nvfuser.PointwiseParams)
        assert chosen.vectorization_factor == chosen.chosen[0].vector > 1
        chosen.vectorization_factor = 1  # changes nothing
        fd.sched.schedule(fd.fusion, nvfuser.SchedulerType.pointwise, chosen)
    torch.testing.assert_close(fd.manual_execute(given, chosen), [given[0].exp()])
    product = nvfuser.MatmulParams()
    product.tile_sizes.cta_tile = nvfuser.GemmTile(128, 256, 64)
    assert nvfuser.MatmulParams().tile_sizes.cta_tile == nvfuser.GemmTile(128, 128, 32)
    assert product.cluster_dims == nvfuser.ClusterDims(1, 1)


def test_rows_that_are_reduced_over_the_grid() -> None:
    """Blocks of a grid meet once: other blocks reduce other rows."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1])
        y = fd.ops.sum(x, [1])
        fd.add_output(y)
        y.axis(1).parallelize(ParallelType.grid_x)
    given = torch.randn(3, 40)
    (found,) = fd.manual_execute([given])
    torch.testing.assert_close(found, given.sum(1))


def test_a_mean_is_the_reference_of_its_row() -> None:
    """It has one element of a row, and is divided as the row is to be."""
    with FusionDefinition() as fd:
        before = centred(fd, 4)
    assert len(before.get_loop_domain()) == 4
    given = torch.randn(3, 40)
    (found,) = fd.manual_execute([given])
    torch.testing.assert_close(found, given.mean(1, keepdim=True) - given)
    (found,) = fd.manual_execute([given[:2]])
    with pytest.raises(RuntimeError, match=r"WS03.*\b40\b"):
        fd.manual_execute([torch.randn(3, 44)])


def test_a_transposition_without_conflicts_of_banks() -> None:
    """Loops go backward as far as they are asked to; what was bound stays bound."""
    given = torch.randn(40, 68)
    for swizzled in (False, True):
        with FusionDefinition() as fd:
            tensors = transposed(fd, swizzled)
        assert [len(each.get_loop_domain()) for each in tensors] == [5, 3, 3]
        assert all("blockIdx.x" in str(each.axis(0)) for each in tensors)
        assert "threadIdx.x" in str(tensors[1].axis(1))
        assert (" ^ " in fd.fusion.print_kernel().split("__global__")[1]) is swizzled
        (found,) = fd.manual_execute([given])
        assert torch.equal(found, given.T)


@pytest.mark.parametrize(
    ("sizes", "loops", "takes"),
    [
        ((8, 8, 4), (0, 1), True),  # rows of 128 bytes
        ((4, 2, 4, 4), (0, 2), True),  # of 64
        ((2, 4, 2, 4), (0, 2), True),  # of 32
        ((8, 8, 4), (1, 0), False),  # the inner one tells by how much
        ((8, 4, 4), (0, 1), False),
        ((8, 8, 8), (0, 1), False),
        ((4, 4, 2, 4), (0, 2), False),
    ],
)
def test_which_loops_are_a_swizzle(
    sizes: tuple[int, ...], loops: tuple[int, int], takes: bool
) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(list(sizes))
        fd.add_output(fd.ops.neg(x))
        tile = x.cache_after()
        tile.set_memory_type(nvfuser.MemoryType.shared)
        if takes:
            assert tile.swizzle(*loops) is tile
            assert tile.value.swizzle == 16 * sizes[loops[1]]
            return
        with pytest.raises(NotImplementedError, match="in lines of 128"):
            tile.swizzle(*loops)
