"""Put block barriers where shared memory passes from writers to readers."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.errors import InternalError
from warpsmith.ir.domains import MemoryType
from warpsmith.kernel.nodes import (
    Buffer,
    For,
    If,
    Kernel,
    Statement,
    Synchronize,
)
from warpsmith.kernel.roles import Branch
from warpsmith.kernel.traversal import read, walk, written


def insert_syncs(kernel: Kernel) -> Kernel:
    """Order shared-memory writes and reads of different threads.

    Rules, in every statement list:
      RAW  a barrier stands before a statement that reads a buffer which an earlier one wrote.
      WAR  a barrier stands before a statement that writes one which an earlier one read.
      LOOP a loop body ends with a barrier where its accesses after its last barrier and those of
           the next iteration before its first one would need one by the rules above.

    Before::

        for i: { T1[..] = T0[..];  T2 = T1[..] }

    After::

        for i: { T1[..] = T0[..];  __syncthreads();  T2 = T1[..];  __syncthreads(); }

    The scratch of `Reduce` is ordered by the reduction itself, and what a ring guards by the ring:
    they take no part. Without shared memory there is nothing to order.

    Each role's statements are ordered on their own, and its threads, not those of the block, meet.
    Between roles only rings pass memory; the one thread of a single role meets nobody.
    """
    if not kernel.shared:
        return kernel
    _check_apart(kernel)
    body = _order(kernel.body)
    return kernel if body == kernel.body else replace(kernel, body=body)


def _order(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    result: list[Statement] = []
    pending = _Pending()
    for statement in statements:
        if isinstance(statement, For):
            statement = _order_loop(statement)
        elif isinstance(statement, If) and statement.uniform:
            statement = replace(statement, body=_order(statement.body))
        elif isinstance(statement, Branch):
            result.append(_order_branch(statement))
            continue
        why = pending.needs(statement)
        if why:
            barrier = Synchronize(why)
            pending.note(barrier)
            result.append(barrier)
        pending.note(statement)
        result.append(statement)
    return tuple(result)


def _order_loop(loop: For) -> For:
    body = _order(loop.body)
    pending = _Pending()
    for statement in body:
        pending.note(statement)
    for statement in body:
        if isinstance(statement, Synchronize):
            break
        why = pending.needs(statement)
        if why:
            return replace(loop, body=(*body, Synchronize(why)))
    return replace(loop, body=body)


def _order_branch(branch: Branch) -> Branch:
    return branch if branch.role.single else replace(branch, body=_order(branch.body))


def _check_apart(kernel: Kernel) -> None:
    """No role touches shared memory that another one writes, rings aside."""
    effects = [
        (s.role.name, _names(written, s), _names(read, s))
        for s in kernel.body
        if isinstance(s, Branch)
    ]
    for writer, writes, _ in effects:
        for other, others, reads in effects:
            passed = writes & (others | reads) if other != writer else set()
            if passed:
                raise InternalError(
                    f"{', '.join(sorted(passed))} passes from {writer} to {other}, and no ring "
                    "guards it"
                )


class _Pending:
    """Shared buffers that were written, or read, since the last barrier."""

    def __init__(self) -> None:
        self._written: set[str] = set()
        self._read: set[str] = set()

    def needs(self, statement: Statement) -> str:
        """Why a barrier must stand before the statement; empty when none must."""
        late_reads = _names(read, statement) & self._written
        late_writes = _names(written, statement) & self._read
        return ", ".join(
            [f"{name} is written" for name in sorted(late_reads)]
            + [f"{name} is free again" for name in sorted(late_writes - late_reads)]
        )

    def note(self, statement: Statement) -> None:
        """Remember what a statement does."""
        if isinstance(statement, Synchronize):
            self._written, self._read = set(), set()
        self._written |= _names(written, statement)
        self._read |= _names(read, statement)


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
    return buffer.memory is MemoryType.shared and not buffer.guarded


def sync_inside_branch(kernel: Kernel) -> bool:
    """Whether a collective statement stands under a condition, which could hang the block."""
    return any(
        inner.collective
        for statement in walk(kernel.body)
        if isinstance(statement, If) and not statement.uniform
        for inner in walk(statement.body)
    )
