"""Unrolled loops whose last passes alone are masked."""

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.test_full_passes import in_passes, row_sums
from tests.support.launching import check_scheduled, random_inputs
from warpsmith import FusionDefinition
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, For, If, Statement, Store, Synchronize
from warpsmith.lower.build import build
from warpsmith.lower.passes.mask_last_pass import mask_last_pass
from warpsmith.schedule.transforms import split
from warpsmith.targets.hopper import H200

LENGTH, THREADS = 150, 32
PASS = Symbol("p", low=0, extent=Const(5))
LANE = Symbol("block_x", low=0, extent=Const(THREADS))


def scheduled(length: int = LENGTH) -> Fusion:
    """`[rows grid_x, 1, unrolled passes, THREADS]` of rows whose length the kernel is made for."""
    p, total = row_sums()
    extent = p.fusion.inputs[0].root[1].extent
    p.fusion.divisors |= {(extent, length)}
    p.fusion.limits |= {(extent, length)}
    split(total, 1, length)
    split(total, 2, THREADS)
    return in_passes(p.fusion, total)


@pytest.mark.parametrize("length", [33, 64, 150, 161])
def test_every_element_is_met_once(length: int) -> None:
    inputs = random_inputs(row_sums()[0].fusion, {"T0": (3, length)})
    check_scheduled(scheduled(length), row_sums()[0].fusion, inputs, terms=length)


def inside(end: int = LENGTH) -> Expr:
    """Whether a pass of 32 lanes is within `end`."""
    place = integers.add(integers.mul(PASS, THREADS), LANE)
    return Apply("lt", (place, Const(end)), DataType.Bool)


def local(name: str) -> Buffer:
    return Buffer(name, DataType.Float, MemoryType.local, Const(5))


SUM, OWN = local("sum"), local("own")


def store(buffer: Buffer) -> Store:
    return Store(buffer, PASS, Const(1.0, DataType.Float))


def after(*body: Statement) -> tuple[Statement, ...]:
    kernel = build(scheduled(), "test", DataType.Int32, target=H200)
    loop = For(PASS, Const(5), body, unroll=True)
    return mask_last_pass(replace(kernel, body=(loop,), least=((Const(5), 5),))).body


def test_a_condition_of_an_inner_loop_stays_in_it() -> None:
    """Lifted out of it, it named what nothing defines there."""
    inner = Symbol("inner", low=0, extent=Const(2))
    index = integers.add(integers.mul(PASS, 2 * THREADS), integers.mul(LANE, 2), inner)
    mine = If(integers.less(index, 2 * LENGTH), (store(SUM),))
    *_, last = after(For(inner, Const(2), (mine,), unroll=True))
    assert isinstance(last, For)
    (kept,) = last.body
    assert isinstance(kept, For)
    assert isinstance(kept.body[0], If)


def test_kernels_for_any_size_stay_as_they_are() -> None:
    kernel = build(scheduled(), "test", DataType.Int32, target=H200)
    assert mask_last_pass(kernel) is kernel


def test_the_last_pass_is_masked_as_a_whole() -> None:
    full, last = after(Declare(OWN), store(OWN), If(inside(), (store(SUM),)))
    assert isinstance(full, For)
    assert isinstance(last, For)
    assert (full.extent, last.extent) == (Const(4), Const(1))
    assert full.body == (Declare(OWN), store(OWN), store(SUM))
    (whole,) = last.body
    assert isinstance(whole, If)
    assert len(whole.body) == 3
    assert not any(isinstance(s, If) for s in whole.body)


def test_what_others_see_is_not_skipped() -> None:
    """A write without the condition to what lives outside the pass stays without it."""
    _, last = after(store(SUM), If(inside(), (store(OWN),)))
    assert isinstance(last, For)
    assert [type(s) for s in last.body] == [Store, If]


def test_passes_that_none_of_a_row_is_for_are_masked_too() -> None:
    full, last = after(If(inside(70), (store(SUM),)))
    assert isinstance(full, For)
    assert isinstance(last, For)
    assert (full.extent, last.extent) == (Const(2), Const(3))


@pytest.mark.parametrize(
    "body", [(If(inside(), (store(SUM),)), Synchronize()), (store(SUM),), (If(inside(160), ()),)]
)
def test_loops_that_meet_or_are_all_full_stay(body: tuple[Statement, ...]) -> None:
    assert after(*body) == (For(PASS, Const(5), body, unroll=True),)


def test_a_kernel_without_such_loops_is_the_same() -> None:
    kernel: Kernel = build(scheduled(160), "test", DataType.Int32, target=H200)
    assert mask_last_pass(kernel).body == kernel.body


def test_a_size_that_divides_is_no_smaller_one() -> None:
    """Rows of 6 are no shorter than vectors of 4: of those is known which are below 3, of `i % 6`
    not."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([6, 6], True, DataType.Float, stride_order=[0, 1])
        b = fd.define_tensor([6], True, DataType.Float)
        y = fd.ops.add(x, fd.ops.broadcast(b, [True, False]))
        part = fd.ops.pad(fd.ops.slice(y, [1, 0], [3, 6], [1, 1]), [0, 0, 1, 3], 0.0)
        fd.add_output(fd.ops.stride_order(fd.ops.add(part, y), [0, 1]))
    given = [
        np.asfortranarray(np.arange(36, dtype=np.float32).reshape(6, 6)),
        np.ones(6, np.float32),
    ]
    (found,) = fd.execute(given)
    wanted = given[0] + given[1]
    wanted[1:3] *= 2
    np.testing.assert_array_equal(found, wanted)
