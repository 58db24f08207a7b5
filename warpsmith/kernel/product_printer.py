"""Statements about matrix products as readable text."""

from __future__ import annotations

from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.products import (
    AwaitProducts,
    CommitProducts,
    FenceProducts,
    MatrixTile,
    Multiply,
    StoreMatrix,
)


def product_text(statement: Statement) -> str | None:
    """One statement of `kernel/products.py`; None for any other."""
    match statement:
        case Multiply(accumulators=sums, index=index, a=a, b=b, columns=columns, keep=keep):
            product = f"{_tile(a)} x {_tile(b)}, {columns} columns"
            return f"{sums.name}[{index!r} ..] += {product}, kept if {keep!r}"
        case FenceProducts():
            return "fence for products"
        case CommitProducts():
            return "commit products"
        case AwaitProducts(pending=pending, accumulators=accumulators):
            names = ", ".join(buffer.name for buffer in accumulators)
            return f"await products but {pending} groups{f', for {names}' if names else ''}"
        case StoreMatrix(target=target, target_index=to, source=source, source_index=index):
            return f"{target.name}[{to!r} ..] = {source.name}[{index!r} ..] by stmatrix"
    return None


def _tile(tile: MatrixTile) -> str:
    return f"{tile.buffer.name}[{tile.index!r} ..]"
