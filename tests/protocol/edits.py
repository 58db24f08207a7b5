"""Kernels with one thing changed, for checks that must notice."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pytest

from warpsmith.errors import ProtocolError
from warpsmith.ir.scalar import Const
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.rings import InitBarriers
from warpsmith.kernel.traversal import children
from warpsmith.protocol import check
from warpsmith.targets.hopper import H200

Change = Callable[[Statement], Iterable[Statement]]
"""What takes a statement's place; children have been changed before."""


def edited(kernel: Kernel, change: Change, role: str | None = None) -> Kernel:
    """The kernel with a change to all statements, or to those of one role; there must be one."""
    body = tuple(
        new
        for statement in kernel.body
        for new in (
            _edited(statement, change)
            if role is None or (isinstance(statement, Branch) and statement.agent.name == role)
            else (statement,)
        )
    )
    assert body != kernel.body, "the change changes nothing"
    return replace(kernel, body=body)


def _edited(statement: Statement, change: Change) -> tuple[Statement, ...]:
    if children(statement):
        body = tuple(new for inner in children(statement) for new in _edited(inner, change))
        statement = replace(statement, body=body)  # type: ignore[call-arg]
    return tuple(change(statement))


def without(kind: type[Statement], **fields: object) -> Change:
    """Leaves out statements of one kind; fields of barriers are given by the barrier's name."""

    def change(statement: Statement) -> tuple[Statement, ...]:
        return () if matches(statement, kind, fields) else (statement,)

    return change


def instead(
    kind: type[Statement], new: Callable[..., Statement | tuple[Statement, ...]], **fields: object
) -> Change:
    """Puts something else in the place of statements of one kind."""

    def change(statement: Statement) -> tuple[Statement, ...]:
        if not matches(statement, kind, fields):
            return (statement,)
        made = new(statement)
        return made if isinstance(made, tuple) else (made,)

    return change


def matches(statement: Statement, kind: type[Statement], fields: dict[str, object]) -> bool:
    """Whether a statement is of a kind, and its fields, or their names, are these."""
    if not isinstance(statement, kind):
        return False
    found = {name: getattr(statement, name) for name in fields}
    return all(getattr(found[n], "name", found[n]) == value for n, value in fields.items())


def counting(kernel: Kernel, barrier: str, count: int) -> Kernel:
    """The kernel with a barrier that counts something else."""

    def change(statement: InitBarriers) -> Statement:
        counts = tuple((b, Const(count) if b.name == barrier else n) for b, n in statement.arrivals)
        return InitBarriers(counts)

    return edited(kernel, instead(InitBarriers, change))


def with_role(kernel: Kernel, name: str, change: Callable[[Agent], Agent]) -> Kernel:
    """The kernel with one of its roles changed."""
    return edited(
        kernel,
        lambda s: (
            (replace(s, agent=change(s.agent)),)
            if isinstance(s, Branch) and s.agent.name == name
            else (s,)
        ),
    )


def refused(
    kernel: Kernel,
    values: Mapping[str, int],
    code: str = "",
    words: str = "",
    *,
    judge: Callable[..., object] = check,
) -> None:
    """Hold that a proof finds what is wrong: by this rule, in words that hold these."""
    with pytest.raises(ProtocolError, match=words or None) as caught:
        judge(kernel, values, target=H200)
    assert caught.value.code == code or not code
