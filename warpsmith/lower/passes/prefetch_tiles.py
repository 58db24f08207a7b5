"""Ask the L2 for what is loaded behind a loop, while that loop ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.kernel.agents import Kind
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.tiles import PrefetchTile
from warpsmith.kernel.traversal import children, map_bodies, replace_symbols, with_body
from warpsmith.values import dataclass

AHEAD = 16
"""Iterations at the end of the loop over which what comes later is asked for, evenly: at once it
holds up what the loop loads, and then products. A residual at 2048 x 4096 x 4096 over the plain
product: 1.0 so, 1.02 all at once 8 iterations before the end, which then took 1900 clocks longer,
1.01 evenly over 8 or 32 and without (an H200, 2026-11-27)."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop in which one thread asks for tiles, and what it stands in, outermost first."""

    around: tuple[Statement, ...]
    loop: For

    @property
    def copies(self) -> list[TileCopy]:
        """Those by tensor maps that bring elements as they are."""
        found = [s for s in self.loop.body if isinstance(s, TileCopy) and s.barrier is not None]
        return [copy for copy in found if copy.how is LoadStoreOpType.tma and not copy.rounds]


def prefetch_tiles(kernel: Kernel) -> Kernel:
    """Tiles for which there is no stage come to the L2 while another agent loads what comes first.

    Before, where a pipeline of two stages brings the chunks of a residual::

        role load:         for tile: for k < K: { await; T5[..] = T0[..]; T6[..] = T1[..] }
        role load_beside:  for tile: for chunk < 8: { await; T7[..] = T2[tile, chunk] }

    After::

        role load:         for tile: for k < K: {
            await; T5[..] = T0[..]; T6[..] = T1[..]
            if K - 16 <= k: for later < 6: if k == max(K - 16 + later * 16 / 6, 0):
                prefetch T2[tile, later + 2]
        }

    For agents that copy, and come by both loops equally often: in loops, and under conditions, that
    are the same but for their names. Where one agent brings both through the same stages, it asks
    for all of what comes later: stages are free for that only as the loop ends.
    """
    copying = [b for b in kernel.branches if b.agent.kind is Kind.COPY and b.agent.elected]
    loops = {branch.agent.name: list(_loops(branch.body, ())) for branch in copying}
    stages = {pipeline.full.name: pipeline.stages for pipeline in kernel.pipelines}
    found: dict[str, list[tuple[For, Statement]]] = {}
    for chunks in (each for all_ in loops.values() for each in all_):
        for other, first in ((n, each) for n, all_ in loops.items() for each in all_):
            asked = _asked(chunks, first, stages)
            if asked is not None:
                found.setdefault(other, []).append((first.loop, asked))
                break
    return kernel.map_branches(
        lambda b: with_body(b, _inserted(b.body, found.get(b.agent.name, ())))
    )


def _loops(statements: Sequence[Statement], around: tuple[Statement, ...]) -> Iterator[_Loop]:
    """The innermost loops in which tiles are asked for."""
    for statement in statements:
        if isinstance(statement, For) and any(isinstance(s, TileCopy) for s in statement.body):
            yield _Loop(around, statement)
        else:
            yield from _loops(children(statement), (*around, statement))


def _asked(chunks: _Loop, first: _Loop, stages: Mapping[str, int]) -> Statement | None:
    """What the agent of the first loop asks for in its last iterations; None where it needs not, or
    does not come by as often as the other one.
    """
    count = integers.constant(chunks.loop.extent)
    if not chunks.copies or count is None or integers.constant(first.loop.extent) is not None:
        return None
    through = {copy.barrier[0].name for copy in chunks.copies if copy.barrier}
    shared = any(copy.barrier[0].name in through for copy in first.copies if copy.barrier)
    held = 0 if shared else min(stages[name] for name in through)
    names = _same(chunks.around, first.around)
    if held >= count or names is None:
        return None
    later = Symbol(f"{chunks.loop.symbol.name}_later", low=0, extent=integers.index(count - held))
    mapping = {**names, chunks.loop.symbol: integers.add(later, held)}
    tiles = (PrefetchTile(copy.memory, copy.dims, copy.swizzle) for copy in chunks.copies)
    body = tuple(replace_symbols(tile, mapping) for tile in tiles)
    begin, step = integers.sub(first.loop.extent, AHEAD), first.loop.symbol
    spread = integers.floordiv(integers.mul(later, AHEAD), count - held)
    when = integers.maximum(integers.add(begin, spread), integers.ZERO)
    now = If(Apply("eq", (step, when), DataType.Bool), body)
    some = For(later, integers.index(count - held), (now,), unroll=False)
    return If(integers.less(integers.sub(begin, 1), step), (some,))


def _same(around: tuple[Statement, ...], others: tuple[Statement, ...]) -> dict[Expr, Expr] | None:
    """The names of the others' loops by those of the first; None where they are not the same."""
    if len(around) != len(others):
        return None
    names: dict[Expr, Expr] = {}
    for one, other in zip(around, others, strict=True):
        if isinstance(one, For) and isinstance(other, For):
            names[one.symbol] = other.symbol
            one = replace(one, symbol=other.symbol)
        if not isinstance(one, For | If):
            return None
        if replace_symbols(with_body(one, ()), names) != with_body(other, ()):
            return None
    return names


def _inserted(
    statements: tuple[Statement, ...], found: Sequence[tuple[For, Statement]]
) -> tuple[Statement, ...]:
    """The statements with what is asked for at the end of these loops."""

    def change(statement: Statement) -> Statement:
        more = tuple(asked for loop, asked in found if loop is statement)
        if more:
            return with_body(statement, (*children(statement), *more))
        return map_bodies(statement, lambda body: tuple(map(change, body)))

    return tuple(map(change, statements))
