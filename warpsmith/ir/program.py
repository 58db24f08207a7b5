"""Program: what can be read of tensors and the operations between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import field
from typing import Any, TypeVar

from warpsmith.callers import Line
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.tensor import Operation, TensorView, Value
from warpsmith.values import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """The part of an input that a result of the same other dimensions is written into.

    Attributes:
        dimension: of which the part is one element.
        index: an input of one integer, that element; negative ones count from the end.
    """

    dimension: int
    index: TensorView


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """A result; with `alias_of`, it is written into that input instead of being returned.

    `line` is that of the user's program, which made it a result; None if unknown. With a `place`
    a part of the input is written, by the kernel that computes the result. The input of one that is
    `apart` shares no memory with others; `here` its kernel writes the input, in place of a result
    that is copied there.
    """

    value: TensorView
    alias_of: TensorView | None = None
    line: Line | None = None
    place: Place | None = None
    apart: bool = False
    here: bool = False


class Program:
    """Inputs, outputs and the operations between, in an order in which they can run.

    An analysis takes a `Program` and changes nothing of it. What a schedule is laid on is a
    `Fusion`.

    Attributes:
        inputs: tensors and scalar symbols, in the order of the arguments.
        limits: (extent, number) facts that a launch must check: the extent is at most the number.
        together: groups of tensors whose dimensions are the same iterations, place by place, though
            no operation combines them.
        follows: it is a part that reads what another one wrote.
    """

    inputs: Sequence[TensorView | Symbol]
    outputs: Sequence[Output]
    operations: Sequence[Operation]
    limits: frozenset[tuple[Expr, int]]
    together: tuple[tuple[TensorView, ...], ...]
    follows: bool

    @property
    def input_tensors(self) -> tuple[TensorView, ...]:
        return tuple(value for value in self.inputs if isinstance(value, TensorView))

    @property
    def input_scalars(self) -> tuple[Symbol, ...]:
        return tuple(value for value in self.inputs if isinstance(value, Symbol))

    @property
    def tensors(self) -> tuple[TensorView, ...]:
        """Every tensor, inputs first, then in definition order."""
        return (*self.input_tensors, *self.computed)

    @property
    def computed(self) -> tuple[TensorView, ...]:
        """Every tensor that an operation defines, in definition order."""
        return tuple([output for operation in self.operations for output in operation.outputs])

    def is_input(self, tensor: TensorView) -> bool:
        return any(value is tensor for value in self.inputs)

    def is_output(self, tensor: TensorView) -> bool:
        return any(output.value is tensor for output in self.outputs)

    def uses(self, tensor: TensorView) -> tuple[Operation, ...]:
        """Operations that read a tensor, in order.

        It looks at all operations: `readers_of` finds the readers of all tensors in one walk.
        """
        found: list[Operation] = []
        for operation in self.operations:
            for value in operation.inputs:
                if value is tensor:
                    found.append(operation)
                    break
        return tuple(found)

    def consumers(self, tensor: TensorView) -> tuple[TensorView, ...]:
        return tuple(out for op in self.uses(tensor) for out in op.outputs)

    def producers(self, tensor: TensorView) -> tuple[TensorView, ...]:
        return () if tensor.definition is None else tensor_inputs(tensor.definition)

    def depends_on(self, values: Iterable[Value]) -> tuple[Operation, ...]:
        """Operations that the given values need, in order."""
        wanted: set[Value] = set(values)
        needed: list[Operation] = []
        for operation in reversed(self.operations):
            if any(output in wanted for output in operation.outputs):
                needed.append(operation)
                wanted.update(operation.inputs)
        return tuple(reversed(needed))

    def after(self, starts: Callable[[Operation], bool]) -> set[TensorView]:
        """The tensors that need some operations' results, these among them."""
        found: set[TensorView] = set()
        for operation in self.operations:
            if starts(operation) or any(source in found for source in tensor_inputs(operation)):
                found.update(operation.outputs)
        return found

    def without(self, operations: Collection[Operation]) -> View:
        """All but some operations, none of which makes what the others need."""
        gone = set(operations)
        made = {output for operation in gone for output in operation.outputs}
        return View(
            tuple(self.inputs),
            tuple(output for output in self.outputs if output.value not in made),
            tuple(operation for operation in self.operations if operation not in gone),
            self.limits,
            self.together,
            self.follows,
        )


@dataclass(frozen=True, eq=False)
class View(Program):
    """Some operations of a program, read as a program of their own; the tensors are the whole's.

    Nothing changes the program while it is looked at so.

    Attributes:
        found: by analyses that are asked again, what they found.
    """

    inputs: tuple[TensorView | Symbol, ...]
    outputs: tuple[Output, ...]
    operations: tuple[Operation, ...]
    limits: frozenset[tuple[Expr, int]]
    together: tuple[tuple[TensorView, ...], ...]
    follows: bool
    found: dict[Callable[[Program], Any], Any] = field(default_factory=dict, repr=False)

    def once(self, analysis: Callable[[Program], T]) -> T:
        """What an analysis finds, which is done once."""
        if analysis not in self.found:
            self.found[analysis] = analysis(self)
        known: T = self.found[analysis]
        return known
