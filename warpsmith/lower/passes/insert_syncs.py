"""Put block barriers where shared memory passes from writers to readers."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir.domains import MemoryType
from warpsmith.kernel.nodes import (
    Buffer,
    For,
    If,
    Kernel,
    Statement,
    Synchronize,
    read,
    walk,
    written,
)


def insert_syncs(kernel: Kernel) -> Kernel:
    """Order shared-memory writes and reads of different threads.

    Rules, in every statement list:
      RAW  a barrier stands before a statement that reads a buffer which an earlier one wrote.
      WAR  a barrier stands before a statement that writes one which an earlier one read.
      LOOP a loop body that writes a buffer and reads it ends with a barrier, so that the next
           iteration's writes wait for this one's reads.

    Before::

        for i: { T1[..] = T0[..];  T2 = T1[..] }

    After::

        for i: { T1[..] = T0[..];  __syncthreads();  T2 = T1[..];  __syncthreads(); }

    The scratch of `Reduce` is ordered by the reduction itself and takes no part.
    """
    body = _order(kernel.body)
    return kernel if body == kernel.body else replace(kernel, body=body)


def _order(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    result: list[Statement] = []
    unread: set[str] = set()
    unwritten: set[str] = set()
    for statement in statements:
        if isinstance(statement, Synchronize):
            unread, unwritten = set(), set()
            result.append(statement)
            continue
        if isinstance(statement, For):
            statement = _order_loop(statement)
        writes = _names(written, statement)
        reads = _names(read, statement)
        late_reads, late_writes = reads & unread, writes & unwritten
        if late_reads or late_writes:
            why = ", ".join(
                [f"{name} is written" for name in sorted(late_reads)]
                + [f"{name} is free again" for name in sorted(late_writes - late_reads)]
            )
            result.append(Synchronize(why))
            unread, unwritten = set(), set()
        result.append(statement)
        unread |= writes
        unwritten |= reads
    return tuple(result)


def _order_loop(loop: For) -> For:
    body = _order(loop.body)
    writes = set().union(*(_names(written, s) for s in body), set())
    reads = set().union(*(_names(read, s) for s in body), set())
    if writes & reads and not isinstance(body[-1], Synchronize):
        names = ", ".join(sorted(writes & reads))
        body = (*body, Synchronize(f"{names} is free again"))
    return replace(loop, body=body)


def _names(effect: object, statement: Statement) -> set[str]:
    assert effect is read or effect is written
    select = read if effect is read else written
    return {
        buffer.name
        for inner in walk((statement,))
        for buffer in select(inner)
        if _is_shared(buffer)
    }


def _is_shared(buffer: Buffer) -> bool:
    return buffer.memory is MemoryType.shared


def sync_inside_branch(kernel: Kernel) -> bool:
    """Whether a collective statement stands under a condition, which could hang the block."""
    return any(
        inner.collective
        for statement in walk(kernel.body)
        if isinstance(statement, If)
        for inner in walk(statement.body)
    )
