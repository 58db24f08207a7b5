"""Kernels that divide where others multiply by reciprocals."""

from tests.support.by_hand import kernel_of
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const
from warpsmith.kernel.nodes import Buffer, Element, Store
from warpsmith.kernel.quotients import divided

FLOAT, LOCAL, ONE = DataType.Float, MemoryType.local, integers.ONE
WIDE, TOTAL, MEAN, OTHER = (Buffer(name, FLOAT, LOCAL, ONE) for name in ("w", "t", "m", "o"))
NARROW = Buffer("x", DataType.BFloat16, LOCAL, ONE)


def test_what_is_widened_again_is_widened_as_at_first() -> None:
    """Around the calls of quotients ptxas keeps nothing anyway."""
    x, total = (Element(each, integers.ZERO) for each in (NARROW, TOTAL))
    by = Const(0.5, FLOAT)
    stores = (
        Store(WIDE, integers.ZERO, Apply("widen_again", (x, Const(2, DataType.Int)), FLOAT)),
        Store(MEAN, integers.ZERO, Apply("mul", (total, by), FLOAT)),
        Store(OTHER, integers.ZERO, Apply("mul", (total, by), FLOAT)),
    )
    kernel = divided(kernel_of(*stores), {"m": ("div", Const(2.0, FLOAT))})
    values = [s.value for s in kernel.body if isinstance(s, Store)]
    assert [v.op for v in values if isinstance(v, Apply)] == ["cast", "div", "mul"]
