"""What the operations behind a product take of the warps that compute them."""

from __future__ import annotations

from collections.abc import Iterable

from warpsmith.ir.exprs import Matmul, Pointwise
from warpsmith.ir.program import Program
from warpsmith.ir.random_blocks import OF_BLOCK
from warpsmith.ir.tensor import Operation
from warpsmith.schedulers.matmul.blocks import carried
from warpsmith.schedulers.matmul.random import KEPT, RANDOM
from warpsmith.schedulers.rows.recompute import NOT_REPEATED

FREE = ("set", "cast")
"""Operations that what is stored or loaded takes in any case."""

SPECIAL = 16
"""Instructions that a function of an element is as: two of a unit that takes 8 clocks for each."""

CLOCKS = {
    **dict.fromkeys(NOT_REPEATED | {"one_plus_tanh"}, SPECIAL),
    **dict.fromkeys(OF_BLOCK, RANDOM),
    KEPT: 1,
}
"""Those of operations that are as several; `Work.drawn` has the rest of what is kept."""

LONG = 2 * SPECIAL
"""Operations that are computed at length; with fewer 192 sums a thread leave registers enough."""


def counted(operations: Iterable[Operation]) -> int:
    """How many operations on an element these are as, casts and copies left out."""
    pointwise = (op for op in operations if isinstance(op, Pointwise) and op.op not in FREE)
    return sum(CLOCKS.get(op.op, 1) for op in pointwise)


def behind_product(fusion: Program, product: Matmul) -> list[Operation]:
    """Operations behind a product, on each element of the result."""
    blocks = carried(fusion, product)
    inside = () if blocks is None else blocks.scaled
    before = fusion.depends_on([product.a, product.b])
    behind = (op for op in fusion.operations if op not in before)
    return [op for op in behind if op.outputs[0] not in inside]
