"""Bools that threads compute and keep in registers take a bit each."""

import numpy as np
import pytest

from tests.support.lowering import lowered
from warpsmith import FusionDefinition, knobs
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.nodes import Declare
from warpsmith.kernel.traversal import walk


def chosen(elements: int, *, cached: bool = False, stored: bool = False) -> FusionDefinition:
    """`x if x > y else y` for rows of so many elements, what is larger being known first.

    Args:
        cached: it is copied once in registers.
        stored: it is an output as well.
    """
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1, elements], True, DataType.Float) for _ in range(2))
        larger = fd.ops.gt(x, y)
        kept = fd.ops.set(larger) if cached else larger
        out = fd.ops.where(kept, x, y)
        fd.add_output(out)
        if stored:
            fd.add_output(fd.ops.set(larger))
        fd.sched.inline_at(out, 1)
    return fd


def packed(fd: FusionDefinition) -> list[object]:
    kernel = lowered(fd)
    return [s.buffer.size for s in walk(kernel.body) if isinstance(s, Declare) and s.buffer.packed]


@pytest.mark.few(8)
@pytest.mark.parametrize("elements", [2, 31, 32, 33, 64, 65, 200])
@pytest.mark.parametrize("rows", [1, 3])
def test_each_element_has_its_bit(elements: int, rows: int) -> None:
    """Loops of up to 64 elements are unrolled; others find the bit at run time."""
    x, y = np.random.default_rng(elements).standard_normal((2, rows, elements)).astype(np.float32)
    fd = chosen(elements)
    (size,) = packed(fd)
    assert repr(size) == str(elements)
    with knobs.scope(device="sim"):
        (found,) = fd.manual_execute([x, y])
    np.testing.assert_array_equal(found, np.maximum(x, y))


def test_one_bool_is_no_array() -> None:
    assert packed(chosen(1)) == []


@pytest.mark.parametrize("how", ["cached", "stored"])
def test_what_vectors_may_move_has_a_byte_each(how: str) -> None:
    assert packed(chosen(32, **{how: True})) == []
