"""Reads at computed places of what is moved, read, or computed by a few operations of memory.

What another kernel would have to store is read, or computed, at the places where it is needed: a
join of a slice and of what is made of another slice becomes reads of one tensor, and a choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Full, Matmul, Move, Pointwise, Reduction, with_values
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.reads import Own, Part, Read, at
from warpsmith.ir.scalar import Apply, Const, Expr
from warpsmith.ir.substitution import substitute
from warpsmith.ir.tensor import Operation, TensorView, Value
from warpsmith.ops import pointwise
from warpsmith.ops.broadcasting import add_axes
from warpsmith.ops.factories import iota
from warpsmith.ops.promotion import cast_tensor, fresh_axes
from warpsmith.ops.values import as_tensor

MOST_REPEATED = 8
"""Operations that are computed again at each place where what they make is read."""

_RENAMES = ("permute", "broadcast", "squeeze", "expand", "reshape")


def read_through(fusion: Fusion) -> None:
    """Let reads go past what their sources are made by, in place; give it a copy."""
    for operation in [op for op in fusion.operations if isinstance(op, Read)]:
        read = _unmoved(fusion, operation)
        if read is not operation:
            fusion.replace(operation, read)
        few = [_few(part.source, read) for part in read.parts]
        if any(_is_repeated(p.source, most) for p, most in zip(read.parts, few, strict=True)):
            _compute(fusion, read, few)


def _unmoved(fusion: Fusion, read: Read) -> Read:
    """The read of what moves, and other reads, take their elements from."""
    while True:
        for number, part in enumerate(read.parts):
            made = part.source.definition
            parts: list[Part] = []
            fill = read.fill
            if isinstance(made, Move) and made.kind in _RENAMES and _is_copied(made):
                parts = [_before(made, part)]
            elif isinstance(made, Pointwise) and made.op == "cast":
                parts = [*filter(None, [_rounded_before(fusion, made, part)])]
            elif isinstance(made, Read) and not made.indices:
                whole = len(read.sources) == 1 and part.inside == integers.TRUE
                if made.fill is None or whole:
                    fill = made.fill if whole else fill
                    parts = [_of_both(part, inner) for inner in made.parts]
            if parts:
                read = _of_parts(
                    read, [*read.parts[:number], *parts, *read.parts[number + 1 :]], fill
                )
                break
        else:
            return read


def _of_parts(read: Read, parts: Sequence[Part], fill: Expr | None) -> Read:
    sources, places, insides = zip(
        *((part.source, part.places, part.inside) for part in parts), strict=True
    )
    return Read(
        read.kind, sources, read.indices, fill, places, insides, read.output, read.arguments
    )


def _is_copied(move: Move) -> bool:
    """Whether each dimension of what is moved is one of the result, or has one element."""
    kept = {dim for dim in move.origin if dim is not None}
    axes = move.source.shape_axes
    return all(dim in kept or axis.is_broadcast for dim, axis in enumerate(axes))


def _before(move: Move, part: Part) -> Part:
    """Where what is moved is read."""
    if move.kind == "reshape":
        return Part(move.source, tuple(_reshaped(move, part.places)), part.inside)
    places: list[Expr] = [integers.ZERO] * move.source.rank
    for place, dim in zip(part.places, move.origin, strict=True):
        if dim is not None and not move.source.shape_axes[dim].is_broadcast:
            places[dim] = place
    return Part(move.source, tuple(places), part.inside)


def _reshaped(move: Move, places: Sequence[Expr]) -> list[Expr]:
    """Places in what is reshaped: dimensions on either side that stay keep theirs, of the others
    the number of an element among all of theirs tells them.
    """
    before, after = (
        [axis.extent for axis in tensor.shape_axes] for tensor in (move.source, move.output)
    )
    most = min(len(before), len(after))
    first = next((k for k in range(most) if before[k] != after[k]), most)
    most -= first
    last = next((k for k in range(most) if before[-1 - k] != after[-1 - k]), most)
    number: Expr = integers.ZERO
    for place, extent in zip(
        places[first : len(after) - last], after[first : len(after) - last], strict=True
    ):
        number = integers.add(integers.mul(number, extent), place)
    found: list[Expr] = []
    for k in reversed(range(first, len(before) - last)):
        found.append(number if k == first else integers.mod(number, before[k]))
        number = integers.floordiv(number, before[k])
    return [*places[:first], *reversed(found), *places[len(after) - last :]]


def _rounded_before(fusion: Fusion, cast: Pointwise, part: Part) -> Part | None:
    """Where what was moved and then rounded is read of the form in which it is stored, which was
    rounded and not moved; None where it has none.
    """
    dtype, (value,) = cast.output.dtype, cast.inputs
    inner = part
    while isinstance(value, TensorView) and isinstance(value.definition, Move):
        if not (value.definition.kind in _RENAMES and _is_copied(value.definition)):
            return None
        inner, value = _before(value.definition, inner), value.definition.source
    if not isinstance(value, TensorView) or value.narrow is not dtype or inner is part:
        return None
    if not isinstance(value.definition, Pointwise | Matmul):
        return None
    return Part(_form_of(fusion, value, dtype), inner.places, inner.inside)


def _form_of(fusion: Fusion, value: TensorView, dtype: DataType) -> TensorView:
    """A value as it is stored, rounded: by the cast that is there, or by a new one."""
    made = value.definition
    assert made is not None
    for use in fusion.uses(value):
        if isinstance(use, Pointwise) and use.op == "cast" and use.output.dtype is dtype:
            fusion.operations.remove(use)  # it may stand behind what is to read it
            fusion.insert_after(made, use)
            return use.output
    stored = fusion.tensor(dtype, fresh_axes(value))
    fusion.insert_after(made, Pointwise("cast", (value,), stored))
    return stored


def _of_both(outer: Part, inner: Part) -> Part:
    """Where what is read of a read is read itself."""
    known: dict[Expr, Expr] = {at(k): place for k, place in enumerate(outer.places)}
    places = tuple(substitute(place, known) for place in inner.places)
    inside = integers.conjunction(outer.inside, substitute(inner.inside, known))
    return Part(inner.source, places, inside)


def _is_repeated(tensor: TensorView, few: int) -> bool:
    """Whether a few operations make it of what lies in memory, and of nothing wider."""
    found = 0
    for step in _steps(tensor, few):
        found += 1
        if step is None or found > MOST_REPEATED:
            return False
    return found > 0


def _few(tensor: TensorView, read: Read) -> int:
    """Up to how many dimensions results have that are stored in place of what is read.

    Of what has more dimensions than is read of it, those of reductions that have fewer: the
    logarithm of a softmax of which each row's target is read is a maximum and a sum for each row,
    and no other element. Of what a cast widens, those of products; of others none, which is -1.
    """
    own = len(tensor.concrete_order())
    if len(read.output.concrete_order()) < own:
        return own - 1
    return 0 if _is_cast(tensor.definition) and not tensor.dtype.is_narrow else -1


def _steps(tensor: TensorView, few: int) -> Iterator[Pointwise | None]:
    """The operations on each element that make a tensor of what lies in memory in any case, as what
    is read at other places does; None where there is something else.

    Args:
        few: dimensions of results of reductions that count as such; products do, too, from 0 on.
    """
    made = tensor.definition
    if made is None or tensor.is_output or isinstance(made, Full):
        return
    if few >= 0 and _is_product(tensor):
        return
    if isinstance(made, Pointwise):
        yield made
        for value in made.inputs:
            if isinstance(value, TensorView):
                yield from _steps(value, few)
    elif isinstance(made, Move) and made.kind in _RENAMES and _is_copied(made):
        yield from _steps(made.source, few)
    elif isinstance(made, Reduction) and len(tensor.concrete_order()) <= few:
        return
    elif not (isinstance(made, Read) and made.is_one):
        yield None


def _is_product(tensor: TensorView) -> bool:
    """Whether a tensor is what a product stores in any case: its result, or what is computed of
    that and known as a 16-bit value, of which reductions, or reads, want no more than a cast.
    """
    made, value = tensor.definition, tensor
    if isinstance(made, Pointwise) and _is_cast(made) and tensor.dtype.is_narrow:
        (source,) = made.inputs
        value = source if isinstance(source, TensorView) else tensor
    known = isinstance(made, Pointwise) and (value is not tensor or value.narrow is not None)
    return (known or isinstance(made, Matmul)) and _is_reduced(tensor) and _follows(value)


def _follows(value: TensorView) -> bool:
    """Whether a product is all that comes before a few operations which make a value."""
    found, products, ahead = 0, 0, [value]
    while ahead and found <= MOST_REPEATED:
        made = ahead.pop().definition
        if isinstance(made, Pointwise) or (isinstance(made, Move) and made.kind in _RENAMES):
            found += 1
            ahead += [each for each in made.inputs if isinstance(each, TensorView)]
        elif isinstance(made, Matmul):
            products += 1
        elif made is not None:
            return False
    return not ahead and products == 1


def _is_reduced(tensor: TensorView) -> bool:
    """Whether reductions, or reads, take a tensor as it is, moved or cast."""
    return any(
        isinstance(use, Reduction | Read)
        or ((isinstance(use, Move) or _is_cast(use)) and _is_reduced(use.outputs[0]))
        for use in Fusion.of(tensor).uses(tensor)
    )


def _is_cast(operation: Operation | None) -> bool:
    return isinstance(operation, Pointwise) and operation.op == "cast"


def _compute(fusion: Fusion, read: Read, few: Sequence[int]) -> None:
    """Compute what is read, at the places where it is, in front of what reads it."""
    if max(few) >= 0:
        for operation in [op for op in fusion.operations if isinstance(op, Pointwise | Matmul)]:
            _as_stored(fusion, operation.output)  # what is made from here on is computed in front
    before = len(fusion.operations)
    parts = zip(read.parts, few, strict=True)
    values = [_at(fusion, read, part, part.source, most) for part, most in parts]
    result: Value | None = read.fill
    for part, value in zip(read.parts, values, strict=True):
        if result is None or part.inside == integers.TRUE:
            result = value
        else:
            result = pointwise.where(_mask(fusion, read, part.inside), value, result)
    made = fusion.operations[before:]
    del fusion.operations[before:]
    place = fusion.operations.index(read)
    assert isinstance(result, TensorView)
    last = Pointwise("set", (result,), read.output)
    fusion.operations[place : place + 1] = [*made, last]
    read.output.definition = last


def _at(fusion: Fusion, read: Read, part: Part, tensor: TensorView, few: int) -> TensorView:
    """A tensor's elements at the places of a part, with 0 for what is not inside."""
    made = tensor.definition
    if isinstance(made, Move) and made.kind in _RENAMES and _is_copied(made):
        inner = _before(made, Part(tensor, part.places, part.inside))
        return _at(fusion, read, inner, made.source, few)
    if isinstance(made, Read) and made.is_one and not tensor.is_output:
        inner = _of_both(part, made.parts[0])
        return _at(fusion, read, inner, made.sources[0], few)
    stored = _as_stored(fusion, tensor) if few >= 0 else tensor
    part = Part(stored, part.places, part.inside)
    own = _own(read, part) if isinstance(made, Reduction) else None
    if own is not None:
        return own
    output = fusion.tensor(
        stored.dtype, tuple(IterDomain(a.extent, a.kind) for a in read.output.root)
    )
    if isinstance(made, Pointwise) and _is_repeated(tensor, few):
        inputs = [
            _at(fusion, read, Part(v, part.places, part.inside), v, few)
            if isinstance(v, TensorView)
            else v
            for v in made.inputs
        ]
        fusion.append(with_values(made, inputs, [output]))
    elif isinstance(made, Full):
        fusion.append(Full(made.value, output))
    else:
        fill = None if part.inside == integers.TRUE else Const(0, stored.dtype)
        whole = Read(read.kind, (), read.indices, fill, (), (), output)
        fusion.append(_of_parts(whole, [part], fill))
    return output if stored is tensor else cast_tensor(output, tensor.dtype)


