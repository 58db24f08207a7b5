"""What agents skip because of what memory says: no size tells it, so they must skip alike.

The run of a block takes what it cannot know as done. That stands for all that memory may say where
every agent that comes by stages decides by the same value in the same iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpsmith.ir import integers
from warpsmith.ir.groups import looks_up
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.agents import Kind
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Let, Statement
from warpsmith.kernel.traversal import children, defined, walk
from warpsmith.protocol.accesses import synchronizes
from warpsmith.protocol.rules import Rule, broken


def skip_alike(kernel: Kernel) -> None:
    """Check what needs no run.

    Raises:
        Broken: an agent decides otherwise than another one, by what it finds in memory, whether to
            come by stages.
    """
    if not any(map(_asks_memory, walk(kernel.body))):
        return
    known: dict[int, bool] = {}
    found = {
        each.agent.name: frozenset(_choices(each.body, {}, 0, known))
        for each in kernel.branches
        if each.agent.kind is not Kind.TILES
    }
    if len(set(found.values())) > 1:
        told = "; ".join(f"{role} where {sorted(map(repr, by))}" for role, by in found.items())
        broken(Rule.CHOICES, f"they come by stages, {told}", roles=tuple(found))


def _asks_memory(statement: Statement) -> bool:
    asked = statement.value if isinstance(statement, Let) else getattr(statement, "condition", None)
    return isinstance(asked, Expr) and looks_up(asked)


def _choices(
    statements: Sequence[Statement], names: dict[Expr, Expr], depth: int, known: dict[int, bool]
) -> Iterator[Expr]:
    """Conditions on what memory says, around what synchronizes, in names that agents share."""
    for statement in statements:
        if isinstance(statement, Let):
            names[statement.symbol] = substitute(statement.value, names)
            continue
        if isinstance(statement, If) and synchronizes(statement, known):
            asked = integers.conjuncts(substitute(statement.condition, names))
            yield from filter(looks_up, asked)
        for symbol in defined(statement):
            names[symbol] = Symbol(f"{type(statement).__name__}{depth}")
        inside = depth + isinstance(statement, For)
        yield from _choices(tuple(children(statement)), names, inside, known)
