"""A dimension as tiles of it, of which the last one may be filled up."""

from __future__ import annotations

from warpsmith.errors import DefinitionError
from warpsmith.ir import domains, integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Move
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.ops import pointwise
from warpsmith.ops.broadcasting import add_axes
from warpsmith.ops.factories import iota
from warpsmith.ops.values import as_tensor, dimension

_OP = "tiles"


def tiles(arg: TensorView, dim: int, size: int) -> TensorView:
    """`[.., n, ..]` as `[.., ceil(n / size), size, ..]`: zeros past the end of the last tile.

    Raises:
        DefinitionError: WS0139 for tiles of less than two, and of a dimension that is broadcast.
    """
    source = as_tensor(arg, _OP)
    place = dimension(source, dim, _OP)
    axis = source.shape_axes[place]
    if size < 2 or axis.is_broadcast:
        raise DefinitionError(
            f"{source.name} has no tiles of {size} along dimension {dim}",
            code="WS0139",
            remedy="give two or more, of a dimension that is not defined as 1",
        )
    made = _divided(source, place, size)
    there = inside(axis.extent, size, fusion=Fusion.of(source))
    flags = tuple(d not in (place, place + 1) for d in range(made.rank))
    zero = False if source.dtype is DataType.Bool else 0
    return as_tensor(pointwise.where(add_axes(there, flags), made, zero), _OP)


def inside(extent: Expr, size: int, *, fusion: Fusion) -> TensorView:
    """Which elements of which tiles a dimension has: `[tiles, size]`."""
    first = iota(integers.ceildiv(extent, size), 0, size, fusion=fusion)
    own = iota(size, fusion=fusion)
    places = pointwise.add(add_axes(first, (False, True)), add_axes(own, (True, False)))
    return as_tensor(pointwise.lt(places, extent), _OP)


def _divided(source: TensorView, place: int, size: int) -> TensorView:
    """The same, with anything past the end."""
    fusion = Fusion.of(source)
    root = tuple(IterDomain(axis.extent, axis.kind) for axis in source.shape_axes)
    parts = domains.split(root[place], integers.index(size))
    logical = (*root[:place], parts.outer, parts.inner, *root[place + 1 :])
    output = fusion.tensor(source.dtype, logical, root=root, transforms=(parts,))
    fusion.append(Move("tiles", source, output, tuple(range(source.rank)), (place, size)))
    return output
