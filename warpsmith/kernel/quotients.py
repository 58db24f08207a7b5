"""Quotients in place of products by reciprocals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from warpsmith.ir.scalar import Apply, Expr
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement, Store
from warpsmith.kernel.traversal import rewritten


def divided(kernel: Kernel, quotients: Mapping[str, tuple[str, Expr]]) -> Kernel:
    """A kernel that divides what it multiplies by reciprocals, and does all else as before. The
    calls of quotients keep ptxas from holding what is widened again, too.

    Before::

        T14[0] = mul(T13[0], reciprocal(cast(T1_size1)))
        T15[0] = widen_again(T0[0], 2)

    After, where `quotients` has `div` by `cast(T1_size1)` for T14::

        T14[0] = div(T13[0], cast(T1_size1))
        T15[0] = cast(T0[0])

    Args:
        quotients: by name of a buffer, the operation and the divisor.
    """

    def change(statement: Statement) -> Iterable[Statement]:
        if not isinstance(statement, Store) or not isinstance(statement.value, Apply):
            return (statement,)
        value, name = statement.value, statement.buffer.name
        if value.op == "widen_again":
            return (replace(statement, value=Apply("cast", value.args[:1], value.dtype)),)
        if value.op == "mul" and name in quotients:
            op, divisor = quotients[name]
            return (replace(statement, value=Apply(op, (value.args[0], divisor), value.dtype)),)
        return (statement,)

    return replace(kernel, body=rewritten(kernel.body, change))
