"""Read what no kernel of the call writes while the kernel before still runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, CopyVector, Declare, For, If, Statement
from warpsmith.kernel.succession import touched_globally
from warpsmith.kernel.traversal import defined, expressions, replace_symbols, walk, with_body

MOST_BYTES = 128
"""Of a thread's registers that may hold what was read ahead."""


def read_ahead(kernel: Kernel, settled: Sequence[str]) -> Kernel:
    """Vectors of what nobody writes come to registers before anything else is touched, and so
    before the kernel before is awaited: those that stand outside of loops, and those of the first
    iteration of unrolled ones. Before::

        T2[..] = T0[..]
        for i < 4 unrolled: { T3: bfloat16[8] local; T3[..] = T1[i]; .. }

    After, where nobody writes T1::

        T3: bfloat16[8] local
        T3[..] = T1[0]
        T2[..] = T0[..]
        for i < 4 unrolled: { if 0 < i: T3[..] = T1[i]; .. }

    Args:
        settled: names of tensors that no kernel of the call writes.
    """
    body = kernel.body
    if kernel.branches:
        return kernel
    first = next((n for n, s in enumerate(body) if touched_globally(s, settled)), len(body))
    reads, rest = _parted(body[first:], None, settled, MOST_BYTES)
    return replace(kernel, body=(*body[:first], *reads, *rest)) if reads else kernel


def _parted(
    body: tuple[Statement, ...], loop: For | None, settled: Sequence[str], room: int
) -> tuple[list[Statement], tuple[Statement, ...]]:
    """What of a body is read ahead of it, in so many bytes, and what is left of it.

    Args:
        loop: whose body it is, if it is that of one, and of whose first iteration that is.
    """
    named = {symbol for each in walk(body) for symbol in defined(each)}
    reads: list[Statement] = []
    rest: list[Statement] = []
    for statement in body:
        declared = rest[-1] if rest else None
        if isinstance(declared, Declare) and _fills(statement, declared.buffer, settled):
            own = {symbol for each in walk((statement,)) for symbol in defined(each)}
            used = {n for s in walk((statement,)) for e in expressions(s) for n in e.walk()}
            held = _bytes(declared.buffer)
            if held <= room and not used & (named - own):
                room -= held
                rest.pop()
                at_first: dict[Expr, Expr] = {} if loop is None else {loop.symbol: integers.ZERO}
                reads += (declared, replace_symbols(statement, at_first))
                rest += () if loop is None else (If(integers.less(0, loop.symbol), (statement,)),)
                continue
        if loop is None and isinstance(statement, For) and statement.unroll:
            count = integers.constant(statement.extent)
            inner, left = _parted(statement.body, statement, settled, room if count else 0)
            room -= sum(_bytes(s.buffer) for s in inner if isinstance(s, Declare))
            reads += inner
            statement = with_body(statement, left)
        rest.append(statement)
    return reads, tuple(rest)


def _fills(statement: Statement, buffer: Buffer, settled: Sequence[str]) -> bool:
    """Whether a statement does nothing but read vectors of what is settled into a buffer."""
    if isinstance(statement, For):
        return statement.unroll and all(_fills(s, buffer, settled) for s in statement.body)
    return (
        isinstance(statement, CopyVector)
        and statement.target == buffer
        and statement.source.name in settled
        and not statement.asynchronous
    )


def _bytes(buffer: Buffer) -> int:
    """Of registers; more than there may be where nobody knows."""
    size = integers.constant(buffer.size)
    return MOST_BYTES + 1 if size is None else size * buffer.dtype.size
