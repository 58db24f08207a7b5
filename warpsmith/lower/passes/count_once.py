"""Let moments of several results be joined under the one number of what they are of."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.carry import moments
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Element, For, Statement, Store
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.traversal import map_bodies

_TOGETHER = 4
"""Results of a thread go through the memory of the grid in accesses of so many floats."""


def count_once(kernel: Kernel) -> Kernel:
    """Say of reductions to moments that all elements of a thread are of as many values.

    A thread that adds up rows of several columns has one number for all of them. Then a word less
    of each result is exchanged, and one reciprocal serves all.

    Before::

        for e < 8 unrolled: { T4[e] = T1[e]; T5[e] = T2[e]; T6[e] = T3[0] }
        reduce welford T4, T5, T6 x8 over block_y

    After::

        for e < 8 unrolled: { T4[e] = T1[e]; T5[e] = T2[e]; T6[e] = T3[0] }
        reduce welford T4, T5, T6 x8 over block_y, under one count
    """
    if any(integers.constant(extent) is None for extent in kernel.launch.block):
        return kernel
    body = _within(kernel.body)
    return kernel if body == kernel.body else replace(kernel, body=body)


def _within(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    made: list[Statement] = []
    for statement in statements:
        before = made[-1] if made else None
        if isinstance(statement, Reduce) and isinstance(before, For):
            once = _may_be(statement) and _has_one_count(before, statement)
            made.append(replace(statement, one_count=True) if once else statement)
        else:
            made.append(map_bodies(statement, _within))
    return tuple(made)


def _may_be(reduce: Reduce) -> bool:
    """Whether the prelude has it: of all threads of a block, and of blocks that all get it."""
    alone = not (reduce.first or reduce.lanes or reduce.kept or reduce.shared)
    whole = reduce.blocks == 1 and reduce.fresh is None and bool(reduce.block_axes)
    floats = reduce.carry == moments(DataType.Float) and reduce.elements % _TOGETHER == 0
    return alone and whole and floats and (reduce.meets or not reduce.grid_axes)


def _has_one_count(loop: For, reduce: Reduce) -> bool:
    """Whether a loop over the elements gives all of them one number."""
    only = all(isinstance(each, Store) and each.buffer in reduce.buffers for each in loop.body)
    counts = [s for s in loop.body if isinstance(s, Store) and s.buffer == reduce.buffers[2]]
    whole = loop.extent == integers.index(reduce.elements) and reduce.index == integers.ZERO
    if not (only and whole and len(counts) == 1):
        return False
    (count,) = counts
    nodes = tuple(count.value.walk())
    own = any(isinstance(node, Element) and node.buffer in reduce.buffers for node in nodes)
    return count.index == loop.symbol and loop.symbol not in nodes and not own
