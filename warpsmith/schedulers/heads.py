"""Pointwise work on a product's columns as heads: done on its rows and columns, as they lie.

Layers of attention multiply rows, view each result as heads, and scale or rotate these. The kernel
of a product knows rows and columns alone; where a result lies in memory as they do, what is
computed of heads is computed of them, and the view comes last, which costs nothing
(`engine/same_memory.py`). What a rotation reads beside each element, the other half of its head,
is then a turn of columns (`ir/turns.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import field, replace

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain, IterType
from warpsmith.ir.exprs import Full, Iota, Matmul, Move, Pointwise, with_values
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.reads import Part, Read, at
from warpsmith.ir.scalar import Const, Expr
from warpsmith.ir.substitution import substitute
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.ir.turns import Turn
from warpsmith.ops import pointwise
from warpsmith.ops.broadcasting import add_axes, joined_axes
from warpsmith.ops.factories import full
from warpsmith.ops.liveness import remove_dead
from warpsmith.ops.numbers import numbers
from warpsmith.ops.promotion import converted, fresh_axes
from warpsmith.ops.reshape import reshape
from warpsmith.ops.shape import permute
from warpsmith.ops.values import as_tensor
from warpsmith.schedulers.head_places import (
    UNKNOWN,
    along_of,
    inside_of,
    is_stored,
    leaves_of,
    lies_otherwise,
    one_remainder,
    own_places,
    radix,
    repeated,
    symbols_of,
    turn_at,
)
from warpsmith.schedulers.matmul.turned_columns import period
from warpsmith.schedulers.read_through import of_both, place_before
from warpsmith.schedulers.views import own_part
from warpsmith.values import dataclass

MOST_HELD = 32
"""Registers of tables that a thread has beside 128 sums. Tables that it reads again for each head
take longer than a kernel behind the product: two of bfloat16 19 us of 2048 x 4096 x 4096."""


def compute_on_rows(fusion: Fusion) -> None:
    """Compute results of heads of a product on its rows and columns, in place."""
    products = [op for op in fusion.operations if isinstance(op, Matmul)]
    behind, found = fusion.after(products.__contains__), False
    for result in dict.fromkeys(each.value for each in fusion.outputs if each.alias_of is None):
        heads = _Heads.of(fusion, result, behind)
        if heads is not None:
            heads.replace()
            found = True
    if found:
        remove_dead(fusion)


@dataclass(frozen=True, slots=True)
class _Heads:
    """A result that is computed of heads of one product.

    Attributes:
        product: what tensor cores sum.
        along: for each of its dimensions, those of the result that it is, the slowest first.
        turns: by part of the product that is read, which turn that is; None for the own place.
        behind: what depends on products.
    """

    fusion: Fusion
    result: TensorView
    product: TensorView
    along: tuple[tuple[int, ...], ...]
    turns: Mapping[Part, Turn | None]
    behind: Set[TensorView]
    _made: dict[Part, TensorView] = field(default_factory=dict)
    _turns: dict[Turn, TensorView] = field(default_factory=dict)

    @staticmethod
    def of(fusion: Fusion, result: TensorView, behind: Set[TensorView]) -> _Heads | None:
        """Those of a result; None where it is computed of other things, or lies otherwise."""
        regrouped = result.root != result.shape_axes  # no copy can be what a reshape makes
        leaves = leaves_of(result, behind) if result in behind and not regrouped else ()
        products = {leaf.source for leaf in leaves if leaf.source in behind}
        if len(products) != 1:
            return None
        (product,) = products
        own = [leaf for leaf in leaves if leaf.source is product]
        along = along_of(result, own)
        if along is None or lies_otherwise(result, along):
            return None
        turns = {part: turn_at(result, part, along[-1]) for part in own}
        known = {part: turn for part, turn in turns.items() if turn is not UNKNOWN}
        heads = _Heads(fusion, result, product, along, known, behind)
        others = [leaf for leaf in leaves if leaf.source is not product]
        whole = any(map(heads._is_plane, others)) and not any(known.values())
        tables = {heads._everywhere(leaf) for leaf in others}
        whole |= sum(map(heads._held, tables)) > MOST_HELD
        return None if len(known) < len(turns) or whole else heads

    def replace(self) -> None:
        """Compute it on rows, and have it be a view of that."""
        made = self.result.definition
        assert made is not None
        extents = [axis.extent for axis in self.result.shape_axes]
        order = [axis for axes in self.along for axis in axes]
        with self.fusion.placed_before(made):
            rows = self._stored(self._element(own_part(self.result)))
            apart = reshape(rows, [extents[axis] for axis in order])
            moved = permute(apart, [order.index(axis) for axis in sorted(order)])
            value = add_axes(moved, [k not in order for k in range(self.result.rank)])
        self.fusion.replace(made, Pointwise("set", (value,), self.result))

    def _stored(self, value: TensorView) -> TensorView:
        """A copy, so that what is reshaped is what is stored, and nothing wider."""
        output = self.fusion.tensor(value.dtype, fresh_axes(value))
        self.fusion.append(Pointwise("set", (value,), output))
        return output

    def _element(self, part: Part) -> TensorView:
        """A tensor of the product's dimensions: what is read of a part for each of its elements."""
        if part.source not in self.behind:
            part = self._everywhere(part)
        if part not in self._made:
            self._made[part] = self._computed(part)
        return self._made[part]

    def _computed(self, part: Part) -> TensorView:
        tensor, made = part.source, part.source.definition
        if tensor is self.product:
            turn = self.turns[part]
            return tensor if turn is None else self._turned(turn)
        if made is None or (tensor not in self.behind and is_stored(tensor)):
            return self._read(part)
        if isinstance(made, Move):
            return self._element(place_before(made, part))
        if isinstance(made, Read):
            return self._joined(part, made)
        if isinstance(made, Full):
            rank = len(self.along)
            return full([1] * rank, made.value, tensor.dtype, fusion=self.fusion)
        if isinstance(made, Iota):
            number: Value = converted(self._numbers(part.places[0]), tensor.dtype)
            number = pointwise.add(pointwise.mul(number, made.step), made.start)
            return as_tensor(converted(number, tensor.dtype), "iota")
        assert isinstance(made, Pointwise)
        inputs = [
            self._element(replace(part, source=v)) if isinstance(v, TensorView) else v
            for v in made.inputs
        ]
        if made.op == "set" and isinstance(inputs[0], TensorView):
            return inputs[0]
        tensors = [value for value in inputs if isinstance(value, TensorView)]
        output = self.fusion.tensor(tensor.dtype, joined_axes(made.op, tensors))
        output.narrow = tensor.narrow
        self.fusion.append(with_values(made, inputs, [output]))
        return output

    def _joined(self, part: Part, join: Read) -> TensorView:
        """The element of a join: of what has its place, or what fills the rest."""
        result: Value | None = join.fill
        for inner in join.parts:
            value = self._element(of_both(part, inner))
            if result is None:
                result = value
            else:
                inside = of_both(replace(part, inside=integers.TRUE), inner).inside
                result = pointwise.where(self._numbers(inside), value, result)
        return as_tensor(result, "where")

    def _turned(self, turn: Turn) -> TensorView:
        if turn not in self._turns:
            read = turn.read(self.product, self._axes())
            self.fusion.append(read)
            self._turns[turn] = read.output
        return self._turns[turn]

    def _read(self, part: Part) -> TensorView:
        """What lies in memory, along the dimensions of the product on which its places depend."""
        tensor, inside = part.source, self._on_rows(part.inside)
        places = [self._on_rows(place) for place in own_places(part)]
        own = [k for place in places for k in range(len(self.along)) if place == at(k)]
        shared = sorted(set(range(len(self.along))) - set(own))
        if len(own) == len(places) and own == sorted(set(own)) and inside == integers.TRUE:
            return add_axes(tensor, [k in shared for k in range(len(self.along))])
        walked = {node for place in (*places, inside) for node in place.walk()}
        axes = [a if at(k) in walked else _one() for k, a in enumerate(self._axes())]
        output = self.fusion.tensor(tensor.dtype, tuple(axes))
        fill = None if inside == integers.TRUE else Const(0, tensor.dtype)
        self.fusion.append(Read("slice", (tensor,), (), fill, (tuple(places),), (inside,), output))
        return output

    def _everywhere(self, part: Part) -> Part:
        """A part of memory without a predicate, where each element outside of it may be read at a
        place of one inside: in place of one half of a head that of the other.
        """
        last = self.along[-1][-1]
        known = inside_of(self.result, part, last)
        if known is None or not known:
            return part
        places: list[Expr] = []
        for place in part.places:
            if at(last) in place.walk():
                rest = repeated(place, at(last), known)
                if rest is None:
                    return part
                place = rest
            places.append(place)
        bounds = [b for b in integers.conjuncts(part.inside) if symbols_of(b) != {at(last)}]
        return Part(part.source, tuple(places), integers.conjunction(*bounds))

    def _held(self, table: Part) -> int:
        """Registers of a thread that hold what differs by row and column, for all heads."""
        places = [*map(self._on_rows, own_places(table))]
        *rows, columns = range(len(self.along))
        walked = {node for place in places for node in place.walk()}
        if at(columns) not in walked or not any(at(row) in walked for row in rows):
            return 0
        counts = [period(place, at(columns)) for place in places]
        return max(counts) * table.source.dtype.size // 8 if all(counts) else MOST_HELD + 1

    def _is_plane(self, part: Part) -> bool:
        """Whether what is read differs along all dimensions, and does not lie as the product."""
        walked = {node for place in own_places(part) for node in place.walk()}
        if not all(at(axis) in walked for axes in self.along for axis in axes):
            return False
        places = [self._on_rows(place) for place in own_places(part)]
        return places != [at(k) for k, axes in enumerate(self.along) if axes]

    def _numbers(self, wanted: Expr) -> TensorView:
        return numbers(self.fusion, self._axes(), self._on_rows(wanted))

    def _axes(self) -> list[IterDomain]:
        """New ones of the product's dimensions."""
        return [IterDomain(axis.extent, axis.kind) for axis in self.product.shape_axes]

    def _on_rows(self, expr: Expr) -> Expr:
        """What is said of the result's indices, said of the product's."""
        known: dict[Expr, Expr] = {}
        for k, axes in enumerate(self.along):
            whole = radix(self.result, axes)
            same = axes and integers.sub(expr, whole) == integers.ZERO
            expr = at(k + _FAR) if same else expr
            number: Expr = at(k + _FAR)
            for axis in reversed(axes):
                extent = self.result.shape_axes[axis].extent
                first = axis == axes[0]
                known[at(axis)] = number if first else integers.mod(number, extent)
                number = integers.floordiv(number, extent)
        near: dict[Expr, Expr] = {at(k + _FAR): at(k) for k in range(len(self.along))}
        return one_remainder(substitute(substitute(expr, known), near))


_FAR = 100
"""Indices of the product's dimensions are numbered from here on while both are met."""


def _one() -> IterDomain:
    return IterDomain(integers.ONE, IterType.broadcast)
