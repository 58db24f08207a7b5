"""Values of 4 bits, two in a byte: their order, their signs, sizes of calls, refusals."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.support.rebuilding import rebuilt
from warpsmith import DataType, FusionDefinition, fuse, knobs, ops
from warpsmith.errors import DefinitionError

PACKED = torch.arange(-128, 128, dtype=torch.int16).to(torch.int8)  # every byte once


def halves(packed: np.ndarray, dim: int) -> np.ndarray:
    """Lower and upper halves in turn, from 0 to 15."""
    wide = np.repeat(packed.view(np.uint8).astype(int), 2, axis=dim)
    place = np.arange(wide.shape[dim]).reshape([-1 if d == dim else 1 for d in range(wide.ndim)])
    return np.where(place % 2, wide // 16, wide % 16)


@pytest.mark.few(6)
@pytest.mark.parametrize("device", ["sim", "reference"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
@pytest.mark.parametrize(("shape", "dim"), [((8, 32), 1), ((4, 16, 4), 0), ((4, 64), -1)])
def test_the_lower_half_is_first(
    shape: tuple[int, ...], dim: int, dtype: torch.dtype, device: str
) -> None:
    packed = PACKED.view(dtype).reshape(shape)

    def both(x: Any) -> Any:
        return ops.unpack_int4(x, dim), ops.unpack_int4(x, dim, signed=False)

    with knobs.scope(device=device):
        signed, unsigned = fuse(both)(packed)
    wanted = halves(packed.numpy(), dim % len(shape))
    assert signed.dtype is unsigned.dtype is torch.int8
    np.testing.assert_array_equal(unsigned.numpy(), wanted)
    np.testing.assert_array_equal(signed.numpy(), wanted - 16 * (wanted > 7))


def test_sizes_come_with_calls_and_text_defines_it_again() -> None:
    with FusionDefinition() as fd:
        one = fd.define_tensor([-1, 1], True, DataType.Int8)
        more = fd.define_tensor([-1, -1], True, DataType.Int8)
        fd.add_output(fd.ops.unpack_int4(one) + fd.ops.unpack_int4(more))
    again = rebuilt(str(fd))
    given = np.array([[0x21], [0x7F]], np.int8), np.array([[0x10], [-1]], np.int8)  # 0x..FF
    with knobs.scope(device="reference"):
        for definition in (fd, again):
            (result,) = definition.execute(list(given))
            np.testing.assert_array_equal(result, [[1, 3], [-2, 6]])


def test_what_is_computed_is_unpacked_too() -> None:
    def program(x: Any) -> Any:
        wide: Any = ops.cast(ops.unpack_int4(~x), DataType.Float)
        return ops.sum(wide, [1])

    packed = PACKED.reshape(8, 32)
    with knobs.scope(device="sim"):
        result = fuse(program)(packed)
    wanted = halves(~packed.numpy(), 1)
    np.testing.assert_array_equal(result.numpy(), (wanted - 16 * (wanted > 7)).sum(1))


def test_other_types_are_refused() -> None:
    with pytest.raises(DefinitionError, match="WS0195.*T0 of Int32.*view the bytes as such"):
        fuse(lambda x: ops.unpack_int4(x))(PACKED.int())
    with pytest.raises(DefinitionError, match="unpack_int4.*dim"):
        fuse(lambda x: ops.unpack_int4(x, 1))(PACKED)
