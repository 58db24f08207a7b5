"""What is computed, and read as it is and turned too, is computed of memory for each of both.

In `y + transpose(y)` of a computed `y` two dimensions are one loop, which no kernel has: `y` would
be stored, and turned by another kernel. Computed twice, each from what lies in memory, it is one
kernel, and what was turned before is read as it lies: the gradients of a loss of pairs, whose
scores are normalized along rows and along columns. So are numbers of places, which lie nowhere, for
each dimension that they are those of.
"""

from __future__ import annotations

from dataclasses import field

from warpsmith.ir.exprs import Full, Iota, Move, Pointwise, replace_tensor, with_values
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.part import Part
from warpsmith.ir.random_blocks import OF_BLOCK
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops.broadcasting import joined_axes
from warpsmith.ops.liveness import remove_dead
from warpsmith.ops.promotion import fresh_axes
from warpsmith.ops.shape import broadcast, permute, squeeze
from warpsmith.schedulers.chains import MOST_REPEATED, renames
from warpsmith.schedulers.pointwise.applicability import self_mapped
from warpsmith.values import dataclass


def compute_turned(fusion: Fusion) -> Fusion:
    """The fusion; or a copy where elements are computed behind permutations, if no two dimensions
    are one loop then, as they were before.
    """
    turns = any(map(_turns, fusion.operations))
    if not (turns or _counts_twice(fusion)) or not _meets_itself(fusion):
        return fusion
    draft = fusion.draft()
    _count_apart(draft)
    for move in [op for op in reversed(draft.operations) if _turns(op) or _repeats(draft, op)]:
        assert isinstance(move, Move)
        turned = _Turned(draft, Graph.of(draft))
        if move.kind == "broadcast":
            with draft.placed_before(move):
                own = turned.element(move.source, tuple(range(move.source.rank)), apart=True)
            draft.replace(move, replace_tensor(move, move.source, own))
        elif turned.again(move.source) <= MOST_REPEATED:
            with draft.placed_before(move):
                order = tuple(d for d in move.origin if d is not None)
                value = turned.element(move.source, order)
            draft.replace(move, Pointwise("set", (value,), move.output))
    remove_dead(draft)
    return fusion if _meets_itself(draft) else draft


def _turns(operation: Operation) -> bool:
    """Whether an operation permutes what is computed of elements."""
    if not isinstance(operation, Move) or operation.kind != "permute":
        return False
    return _is_computed(operation.source.definition) and not operation.output.is_output


def _counts_twice(fusion: Fusion) -> bool:
    """Whether numbers of places, or what is computed of them, may be those of several dimensions,
    as of rows and of columns that a mask compares.
    """
    return any(
        (isinstance(operation, Iota) and len(fusion.uses(operation.output)) > 1)
        or _repeats(fusion, operation)
        for operation in fusion.operations
    )


def _is_of_numbers(made: Operation | None) -> bool:
    """Whether an operation computes of scalars, and of numbers of places, what it gives."""
    if isinstance(made, Iota | Full):
        return True
    if not isinstance(made, Pointwise) or not _is_computed(made):
        return False
    given = [value for value in made.inputs if isinstance(value, TensorView)]
    return bool(given) and all(_is_of_numbers(value.definition) for value in given)


def _repeats(fusion: Fusion, operation: Operation) -> bool:
    """Whether an operation repeats what is computed of numbers of places, as others do, too."""
    if not isinstance(operation, Move) or operation.kind != "broadcast":
        return False
    made = operation.source.definition
    shared = len(fusion.uses(operation.source)) > 1 and not operation.source.is_output
    return isinstance(made, Pointwise) and shared and _is_of_numbers(made)


def _is_computed(made: Operation | None) -> bool:
    return isinstance(made, Pointwise) and made.op not in OF_BLOCK


def _meets_itself(fusion: Fusion) -> bool:
    """Whether two dimensions would be one loop of a kernel of all work on single elements."""
    graph = Graph.of(fusion)
    inside = [p for p in graph.needed if _is_of_elements(graph.operations[p])]
    outside = graph.live.difference(inside)
    read = {number for position in outside for number in graph.sources(position)}
    made = [number for position in inside for number in graph.made(position)]
    sinks = tuple(number for number in made if number in read or number in graph.results)
    part = Part(graph, sinks, tuple(inside)).fusion
    return bool(self_mapped(part, DomainMap(part)))


