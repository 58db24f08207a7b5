"""Stacks of both halves of bytes: values of 4 bits, as torch's users unpack them."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Move, Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.reads import Read
from warpsmith.ir.scalar import Apply, Const
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.ops.packed import BITS, bits_along
from warpsmith.values import dataclass

EXACT = (DataType.Half, DataType.BFloat16, DataType.Float, DataType.Double)
"""Floats that hold all whole numbers of a byte."""

OPERATIONS = ("cast", "set", "bitwise_and", "bitwise_left_shift", "bitwise_right_shift")


@dataclass(frozen=True, slots=True)
class Bits:
    """Neighbouring bits of a tensor's bytes as a number: `width` of them from bit `low` on, moved
    up by `raised`; the highest one has the number's sign if `signed`.
    """

    source: TensorView
    low: int = 0
    width: int = 8
    signed: bool = True
    raised: int = 0

    def in_type(self, dtype: DataType) -> Bits | None:
        """What is left of the number in an integer type; None for no bit of it, or for copies of
        its sign in a type that has none.
        """
        size, end = dtype.bits, self.raised + self.width
        if self.raised >= size or (self.signed and end < size and not dtype.is_signed):
            return None
        if end < size or (end == size and self.signed is dtype.is_signed):
            return self
        return replace(self, width=size - self.raised, signed=dtype.is_signed)


def unpack_in_place_of_stack(fusion: Fusion, stack: Read) -> bool:
    """Put shifts by numbers along the new dimension for a stack of both halves of the bytes of one
    tensor, in either order; whether it is such.
    """
    if stack.kind != "cat" or len(stack.parts) != 2 or not isinstance(stack.arguments[0], int):
        return False
    place, output = stack.arguments[0], stack.output
    halves = [_bits(_before_stack(part.source, place)) for part in stack.parts]
    first, second = halves
    if first is None or second is None or {first.low, second.low} != {0, BITS}:
        return False
    if replace(first, low=0) != replace(second, low=0) or (first.width, first.raised) != (BITS, 0):
        return False
    with fusion.placed_before(stack):
        step = second.low - first.low
        values = bits_along(first.source, place, first.low, step, first.signed)
    fusion.replace(stack, Pointwise("cast", (values,), output))
    return True


def _before_stack(tensor: TensorView, place: int) -> TensorView | None:
    """What a tensor is with a dimension of 1 at a place."""
    move = tensor.definition
    if not isinstance(move, Move) or move.kind not in ("broadcast", "broadcast_in_dim"):
        return None
    kept = list(range(len(move.source.shape_axes)))
    return move.source if list(move.origin) == [*kept[:place], None, *kept[place:]] else None


def _bits(value: Value | None) -> Bits | None:
    """The bits of a tensor of bytes that a value is; None where it is something else."""
    if not isinstance(value, TensorView):
        return None
    made = value.definition
    if isinstance(made, Pointwise) and made.op in OPERATIONS:
        bits, number = _bits(made.inputs[0]), _number(made.inputs[-1])
        found = None if bits is None else _of(made, bits, number)
        if found is not None:
            return found
    return Bits(value, signed=value.dtype.is_signed) if value.dtype.is_byte else None


def _of(made: Pointwise, bits: Bits, number: int | None) -> Bits | None:
    """The bits that an operation makes of bits, and of a number that stands beside them."""
    dtype = made.output.dtype
    if made.op in ("cast", "set"):
        if dtype.is_int:
            return bits.in_type(dtype)
        return bits if dtype in EXACT and bits.raised == 0 else None
    if number is None or not dtype.is_int:
        return None
    if made.op == "bitwise_and":
        inside = bits.raised == 0 and number == 2**BITS - 1
        return replace(bits, width=BITS, signed=False) if inside and bits.width >= BITS else None
    if made.op == "bitwise_left_shift" and 0 <= number < dtype.bits - bits.raised:
        return replace(bits, raised=bits.raised + number).in_type(dtype)
    if made.op == "bitwise_right_shift" and 0 <= number < bits.raised + bits.width:
        lost = max(0, number - bits.raised)
        low, width = bits.low + lost, bits.width - lost
        return replace(bits, low=low, width=width, raised=max(0, bits.raised - number))
    return None


def _number(value: Value) -> int | None:
    """A whole number that a constant is, in whatever type."""
    if isinstance(value, Apply) and value.op == "cast":
        return _number(value.args[0])
    return value.value if isinstance(value, Const) and type(value.value) is int else None