def _as_stored(fusion: Fusion, tensor: TensorView) -> TensorView:
    """What a product stores: its result rounded, where its users know it so."""
    if tensor.narrow is None or tensor.is_output or not _is_product(tensor):
        return tensor
    return _form_of(fusion, tensor, tensor.narrow)


def _own(read: Read, part: Part) -> TensorView | None:
    """The source for loops over what is read, where each of its dimensions is read along one of
    them, element by element, in their order; else None.
    """
    root = read.output.root
    dims = [part.axis_at(d, len(root)) for d in range(part.source.rank)]
    known = [k for k in dims if k is not None]
    if len(known) < len(dims) or known != sorted(set(known)):
        return None
    if any(root[k].extent != a.extent for k, a in zip(known, part.source.shape_axes, strict=True)):
        return None
    return add_axes(part.source, [k not in known for k in range(len(root))])


def _mask(fusion: Fusion, read: Read, inside: Expr) -> TensorView:
    """The elements of which a predicate is true."""
    rank = len(read.output.root)

    def value(expr: Expr) -> Value:
        if isinstance(expr, Own):
            dim = next(k for k in range(rank) if expr == at(k))
            numbers = iota(read.output.root[dim].extent, fusion=fusion)
            return add_axes(numbers, [k != dim for k in range(rank)])
        if not isinstance(expr, Apply) or not any(isinstance(node, Own) for node in expr.walk()):
            return expr
        found = value(expr.args[0])
        for arg in expr.args[1:]:
            found = getattr(pointwise, expr.op)(found, value(arg))
        return found

    return as_tensor(value(inside), "where")
