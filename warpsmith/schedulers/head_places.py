"""Where elements of a product and of memory are, of which a result of heads is computed."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.exprs import Full, Iota, Matmul, Move, Pointwise, tensor_inputs
from warpsmith.ir.random_blocks import OF_BLOCK
from warpsmith.ir.reads import Own, Part, at
from warpsmith.ir.scalar import Apply, Expr, Symbol, evaluate
from warpsmith.ir.substitution import substitute
from warpsmith.ir.tensor import TensorView
from warpsmith.ir.turns import Turn
from warpsmith.schedulers.chains import is_join, renames
from warpsmith.schedulers.read_through import of_both, place_before
from warpsmith.schedulers.rows.recompute import NOT_REPEATED
from warpsmith.schedulers.views import own_part

MOST_PARTS = 64
"""Elements, and places of them, of which one of a result is computed, at most."""

LARGEST_HEAD = 256
"""Columns of a head of which any may be read, at most: those of a tile."""

UNKNOWN = Turn(-1, 0, 0)
"""Of a place that no turn has."""


def own_places(part: Part) -> list[Expr]:
    pairs = zip(part.places, part.source.shape_axes, strict=True)
    return [integers.ZERO if axis.is_broadcast else place for place, axis in pairs]


def is_stored(tensor: TensorView) -> bool:
    """Whether what does not depend on a product is read as it lies: not what is moved, or computed
    by a cheap operation.
    """
    made = tensor.definition
    if isinstance(made, Move):
        return not renames(made)
    if isinstance(made, Pointwise):
        return made.op in NOT_REPEATED or made.op in OF_BLOCK
    return not (isinstance(made, Full | Iota) or is_join(made))


def leaves_of(result: TensorView, behind: Set[TensorView]) -> tuple[Part, ...]:
    """What of products and of memory each element of a result is computed of; nothing where that is
    too much, or there is something else between.
    """
    found: dict[Part, None] = {}
    met: set[Part] = set()
    pending = [own_part(result)]
    while pending:
        part = pending.pop()
        tensor, made = part.source, part.source.definition
        if part in met:
            continue
        met.add(part)
        if len(met) > MOST_PARTS:
            return ()
        if isinstance(made, Matmul) or (tensor not in behind and (not made or is_stored(tensor))):
            found[part] = None
        elif isinstance(made, Move) and renames(made):
            pending.append(place_before(made, part))
        elif is_join(made):
            pending += [of_both(part, inner) for inner in made.parts]
        elif isinstance(made, Pointwise) and made.op not in OF_BLOCK:
            pending += [replace(part, source=source) for source in tensor_inputs(made)]
        elif not isinstance(made, Full | Iota):
            return ()
    return tuple(found)


def radix(result: TensorView, axes: Sequence[int]) -> Expr:
    """The number of an element among those of some dimensions of a result, the slowest first."""
    number: Expr = integers.ZERO
    for axis in axes:
        number = integers.add(integers.mul(number, result.shape_axes[axis].extent), at(axis))
    return number


def along_of(result: TensorView, parts: Sequence[Part]) -> tuple[tuple[int, ...], ...] | None:
    """For each dimension of the product that parts are of, those of a result that it is, of of
    which one at least is of several; None where rows are read in place of others.
    """
    found: list[tuple[int, ...]] = []
    product = parts[0].source
    *rows, _ = zip(*map(own_places, parts), strict=True)
    for places in rows:
        own = {node for place in places for node in place.walk() if isinstance(node, Own)}
        axes = tuple(k for k in range(result.rank) if at(k) in own)
        whole = radix(result, axes)
        if any(integers.sub(place, whole) != integers.ZERO for place in places):
            return None
        found.append(axes)
    taken = [axis for axes in found for axis in axes]
    walked = [k for k, axis in enumerate(result.shape_axes) if not axis.is_broadcast]
    columns = tuple(k for k in walked if k not in taken)
    extent = integers.mul(*(result.shape_axes[k].extent for k in columns))
    if not columns or len({*taken}) < len(taken) or extent != product.shape_axes[-1].extent:
        return None
    found.append(columns)
    return tuple(found) if any(len(axes) > 1 for axes in found) else None


def lies_otherwise(result: TensorView, along: Sequence[Sequence[int]]) -> bool:
    """Whether elements of a result do not follow each other in memory as a product's."""
    order = [axis for axes in along for axis in axes]
    return list(result.concrete_order()) != order or False in result.contiguity


def turn_at(result: TensorView, part: Part, columns: Sequence[int]) -> Turn | None:
    """The turn that reads a part of a product's columns; None for the own place of each element,
    and `UNKNOWN` where there is none.
    """
    *_, place = own_places(part)
    own, last = radix(result, columns), columns[-1]
    rest = integers.sub(place, integers.sub(own, at(last)))
    if rest == at(last):
        return None
    size = integers.constant(result.shape_axes[last].extent)
    inside = inside_of(result, part, last)
    if inside is None or size is None or symbols_of(rest) - {at(last)}:
        return UNKNOWN
    read = {k: evaluate(rest, {at(last).name: k}) for k in inside}
    if all(k == each for k, each in read.items()):
        return None
    for group in (each for each in range(2, size + 1) if size % each == 0):
        shifts = {(each - k) % group for k, each in read.items()}
        if len(shifts) == 1 and all(k // group == each // group for k, each in read.items()):
            return Turn(part.source.rank - 1, group, shifts.pop())
    return UNKNOWN


def inside_of(result: TensorView, part: Part, last: int) -> list[int] | None:
    """Indices along a dimension of a result for which a part may be read, as far as its predicate
    says of them alone; None where they are not known, or many.
    """
    size = integers.constant(result.shape_axes[last].extent)
    if size is None or size > LARGEST_HEAD:
        return None
    bounds = [b for b in integers.conjuncts(part.inside) if symbols_of(b) == {at(last)}]
    return [k for k in range(size) if all(evaluate(b, {at(last).name: k}) for b in bounds)]


def repeated(place: Expr, index: Own, inside: Sequence[int]) -> Expr | None:
    """A place that is this one for indices inside, and for others one of those; None where it is no
    number of elements from an index, or from what repeats it.
    """
    rest = integers.sub(place, index)
    if index in rest.walk():
        return None
    first, count = inside[0], len(inside)
    if inside != [*range(first, first + count)] or first % count:
        return None
    return integers.add(rest, first, integers.mod(index, count))


def one_remainder(expr: Expr) -> Expr:
    """An expression whose remainders of remainders, `x % 128 % 64`, are one, `x % 64`."""
    found: dict[Expr, Expr] = {}
    for node in expr.walk():
        if isinstance(node, Apply) and node.op == "mod":
            inner, part = node.args[0], integers.constant(node.args[1])
            if isinstance(inner, Apply) and inner.op == "mod" and part:
                whole = integers.constant(inner.args[1])
                if whole and whole % part == 0:
                    found[node] = integers.mod(inner.args[0], part)
    return substitute(expr, found) if found else expr


def symbols_of(expr: Expr) -> set[Expr]:
    return {node for node in expr.walk() if isinstance(node, Symbol)}
