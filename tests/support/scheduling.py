"""Random schedules by hand, for hypothesis: every primitive, in any order that is sensible."""

from collections.abc import Callable

from hypothesis import strategies as st

from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.exprs import Pointwise, Reduction
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after, cache_before, rfactor
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import (
    merge,
    pad_allocation,
    parallelize,
    reorder,
    set_memory_type,
    split,
)

THREADS = tuple(kind for kind in ParallelType if kind.is_thread)
FACTOR = "factor"
"""Name of the launch symbol that random schedules split by."""


def _is_reduction(tensor: TensorView) -> bool:
    return isinstance(tensor.definition, Reduction)


class Chooser:
    """Draws from hypothesis, and lays one random schedule on a fusion."""

    def __init__(self, draw: Callable[[st.SearchStrategy], object], fusion: Fusion) -> None:
        self._draw = draw
        self._fusion = fusion
        self.steps: list[str] = []

    def apply(self) -> None:
        """Raises ScheduleError where a step is refused."""
        loads = [cache_after(t) for t in self._fusion.input_tensors if self.maybe()]
        for output in self._fusion.outputs:
            reduced = isinstance(output.value.definition, Reduction)
            if self.maybe() or reduced or self._fusion.uses(output.value):
                self.note(f"cache_before {output.value.name}")
                cache_before(output.value)
        reference = self._reference()
        factored = {id(reference)}
        for _ in range(self.number(0, 5)):
            self._transform(reference)
        if _is_reduction(reference):
            for _ in range(self.number(0, 2)):
                reference = self._rfactor(reference)
                factored.add(id(reference))
        self.note(f"transform_like {reference.name}")
        self._transform_others(reference, factored)
        self._bind(reference)
        self._place(loads)
        self._inline(reference)

    def _reference(self) -> TensorView:
        reductions = [
            op.outputs[0] for op in self._fusion.operations if _is_reduction(op.outputs[0])
        ]
        results = [output.value for output in self._fusion.outputs]
        return self.pick(reductions or results)

    def _transform_others(self, reference: TensorView, factored: set[int]) -> None:
        """The steps of a factored reduction keep the loops that they have."""
        fixed = {
            id(output)
            for operation in self._fusion.operations
            if any(id(output) in factored for output in operation.outputs)
            for output in operation.outputs
        }
        inputs = self._fusion.input_tensors
        others = [t for t in self._fusion.tensors if t not in inputs and id(t) not in fixed]
        if others:
            transform_like(reference, others)

    def _transform(self, tensor: TensorView) -> None:
        count = len(tensor.loop)
        if count == 0:
            return
        axis = self.number(0, count - 1)
        match self.pick(["split", "split", "merge", "reorder"]):
            case "split":
                factor = self.pick([1, 2, 3, 4, Symbol(FACTOR, low=1)])
                inner = self.maybe()
                self.note(f"split {tensor.name} {axis} {factor} inner={inner}")
                split(tensor, axis, factor, inner_split=inner)
            case "merge":
                other = self.number(0, count - 1)
                if other == axis:
                    return
                self.note(f"merge {tensor.name} {axis} {other}")
                merge(tensor, axis, other)
            case _:
                place = self.number(0, count - 1)
                self.note(f"reorder {tensor.name} {axis}->{place}")
                reorder(tensor, {axis: place})

    def _rfactor(self, tensor: TensorView) -> TensorView:
        """Factor some reduction axes out; the new producer is the next reference."""
        axes = [p for p, axis in enumerate(tensor.loop) if axis.is_reduction]
        if len(axes) < 2:
            return tensor
        chosen = [p for p in axes if self.maybe()][: len(axes) - 1]
        if not chosen:
            return tensor
        self.note(f"rfactor {tensor.name} {chosen}")
        return rfactor(tensor, chosen)[0]

    def _bind(self, reference: TensorView) -> None:
        kinds = list(THREADS)
        for position, axis in enumerate(reference.loop):
            choice = self.number(0, 3)
            if choice == 0:
                continue
            kind = ParallelType.unroll if choice == 1 or not kinds else self.pick(kinds)
            if kind in kinds:
                kinds.remove(kind)
            self.note(f"parallelize {reference.name} {position} {axis!r} {kind.name}")
            parallelize(reference, position, kind)
        parallelize_like(reference)

    def _place(self, loads: list[TensorView]) -> None:
        """Shared memory, padding and vectors for some of the copies."""
        results = {id(output.value) for output in self._fusion.outputs}
        inputs = self._fusion.input_tensors
        for tensor in self._fusion.tensors:
            if tensor in inputs or id(tensor) in results or _is_reduction(tensor):
                continue
            if self.number(0, 3) == 0:
                self.note(f"shared {tensor.name}")
                set_memory_type(tensor, MemoryType.shared)
                pad_allocation(tensor, self.number(0, 2))
        copies = [
            t
            for t in self._fusion.tensors
            if t.loop and isinstance(t.definition, Pointwise) and t.definition.op == "set"
        ]
        for tensor in copies:
            if self.number(0, 3) == 0:
                self.note(f"vectorize {tensor.name}")
                parallelize(tensor, -1, ParallelType.vectorize)

    def _inline(self, reference: TensorView) -> None:
        inputs = self._fusion.input_tensors
        own = [t for t in self._fusion.tensors if t not in inputs]
        if self.number(0, 3):
            self.note("inline_most")
            inline_most(self._fusion, own)
        else:
            position = self.number(0, len(reference.loop))
            self.note(f"inline_at {reference.name} {position}")
            inline_at(reference, position, best_effort=True, selected_tensors=own)

    # --- choices -------------------------------------------------------------------------------

    def maybe(self) -> bool:
        return bool(self._draw(st.booleans()))

    def number(self, low: int, high: int) -> int:
        found = self._draw(st.integers(low, high))
        assert isinstance(found, int)
        return found

    def pick(self, options: list) -> object:
        return options[self.number(0, len(options) - 1)]

    def note(self, step: str) -> None:
        self.steps.append(step)
