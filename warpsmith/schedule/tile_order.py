"""In which order the tiles of a result are computed."""

from __future__ import annotations

from typing import Literal

from warpsmith.errors import ScheduleError
from warpsmith.ir.tensor import TensorT
from warpsmith.schedule.transforms import axis_position, merge
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class TileOrder:
    """How tiles follow each other; those close to each other share operands in the L2.

    `TileOrder("rows", band=2)` numbers 3 x 4 tiles so, the last band having one row only::

        0 2 4 6
        1 3 5 7
        8 9 10 11

    Attributes:
        raster: row after row, or column after column.
        band: rows, or columns, that are walked together; CUTLASS calls it the swizzle.
    """

    raster: Literal["rows", "columns"] = "rows"
    band: int = 1


def order_tiles(tensor: TensorT, axis: int, order: TileOrder) -> TensorT:
    """Make one loop over tiles, in an order, of loop `axis` over rows of tiles and the next one.

    There are as many iterations as tiles, whether a band divides them or not.

    Raises:
        ScheduleError: WS0380 for an order that is none; all that `merge` refuses.
    """
    if order.raster not in ("rows", "columns") or not _is_count(order.band):
        raise ScheduleError(
            f"{order!r} of {tensor.name}: tiles follow each other in rows or in columns, and one "
            "or more of them are walked together",
            code="WS0380",
            remedy="use TileOrder('rows', band=8), or 'columns'",
        )
    rows = axis_position(tensor, axis)
    columns = axis_position(tensor, rows + 1)
    outer, inner = (rows, columns) if order.raster == "rows" else (columns, rows)
    merge(tensor, outer, inner, band=order.band)
    return tensor


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1
