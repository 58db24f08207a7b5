"""Element types and PyTorch's promotion rules."""

from __future__ import annotations

from enum import Enum

from warpsmith.errors import DefinitionError


class DataType(Enum):
    """Element type of a tensor or a scalar. Names follow nvFuser; `Int` is 64-bit.

    `Float8_e4m3fn` has no infinity: what is beyond 448 becomes 448, as in PyTorch.
    """

    Double = "double"
    Float = "float"
    Half = "half"
    BFloat16 = "bfloat16"
    Float8_e4m3fn = "float8_e4m3fn"
    Float8_e5m2 = "float8_e5m2"
    Int = "int64"
    Int32 = "int32"
    Int16 = "int16"
    Int8 = "int8"
    UInt8 = "uint8"
    Bool = "bool"
    Index = "index"  # integer of the width that a kernel's addresses need; never a tensor's type

    # Every expression is hashed with its type, and Enum's own hash is a Python function.
    __hash__ = object.__hash__

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return _SIZES[self]

    @property
    def is_float(self) -> bool:
        return self.is_narrow or self in (DataType.Double, DataType.Float)

    @property
    def is_narrow(self) -> bool:
        """True for the floats of 16 and 8 bits, whose arithmetic is done in float."""
        return self.is_half or self.is_float8

    @property
    def is_half(self) -> bool:
        """True for the floats of 16 bits."""
        return self in (DataType.Half, DataType.BFloat16)

    @property
    def is_float8(self) -> bool:
        return self in (DataType.Float8_e4m3fn, DataType.Float8_e5m2)

    @property
    def is_int(self) -> bool:
        return self in (DataType.Int, DataType.Int32, DataType.Index) or self.is_small_int

    @property
    def is_small_int(self) -> bool:
        """True for the integers of 16 and 8 bits, whose arithmetic is done in Int32."""
        return self in (DataType.Int16, DataType.Int8, DataType.UInt8)

    @property
    def is_byte(self) -> bool:
        """True for the integers of 8 bits."""
        return self.is_small_int and self.size == 1

    @property
    def is_signed(self) -> bool:
        """Whether there are negative numbers of this type."""
        return self not in (DataType.UInt8, DataType.Bool)

    @property
    def bits(self) -> int:
        """Of one element."""
        return 8 * self.size

    @property
    def numbers(self) -> range:
        """All numbers of an integer type."""
        lowest = -(1 << self.bits - 1) if self.is_signed else 0
        return range(lowest, lowest + (1 << self.bits))

    @property
    def compute(self) -> DataType:
        """Type in which arithmetic on this type is done.

        That of small integers is done in Int32, and each result wraps as it becomes one again.
        """
        if self.is_small_int:
            return DataType.Int32
        return DataType.Float if self.is_narrow else self

    @property
    def category(self) -> int:
        """0 bool, 1 integer, 2 float: PyTorch's order of type categories."""
        return 2 if self.is_float else 0 if self is DataType.Bool else 1


_SIZES = {
    DataType.Double: 8,
    DataType.Float: 4,
    DataType.Half: 2,
    DataType.BFloat16: 2,
    DataType.Float8_e4m3fn: 1,
    DataType.Float8_e5m2: 1,
    DataType.Int: 8,
    DataType.Int32: 4,
    DataType.Int16: 2,
    DataType.Int8: 1,
    DataType.UInt8: 1,
    DataType.Bool: 1,
    DataType.Index: 8,
}

_RANK = (
    DataType.Bool,
    DataType.UInt8,
    DataType.Int8,
    DataType.Int16,
    DataType.Int32,
    DataType.Int,
    DataType.Half,
    DataType.BFloat16,
    DataType.Float,
    DataType.Double,
)


def promote(a: DataType, b: DataType) -> DataType:
    """Common type of two types of equal standing, as `torch.promote_types`.

    Raises DefinitionError where one is an 8-bit float and the other is not the same.
    """
    a = DataType.Int if a is DataType.Index else a
    b = DataType.Int if b is DataType.Index else b
    if a is b:
        return a
    if a.is_float8 or b.is_float8:
        raise DefinitionError(
            f"operands of types {a.name} and {b.name} have no common type",
            code="WS0145",
            remedy="cast one of them: 8-bit floats are not promoted",
        )
    if a.is_half and b.is_half:
        return DataType.Float
    common = max(a, b, key=_RANK.index)
    same_bits = a.is_int and b.is_int and a.size == b.size  # of which one is without a sign
    return _RANK[_RANK.index(common) + 1] if same_bits else common


def result_type(
    dimensioned: tuple[DataType, ...],
    zero_dim: tuple[DataType, ...] = (),
    scalars: tuple[DataType, ...] = (),
) -> DataType:
    """Type of an operation's result, as `torch.result_type`.

    Tensors with dimensions decide; a zero-dimensional tensor, and after it a scalar, only counts
    when its category (bool, integer, float) is higher than what stands before it.
    """
    result: DataType | None = None
    for group, weak in ((dimensioned, False), (zero_dim, False), (scalars, True)):
        if not group:
            continue
        common = group[0]
        for dtype in group[1:]:
            common = promote(common, dtype)
        if weak:
            common = _default_of_category(common, result)
        if result is None:
            result = common
        elif common.category > result.category:
            result = promote(common, result) if common.is_float8 else common
    if result is None:
        raise ValueError("result_type of nothing")
    return result


def _default_of_category(dtype: DataType, before: DataType | None) -> DataType:
    """A Python number is Double or Int by itself, but takes torch's default beside a tensor."""
    if before is None:
        return dtype
    return {0: DataType.Bool, 1: DataType.Int, 2: DataType.Float}[dtype.category]
