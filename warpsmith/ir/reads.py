"""Read: elements of tensors in global memory, at places that are computed.

A place is an index expression over the symbols of `at`, which are the indices of the result's own
element, and of `chosen`, which are elements of index tensors. What is looked up in memory is no
number that a host knows; `checked` is an index that was found to lie inside a dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.polynomials import polynomial
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.ir.tensor import OneResult, Operation, Pair, TensorView, Value
from warpsmith.values import dataclass

CHECKS = ("place", "place_from_end")
"""Operations that give an index which memory says, and trap where there is no such element: the
second counts negative ones from the end."""

WINDOW = "window"
"""The kind of reads of which several read the same elements, as those of pools."""

SEARCHES = ("count_up_to", "nth_parted")
"""Operations of a `Search`, of where a row begins, elements between two of it, how many there are,
and what is wanted."""


class Own(Symbol):
    """A symbol that means the same in every operation, as sizes and loops do not."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return Own, (self.name, self.dtype), (("extent", self.extent), ("low", self.low))


def at(dimension: int) -> Own:
    """The index of the result's element along one of its root axes."""
    return Own(f"at{dimension}", low=0)


def chosen(number: int, dtype: DataType) -> Own:
    """The element of an index tensor for the result's element."""
    return Own(f"chosen{number}", dtype)


def checked(index: Expr, extent: Expr, *, from_end: bool = False) -> Expr:
    """An index that memory says, once it is known to lie inside a dimension."""
    return Apply(CHECKS[from_end], (index, extent), DataType.Index)


@dataclass(frozen=True, slots=True)
class Part:
    """Where one tensor is read.

    Attributes:
        places: for each dimension of the tensor.
        inside: the predicate under which the result's element is read from it.
    """

    source: TensorView
    places: tuple[Expr, ...]
    inside: Expr

    def axis_at(self, dimension: int, rank: int) -> int | None:
        """The result's axis that a dimension is read along, element by element, if there is one."""
        place = self.places[dimension]
        return next((k for k in range(rank) if place == at(k)), None)


@dataclass(frozen=True, slots=True, eq=False)
class Read(OneResult):
    """`output[i...] = source[places(i...)]`, of the part that `i...` is inside of, else `fill`.

    No element is inside of two parts. Tensors that are read so lie in global memory; `indices` are
    read as a pointwise operation reads its operands, and have the output's rank.

    Attributes:
        kind: the operation of users that it is.
        fill: a scalar of the output's type; None where every element is inside of a part.
        arguments: what the user wrote, for printing.
    """

    kind: str
    sources: tuple[TensorView, ...]
    indices: tuple[TensorView, ...]
    fill: Expr | None
    places: tuple[tuple[Expr, ...], ...]
    insides: tuple[Expr, ...]
    output: TensorView
    arguments: tuple[object, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(map(Part, self.sources, self.places, self.insides))

    @property
    def is_one(self) -> bool:
        """Whether it is of all elements of a result, from one tensor, at places that sizes alone
        say.
        """
        return not self.indices and self.insides == (integers.TRUE,)

    @property
    def inputs(self) -> tuple[Value, ...]:
        filled = () if self.fill is None else (self.fill,)
        places = (place for part in self.places for place in part)
        return (*self.sources, *self.indices, *filled, *places, *self.insides)

    def pairs(self, source: TensorView) -> tuple[Pair, ...]:
        """Those of index tensors: a source is read in an order of its own."""
        if source in self.indices:
            return tuple(zip(source.shape_axes, self.output.root, strict=True))
        return ()

    def with_values(self, inputs: Sequence[Any], output: TensorView) -> Read:
        """The same of other values, in the order of `inputs`."""
        coming = iter(inputs)
        sources = tuple(next(coming) for _ in self.sources)
        indices = tuple(next(coming) for _ in self.indices)
        fill = None if self.fill is None else next(coming)
        places = tuple(tuple(next(coming) for _ in part) for part in self.places)
        insides = tuple(coming)
        return Read(self.kind, sources, indices, fill, places, insides, output, self.arguments)


@dataclass(frozen=True, slots=True, eq=False)
class Search(OneResult):
    """Numbers that bisection finds in rows, which lie in global memory along a last dimension.

    All tensors have one rank; dimensions but the last are those of the result.

    Attributes:
        op: `count_up_to`, of rows that ascend: how many elements are no larger than the wanted one;
            or `nth_parted`, of rows that count the zeros up to each place: where what comes at the
            wanted place stands, when all zeros come first, and all ones behind them, in order.
    """

    op: str
    source: TensorView
    wanted: TensorView
    output: TensorView

    @property
    def inputs(self) -> tuple[Value, ...]:
        return (self.source, self.wanted)

    def pairs(self, source: TensorView) -> tuple[Pair, ...]:
        """Those of what is wanted: rows are read in an order of their own."""
        if source is self.wanted:
            return tuple(zip(source.shape_axes, self.output.root, strict=True))
        return ()


def is_window(operation: Operation | None) -> TypeGuard[Read]:
    """Whether an operation reads one element of each window of a tensor of the same rank."""
    return isinstance(operation, Read) and operation.kind == WINDOW


def stretch_of(tensor: TensorView) -> Read | None:
    """The read that makes a tensor a stretch of one in memory: elements at even steps along each
    dimension; None for any other tensor.
    """
    read = tensor.definition
    if not (isinstance(read, Read) and read.is_one):
        return None
    (source,), (places,) = read.sources, read.places
    even = all(start_and_step(place, k) is not None for k, place in enumerate(places))
    return read if even and source.definition is None and source.rank == tensor.rank else None


def start_and_step(place: Expr, dimension: int) -> tuple[Expr, int] | None:
    """Where elements along a dimension begin, and how far apart they are; None where their places
    are no such sum.
    """
    own, step = at(dimension), 0
    rest: Expr = integers.ZERO
    for factors, coefficient in polynomial(place).items():
        if factors == (own,):
            step = coefficient
        elif any(isinstance(node, Own) for factor in factors for node in factor.walk()):
            return None
        else:
            rest = integers.add(rest, integers.mul(*factors, coefficient))
    return (rest, step) if step > 0 else None


def read_elsewhere(operation: Operation) -> tuple[TensorView, ...]:
    """What an operation reads from memory at other places than its own element's."""
    if isinstance(operation, Read):
        return operation.sources
    return (operation.source,) if isinstance(operation, Search) else ()
