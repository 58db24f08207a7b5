"""Blocks that wait for each other loop over more groups than run at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.domains import GRID_TYPES
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.clock import AwaitClock, StartClock
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Let, PrefetchVector, Statement
from warpsmith.kernel.reductions import Reduce, Sharing
from warpsmith.kernel.traversal import replace_symbols, walk


def loop_over_groups(kernel: Kernel) -> Kernel:
    """Blocks along y of the grid meet, and have what their place along x says. All blocks must run
    at once, so where there is more along x than that, they take one after the other
    (`Kernel.at_once`). Each group has words of its own to meet at, whichever blocks have it.

    Every other place begins later, by about the time in which the others load (`Kernel.behind`):
    as some blocks load, others meet and store, and the memory has work all the time.

    Before, `groups` blocks along x::

        load x[blockIdx.x], reduce over y; store y[blockIdx.x]

    After, `at_once` of them::

        wait (blockIdx.x % 2) * behind ns
        for round < ceil((groups - blockIdx.x) / at_once):
            group = blockIdx.x + round * at_once
            load x[group], reduce over y, at the words of the group; store y[group]
    """
    if kernel.at_once is None:
        return kernel
    groups, splits, _ = kernel.launch.grid
    only, share, _ = (
        Symbol(kind.name, extent=n) for kind, n in zip(GRID_TYPES, kernel.launch.grid, strict=True)
    )
    place, group = Symbol(only.name, extent=kernel.at_once), Symbol("group", extent=groups)
    number = Symbol("round", low=0)
    body = tuple(replace_symbols(each, {only: group}) for each in kernel.body)
    sharing = Sharing(number=share, count=splits, place=integers.mul(group, splits), segment=group)
    whole = Let(group, integers.add(place, integers.mul(number, kernel.at_once)))
    rounds = integers.ceildiv(integers.sub(groups, place), kernel.at_once)
    following = tuple(_first_turn(body, group, integers.add(group, kernel.at_once)))
    more = If(integers.less(integers.add(group, kernel.at_once), groups), following, uniform=True)
    turn: list[Statement] = [whole]
    for each in body:
        if isinstance(each, Reduce) and each.meets:
            turn += [more] if following else []
            turn.append(replace(each, shared=sharing))
        else:
            turn.append(each)
    loop = For(number, rounds, tuple(turn), unroll=False)
    launch = replace(kernel.launch, grid=(kernel.at_once, *kernel.launch.grid[1:]))
    wait: tuple[Statement, ...] = ()
    if kernel.behind is not None:
        late = integers.mul(integers.mod(place, 2), kernel.behind)
        wait = StartClock(), AwaitClock(late, 1)
    return replace(kernel, body=(*wait, loop), launch=launch, at_once=None, behind=None)


def _first_turn(body: tuple[Statement, ...], group: Symbol, other: Expr) -> Iterator[Statement]:
    """Requests for what the first turn of another group loads: blocks that wait at a meeting load
    nothing.
    """
    for loop in body:
        if isinstance(loop, For) and not loop.unroll:
            names: dict[Expr, Expr] = {loop.symbol: integers.index(-1), group: other}
            for each in loop.body:
                if any(isinstance(inner, PrefetchVector) for inner in walk((each,))):
                    yield replace_symbols(each, names)
            return
