"""Scalars of a fusion under nvFuser's names, what tensors have in common with them, operations."""

from __future__ import annotations

from typing import Any, Protocol

from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir import scalar
from warpsmith.ir.domains import IterDomain as Domain
from warpsmith.ir.exprs import Move


class Owner(Protocol):
    """The fusion that values belong to, as far as they ask it."""

    definition: FusionDefinition

    @property
    def ours(self) -> Any:
        """The program of warpsmith."""

    def wrapped(self, value: Any) -> Val:
        """A value of warpsmith under nvFuser's names."""

    def size(self, tensor: Any, dim: int) -> Val:
        """Extent of a dimension."""

    def bind(self, tensor: Any, domain: Domain, kind: Any) -> None:
        """Bind a loop, or let it wait for `settle`."""

    def settle(self) -> None:
        """Bind the loops that wait."""

    def cut(self, tensor: Any, domain: Domain) -> None:
        """Run a loop on streams."""


class Statement:
    """Whatever a fusion consists of."""


class Val(Statement):
    """A scalar of a fusion, or (`TensorView`) a tensor.

    Attributes:
        value: what it is in warpsmith.
        fusion: which one it belongs to.
        name: in the text of the fusion: `tv0`, `c3`.
    """

    __slots__ = ("fusion", "name", "value")

    def __init__(self, value: Any, fusion: Owner, name: str) -> None:
        self.value = value
        self.fusion = fusion
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Val) and self.value is other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        return repr(self.value)

    __repr__ = __str__

    def is_symbolic(self) -> bool:
        """Whether only a call knows the value."""
        return not isinstance(self.value, scalar.Const)

    def is_tensor(self) -> bool:
        return False

    def definition(self) -> Expr | None:
        """The operation that computes it; None for inputs and for scalars."""
        return None

    def uses(self) -> list[Expr]:
        """The operations that read it, as far as they are of tensors."""
        found = [
            operation
            for operation in self.fusion.ours.operations
            if any(each is self.value for each in operation.inputs)
        ]
        return [expr_of(operation, self.fusion) for operation in found]


class Expr(Statement):
    """An operation of a fusion."""

    def __init__(self, operation: Any, fusion: Owner) -> None:
        self._operation = operation
        self._fusion = fusion

    def input(self, index: int) -> Val:
        return self._fusion.wrapped(tuple(self._operation.inputs)[index])

    def output(self, index: int) -> Val:
        return self._fusion.wrapped(tuple(self._operation.outputs)[index])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self._operation is other._operation

    def __hash__(self) -> int:
        return hash(self._operation)

    def __str__(self) -> str:
        return repr(self._operation)


class BroadcastOp(Expr):
    """A tensor gets dimensions of one element."""


class ReshapeOp(Expr):
    """The elements of a tensor in another shape."""


class SqueezeOp(Expr):
    """A tensor loses dimensions of one element."""


_MOVES = {"broadcast": BroadcastOp, "reshape": ReshapeOp, "squeeze": SqueezeOp}


def expr_of(operation: Any, fusion: Owner) -> Expr:
    """An operation of warpsmith under nvFuser's names."""
    kind = _MOVES.get(operation.kind, Expr) if isinstance(operation, Move) else Expr
    return kind(operation, fusion)