def _is_of_elements(operation: Operation) -> bool:
    moved = isinstance(operation, Move) and renames(operation) and operation.kind != "reshape"
    return moved or isinstance(operation, Iota | Full) or _is_computed(operation)


def _count_apart(fusion: Fusion) -> None:
    """Give everything that reads numbers of places some of its own."""
    for iota in [op for op in fusion.operations if isinstance(op, Iota)]:
        for use in fusion.uses(iota.output)[1:]:
            own = fusion.tensor(iota.output.dtype, fresh_axes(iota.output))
            fusion.insert_before(use, Iota(iota.start, iota.step, own))
            fusion.replace(use, replace_tensor(use, iota.output, own))


@dataclass(frozen=True, slots=True)
class _Turned:
    """Tensors with their dimensions in another order, computed anew as far as they are computed."""

    fusion: Fusion
    graph: Graph
    _known: dict[tuple[TensorView, tuple[int, ...]], TensorView] = field(default_factory=dict)

    def again(self, tensor: TensorView) -> int:
        """Operations that are computed again, as others need what they make, too: for all elements,
        not for each row or column alone.
        """
        pending, shared = [(tensor, self.graph.live_readers(tensor) > 1)], set[TensorView]()
        met: set[TensorView] = set()
        whole = 0
        while pending:
            value, repeated = pending.pop()
            repeated = repeated or self.graph.live_readers(value) > 1
            if value in shared or (value in met and not repeated):
                continue
            met.add(value)
            made = value.definition
            if made is None or not _is_of_elements(made):
                continue
            if repeated and isinstance(made, Pointwise):
                shared.add(value)
                whole += len(value.concrete_order()) == tensor.rank
            pending += [(v, repeated) for v in made.inputs if isinstance(v, TensorView)]
        return whole

    def element(
        self, tensor: TensorView, order: tuple[int, ...], *, apart: bool = False
    ) -> TensorView:
        """The tensor, of which dimension `k` is `order[k]` of it.

        Args:
            apart: it is another loop's, though its dimensions keep their order.
        """
        key = tensor, order
        if order == tuple(range(tensor.rank)) and not apart:
            return tensor
        if key not in self._known:
            self._known[key] = self._element(tensor, order)
        return self._known[key]

    def _element(self, tensor: TensorView, order: tuple[int, ...]) -> TensorView:
        made, apart = tensor.definition, order == tuple(range(tensor.rank))
        if isinstance(made, Iota):
            own = self.fusion.tensor(tensor.dtype, fresh_axes(tensor))
            self.fusion.append(Iota(made.start, made.step, own))
            return own
        if isinstance(made, Move) and made.kind == "permute":
            inner = tuple(_dimension(made, k) for k in order)
            return self.element(made.source, inner, apart=apart)
        if isinstance(made, Move) and made.kind == "broadcast":
            flags = [made.origin[k] is None for k in order]
            inside = tuple(_dimension(made, k) for k in order if made.origin[k] is not None)
            return broadcast(self.element(made.source, inside, apart=True), flags)
        if isinstance(made, Move) and made.kind == "squeeze" and apart:
            kept = tuple(range(made.source.rank))
            dropped = [d for d in kept if d not in made.origin]
            return squeeze(self.element(made.source, kept, apart=True), dropped)
        if isinstance(made, Pointwise) and _is_computed(made):
            inputs = [
                self.element(value, order, apart=apart) if isinstance(value, TensorView) else value
                for value in made.inputs
            ]
            tensors = [value for value in inputs if isinstance(value, TensorView)]
            output = self.fusion.tensor(tensor.dtype, joined_axes(made.op, tensors))
            self.fusion.append(with_values(made, inputs, [output]))
            return output
        return tensor if apart else permute(tensor, order)


def _dimension(move: Move, place: int) -> int:
    found = move.origin[place]
    assert found is not None
    return found
