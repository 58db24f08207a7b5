"""Numbers that look random are drawn before the rows of a turn are there."""

from __future__ import annotations

from collections.abc import Collection

from warpsmith.ir.draws import OF_BLOCK
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.rows import Rows

MOST_ELEMENTS = 56
"""Elements of a row in a thread up to which it has registers for bits: with 64 it spilled 84 to 100
bytes (dropout backward of 65536 to 262144 columns)."""


def draws_ahead(rows: Rows, params: RowParams) -> bool:
    """Whether a turn's draws are to come before its rows: where several blocks share a row.

    They wait for one another and draw meanwhile: dropout backward, 4096 x 32768 in clusters of
    four, takes 330 microseconds in place of 336. Blocks that have rows to themselves wait less, and
    lost up to 1 %.
    """
    few = params.unroll * params.vector <= MOST_ELEMENTS
    return bool(rows.columns) and params.cluster > 1 and few and rows.draws


def draws_first(fusion: Fusion, full: Collection[TensorView]) -> tuple[TensorView, ...]:
    """Bring to the front what says which elements are kept, and what that follows from; the bools.

    They take a bit each until their rows are there.

    Args:
        full: the register copies that have an element for each one of the rows.
    """
    masks = tuple(t for t in fusion.computed if _is_drawn(t, fusion, full))
    fusion.bring_first(fusion.depends_on(masks))
    return masks


def _is_drawn(tensor: TensorView, fusion: Program, full: Collection[TensorView]) -> bool:
    """Whether bools come from a draw and from nothing of a row, and are used as they are."""
    if tensor.dtype is not DataType.Bool or any(map(_copies, fusion.uses(tensor))):
        return False
    before = fusion.depends_on((tensor,))
    drawn = any(isinstance(step, Pointwise) and step.op in OF_BLOCK for step in before)
    return drawn and not any(made in full for step in before for made in step.outputs)


def _copies(operation: Operation) -> bool:
    return isinstance(operation, Pointwise) and operation.op == "set"
