"""Sums of Float, for kernels written by hand."""

from warpsmith.ir.carry import simple
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.nodes import Buffer
from warpsmith.kernel.reductions import Accumulate

FLOAT_SUM = simple("sum", DataType.Float)


def added(buffer: Buffer, index: Expr, value: Expr) -> Accumulate:
    """`buffer[index] += value`."""
    return Accumulate(FLOAT_SUM, (buffer,), index, (value,))
