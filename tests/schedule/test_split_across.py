"""Rows divided in pieces that begin at multiples of their size in memory."""

import numpy as np
import pytest

from tests.support.launching import clean_result
from tests.support.tiling import text_of
from warpsmith import DataType, FusionDefinition, ParallelType
from warpsmith.errors import ScheduleError
from warpsmith.schedule.transforms import split_across

THREADS = 4


def scaled(vector: int, part: int = 0) -> FusionDefinition:
    """`exp(x) * weight` of rows, in vectors of memory, and of the weight from anywhere; of parts of
    rows, where a block has one after the other.
    """
    with FusionDefinition() as fd:
        x, weight = fd.define_tensor([-1, -1], True), fd.define_tensor([-1], True)
        y = fd.ops.mul(fd.ops.exp(x), fd.ops.broadcast(weight, [True, False]))
        fd.add_output(y)
        loaded, shared = x.cache_after(), weight.cache_after()
        y.cache_before()
        copies = [y, loaded, shared]
        split_across(y, 1, part or vector, 0, grain=vector)
        if part:
            y.split(2, vector)
        else:
            y.split(1, THREADS)
        y.axis(0).parallelize(ParallelType.grid_x)
        fd.sched.transform_like(y)
        y.axis(2).parallelize(ParallelType.block_x)
        fd.sched.parallelize_like(y)
        for tensor in copies:
            tensor.axis(-1).parallelize(ParallelType.vectorize)
        fd.sched.inline_most()
    return fd


@pytest.mark.few(3)
@pytest.mark.parametrize("part", [0, THREADS * 4])
@pytest.mark.parametrize("rows", [1, 2, 3, 9])
@pytest.mark.parametrize("columns", [1, 3, 4, 17, 37, 38, 39, 40, 64])
def test_each_element_once(rows: int, columns: int, part: int) -> None:
    """Wherever rows begin: their ends are stored one by one, and what is between in vectors. Parts
    of four vectors each may begin before their row.
    """
    random = np.random.default_rng(columns)
    x = random.standard_normal((rows, columns)).astype(np.float32)
    weight = random.standard_normal(columns).astype(np.float32)
    fd = scaled(4, part)
    found = clean_result(fd, [x, weight])
    np.testing.assert_allclose(found, np.exp(x) * weight, rtol=1e-5)
    assert "ws_load_anywhere<float, 4" in text_of(fd)


@pytest.mark.few(2)
@pytest.mark.parametrize("columns", [1, 3, 37, 38, 40])
def test_rows_that_two_axes_count(columns: int) -> None:
    """Rows of a plane lie one behind the other, and so do planes: a row begins behind both."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1, -1], True)
        y = fd.ops.exp(x)
        fd.add_output(y)
        loaded = x.cache_after()
        y.cache_before()
        split_across(y, 2, 4, 0, 1)
        y.split(2, THREADS)
        for position, kind in ((0, "grid_x"), (1, "grid_y"), (3, "block_x")):
            y.axis(position).parallelize(ParallelType[kind])
        fd.sched.transform_like(y)
        fd.sched.parallelize_like(y)
        for tensor in (y, loaded):
            tensor.axis(-1).parallelize(ParallelType.vectorize)
        fd.sched.inline_most()
    array = np.random.default_rng(columns).standard_normal((3, 5, columns)).astype(np.float32)
    found = clean_result(fd, [array])
    np.testing.assert_allclose(found, np.exp(array), rtol=1e-5)
    text = text_of(fd)
    assert "T0_size1 * T0_size2 * grid_x + T0_size2 * grid_y) % (unsigned int)4" in text


@pytest.mark.parametrize(
    ("factor", "rows", "grain"), [(0, (0,), 1), (4, (1,), 4), (6, (0,), 4), (4, (), 4)]
)
def test_what_is_no_such_split(factor: int, rows: tuple[int, ...], grain: int) -> None:
    with FusionDefinition() as fd:
        y = fd.ops.exp(fd.define_tensor([-1, -1], True, DataType.Half))
        fd.add_output(y)
        with pytest.raises(ScheduleError, match="WS0383"):
            split_across(y, 1, factor, *rows, grain=grain)
