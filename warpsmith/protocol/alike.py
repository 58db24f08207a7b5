"""Blocks of a cluster that do alike, of which a few stand for all.

Two blocks do alike where nothing that their synchronization depends on tells them apart, and where
others do the same to both. Of blocks that do alike the first, and another one that stands for all
others, are enough, as of warps (`skeleton.py`): what can happen between any two of them can happen
between these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import product

from warpsmith.ir import integers
from warpsmith.ir.domains import GRID_TYPES
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.clusters import RANK, ArriveRemote, ReleaseRemote, rank_in
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If, Let, Statement
from warpsmith.kernel.reductions import Reduce, ScanElements
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.traversal import children, expressions, walk
from warpsmith.protocol.accesses import synchronizes
from warpsmith.protocol.sends import stores
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Standing:
    """A block of a cluster, and what it knows of its place.

    Attributes:
        ranks: of the blocks that it stands for, its own first.
        known: its rank, and its index in the grid.
    """

    ranks: tuple[int, ...]
    known: Mapping[str, int]

    @property
    def rank(self) -> int:
        return self.ranks[0]


def standing(
    kernel: Kernel,
    known: Mapping[str, int],
    synchronizing: dict[int, bool],
    sent: Iterable[Mapping[int, int]],
) -> tuple[Standing, ...]:
    """Blocks that stand for all of a cluster, in the order of their ranks.

    Args:
        known: of one of its blocks.
        synchronizing: as `synchronizes` remembers.
        sent: by rank, bytes that come there by one statement.
    """
    cluster = kernel.launch.cluster
    origin = {k.name: known[k.name] // n * n for k, n in zip(GRID_TYPES, cluster, strict=True)}
    places: list[dict[str, int]] = []
    for rank, at in enumerate(product(*map(range, reversed(cluster)))):
        along = zip(GRID_TYPES, reversed(at), strict=True)
        here = {kind.name: origin[kind.name] + step for kind, step in along}
        places.append({**here, RANK: rank})
    named = {(s.symbol, s.value) for s in walk(kernel.body) if isinstance(s, Let)}
    lets: dict[Expr, Expr] = dict(named)
    differing = [name for name in places[0] if len({place[name] for place in places}) > 1]

    @cache
    def tells(expr: Expr) -> bool:
        symbols = (node for node in expr.walk() if isinstance(node, Symbol))
        return any(s.name in differing or (s in lets and tells(lets[s])) for s in symbols)

    steps = _steps(kernel.body, synchronizing)
    telling = {_open(e, lets) for s in steps for e in _operands(s) if tells(e)}
    if len(lets) < len(named):  # a name of two values is looked at no further
        telling.add(rank_in(kernel.launch))
    reached = [*sent, *_reached(kernel, known)]
    alike: dict[object, list[int]] = {}
    for rank, place in enumerate(places):
        mine = tuple(_value(expr, {**known, **place}) for expr in telling)
        key = mine, tuple(ranks.get(rank, 0) for ranks in reached)
        alike.setdefault(key, []).append(rank)
    found = [tuple(part) for ranks in alike.values() for part in (ranks[:1], ranks[1:]) if part]
    return tuple(Standing(ranks, places[ranks[0]]) for ranks in sorted(found))


def _steps(statements: Iterable[Statement], synchronizing: dict[int, bool]) -> Iterator[Statement]:
    """Statements by which steps are told: those that synchronize, and what stands around them."""
    for statement in statements:
        asked = isinstance(statement, If) and statement.uniform
        if not stores(statement) and (asked or synchronizes(statement, synchronizing)):
            yield statement
            yield from _steps(children(statement), synchronizing)


def _operands(statement: Statement) -> tuple[Expr, ...]:
    """What a statement's steps depend on."""
    if isinstance(statement, Reduce | ScanElements):
        return ()
    if isinstance(statement, TileCopy):
        cast = statement.multicast
        return (
            statement.condition,
            *(() if statement.stores else (statement.bytes,)),
            *(() if cast is None else (cast.mask, cast.share)),
        )
    return tuple(expressions(statement))


def _reached(kernel: Kernel, known: Mapping[str, int]) -> Iterator[Mapping[int, int]]:
    """How often a statement reaches the block of each rank; who can tell is told apart."""
    every = range(kernel.launch.cluster_blocks)
    for statement in walk(kernel.body):
        if isinstance(statement, ArriveRemote | ReleaseRemote):
            ranks = [integers.constant(_value(rank, known)) for rank in statement.ranks]
            yield {rank: rank if None in ranks else ranks.count(rank) for rank in every}
        elif isinstance(statement, TileCopy) and statement.multicast is not None:
            mask = integers.constant(_value(statement.multicast.mask, known))
            yield {rank: rank if mask is None else mask >> rank & 1 for rank in every}


def _open(expr: Expr, lets: Mapping[Expr, Expr]) -> Expr:
    """The expression without names for parts of it."""
    used = {n: _open(lets[n], lets) for n in expr.walk() if n in lets}
    return substitute(expr, used) if used else expr


def _value(expr: Expr, known: Mapping[str, int]) -> Expr:
    """The expression with what is known put in."""
    symbols = (node for node in expr.walk() if isinstance(node, Symbol) and node.name in known)
    return substitute(expr, {symbol: integers.index(known[symbol.name]) for symbol in symbols})
