"""Loops that a layout deals out, against where the layout says each element is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.layouts.test_layout import digits, every, packed
from warpsmith import FusionDefinition
from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import TensorView
from warpsmith.layouts.algebra import inverse
from warpsmith.layouts.fragments import left, sums
from warpsmith.layouts.layout import Layout, Place
from warpsmith.schedule.holding import hold_as


def copied(shape: tuple[int, ...]) -> TensorView:
    with FusionDefinition() as fd:
        out = fd.ops.neg(fd.define_tensor(list(shape), True))
        fd.add_output(out)
    return fd.fusion.outputs[0].value


def check(layout: Layout) -> None:
    """The loops' indices lead to the element that the layout's thread and register hold."""
    tensor = copied(layout.shape)
    hold_as(tensor, 0, layout)
    domains, back = DomainMap(tensor.fusion), inverse(layout)
    warps, lanes, _ = back.shape
    extents = [integers.constant(axis.extent) or 1 for axis in tensor.loop]
    threads = warps * lanes > 1
    for warp, lane, register in every(back.shape):
        left_over, own = register, []
        for extent in reversed(extents[threads:]):
            own.insert(0, left_over % extent)
            left_over //= extent
        indices = [lanes * warp + lane, *own] if threads else own
        known = {
            domains.group(axis): Const(index)
            for axis, index in zip(tensor.loop, indices, strict=True)
        }
        derivation = Derivation(domains, known)
        found = [
            integers.constant(derivation.index(domains.group(axis))) for axis in tensor.shape_axes
        ]
        element = back.at(warp, lane, register).get(Place.ELEMENT, 0)
        assert found == list(every(layout.shape)[element])


@pytest.mark.parametrize("layout", [sums(16, 8, 4), sums(8, 16), left(16, 16, 2)], ids=str)
def test_fragments_of_tensor_cores(layout: Layout) -> None:
    check(layout)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_any_layout_over_threads_and_registers(data: st.DataObject) -> None:
    layout = data.draw(packed(data.draw(digits())))
    if all(extent > 1 for extent in layout.shape):
        check(layout)
