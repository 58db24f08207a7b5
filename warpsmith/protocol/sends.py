"""What threads send to blocks of a cluster, counted thread by thread.

Threads tell by their numbers what they send, and to whom. So a statement that does nothing but send
is not looked at as one warp's, all of whose threads do alike: what each warp sends is added up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NoReturn

from warpsmith.ir.domains import BLOCK_TYPES
from warpsmith.ir.scalar import Expr, Symbol, evaluate
from warpsmith.kernel.clusters import RANK, StoreAsync
from warpsmith.kernel.nodes import For, If, Let, Statement
from warpsmith.kernel.traversal import children, walk
from warpsmith.protocol.rules import Rule, broken
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

Amounts = Mapping[tuple[int, int], int]
"""Bytes, by the number of a store among those of a statement, and the rank that gets them."""

Sends = Mapping[int, Amounts]
"""What a warp sends in statements, by their identity."""


def stores(statement: Statement) -> tuple[StoreAsync, ...]:
    """What is sent inside a statement that does nothing else; empty where it does, or where all
    threads agree on whether it runs.
    """
    if isinstance(statement, If) and statement.uniform:
        return ()
    inner = [s for s in walk((statement,)) if not children(s)]
    sent = tuple(s for s in inner if isinstance(s, StoreAsync))
    return sent if all(isinstance(s, StoreAsync | Let) for s in inner) else ()


def sending(statements: Sequence[Statement]) -> Iterator[Statement]:
    """The outermost statements that do nothing but send."""
    for statement in statements:
        if stores(statement):
            yield statement
        else:
            yield from sending(children(statement))


@dataclass(frozen=True, slots=True)
class Senders:
    """Those who run a body.

    Attributes:
        extents: threads along x, y, z.
        known: of all of them in all blocks: sizes, and the number of their group.
        lets: what names in the body stand for.
        blocks: of a cluster.
    """

    extents: tuple[int, int, int]
    known: Mapping[str, int]
    lets: Mapping[str, Expr]
    blocks: int

    def by_warp(self, statement: Statement) -> tuple[Amounts, ...]:
        """What each warp sends.

        Raises:
            Broken: sizes and the numbers of threads do not tell, or two parts go to one place.
        """
        found: list[dict[tuple[int, int], int]] = []
        sent = stores(statement)
        numbers = {id(store): number for number, store in enumerate(sent)}
        places: set[tuple[str, int, int]] = set()
        try:
            for warp, store, known in self._all(statement):
                rank = evaluate(store.rank, known)
                if not 0 <= rank < self.blocks:
                    _refused(f"something is sent to block {rank} of {self.blocks}", store)
                found += [{} for _ in range(len(found), warp + 1)]
                key = numbers[id(store)], rank
                found[-1][key] = found[-1].get(key, 0) + store.bytes
                stage = {n.name: 0 for n in store.stage.walk() if isinstance(n, Symbol)}
                for own in range(self.blocks):
                    index = evaluate(store.index, known.having({**stage, RANK: own}))
                    if (place := (store.buffer.name, rank, index)) in places:
                        _refused(f"several parts are sent to element {index}", store)
                    places.add(place)
        except KeyError as error:
            _refused(f"what is sent depends on {error.args[0]}", sent[0])
        threads = math.prod(self.extents)
        return (*found, *({} for _ in range(len(found), -(-threads // WARP))))

    def _all(self, statement: Statement) -> Iterator[tuple[int, StoreAsync, _Values]]:
        """(warp, store, values that are known) of all that is sent."""
        kinds = [kind.name for kind in reversed(BLOCK_TYPES)]
        for number, thread in enumerate(product(*map(range, reversed(self.extents)))):
            known = _Values({**dict(zip(kinds, thread, strict=True)), **self.known}, self.lets)
            for store, inside in _stores(statement, known):
                yield number // WARP, store, inside


class _Values(dict[str, int]):
    """Values of symbols by name; names of expressions get theirs when they are asked for."""

    def __init__(self, known: Mapping[str, int], lets: Mapping[str, Expr]) -> None:
        super().__init__(known)
        self._lets = lets

    def __missing__(self, name: str) -> int:
        return evaluate(self._lets[name], self)

    def having(self, more: Mapping[str, int]) -> _Values:
        """These values, and others."""
        return _Values({**self, **more}, self._lets)


def _stores(statement: Statement, known: _Values) -> Iterator[tuple[StoreAsync, _Values]]:
    """What one thread stores, with the values of the loops around it."""
    match statement:
        case StoreAsync():
            yield statement, known
        case If(condition=condition, body=body):
            if evaluate(condition, known):
                for inner in body:
                    yield from _stores(inner, known)
        case For(symbol=symbol, extent=extent, body=body):
            for number in range(evaluate(extent, known)):
                for inner in body:
                    yield from _stores(inner, known.having({symbol.name: number}))


def _refused(what: str, store: StoreAsync) -> NoReturn:
    wanted = "sizes and the numbers of threads tell, and each part has its place"
    broken(Rule.CLUSTER, what, wanted, buffer=store.buffer.name)
