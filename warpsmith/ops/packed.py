"""Values of less than a byte, several of them in one."""

from __future__ import annotations

from warpsmith.errors import DefinitionError
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.broadcasting import add_axes
from warpsmith.ops.elementwise import tensor_of
from warpsmith.ops.factories import iota
from warpsmith.ops.promotion import cast_tensor
from warpsmith.ops.reshape import reshape
from warpsmith.ops.shape import broadcast
from warpsmith.ops.values import as_tensor, dimension

BITS = 4
"""Of a value."""


def unpack_int4(packed: TensorView, dim: int = -1, signed: bool = True) -> TensorView:
    """The values of 4 bits that lie two in a byte along a dimension, in Int8: of `[n, k / 2]`
    values `[n, k]`.

    The lower half of a byte is the first of its two values, the upper half the next one. They are
    from -8 to 7, or from 0 to 15 if not `signed`.

    Raises:
        DefinitionError: WS0195 for a tensor of other elements than integers of a byte.
    """
    tensor = as_tensor(packed, "unpack_int4")
    if not tensor.dtype.is_byte:
        raise DefinitionError(
            f"unpack_int4 got {tensor.name} of {tensor.dtype.name}, and values of 4 bits lie two "
            "in a UInt8 or an Int8",
            code="WS0195",
            remedy="view the bytes as such before the call: in PyTorch `packed.view(torch.uint8)`",
        )
    place = dimension(tensor, dim, "unpack_int4") + 1
    values = bits_along(tensor, place, 0, BITS, signed)
    shape = [axis.extent for axis in tensor.shape_axes]
    shape[place - 1] = integers.mul(shape[place - 1], 8 // BITS)
    return reshape(cast_tensor(values, DataType.Int8), shape)


def bits_along(tensor: TensorView, place: int, first: int, step: int, signed: bool) -> TensorView:
    """Two values of 4 bits of each byte along a new dimension, in Int32: the first begins at bit
    `first`, the other one `step` bits above it.
    """
    wide = tensor.rank + 1
    bytes_ = broadcast(tensor, [d == place for d in range(wide)])
    fusion = Fusion.of(tensor)
    begins = iota(8 // BITS, first, step, dtype=DataType.Int32, fusion=fusion)
    below = add_axes(begins, [d != place for d in range(wide)])
    if signed:
        top = DataType.Int32.size * 8 - BITS
        raised = tensor_of("bitwise_left_shift", bytes_, tensor_of("sub", top, below))
        return tensor_of("bitwise_right_shift", raised, top)
    return tensor_of("bitwise_and", tensor_of("bitwise_right_shift", bytes_, below), 15)
