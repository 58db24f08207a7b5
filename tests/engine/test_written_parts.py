"""Results that are written into one element of a dimension of an input, by the kernel itself."""

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.engine.bind import bind
from warpsmith.errors import ArgumentError, DefinitionError, SimulationError
from warpsmith.frontends.lowered import lower_call
from warpsmith.frontends.overlaps import refuse_overlaps
from warpsmith.kernel.nodes import CopyVector
from warpsmith.kernel.traversal import walk

SHAPE = 2, 3, 8, 16


def program(*, order: list[int] | None = None, batch: int = SHAPE[0]) -> FusionDefinition:
    """Twice x, written into a cache at a place, and x and one besides."""
    _, g, extent, d = SHAPE
    b = batch
    with FusionDefinition() as fd:
        x = fd.define_tensor([b, g, 1, d], True, DataType.BFloat16)
        cache = fd.define_tensor([b, g, extent, d], True, DataType.BFloat16, stride_order=order)
        place = fd.define_tensor([1], True, DataType.Int)
        doubled = fd.ops.cast(fd.ops.mul(x, 2.0), DataType.BFloat16)
        fd.add_output(doubled, cache, at=(2, place))
        fd.add_output(fd.ops.add(x, 1.0))
    return fd


def arguments(place: int) -> list[Any]:
    random = np.random.default_rng(0)
    b, g, _, d = SHAPE
    x, cache = (random.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((b, g, 1, d), SHAPE))
    return [x, cache, np.array([place])]


def expected(x: Any, cache: Any, place: Any) -> Any:
    written = cache.copy()
    written[:, :, int(place[0])] = (x[:, :, 0].astype(np.float32) * 2).astype(ml_dtypes.bfloat16)
    return written


@pytest.mark.parametrize("device", ["reference", "sim"])
@pytest.mark.parametrize("place", [0, 5, -1])
def test_nothing_but_the_part_is_written(device: str, place: int) -> None:
    given = arguments(place)
    wanted = expected(*given)
    with knobs.scope(device=device):
        (other,) = program().execute(given)
    np.testing.assert_array_equal(given[1], wanted)
    np.testing.assert_array_equal(other, (given[0].astype(np.float32) + 1).astype(other.dtype))


def test_a_cache_in_any_order_of_memory() -> None:
    x, cache, place = arguments(3)
    lying = np.asarray(cache.transpose(2, 0, 1, 3), order="C").transpose(1, 2, 0, 3)
    wanted = expected(x, lying, place)
    with knobs.scope(device="sim"):
        program(order=[2, 1, 3, 0]).execute([x, lying, place])
    np.testing.assert_array_equal(lying, wanted)


def test_the_part_is_held_against_its_meaning() -> None:
    given = arguments(7)
    before = given[1].copy()
    assert program().verify(given).verdict == "clean"
    np.testing.assert_array_equal(given[1], before)


def test_vectors_are_stored_where_strides_allow_them() -> None:
    kernel = lower_call(program().fusion, arguments(1)).compile(target="h200").kernels[0]
    (stored,) = [
        each
        for each in walk(kernel.kernel.body)
        if isinstance(each, CopyVector) and "place" in repr(each.target_index)
    ]
    assert stored.width * stored.target.dtype.size == 16


def test_an_element_that_is_not_there_ends_the_kernel() -> None:
    with knobs.scope(device="sim"), pytest.raises(SimulationError):
        program().execute(arguments(8))


def test_no_stride_of_a_batch_of_one_is_taken_for_a_tensor_without_elements() -> None:
    x, cache, place = arguments(2)
    binding = bind(program(batch=1).fusion, [x[:1], cache[:1], place])
    assert 0 not in binding.values.values()


def test_what_is_written_in_place_is_no_other_argument_too() -> None:
    x, cache, place = arguments(3)
    fd = program()
    inside = cache[:, :, ::-1][:, :, 3:4]
    kept = cache.copy()
    for call in (fd.execute, partial(refuse_overlaps, fd.fusion)):
        with knobs.scope(device="sim"), pytest.raises(ArgumentError, match="1 and 0 share memory"):
            call([inside, cache, place])
    np.testing.assert_array_equal(cache, kept)
    refuse_overlaps(fd.fusion, [x, cache, place])
    refuse_overlaps(fd.fusion, [cache[:, :, 1:2], cache[:, :, ::2], place])  # side by side


def test_what_cannot_be_a_part() -> None:
    b, g, _, d = SHAPE
    with FusionDefinition() as fd:
        x = fd.define_tensor([b, g, 1, d], True, DataType.BFloat16)
        cache = fd.define_tensor(list(SHAPE), True, DataType.BFloat16)
        two = fd.define_tensor([2], True, DataType.Int)
        real = fd.define_tensor([1], True, DataType.Float)
        one = fd.define_tensor([1], True, DataType.Int)
        y = fd.ops.neg(x)
        for at in ((2, two), (2, real), (3, one), (4, one)):
            with pytest.raises(DefinitionError, match="WS0103"):
                fd.add_output(y, cache, at=at)
        with pytest.raises(DefinitionError, match="WS0103"):
            fd.add_output(y, at=(2, one))
