"""A dimension as tiles: values of any size and type, what fuses with it, and its text."""

from typing import Any

import numpy as np
import pytest

from tests.support.rebuilding import rebuilt
from warpsmith import DataType, FusionDefinition, fuse, knobs, ops
from warpsmith.errors import DefinitionError


def in_tiles(x: np.ndarray, dim: int, size: int) -> np.ndarray:
    ends = [(0, -n % size if d == dim else 0) for d, n in enumerate(x.shape)]
    filled = np.pad(x, ends)
    return filled.reshape(*x.shape[:dim], -1, size, *x.shape[dim + 1 :])


@pytest.mark.parametrize("device", ["sim", "reference"])
@pytest.mark.parametrize(("dim", "size"), [(0, 4), (1, 8), (1, 64), (2, 3)])
def test_zeros_past_the_end(dim: int, size: int, device: str) -> None:
    x = np.random.default_rng().standard_normal((5, 30, 7)).astype(np.float32)
    with knobs.scope(device=device):
        found = fuse(lambda x: ops.tiles(x, dim, size) * 2)(x)
        total = fuse(lambda x: ops.sum(ops.exp(ops.tiles(x, dim, size)), [dim + 1]))(x)
    np.testing.assert_array_equal(found, 2 * in_tiles(x, dim, size))
    np.testing.assert_allclose(total, np.exp(in_tiles(x, dim, size)).sum(dim + 1), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.bool_], ids=lambda d: d.__name__)
def test_other_types(dtype: Any) -> None:
    x = np.random.default_rng().integers(0, 2, (3, 10)).astype(dtype)
    with knobs.scope(device="sim"):
        found = fuse(lambda x: ops.tiles(x, 1, 4))(x)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, in_tiles(x, 1, 4))


def test_its_text_defines_it_again() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        fd.add_output(fd.ops.tiles(x, 1, 4))
    again = rebuilt(str(fd))
    given = np.arange(18, dtype=np.float32).reshape(3, 6)
    with knobs.scope(device="reference"):
        (first,), (second,) = fd.execute([given]), again.execute([given])
    np.testing.assert_array_equal(first, in_tiles(given, 1, 4))
    np.testing.assert_array_equal(second, in_tiles(given, 1, 4))


def test_refusals() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 1], True, DataType.Float)
        with pytest.raises(DefinitionError, match="WS0139.*no tiles of 1"):
            fd.ops.tiles(x, 0, 1)
        with pytest.raises(DefinitionError, match="WS0139.*dimension 1"):
            fd.ops.tiles(x, 1, 4)
