"""Bodies that the same threads run, and the places in them that touch memory."""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.accesses import Access, accesses
from warpsmith.kernel.agents import Agent
from warpsmith.kernel.effects import Done, Effect
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer
from warpsmith.kernel.products import Multiply
from warpsmith.kernel.rings import Advance, Begin, Cursor, Jump
from warpsmith.kernel.traversal import walk
from warpsmith.lower.ordering.tree import Node, root
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """The body of one role, or of a kernel without roles.

    Attributes:
        role: None where all threads of the block run the body.
    """

    agent: Agent | None
    root: Node

    @property
    def name(self) -> str:
        return "" if self.agent is None else self.agent.name

    @property
    def elected(self) -> bool:
        """Whether one thread runs it."""
        return self.agent is not None and self.agent.elected


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """One access.

    Attributes:
        cursor: whose stage is touched; None for a buffer that has one stage.
    """

    scope: Scope
    node: Node
    access: Access
    cursor: Cursor | None

    @property
    def buffer(self) -> Buffer:
        return self.access.buffer

    @property
    def writes(self) -> bool:
        return self.access.writes

    @property
    def effect(self) -> Effect:
        return self.access.effect

    @property
    def awaited(self) -> Done | None:
        """The kind of group that must be over before what depends on it; None where none must."""
        return self.effect.done if self.effect.done in ASYNCHRONOUS else None

    @property
    def alone(self) -> bool:
        """Whether one thread does it, the same as elsewhere in its scope."""
        return self.scope.elected or any(node.elects for node in self.node.up())

    @property
    def item(self) -> Node:
        """The outermost statement around it that some threads skip, or that does it."""
        found = self.node
        for node in self.node.up():
            if node.parts:
                found = node
        return found

    @property
    def turning(self) -> Node | None:
        """The innermost loop around it that moves its cursor."""
        if self.cursor is None:
            return None
        return next(
            (n for n in self.node.up() if n.is_loop and moving(n, self.cursor) is not None),
            None,
        )


def moving(node: Node, cursor: Cursor) -> Node | None:
    """The first statement inside a node that moves a cursor."""
    for inner in node.walk():
        statement = inner.statement
        if isinstance(statement, Advance | Jump) and statement.cursor.name == cursor.name:
            return inner
    return None


def scopes(kernel: Kernel) -> tuple[Scope, ...]:
    """The bodies of the roles; or the kernel's own."""
    if not kernel.branches:
        return (Scope(None, root(kernel.body)),)
    return tuple(Scope(branch.agent, root(branch.body)) for branch in kernel.branches)


def sites(kernel: Kernel, scope: Scope) -> Iterator[Site]:
    """All accesses of a scope to shared memory, and to registers that products touch.

    Those of roles to other blocks' memory are left to whoever put barriers of the cluster there.
    """
    places = {
        symbol.name: s.cursor
        for s in walk(kernel.body)
        if isinstance(s, Begin)
        for symbol in s.cursor.symbols
    }
    products = [s for s in walk(kernel.body) if isinstance(s, Multiply)]
    held = {access.buffer.name for s in products for access in accesses(s)}
    for node in scope.root.walk():
        for access in accesses(node.statement) if node.statement is not None else ():
            memory = access.buffer.memory
            if access.effect.remote and scope.agent is not None:
                continue
            if memory is MemoryType.shared or access.buffer.name in held:
                yield Site(scope, node, access, _cursor(access, places))


def _cursor(access: Access, places: dict[str, Cursor]) -> Cursor | None:
    found = {
        places[node.name]
        for node in (access.index.walk() if access.index is not None else ())
        if isinstance(node, Symbol) and node.name in places
    }
    return next(iter(found)) if len(found) == 1 else None


ASYNCHRONOUS = (Done.COPIES, Done.STORES, Done.PRODUCTS)
"""Accesses that are over when the group that they belong to is."""
