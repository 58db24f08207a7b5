"""How the operands of products lie in memory."""

from __future__ import annotations

from warpsmith.ir.exprs import Matmul
from warpsmith.ir.graph import Graph


def operand_orders(graph: Graph) -> dict[int, tuple[int, ...]]:
    """By number, the `stride_order` of operands of products that are computed: the dimension that
    the product sums is the fastest, since tensor cores are fed best so. The first product decides.
    """
    found: dict[int, tuple[int, ...]] = {}
    for position in graph.needed:
        operation = graph.operations[position]
        if not isinstance(operation, Matmul):
            continue
        summed = len(operation.output.root) - 1
        for operand, axes in zip((operation.a, operation.b), operation.axes, strict=True):
            computed = operand.number in graph.maker and operand.number not in graph.results
            if computed and operand.stride_order is None:
                found.setdefault(operand.number, with_fastest(operand.rank, axes.index(summed)))
    return {n: order for n, order in found.items() if order != tuple(range(len(order)))[::-1]}


def with_fastest(rank: int, fastest: int) -> tuple[int, ...]:
    """The row-major `stride_order` of so many dimensions, but for one that is the fastest."""
    order = (*(d for d in range(rank) if d != fastest), fastest)
    return tuple(rank - 1 - order.index(d) for d in range(rank))
