"""Kernels before anything is ordered: rings and accesses, but no fence, group or meeting."""

from __future__ import annotations

from dataclasses import replace

from tests.support.product_kernels import product_kernel
from tests.support.tiled_product import Product
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If, Statement, Synchronize
from warpsmith.kernel.products import AwaitProducts, CommitProducts, FenceProducts
from warpsmith.kernel.rings import (
    Advance,
    ArriveByWarp,
    AwaitCopies,
    Begin,
    CommitCopies,
    Cursor,
    FenceProxy,
)
from warpsmith.kernel.traversal import children, walk

ORDERING = (
    AwaitCopies,
    AwaitProducts,
    CommitCopies,
    CommitProducts,
    FenceProducts,
    FenceProxy,
    Synchronize,
)


def unordered(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The statements, without those that order others; conditions that are left empty go too."""
    result: list[Statement] = []
    for statement in statements:
        if isinstance(statement, ORDERING):
            continue
        body = children(statement)
        if body:
            inner = unordered(body)
            if isinstance(statement, If) and not inner:
                continue
            statement = replace(statement, body=inner)  # type: ignore[call-arg]
        result.append(statement)
    return tuple(result)


def unordered_product(product: Product) -> Kernel:
    """A matrix product whose stages are released behind the products that read them."""
    kernel = product_kernel(product)
    ring = product.ring
    assert ring.empty is not None
    use = Cursor("ring0_use", ring.stages)
    release = ArriveByWarp(ring.empty, use.stage)

    def renewed(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        result: list[Statement] = []
        for statement in statements:
            if _is_behind(statement):
                continue
            if isinstance(statement, Advance) and statement.cursor == use:
                result.append(release)
            if children(statement):
                inner = renewed(children(statement))
                if not inner:
                    continue
                statement = replace(statement, body=inner)  # type: ignore[call-arg]
            result.append(statement)
        return tuple(result)

    body = tuple(
        replace(s, body=renewed(unordered(s.body))) if isinstance(s, Branch) else s
        for s in kernel.body
    )
    return replace(kernel, body=body)


def _is_behind(statement: Statement) -> bool:
    """Whether a statement is about the cursor that trails, of the kernel written by hand."""
    if isinstance(statement, ArriveByWarp):
        return True
    return isinstance(statement, Begin | Advance) and "behind" in statement.cursor.name


def count(kernel: Kernel, kind: type[Statement]) -> int:
    """Statements of a kind, as they stand in the text."""
    return sum(isinstance(s, kind) for s in walk(kernel.body))
