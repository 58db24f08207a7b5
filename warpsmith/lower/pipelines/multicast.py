"""Tiles that several blocks of a cluster hold: each block loads a share of one for all of them."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.scalar import Const, Expr
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.clusters import by_rank, rank_among
from warpsmith.kernel.nodes import For, Statement
from warpsmith.kernel.pipelines import Content, Pipeline
from warpsmith.kernel.rings import Multicast, TileCopy
from warpsmith.kernel.tiles import TileDim
from warpsmith.kernel.traversal import map_bodies

Sharing = tuple[tuple[int, ...], ...]

START = 128
"""Bytes that the place of a copy through a tensor map is a multiple of (PTX ISA)."""

SWIZZLED_ROWS = 8
"""Rows of a swizzle's width behind which its pattern begins again."""


def sharing(copy: TileCopy, blocks: int) -> Sharing:
    """Ranks of the blocks of a cluster that load the same tile, in sets of one size.

    Empty where all blocks load different ones, or a tile cannot be cut into a share for each. What
    a block loads is told by the first element along each dimension, which may depend on its rank.
    """
    if copy.how is not LoadStoreOpType.tma or copy.stores or blocks == 1:
        return ()
    found: dict[tuple[Expr, ...], list[int]] = {}
    rank = rank_among(Const(blocks))
    for number in range(blocks):
        places = (copy.index, *(dim.first for dim in copy.dims))
        here = tuple(substitute(place, {rank: integers.index(number)}) for place in places)
        found.setdefault(here, []).append(number)
    sizes = {len(ranks) for ranks in found.values()}
    size = min(sizes)
    if len(sizes) > 1 or size == 1 or _cut(copy, size) is None:
        return ()
    return tuple(tuple(ranks) for ranks in found.values())


def shared_out(statements: tuple[Statement, ...], pipeline: Pipeline) -> tuple[Statement, ...]:
    """Copies that fill a stage, each a share of its tile where blocks load it for each other.

    Before, of a cluster of two::

        T1[0 ..] = T0[i +128, k +64] by tma

    After::

        T1[rank * 4096 ..] = T0[i + rank * 64 +64, k +64] by tma, multicast to mask 3, share ..
    """
    known = {content.name: content for content in pipeline.contents if content.sharing}
    return tuple(_shared_out(statement, known) for statement in statements)


def _shared_out(statement: Statement, known: dict[str, Content]) -> Statement:
    if isinstance(statement, For):
        return map_bodies(statement, lambda b: tuple(_shared_out(s, known) for s in b))
    if not isinstance(statement, TileCopy) or statement.shared.name not in known:
        return statement
    sets = known[statement.shared.name].sharing
    count = len(sets[0])
    place = {rank: (at, ranks) for ranks in sets for at, rank in enumerate(ranks)}
    blocks = range(len(place))
    share = by_rank([place[rank][0] for rank in blocks])
    mask = by_rank([sum(1 << peer for peer in place[rank][1]) for rank in blocks])
    axis = _cut(statement, count)
    assert axis is not None, "`sharing` admitted the tile"
    dim = statement.dims[axis]
    part = dim.length // count
    first = integers.add(dim.first, integers.mul(share, part * dim.step))
    dims = (
        *statement.dims[:axis],
        replace(dim, box=part, first=first),
        *statement.dims[axis + 1 :],
    )
    held = integers.mul(*(each.box for each in dims))
    return replace(
        statement,
        index=integers.add(statement.index, integers.mul(share, held)),
        dims=dims,
        multicast=Multicast(mask, share, count),
    )


def _cut(copy: TileCopy, count: int) -> int | None:
    """The dimension along which a tile is cut, the slowest of several elements.

    None where so many parts are not equal, or do not begin where a copy, and its swizzle, may.
    """
    axis = next((at for at, dim in enumerate(copy.dims) if dim.box != 1), None)
    if axis is None or copy.dims[axis].length % count:
        return None
    held = _elements(copy.dims[axis:]) * copy.memory.dtype.size // count
    return None if held % (copy.swizzle * SWIZZLED_ROWS or START) else axis


def _elements(dims: tuple[TileDim, ...]) -> int:
    found = 1
    for dim in dims:
        found *= dim.length
    return found
