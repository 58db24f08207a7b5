"""Pointwise work between a reshape of a product and the one back: done in the product's dimensions.

Layers of models multiply rows of `[batch * length, width]`, and compute on `[batch, length, width]`
in between. No kernel of a product reshapes, but what is computed on each element needs no reshape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Matmul, Move, Pointwise, replace_tensor, tensor_inputs, with_values
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.readers import Readers, readers_of
from warpsmith.ir.reads import Read, at
from warpsmith.ir.scalar import Expr
from warpsmith.ir.substitution import substitute
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops.broadcasting import add_axes
from warpsmith.ops.liveness import remove_dead
from warpsmith.ops.reshape import reshape
from warpsmith.ops.shape import transpose
from warpsmith.reach import reached


def cancel_reshapes(fusion: Fusion) -> None:
    """Compute before reshapes what is reshaped back, in place; what reshapes alike does so once."""
    _share(fusion)
    back = [op for op in fusion.operations if isinstance(op, Move) and op.kind == "reshape"]
    readers = readers_of(fusion.operations)
    found = False
    for move in back:
        between = _Between.of(fusion, move, readers)
        if between is not None:
            between.replace()
            readers, found = readers_of(fusion.operations), True
    if found:
        remove_dead(fusion)


def transpose_behind_reshapes(fusion: Fusion) -> None:
    """Have operands of products that are `reshape(transpose(x))`, where the reshape joins or parts
    batches alone, be `transpose(reshape(x))`, in place: a product reads `x` then, as it lies.
    """
    found = False
    for product in [op for op in fusion.operations if isinstance(op, Matmul)]:
        operands = [product.a, product.b]
        for place, operand in enumerate(operands):
            source = _transposed(fusion, operand)
            if source is not None:
                *batches, rows, columns = (axis.extent for axis in operand.shape_axes)
                with fusion.placed_before(product):
                    operands[place] = transpose(reshape(source, [*batches, columns, rows]))
        if operands != [product.a, product.b]:
            fusion.replace(product, replace(product, a=operands[0], b=operands[1]))
            found = True
    if found:
        remove_dead(fusion)


def _transposed(fusion: Fusion, operand: TensorView) -> TensorView | None:
    """What the transpose is of that batches are joined or parted of; None where an operand is made
    otherwise, and where others need it, so that it lies in memory as it is in any case.
    """
    move = _move_of(operand, "reshape")
    before = None if move is None else _move_of(move.source, "permute")
    if move is None or before is None or not _of_batches(move, before):
        return None
    alone = all(isinstance(use, Matmul) for use in fusion.uses(operand))
    return before.source if alone and not operand.is_output else None


def _move_of(tensor: TensorView, kind: str) -> Move | None:
    """The move that makes a tensor, or what it is a copy of; None where it is of another kind."""
    made = tensor.definition
    while isinstance(made, Pointwise) and made.op == "set":
        (source,) = tensor_inputs(made)
        made = source.definition
    return made if isinstance(made, Move) and made.kind == kind else None


def _of_batches(move: Move, before: Move) -> bool:
    """Whether a reshape leaves the last two dimensions, which alone a permutation exchanges."""
    rank = before.source.rank
    extents = (tensor.shape_axes[-2:] for tensor in (move.source, move.output))
    rows, columns = ([a.extent for a in pair] for pair in zip(*extents, strict=True))
    exchanged = before.origin == (*range(rank - 2), rank - 1, rank - 2)
    return exchanged and rows[0] == rows[1] and columns[0] == columns[1]


def _share(fusion: Fusion) -> None:
    """Have equal reshapes of one tensor, and casts of these, be one: the products of a layer then
    have one left operand. The two operands of one product stay apart.
    """
    known: dict[object, TensorView] = {}
    for output in [op.outputs[0] for op in fusion.operations]:
        operation = output.definition  # others may have been put in its place
        assert operation is not None
        if output.is_output or not (_is_reshape(operation) or _rounds_a_reshape(operation)):
            continue
        (source,) = tensor_inputs(operation)
        key = (type(operation), source, output.dtype, output.narrow, tuple(_extents(output)))
        first = known.setdefault(key, output)
        if first is not output:
            uses = fusion.uses(output)
            apart = [use for use in uses if isinstance(use, Matmul) and first in (use.a, use.b)]
            for use in uses:
                if use not in apart:
                    fusion.replace(use, replace_tensor(use, output, first))
            if not apart:
                fusion.operations.remove(operation)


def _is_reshape(operation: Operation | None) -> bool:
    return isinstance(operation, Move) and operation.kind == "reshape"


def _rounds_a_reshape(operation: Operation) -> bool:
    """Whether it is a cast of what is reshaped."""
    if not (isinstance(operation, Pointwise) and operation.op == "cast"):
        return False
    return any(_is_reshape(source.definition) for source in tensor_inputs(operation))


class _Between:
    """The operations on each element, or on stretches of rows, between reshapes of all dimensions
    but the last and the one back.
    """

    def __init__(self, fusion: Fusion, back: Move) -> None:
        self._fusion, self._back = fusion, back
        self._inside, self._outside = _extents(back.source), _extents(back.output)
        self._steps: dict[TensorView, Pointwise | Read] = {}
        self._made: dict[TensorView, TensorView] = {}

    @staticmethod
    def of(fusion: Fusion, back: Move, readers: Readers) -> _Between | None:
        """Those before a reshape; None where others need any of them, where they begin with other
        things than reshapes of that shape and vectors along rows, and where no product is before.
        """
        found = _Between(fusion, back)
        if back.output.is_output or found._inside[-1] != found._outside[-1]:
            return None
        pending, multiplied = [back.source], False
        while pending:
            tensor = pending.pop()
            made = tensor.definition
            if tensor in found._steps:
                continue
            if found._is_before(made):
                assert isinstance(made, Move)
                multiplied |= any(isinstance(op, Matmul) for op in _elementwise(made.source))
            elif found._is_step(tensor):
                assert isinstance(made, Pointwise | Read)
                found._steps[tensor] = made
                pending += tensor_inputs(made)
            elif not _is_vector(tensor):
                return None
        own = {*found._steps.values(), back}
        alone = all(
            not tensor.is_output and own.issuperset(readers.get(tensor, ()))
            for tensor in found._steps
        )
        return found if multiplied and alone and found._steps else None

    def replace(self) -> None:
        """Have what reads the reshape back read what is computed before the first reshapes."""
        value, output = self._before(self._back.source), self._back.output
        for use in self._fusion.uses(output):
            self._fusion.replace(use, replace_tensor(use, output, value))

    def _is_before(self, made: Operation | None) -> bool:
        """Whether an operation is a reshape from the dimensions that there are in the end."""
        if not (isinstance(made, Move) and _is_reshape(made)):
            return False
        (*shape, last), (*wide, same) = _extents(made.source), _extents(made.output)
        return last == same and (shape, wide) == (self._outside[:-1], self._inside[:-1])

    def _is_step(self, tensor: TensorView) -> bool:
        """Whether a tensor's elements are computed one by one, or are a stretch of each row."""
        made, rank = tensor.definition, len(self._inside)
        if _extents(tensor)[:-1] != self._inside[:-1]:
            return False
        if isinstance(made, Read):
            places = made.places[0][:-1]
            return made.is_one and all(place == at(d) for d, place in enumerate(places))
        return isinstance(made, Pointwise) and len(tensor.shape_axes) == rank

    def _before(self, tensor: TensorView) -> TensorView:
        if tensor not in self._made:
            self._made[tensor] = self._computed(tensor)
        return self._made[tensor]

    def _computed(self, tensor: TensorView) -> TensorView:
        made, step = tensor.definition, self._steps.get(tensor)
        if step is None:
            assert isinstance(made, Move)
            return made.source if made.kind == "reshape" else self._in_front(made.source)
        inputs = [self._before(v) if isinstance(v, TensorView) else v for v in step.inputs]
        *outer, _ = self._back.output.shape_axes
        last = tensor.shape_axes[-1]
        axes = (*(IterDomain(a.extent, a.kind) for a in outer), IterDomain(last.extent, last.kind))
        output = self._fusion.tensor(tensor.dtype, axes)
        output.narrow = tensor.narrow
        if isinstance(step, Read):
            rank = len(outer)
            place = substitute(step.places[0][-1], {at(len(self._inside) - 1): at(rank)})
            places = (*map(at, range(rank)), place)
            (source,) = (v for v in inputs[:1] if isinstance(v, TensorView))
            moved: Operation = replace(step, sources=(source,), places=(places,), output=output)
        else:
            moved = with_values(step, inputs, [output])
        self._fusion.insert_before(self._back, moved)
        return output

    def _in_front(self, vector: TensorView) -> TensorView:
        """A vector along rows, with dimensions of 1 in front of it."""
        with self._fusion.placed_before(self._back):
            return add_axes(vector, [*[True] * (len(self._outside) - 1), False])


def _is_vector(tensor: TensorView) -> bool:
    """Whether a tensor has a last dimension alone."""
    made, outer = tensor.definition, tensor.shape_axes[:-1]
    vector = isinstance(made, Move) and made.kind == "broadcast" and made.source.rank == 1
    return vector and all(axis.is_broadcast for axis in outer)


def _extents(tensor: TensorView) -> list[Expr]:
    return [integers.ONE if axis.is_broadcast else axis.extent for axis in tensor.shape_axes]


def _elementwise(tensor: TensorView) -> Iterator[Operation]:
    """What makes the elements of a tensor, one by one, and what comes before these operations."""

    def before(tensor: TensorView) -> Sequence[TensorView]:
        made = tensor.definition
        return tensor_inputs(made) if isinstance(made, Pointwise) else ()

    return filter(None, (each.definition for each in reached((tensor,), before)))
