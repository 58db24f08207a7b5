"""What a statement, with all inside it, asks of its surroundings, found once for each object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, MemoryType
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.kernel.agents import Agent, Branch, is_of_warps
from warpsmith.kernel.clusters import MEETINGS, RANK
from warpsmith.kernel.effects import Verb
from warpsmith.kernel.nodes import Buffer, Declare, Element, If, Statement
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.rings import Advance, Jump
from warpsmith.kernel.traversal import (
    barrier_uses,
    children,
    defined,
    expressions,
    operands,
    read,
    scratch,
)
from warpsmith.lower.verify.rule import Fault, Rule

Statements = tuple[Statement, ...]

_NONE: frozenset[str] = frozenset()


Item = type[Statement] | int | tuple[int, type[Statement]]
"""A class of statements, the identity of memory, or a number with the class that has it."""

_NOTHING: frozenset[Item] = frozenset()


class Outline(NamedTuple):
    """Of one statement with all inside it, or of a list of them.

    Attributes:
        items: classes of statements, buffers that are no registers, and numbers by which orders
            know statements.
        needs: names, of symbols and of registers, that something outside is to define.
        defines: names that what follows in the same list may use.
        begun, used: names of barriers whose life begins, and of those that are used before.
        faults: what is wrong whatever stands outside.
    """

    items: frozenset[Item]
    needs: frozenset[str]
    defines: tuple[str, ...] = ()
    begun: frozenset[str] = _NONE
    used: frozenset[str] = _NONE
    faults: tuple[Fault, ...] = ()


class Outlines:
    """Outlines by the identity of statements: a pass leaves most of them as they are.

    Attributes:
        memory: buffers that are no registers by their identity, whose hashes would cost more.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Statement, Outline]] = {}
        self.memory: dict[int, Buffer] = {}

    def of(self, statement: Statement) -> Outline:
        """A statement's."""
        found = self._known.get(id(statement))
        if found is None:
            parent = statement.form.has_body
            made = self._of_parent(statement) if parent else self._of_leaf(statement)
            found = self._known[id(statement)] = statement, made
        return found[1]

    def where(self, statements: Statements, field: str, item: object) -> Statement | None:
        """The first statement in whose outline the field has the item; the innermost that has."""
        for statement in statements:
            if item in getattr(self.of(statement), field):
                return self.where(children(statement), field, item) or statement
        return None

    def of_list(self, statements: Statements) -> Outline:
        """That of a list, in which names are defined for what follows."""
        outlines = [self.of(statement) for statement in statements]
        items = _NOTHING.union(*[each.items for each in outlines])
        needs: set[str] = set()
        defines: dict[str, None] = {}
        begun: set[str] = set()
        used: set[str] = set()
        faults: list[Fault] = []
        for statement, each in zip(statements, outlines, strict=True):
            needs |= each.needs.difference(defines) if defines else each.needs
            for name in each.defines:
                if name in defines:
                    what = f"`{name}` is defined twice"
                    faults.append(Fault(Rule.NAMES, what, statement))
                defines[name] = None
            if each.used:
                used |= each.used - begun
            if each.begun:
                begun |= each.begun
            if each.faults:
                faults += each.faults
        return Outline(
            items,
            frozenset(needs),
            tuple(defines),
            frozenset(begun),
            frozenset(used),
            tuple(faults),
        )

    def _of_parent(self, statement: Statement) -> Outline:
        """What stands inside sees what the statement defines, and nothing outside does."""
        inside, own = self.of_list(children(statement)), self._of_leaf(statement)
        seen = _threads_of(statement.agent) if isinstance(statement, Branch) else own.defines
        return Outline(
            inside.items | own.items,
            inside.needs.difference(seen) | own.needs,
            (),
            inside.begun | own.begun,
            inside.used | own.used,
            (*inside.faults, *_around(statement, inside.items)),
        )

    def _of_leaf(self, statement: Statement) -> Outline:
        """A statement's own, without what stands inside it."""
        form = statement.form
        names: set[str] = set()
        items: set[Item] = {type(statement)}
        pending = list(expressions(statement)) if form.scalars else []
        touched = _touched(statement)
        while pending:
            node = pending.pop()
            if isinstance(node, Symbol):
                names.add(node.name)
            elif not isinstance(node, Const):
                pending += node.args
                if isinstance(node, Element):
                    touched.append(node.buffer)
        for buffer in touched:
            if buffer.memory is MemoryType.local:
                names.add(buffer.name)
            else:
                items.add(self._noted(buffer))
        if statement.number:
            items.add((statement.number, type(statement)))
        defines: tuple[str, ...] = ()
        if form.defines:
            defines = tuple(symbol.name for symbol in defined(statement))
            if isinstance(statement, Advance | Jump):  # of a cursor that is there
                names.update(defines)
                defines = ()
        elif isinstance(statement, Declare):
            defines = (statement.buffer.name,)
        if not form.barriers:
            return Outline(frozenset(items), frozenset(names), defines)
        uses = tuple(barrier_uses(statement))
        items |= {self._noted(use.barrier) for use in uses}
        own = [use for use in uses if not use.remote]
        begun = frozenset(use.barrier.name for use in own if use.verb is Verb.INIT)
        used = frozenset(use.barrier.name for use in own if use.verb is not Verb.INIT)
        return Outline(frozenset(items), frozenset(names), defines, begun, used)

    def _noted(self, buffer: Buffer) -> int:
        """The identity of a buffer, which stays its own."""
        self.memory[id(buffer)] = buffer
        return id(buffer)


def _touched(statement: Statement) -> list[Buffer]:
    """Buffers that a statement itself names, but for barriers."""
    form = statement.form
    found = [buffer for buffer, _, _ in operands(statement)] if form.memory or form.nested else []
    if form.kept:
        found += read(statement)
    if form.scratch and not (isinstance(statement, Reduce) and statement.lanes):
        found += scratch(statement)  # lanes take none
    return found


def _threads_of(agent: Agent) -> frozenset[str]:
    """Indices that threads of a role have; an elected one has none."""
    if agent.elected:
        return frozenset()
    axes = zip(BLOCK_TYPES, agent.block, strict=True)
    return frozenset(kind.name for kind, extent in axes if extent != integers.ONE)


def _around(statement: Statement, inside: frozenset[Item]) -> Iterator[Fault]:
    """What may not stand inside a statement."""
    if (
        isinstance(statement, If)
        and not statement.uniform
        and any(_is_collective(item, alone=is_of_warps(statement.condition)) for item in inside)
    ):
        what = "all threads take part in what stands under a condition of threads"
        yield Fault(Rule.COLLECTIVE, what, statement)
    if not inside.isdisjoint(MEETINGS) and any(map(_tells_blocks_apart, expressions(statement))):
        what = "blocks of a cluster meet where not all of them come by"
        yield Fault(Rule.COLLECTIVE, what, statement)


def _is_collective(item: Item, *, alone: bool) -> bool:
    """Whether it needs all threads, or more than each warp `alone`."""
    return isinstance(item, type) and item.collective and not (alone and item.of_warps)


def _tells_blocks_apart(expr: Expr) -> bool:
    return any(isinstance(node, Symbol) and node.name == RANK for node in expr.walk())
