"""Let the launch compute what sizes alone decide."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.groups import looks_up
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.clusters import RANK
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Element, Let, Statement
from warpsmith.kernel.traversal import defined, walk


def derive_scalars(kernel: Kernel) -> Kernel:
    """Turn named indices that depend on no thread and no loop into scalar parameters.

    They are the same for every thread of a launch, and each costs every thread a division. A thread
    that moves 64 bytes cannot hide that (docs/lessons/reductions.md).

    Before::

        x0 = ceildiv(T0_size1, 8);  for i0 < x0: ...

    After, with `x0` among the parameters and `(x0, ceildiv(T0_size1, 8))` in `derived`::

        for i0 < x0: ...

    What a role names before its loops is its own no more than what all threads name.
    """
    varying = {RANK, *(kind.name for kind in (*GRID_TYPES, *BLOCK_TYPES))}
    varying |= {symbol.name for statement in walk(kernel.body) for symbol in defined(statement)}
    lets = Counter(s.symbol.name for s in walk(kernel.body) if isinstance(s, Let))
    own = frozenset(name for name, count in lets.items() if count > 1)
    derived: list[tuple[Symbol, Expr]] = []
    body = _left(kernel.body, varying, own, derived)
    return replace(kernel, body=body, derived=tuple(derived)) if derived else kernel


def _left(
    statements: tuple[Statement, ...],
    varying: set[str],
    own: frozenset[str],
    derived: list[tuple[Symbol, Expr]],
) -> tuple[Statement, ...]:
    """The statements without what the launch computes, which goes to `derived`.

    `own` names what several roles have, each with a value of its own.
    """
    body: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Let) and _is_decided(statement, varying, own):
            derived.append((statement.symbol, statement.value))
            varying.discard(statement.symbol.name)
        elif isinstance(statement, Branch):
            body.append(replace(statement, body=_left(statement.body, varying, own, derived)))
        else:
            body.append(statement)
    return tuple(body)


def _is_decided(let: Let, varying: set[str], own: frozenset[str]) -> bool:
    if let.symbol.name in own:
        return False
    nodes = list(let.value.walk())
    in_memory = looks_up(let.value) or any(isinstance(node, Element) for node in nodes)
    if let.value.dtype is not DataType.Index or in_memory:
        return False
    return all(node.name not in varying for node in nodes if isinstance(node, Symbol))
