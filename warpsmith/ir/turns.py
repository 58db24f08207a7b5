"""Turns: each element of another place of its group of neighbours along one dimension.

A rotation of heads reads of each element the one half a head further on, round the head, or of each
pair the other one. What threads hold of a product has these in one thread (`lower/turns.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.reads import Read, at
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.values import dataclass

TURN = "turn"
"""The kind of reads that are turns."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Element `i` along a dimension is element `i + shift` of the source, round its group.

    Attributes:
        group: neighbours that change places, the first of them at a multiple of so many.
    """

    dimension: int
    group: int
    shift: int

    def place(self) -> Expr:
        """Where along its dimension an element is read."""
        own = at(self.dimension)
        begin = integers.mul(integers.floordiv(own, self.group), self.group)
        return integers.add(begin, integers.mod(integers.add(own, self.shift), self.group))

    def read(self, source: TensorView, axes: Sequence[IterDomain]) -> Read:
        """The read of a source, whose output has these axes."""
        output = Fusion.of(source).tensor(source.dtype, tuple(axes))
        places = tuple(self.place() if k == self.dimension else at(k) for k in range(source.rank))
        told = self.dimension, self.group, self.shift
        return Read(TURN, (source,), (), None, (places,), (integers.TRUE,), output, told)


def turn_of(operation: Operation | None) -> Turn | None:
    """The turn that an operation is, if it is one."""
    if not (isinstance(operation, Read) and operation.kind == TURN and operation.is_one):
        return None
    dimension, group, shift = operation.arguments
    assert isinstance(dimension, int)
    assert isinstance(group, int)
    assert isinstance(shift, int)
    turn = Turn(dimension, group, shift)
    own = (turn.place() if k == turn.dimension else at(k) for k in range(operation.output.rank))
    return turn if operation.places == (tuple(own),) else None
