"""Blocks begin their sums with different terms, so that they do not all ask for alike places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Let, Statement
from warpsmith.kernel.pipelines import Pipeline
from warpsmith.kernel.products import AwaitProducts, CommitProducts, FenceProducts, Multiply
from warpsmith.kernel.rings import Advance, Await, Expect, TileCopy
from warpsmith.kernel.traversal import children, expressions, map_bodies, replace_symbols, walk

_SUMMING = For | If | Await | Advance | FenceProducts | Multiply | CommitProducts | AwaitProducts
_LOADING = For | Let | Await | Expect | TileCopy | Advance


def stagger_loops(kernel: Kernel) -> Kernel:
    """Loads along k of products alone begin at different places in different blocks.

    Before::

        for k < K: { await; T5[..] = T0[.., k]; T6[..] = T1[.., k] }

    After, in block `grid_x` of 132::

        for k < K: { await; at = k + grid_x * K / 132; at = at < K ? at : at - K
                     T5[..] = T0[.., at]; T6[..] = T1[.., at] }

    Rows lie at multiples of some number of bytes: blocks that go along k together ask for few of
    the memory's channels at a time, and all of them for the same part of what they share.
    """
    branches = {s.agent.name: s for s in kernel.body if isinstance(s, Branch)}
    found = [
        loop.symbol
        for ring in kernel.pipelines
        if ring.producer in branches and all(name in branches for name in ring.consumers)
        for loop in _staggered(ring, branches)
    ]
    if not found or kernel.launch.grid[0] == integers.ONE:
        return kernel
    block = _Block(kernel.launch.grid[0])
    body = tuple(block.changed(statement, found) for statement in kernel.body)
    return replace(kernel, body=body)


def _staggered(ring: Pipeline, branches: dict[str, Branch]) -> Sequence[For]:
    """The loops that load for products alone; none where anything else is done with a stage."""
    if ring.empty is None:
        return ()
    loads = _waiting(branches[ring.producer].body, ring.empty.name)
    users = [branches[name].body for name in ring.consumers]
    sums = [loop for body in users for loop in _waiting(body, ring.full.name)]
    if len(loads) != 1 or not sums:
        return ()
    (load,) = loads
    copies = [each for each in walk(load.body) if isinstance(each, TileCopy)]
    plain = all(c.how is LoadStoreOpType.tma and not c.stores for c in copies)
    alone = all(isinstance(each, _LOADING) for each in walk(load.body)) and plain
    return (load,) if alone and all(_only_sums(each, ring) for each in sums) else ()


def _waiting(statements: tuple[Statement, ...], barrier: str) -> list[For]:
    """The innermost loops in which a barrier is waited for."""
    loops = [each for each in walk(statements) if isinstance(each, For) and not each.unroll]
    return [
        loop
        for loop in loops
        if any(isinstance(s, Await) and s.barrier.name == barrier for s in loop.body)
    ]


def _only_sums(loop: For, ring: Pipeline) -> bool:
    """Whether which iteration it is decides of nothing but whether a product adds."""
    for each in loop.body:
        if isinstance(each, If):  # of releases
            continue
        for inner in walk((each,)):
            if not isinstance(inner, _SUMMING):
                return False
            named = [e for e in expressions(inner) if loop.symbol in set(e.walk())]
            if any(expression is not getattr(inner, "keep", None) for expression in named):
                return False
    return any(isinstance(each, Multiply) for each in walk(loop.body))


@dataclass(frozen=True, slots=True)
class _Block:
    count: Expr

    def changed(self, statement: Statement, found: Sequence[Symbol]) -> Statement:
        if isinstance(statement, For) and statement.symbol in found:
            return replace(statement, body=tuple(self._places(statement)))
        return map_bodies(
            statement, lambda inside: tuple(self.changed(each, found) for each in inside)
        )

    def _places(self, loop: For) -> Sequence[Statement]:
        block, steps = Symbol("grid_x"), loop.extent
        first = integers.floordiv(integers.mul(block, steps), self.count)
        moved = Symbol(f"{loop.symbol.name}_moved")
        at = Symbol(f"{loop.symbol.name}_at")
        inside = integers.less(moved, steps)
        place = Apply("where", (inside, moved, integers.sub(moved, steps)), DataType.Index)
        lets = (Let(moved, integers.add(loop.symbol, first)), Let(at, place))
        return (*lets, *(self._loads(each, loop.symbol, at) for each in loop.body))

    def _loads(self, statement: Statement, symbol: Symbol, at: Symbol) -> Statement:
        if isinstance(statement, TileCopy):
            return replace_symbols(statement, {symbol: at})
        if children(statement):
            return map_bodies(
                statement, lambda body: tuple(self._loads(each, symbol, at) for each in body)
            )
        return statement
