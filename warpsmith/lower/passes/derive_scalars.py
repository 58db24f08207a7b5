"""Let the launch compute what sizes alone decide."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.nodes import (
    Kernel,
    Let,
    Statement,
)
from warpsmith.kernel.traversal import defined, walk


def derive_scalars(kernel: Kernel) -> Kernel:
    """Turn named indices that depend on no thread and no loop into scalar parameters.

    They are the same for every thread of a launch, and each costs every thread a division. A thread
    that moves 64 bytes cannot hide that (docs/lessons/reductions.md).

    Before::

        x0 = ceildiv(T0_size1, 8);  for i0 < x0: ...

    After, with `x0` among the parameters and `(x0, ceildiv(T0_size1, 8))` in `derived`::

        for i0 < x0: ...
    """
    varying = {kind.name for kind in (*GRID_TYPES, *BLOCK_TYPES)}
    varying |= {symbol.name for statement in walk(kernel.body) for symbol in defined(statement)}
    derived: list[tuple[Symbol, Expr]] = []
    body: list[Statement] = []
    for statement in kernel.body:
        if isinstance(statement, Let) and _is_decided(statement, varying):
            derived.append((statement.symbol, statement.value))
            varying.discard(statement.symbol.name)
        else:
            body.append(statement)
    return replace(kernel, body=tuple(body), derived=tuple(derived)) if derived else kernel


def _is_decided(let: Let, varying: set[str]) -> bool:
    symbols = (node for node in let.value.walk() if isinstance(node, Symbol))
    return let.value.dtype is DataType.Index and all(s.name not in varying for s in symbols)
