"""Axes by nvFuser's names: what makes them, and which ones are one iteration."""

from typing import Any

import pytest
import torch

from warpsmith.frontends import nvfuser_direct as nvfuser
from warpsmith.frontends.nvfuser_direct import FusionDefinition, IdMappingMode, Merge, Split


def _reshaped(fd: FusionDefinition, shape: list[int], into: list[int]) -> Any:
    made = fd.ops.reshape(fd.define_tensor(shape), into)
    fd.add_output(made)
    return made


def test_a_reshape_without_dimensions_of_one_element() -> None:
    """These are squeezed before it, and come back behind."""
    with FusionDefinition() as fd:
        result = _reshaped(fd, [1, 2, 3], [3, 2, 1])
    back = result.definition()
    assert type(back) is nvfuser.BroadcastOp
    between = back.input(0).definition()
    assert type(between) is nvfuser.ReshapeOp
    assert type(between.input(0).definition()) is nvfuser.SqueezeOp
    assert type(fd.ops.neg(result).definition()) is nvfuser.Expr


def test_what_a_reshape_makes_axes_of() -> None:
    with FusionDefinition() as fd:
        result = _reshaped(fd, [2, 3], [3, 2])
    rows, columns = result.get_logical_domain()
    divided = rows.definition()
    assert type(divided) is Split
    assert (divided.outer(), divided.inner()) == (rows, columns)
    joined = divided.input(0).definition()
    assert type(joined) is Merge
    assert [joined.outer(), joined.inner()] == result.get_root_domain()
    assert joined.outer().definition() is None
    assert joined.outer().uses()[0].output(0) == divided.input(0)


def test_loops_of_another_tensor_are_made_of_its_own_axes() -> None:
    """A reshape's input has the reshape's loops: what makes them goes back to its own axes."""
    with FusionDefinition() as fd:
        x = fd.ops.neg(fd.define_tensor([2, 3]))
        y = fd.ops.reshape(x, [3, 2])
        fd.add_output(y)
        y.merge(0, 1).split(0, 4)
        fd.sched.transform_like(y)
    outer, inner = x.get_loop_domain()
    divided = outer.definition()
    assert type(divided) is Split
    assert (divided.outer(), divided.inner()) == (outer, inner)
    joined = divided.input(0).definition()
    assert type(joined) is Merge
    before = joined.outer().definition()
    assert type(before) is Split
    assert (before.outer(), before.inner()) == (joined.outer(), joined.inner())
    first = before.input(0).definition()
    assert type(first) is Merge
    assert [first.outer(), first.inner()] == x.get_logical_domain()
    assert not x.has_root()


def test_which_axes_are_one() -> None:
    """Equal reshapes of different inputs are, once somebody says that the inputs are."""
    with FusionDefinition() as fd:
        y, z = (_reshaped(fd, [4, 6], [6, 4]) for _ in range(2))
    graph = nvfuser.idm.IdModel(fd.fusion).maybe_build_graph(IdMappingMode.exact)
    same = graph.disjoint_val_sets().strict_are_mapped
    first, second = fd.fusion.inputs()
    assert isinstance(first, nvfuser.TensorView)
    assert isinstance(second, nvfuser.TensorView)
    pairs = list(zip(first.get_logical_domain(), second.get_logical_domain(), strict=True))
    assert not any(same(a, b) for a, b in pairs)
    assert same(first.get_logical_domain()[0], y.get_root_domain()[0])
    graph.map_vals(*pairs[0])
    assert not same(y.get_logical_domain()[0], z.get_logical_domain()[0])
    graph.map_vals(*pairs[1])
    for a, b in zip(y.get_logical_domain(), z.get_logical_domain(), strict=True):
        assert same(a, b)
    assert "i[4]" in str(graph)


def test_axes_are_one_where_what_is_made_of_them_is() -> None:
    with FusionDefinition() as fd:
        y, z = (_reshaped(fd, [4, 6], [24]) for _ in range(2))
    graph = nvfuser.idm.IdModel(fd.fusion, build_graphs=True).maybe_build_graph(IdMappingMode.exact)
    graph.map_vals(y.get_logical_domain()[0], z.get_logical_domain()[0])
    for a, b in zip(y.get_root_domain(), z.get_root_domain(), strict=True):
        assert graph.disjoint_val_sets().strict_are_mapped(a, b)


def test_an_axis_of_one_element_is_the_one_that_it_meets_where_broadcasts_count() -> None:
    with FusionDefinition() as fd:
        x, row = fd.define_tensor([4, 6]), fd.define_tensor([1, 6])
        y = fd.ops.add(x, row)
        fd.add_output(y)
    model = nvfuser.idm.IdModel(fd.fusion)
    for mode, wanted in ((IdMappingMode.exact, False), (IdMappingMode.broadcast, True)):
        same = model.maybe_build_graph(mode).disjoint_val_sets().strict_are_mapped
        assert same(row.get_logical_domain()[0], y.get_logical_domain()[0]) is wanted
        assert same(row.get_logical_domain()[1], y.get_logical_domain()[1])
    with pytest.raises(NotImplementedError, match=r"WS0190.*IdMappingMode.loop.*use exact"):
        model.maybe_build_graph(IdMappingMode.loop)


def test_results_lie_in_memory_by_their_dimensions() -> None:
    """A dimension of which the parts lie apart lies where the inner one does."""
    given = torch.arange(60.0).reshape(2, 6, 5)
    for order, strides in (
        ([1, 0, 2, 3], (30, 5, 1)),  # parts of rows, around the first dimension
        ([3, 1, 2, 0], (1, 2, 12)),
    ):
        with FusionDefinition() as fd:
            y = fd.ops.neg(fd.define_tensor([-1, -1, -1], True))
            fd.add_output(y)
            y.outer_split(1, 2)
            loops = y.get_loop_domain()
            y.set_allocation_domain([loops[k] for k in order], True)
        (found,) = fd.execute([given])
        assert torch.equal(found, -given)
        assert found.stride() == strides


def test_inputs_lie_in_memory_by_their_dimensions() -> None:
    given = torch.randn(4, 6).T
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], False)
        fd.add_output(fd.ops.neg(x))
        rows, columns = x.get_loop_domain()
        x.set_allocation_domain([columns, rows], True)
    assert x.value.contiguity == (True, True)
    (found,) = fd.execute([given])
    assert torch.equal(found, -given)
    with pytest.raises(RuntimeError, match="WS03.*contiguous"):
        fd.execute([given.contiguous()])
    x.outer_split(0, 2)
    outer, inner, columns = x.get_loop_domain()
    for axes in ([outer, columns, inner], [outer, inner]):
        with pytest.raises(NotImplementedError, match="WS0190.*whole dimensions"):
            x.set_allocation_domain(axes)
