"""Reads at computed places of what is moved, read, or computed by a few operations of memory.

What another kernel would have to store is read, or computed, at the places where it is needed: a
join of a slice and of what is made of another slice becomes reads of one tensor, and a choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain, IterType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Full, Iota, Matmul, Move, Pointwise, Reduction, with_values
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.reads import Own, Part, Read, at
from warpsmith.ir.scalar import Const, Expr
from warpsmith.ir.substitution import substitute
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.ir.turns import turn_of
from warpsmith.ops import pointwise
from warpsmith.ops.broadcasting import add_axes, joined_axes
from warpsmith.ops.factories import full
from warpsmith.ops.numbers import numbers
from warpsmith.ops.promotion import cast, cast_tensor, converted, fresh_axes
from warpsmith.ops.reshape import groups
from warpsmith.ops.values import as_tensor
from warpsmith.schedulers.chains import computed, few_of, is_join, is_of_product, renames
from warpsmith.schedulers.one_of_a_row import is_number
from warpsmith.values import dataclass


def read_through(fusion: Fusion) -> None:
    """Let reads go past what their sources are made by, in place; give it a copy."""
    reads = [op for op in fusion.operations if isinstance(op, Read) and turn_of(op) is None]
    for operation in reads:
        read = _unmoved(fusion, operation)
        if read is not operation:
            fusion.replace(operation, read)
    graph = Graph.of(fusion)
    # Those that others read come last: these go past them.
    for read in [op for op in reversed(fusion.operations) if isinstance(op, Read)]:
        if turn_of(read) is None and (made := computed(graph, read)):
            _compute(fusion, read, made)


def _unmoved(fusion: Fusion, read: Read) -> Read:
    """The read of what moves, and other reads, take their elements from."""
    while True:
        for number, part in enumerate(read.parts):
            made = part.source.definition
            parts: list[Part] = []
            fill = read.fill
            if isinstance(made, Move) and renames(made):
                parts = [place_before(made, part)]
            elif isinstance(made, Pointwise) and made.op == "cast":
                parts = [*filter(None, [_rounded_before(fusion, made, part)])]
            elif isinstance(made, Read) and not made.indices:
                whole = len(read.sources) == 1 and part.inside == integers.TRUE
                if made.fill is None or whole:
                    fill = made.fill if whole else fill
                    parts = [of_both(part, inner) for inner in made.parts]
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


def place_before(move: Move, part: Part) -> Part:
    """Where what is moved is read."""
    if move.kind == "reshape":
        return Part(move.source, tuple(_reshaped(move, _own_places(part))), part.inside)
    places: list[Expr] = [integers.ZERO] * move.source.rank
    for place, dim in zip(part.places, move.origin, strict=True):
        if dim is not None and not move.source.shape_axes[dim].is_broadcast:
            places[dim] = place
    return Part(move.source, tuple(places), part.inside)


def _reshaped(move: Move, places: Sequence[Expr]) -> list[Expr]:
    """Places in what is reshaped: of dimensions that become others together, the number of an
    element among all of theirs tells them.
    """
    before, after = (
        [axis.extent for axis in tensor.shape_axes] for tensor in (move.source, move.output)
    )
    coming, found = iter(places), list[Expr]()
    for group in groups(before, after):
        number: Expr = integers.ZERO
        for extent in group.targets:
            number = integers.add(integers.mul(number, extent), next(coming))
        own: list[Expr] = []
        for k in reversed(range(group.first, group.first + group.count)):
            own.append(number if k == group.first else integers.mod(number, before[k]))
            number = integers.floordiv(number, before[k])
        found += reversed(own)
    return found


def _rounded_before(fusion: Fusion, cast: Pointwise, part: Part) -> Part | None:
    """Where what was moved and then rounded is read of the form in which it is stored, which was
    rounded and not moved; None where it has none.
    """
    dtype, (value,) = cast.output.dtype, cast.inputs
    inner = part
    while isinstance(value, TensorView) and isinstance(value.definition, Move):
        if not renames(value.definition):
            return None
        inner, value = place_before(value.definition, inner), value.definition.source
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


def _own_places(part: Part) -> list[Expr]:
    """Where a part is read of what it reads, whose dimensions of one may be repeated there."""
    pairs = zip(part.places, part.source.shape_axes, strict=True)
    return [integers.ZERO if axis.is_broadcast else place for place, axis in pairs]


def of_both(outer: Part, inner: Part) -> Part:
    """Where what is read of a read is read itself."""
    known: dict[Expr, Expr] = {at(k): place for k, place in enumerate(_own_places(outer))}
    places = tuple(substitute(place, known) for place in inner.places)
    inside = integers.conjunction(outer.inside, substitute(inner.inside, known))
    return Part(inner.source, places, inside)


def _compute(fusion: Fusion, read: Read, computed: frozenset[TensorView]) -> None:
    """Compute what is read, at the places where it is, in front of what reads it."""
    few = [few_of(source, read) for source in read.sources]
    if max(few) >= 0:
        for operation in [op for op in fusion.operations if isinstance(op, Pointwise | Matmul)]:
            _as_stored(fusion, operation.output)  # what is made from here on is computed in front
    with fusion.placed_before(read):
        values = [
            _Elsewhere(fusion, read, computed, most).element(part)
            for part, most in zip(read.parts, few, strict=True)
        ]
        dtype = read.output.dtype
        if all(value.dtype is dtype for value in values) and dtype.is_narrow:
            values = [*map(_before_rounding, values)]  # what is chosen is rounded once
        result: Value | None = read.fill
        for part, value in zip(read.parts, values, strict=True):
            if result is None or part.inside == integers.TRUE:
                result = value
            else:
                inside = numbers(fusion, read.output.root, part.inside, read.indices)
                result = pointwise.where(inside, value, result)
        result = cast(as_tensor(result, "where"), dtype)
    assert isinstance(result, TensorView)
    fusion.replace(read, Pointwise("set", (result,), read.output))


def _is_only_result(move: Move) -> bool:
    """Whether what is moved lies in memory in that form alone."""
    source = move.source
    return move.output.is_output and not (source.is_input or source.is_output)


def _as_stored(fusion: Fusion, tensor: TensorView) -> TensorView:
    """What a product stores: its result rounded, where its users know it so."""
    if tensor.narrow is None or tensor.is_output or not is_of_product(tensor):
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


def _along_own(part: Part) -> Part:
    """A part of what has one element along some dimensions: where it is along the others, and under
    which predicates of these.
    """
    axes = part.source.shape_axes
    if part.inside == integers.TRUE or not any(axis.is_broadcast for axis in axes):
        return part
    pairs = zip(part.places, axes, strict=True)
    places = tuple(integers.ZERO if axis.is_broadcast else place for place, axis in pairs)
    own = {node for place in places for node in place.walk() if isinstance(node, Own)}
    insides = [bound for bound in integers.conjuncts(part.inside) if own.intersection(bound.walk())]
    return Part(part.source, places, integers.conjunction(*insides))


def _before_rounding(value: TensorView) -> TensorView:
    """What is rounded to fewer bits at last; the tensor itself where nothing is."""
    made = value.definition
    source = made.inputs[0] if isinstance(made, Pointwise) and made.op == "cast" else value
    wide = isinstance(source, TensorView) and source.dtype is value.dtype.compute
    return source if isinstance(source, TensorView) and wide else value


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """Elements of tensors at the places of a read, some of them `computed` there."""

    fusion: Fusion
    read: Read
    computed: frozenset[TensorView]
    few: int
    _known: dict[Part, TensorView] = field(default_factory=dict)

    def element(self, part: Part) -> TensorView:
        """That at the places of a part, with 0, or what is along its own dimensions, for what is
        not inside.
        """
        part = _along_own(part)
        if part not in self._known:
            self._known[part] = self._element(part)
        return self._known[part]

    def _element(self, part: Part) -> TensorView:
        tensor, fusion = part.source, self.fusion
        made = tensor.definition
        if isinstance(made, Move) and renames(made) and not _is_only_result(made):
            return self.element(place_before(made, part))
        if is_join(made) and not tensor.is_output and (made.is_one or tensor in self.computed):
            return self._joined(part, made)
        stored = _as_stored(fusion, tensor) if self.few >= 0 else tensor
        if stored is not tensor:
            return cast_tensor(self._read(replace(part, source=stored)), tensor.dtype)
        own = _own(self.read, part) if isinstance(made, Reduction) else None
        if own is not None:
            return own
        if isinstance(made, Pointwise) and tensor in self.computed:
            inputs = [
                self.element(replace(part, source=v)) if isinstance(v, TensorView) else v
                for v in made.inputs
            ]
            tensors = [value for value in inputs if isinstance(value, TensorView)]
            output = fusion.tensor(tensor.dtype, joined_axes(made.op, tensors))
            fusion.append(with_values(made, inputs, [output]))
            return output
        if isinstance(made, Full):
            rank = len(self.read.output.root)
            return full([1] * rank, made.value, tensor.dtype, fusion=fusion)
        if isinstance(made, Iota) and not self.read.indices:
            number: Value = numbers(fusion, self.read.output.root, part.places[0])
            if (made.start, made.step) != (Const(0, tensor.dtype), Const(1, tensor.dtype)):
                number = converted(number, tensor.dtype)
                number = pointwise.add(pointwise.mul(number, made.step), made.start)
            return as_tensor(converted(number, tensor.dtype), "iota")
        return self._read(part)

    def _joined(self, part: Part, join: Read) -> TensorView:
        """The element of a join that is read: of what has its place, or what fills the rest."""
        everywhere, root = replace(part, inside=integers.TRUE), self.read.output.root
        result: Value | None = join.fill
        for inner in join.parts:
            both, inside = of_both(part, inner), of_both(everywhere, inner).inside
            value = self.element(both)
            made = value.definition
            zeros = isinstance(made, Read) and made.insides == (both.inside,)  # where not inside
            filled = result is not None and is_number(result, 0) and zeros
            if result is None or inside == integers.TRUE or filled:
                result = value
            else:
                chosen = numbers(self.fusion, root, inside, self.read.indices)
                result = pointwise.where(chosen, value, result)
        return as_tensor(result, "where")

    def _read(self, part: Part) -> TensorView:
        """What lies in memory, along the dimensions on which its places depend."""
        tensor, read = part.source, self.read
        places = tuple(_own_places(part))
        walked = {node for place in (*places, part.inside) for node in place.walk()}
        axes = tuple(
            IterDomain(axis.extent, axis.kind)
            if at(k) in walked or not all(i.shape_axes[k].is_broadcast for i in read.indices)
            else IterDomain(integers.ONE, IterType.broadcast)
            for k, axis in enumerate(read.output.root)
        )
        output = self.fusion.tensor(tensor.dtype, axes)
        fill = None if part.inside == integers.TRUE else Const(0, tensor.dtype)
        given = ((tensor,), read.indices, fill, (places,), (part.inside,), output)
        self.fusion.append(Read(read.kind, *given))
        return output
