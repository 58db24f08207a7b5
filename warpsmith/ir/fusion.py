"""Fusion: the container of one tensor program and its schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from warpsmith.callers import caller
from warpsmith.errors import DefinitionError
from warpsmith.ir.clone import Clones
from warpsmith.ir.domains import IterDomain, ParallelType, Transform
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.program import Output, Program
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.tensor import Operation, TensorView

Registers = Literal["auto", "off"] | tuple[int, int] | Mapping[str, int]
"""Registers of a thread in each role: derived from the code, as the launch gives them, a pair of
producers' and others', or one number for each role that is named."""


class Fusion(Program):
    """A program that a schedule may be laid on.

    Operations are kept in definition order, which is topological; schedule primitives that insert
    a tensor keep it so.

    Args:
        tensor_type: class of the tensors, so that a frontend can give them operators and methods.

    Attributes:
        launch_symbols: scalars that a scheduler sets at every launch, such as a number of splits.
        divisors: (expression, divisor) facts that a launch must check; lowering relies on them.
        taken: (extent, number) facts that a call checks: there are so many elements.
        blocks_per_sm: blocks that a multiprocessor is to hold at once, which bounds the registers;
            0 leaves it to the compiler.
        last_first: the last blocks of the grid start first.
        side_by_side: programs that share inputs alone have blocks of their own, one after the
            other along x.
        kept_turns: turns of which blocks that meet keep in shared memory what they load, besides
            the last one; None where they load it again.
        at_once: how many blocks the launch has along x where these loop over what loops that are
            bound to it walk, and meet in each round; None where each has one iteration.
        behind: nanoseconds by which every other one along x begins later then.
        registers: of the roles, where tensors name any.
        groups_along: the one axis of the block along which groups of warps may take turns; None
            allows any.
        mapped: the groups of its axes that were found last, behind what they follow from
            (`ir/mapping.py`).
    """

    def __init__(self, tensor_type: type[TensorView] = TensorView) -> None:
        self._tensor_type = tensor_type
        self.inputs: list[TensorView | Symbol] = []
        self.outputs: list[Output] = []
        self.operations: list[Operation] = []
        self.launch_symbols: list[Symbol] = []
        self.divisors: frozenset[tuple[Expr, int]] = frozenset()
        self.limits: frozenset[tuple[Expr, int]] = frozenset()
        self.least: frozenset[tuple[Expr, int]] = frozenset()
        self.taken: frozenset[tuple[Expr, int]] = frozenset()
        self.together: tuple[tuple[TensorView, ...], ...] = ()
        self.blocks_per_sm = 0
        self.follows = False
        self.last_first = False
        self.side_by_side = False
        self.kept_turns: int | None = None
        self.at_once: Symbol | None = None
        self.behind: Symbol | None = None
        self.registers: Registers = "auto"
        self.groups_along: ParallelType | None = None
        self.mapped: tuple[object, Any] | None = None
        self._count = 0
        self._scalars = 0
        self._is_copy = False

    @staticmethod
    def of(tensor: TensorView) -> Fusion:
        """The fusion that a tensor belongs to."""
        owner = tensor.fusion
        assert isinstance(owner, Fusion)
        return owner

    def tensor(
        self,
        dtype: DataType,
        logical: tuple[IterDomain, ...],
        *,
        root: tuple[IterDomain, ...] | None = None,
        transforms: tuple[Transform, ...] = (),
        stride_order: tuple[int, ...] | None = None,
        contiguity: tuple[bool | None, ...] | None = None,
    ) -> TensorView:
        """A new tensor of the class that this fusion's users see."""
        return self._tensor_type(
            self,
            dtype,
            logical,
            root=root,
            transforms=transforms,
            stride_order=stride_order,
            contiguity=contiguity,
        )

    def register(self, tensor: TensorView) -> int:
        """Number for a new tensor."""
        number = self._count
        self._count += 1
        return number

    @property
    def next_tensor_name(self) -> str:
        """Name that the next tensor will have; an input's sizes are called after it."""
        return f"T{self._count}"

    @property
    def numbers(self) -> tuple[int, int]:
        """Of the next tensor and of the next scalar."""
        return self._count, self._scalars

    def blank(self) -> Fusion:
        """A fusion without inputs, operations and outputs, whose new tensors get new numbers."""
        clone = Fusion(self._tensor_type)
        clone._count, clone._scalars = self._count, self._scalars
        clone._is_copy = True
        clone.divisors, clone.limits, clone.least = self.divisors, self.limits, self.least
        clone.taken = self.taken
        clone.blocks_per_sm = self.blocks_per_sm
        clone.follows, clone.last_first = self.follows, self.last_first
        clone.side_by_side = self.side_by_side
        clone.kept_turns = self.kept_turns
        clone.at_once, clone.behind = self.at_once, self.behind
        clone.registers, clone.groups_along = self.registers, self.groups_along
        clone.launch_symbols = list(self.launch_symbols)
        return clone

    def number_from(self, other: Fusion) -> None:
        """Give new tensors numbers that those of the other fusion do not have either."""
        self._count = max(self._count, other._count)

    def draft(self) -> Fusion:
        """A copy to change: tensors, axes and operations of its own, under the same numbers."""
        clone = self.blank()
        clones = Clones({self: clone})
        clone.inputs = [
            clones.tensor(value) if isinstance(value, TensorView) else value
            for value in self.inputs
        ]
        clone.operations = list(map(clones.operation, self.operations))
        clone.outputs = list(map(clones.output, self.outputs))
        clone.together = tuple(tuple(map(clones.tensor, group)) for group in self.together)
        return clone

    def fresh_scalar(self) -> str:
        """Name for a new scalar."""
        name = f"S{self._scalars}"
        self._scalars += 1
        return name

    def append(self, operation: Operation) -> None:
        """Add an operation at the end; its results keep the line of the user's program.

        In a copy, which is planned or scheduled, no line of the user's asks for it.
        """
        self.operations.append(operation)
        # its own caller is an operation of `ops`
        line = None if self._is_copy else caller(above=1)
        for output in operation.outputs:
            output.definition = operation
            output.line = line

    def insert_before(self, anchor: Operation, operation: Operation) -> None:
        self.operations.insert(self.operations.index(anchor), operation)
        for output in operation.outputs:
            output.definition = operation

    def insert_after(self, anchor: Operation, operation: Operation) -> None:
        self.operations.insert(self.operations.index(anchor) + 1, operation)
        for output in operation.outputs:
            output.definition = operation

    @contextmanager
    def placed_before(self, anchor: Operation) -> Iterator[None]:
        """What is defined while this lasts stands in front of an operation, not behind all."""
        count = len(self.operations)
        yield
        made = self.operations[count:]
        del self.operations[count:]
        place = self.operations.index(anchor)
        self.operations[place:place] = made

    def replace(self, old: Operation, new: Operation) -> None:
        """Put `new` where `old` stood."""
        self.operations[self.operations.index(old)] = new
        for output in new.outputs:
            output.definition = new

    def bring_first(self, operations: Iterable[Operation]) -> None:
        """Put operations in front of all others, in the order given; each once, behind those that
        it needs.
        """
        front: dict[Operation, None] = {}
        for operation in operations:
            front.update(dict.fromkeys(self.depends_on(operation.outputs)))
        rest = (operation for operation in self.operations if operation not in front)
        self.operations = [*front, *rest]

    def check_not_empty(self) -> None:
        if not self.outputs:
            raise DefinitionError(
                "the fusion has no output", code="WS0101", remedy="call add_output on a tensor"
            )
