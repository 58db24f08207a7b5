"""Operations that wait for the region of what reads them."""

from __future__ import annotations

from collections.abc import Container, Mapping

from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.graph import Graph


def postponed(graph: Graph, last: Mapping[int, int], taken: Container[int]) -> dict[int, int]:
    """By position of each operation that no product's kernel takes, the number of its region.

    It is that of the last product that it depends on, or a later one: the sum of two gradients that
    only a later norm reads is computed there, and never stored. That is so where all that read its
    result are in later regions, and nothing else in its own reads what it does.

    Args:
        last: by position of an operation, the number of the last product that it depends on.
        taken: positions of the operations that kernels of products take.
    """
    numbers = {position: number for position, number in last.items() if position not in taken}
    for position in sorted(numbers, reverse=True):
        made = graph.made(position)
        if not isinstance(graph.operations[position], Pointwise) or graph.results & {*made}:
            continue
        readers = {r for t in made for r in graph.readers.get(t, ()) if r in last}
        if not readers or any(reader in taken for reader in readers):
            continue
        beside = (r for t in graph.sources(position) for r in graph.readers.get(t, ()))
        own = numbers[position]
        if not any(numbers.get(r) == own for r in beside if r != position):
            numbers[position] = min(numbers[reader] for reader in readers)
    return numbers
