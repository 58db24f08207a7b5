"""Products by group are those of each group's rows and its own matrix."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.support.grouped import by_group, drawn
from warpsmith import FusionDefinition, fuse, ops
from warpsmith.errors import DefinitionError
from warpsmith.ir.dtypes import DataType
from warpsmith.knobs import scope

grouped = fuse(lambda x, w, sizes: ops.grouped_matmul(x, w, sizes))


@pytest.mark.parametrize(
    "ends", [[0, 3, 3, 9], [0, 0, 0, 0], [9, 9, 9, 9], [2, 4, 6, 7], [7, 2, 12, -3]]
)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_meaning(ends: list[int], kind: type) -> None:
    x, w = drawn(9, 5, 6, 4, np.float64)
    sizes = np.array(ends, kind)
    with scope(device="reference"):
        y = grouped(x, w, sizes)
    np.testing.assert_allclose(y, by_group(x, w, sizes), rtol=1e-12, atol=1e-12)


def test_rows_past_a_count_are_zero_whatever_they_hold() -> None:
    x, w = drawn(12, 5, 6, 3, np.float32)
    x = x.reshape(3, 4, 5)
    x[1, 2:] = np.nan
    counts = np.array([4, 2, 0])
    y = grouped(x, w, counts)  # on the simulator, where there is no GPU
    want = np.einsum("grk,gnk->grn", x, w, dtype=np.float64)
    for group, count in enumerate(counts):
        want[group, count:] = 0
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 8, 8, 3), (9, 1, 8, 3), (9, 8, 1, 3), (9, 8, 8, 1)])
def test_extents_that_are_1_by_definition(shape: tuple[int, int, int, int]) -> None:
    x, w = drawn(*shape, np.float32)
    ends = np.random.default_rng(1).integers(0, shape[0] + 1, shape[3])  # some decrease
    with FusionDefinition() as fd:
        types = DataType.Float, DataType.Float, DataType.Int
        given = (
            fd.define_tensor([n if n == 1 else -1 for n in array.shape], True, dtype)
            for array, dtype in zip((x, w, ends), types, strict=True)
        )
        fd.add_output(fd.ops.grouped_matmul(*given))
    (y,) = fd.execute([x, w, ends])
    np.testing.assert_allclose(y, by_group(x, w, ends), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shapes", "dtype", "said"),
    [
        (((9, 5), (3, 6, 5), (4,)), DataType.Int, "WS0144.*one number for each group"),
        (((9, 5), (3, 6, 4), (3,)), DataType.Int, "WS0144.*are summed"),
        (((9, 5), (6, 5), (3,)), DataType.Int, "WS0143.*T1 of 2 dimensions"),
        (((9, 5), (3, 6, 5), (3, 1)), DataType.Int, "WS0143.*T2 of 2 dimensions"),
        (((9, 5), (3, 6, 5), (3,)), DataType.Float, "WS0164.*cast them to Int32 or Int"),
        (((2, 9, 5), (3, 6, 5), (3,)), DataType.Int, "WS0144.*one number for each group"),
        (((9,), (3, 6, 5), (3,)), DataType.Int, "WS0143.*T0 of 1 dim"),
    ],
)
def test_refusals(shapes: Sequence[tuple[int, ...]], dtype: DataType, said: str) -> None:
    with FusionDefinition() as fd:
        types = DataType.Float, DataType.Float, dtype
        given: list[Any] = [
            fd.define_tensor(list(shape), True, each)
            for shape, each in zip(shapes, types, strict=True)
        ]
        with pytest.raises(DefinitionError, match=said):
            fd.ops.grouped_matmul(*given)
        fd.add_output(fd.ops.exp(given[0]))


def test_printed_again_it_is_the_same() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.BFloat16)
        w = fd.define_tensor([-1, -1, -1], True, DataType.BFloat16)
        ends = fd.define_tensor([-1], True, DataType.Int)
        fd.add_output(fd.ops.grouped_matmul(x, w, ends))
    assert "fd.ops.grouped_matmul(tv0, tv1, tv2" in str(fd)
