"""List what a kernel needs from its launch."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.clusters import RANK
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.rings import ELECTED
from warpsmith.kernel.traversal import defined, expressions, walk


def list_scalars(kernel: Kernel) -> Kernel:
    """Make parameters of all names that no statement gives a value, in order of first use.

    Before::

        for i0 < ceildiv(T0_size0, 4): ...

    After, with `T0_size0` among the scalars.
    """
    known = {kind.name for kind in (*GRID_TYPES, *BLOCK_TYPES)} | {ELECTED.name, RANK}
    needed: dict[str, Symbol] = {}
    used: list[Expr] = [buffer.size for buffer in kernel.shared]
    for statement in walk(kernel.body):
        used += expressions(statement)
        used += statement.agent.block if isinstance(statement, Branch) else ()
        known |= {symbol.name for symbol in defined(statement)}
    for expr in used:
        for node in expr.walk():
            if isinstance(node, Symbol) and node.name not in known:
                needed.setdefault(node.name, node)
    scalars = tuple(needed.values())
    return kernel if scalars == kernel.scalars else replace(kernel, scalars=scalars)
