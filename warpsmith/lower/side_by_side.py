"""Programs that share inputs alone, in one kernel: each has blocks of its own along the grid's x.

if part0_first <= grid_x < part0_end:
  part0_x = grid_x - part0_first
  ...
if part1_first <= grid_x < part1_end:
  ...
"""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.apart import apart
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.kernel.kernel import Launch
from warpsmith.kernel.nodes import If, Let, Statement
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.emit import Emitter
from warpsmith.lower.nests import Nests
from warpsmith.lower.threads import find_threads
from warpsmith.lower.vectors import Vectorizer

_ALONG = ParallelType.grid_x


def side_by_side(
    fusion: Fusion, buffers: Buffers, vectors: Vectorizer
) -> tuple[tuple[Statement, ...], Launch]:
    """The body of a kernel of such programs, and its blocks: as many as all of them have."""
    threads, domains = buffers.threads, buffers.domains
    parts = [(part, find_threads(part.operations, domains)) for part in apart(fusion)]
    counts = [own.extents.get(_ALONG, integers.ONE) for _, own in parts]
    blocks = integers.add(*counts)
    block: Expr = integers.ZERO  # a grid of one block has no name for it
    if blocks != integers.ONE:
        block = Symbol(_ALONG.name, extent=blocks)
    first: Expr = integers.ZERO
    body: list[Statement] = []
    for number, ((part, alone), count) in enumerate(zip(parts, counts, strict=True)):
        place = Symbol(f"part{number}_x", low=0, extent=count)
        end = Symbol(f"part{number}_end", low=0)
        body.append(Let(end, integers.add(first, count)))
        mine = replace(
            threads,
            extents={**threads.extents, _ALONG: count},
            symbols={**threads.symbols, _ALONG: place},
        )
        nests = Nests(domains, mine, Emitter(buffers.in_role(mine), vectors), prefix=f"p{number}_i")
        inside = integers.conjunction(_holds("le", first, block), _holds("lt", block, end))
        idle = [kind for kind in threads.extents if kind.is_block and kind not in alone.extents]
        once = integers.conjunction(*(_holds("eq", mine.symbols[k], integers.ZERO) for k in idle))
        own = (Let(place, integers.sub(block, first)), *nests.build(part.operations))
        uniform = once == integers.TRUE  # else one thread has all there is
        body.append(If(integers.conjunction(inside, once), own, uniform=uniform))
        first = end
    launch = threads.launch()
    return tuple(body), replace(launch, grid=(blocks, *launch.grid[1:]))


def _holds(op: str, a: Expr, b: Expr) -> Expr:
    return Apply(op, (a, b), DataType.Bool)
