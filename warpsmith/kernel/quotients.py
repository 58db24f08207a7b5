"""Quotients in place of products by reciprocals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from warpsmith.ir.scalar import Apply, Expr
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement, Store
from warpsmith.kernel.traversal import rewritten


def divided(kernel: Kernel, quotients: Mapping[str, tuple[str, Expr]]) -> Kernel:
    """A kernel that divides what it multiplies by reciprocals, and does all else as before.

    Before::

        T14[0] = mul(T13[0], reciprocal(cast(T1_size1)))

    After, where `quotients` has `div` by `cast(T1_size1)` for T14::

        T14[0] = div(T13[0], cast(T1_size1))

    Args:
        quotients: by name of a buffer, the operation and the divisor.
    """

    def change(statement: Statement) -> Iterable[Statement]:
        if isinstance(statement, Store) and statement.buffer.name in quotients:
            product = statement.value
            if isinstance(product, Apply) and product.op == "mul":
                op, divisor = quotients[statement.buffer.name]
                value = Apply(op, (product.args[0], divisor), product.dtype)
                return (replace(statement, value=value),)
        return (statement,)

    return replace(kernel, body=rewritten(kernel.body, change))
