"""End loops where iterations have something to do no more, instead of asking in each."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.domains import GRID_TYPES
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.kernel.kernel import Kernel, Launch
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.products import Multiply
from warpsmith.kernel.traversal import map_bodies, walk
from warpsmith.values import dataclass


def end_loops(kernel: Kernel) -> Kernel:
    """Loops in which blocks of the grid have every fourth step, say.

    Before::

        for i < n: { if 4 * i + grid_y < steps: .. }

    After::

        for i < (steps + 3 - grid_y) / 4: ..

    Products of one iteration are then on their way in the next one; nothing else gains.
    """
    if not any(isinstance(each, Multiply) for each in walk(kernel.body)):
        return kernel
    body = _Ends(kernel.launch).all(kernel.body)
    changed = any(new is not old for new, old in zip(body, kernel.body, strict=True))
    return replace(kernel, body=body) if changed else kernel


@dataclass(frozen=True, slots=True)
class _Ends:
    launch: Launch

    def all(self, statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(map(self._ended, statements))

    def _ended(self, statement: Statement) -> Statement:
        if isinstance(statement, For) and not statement.unroll:
            (inside, *more) = statement.body or (None,)
            if isinstance(inside, If) and not more:
                count = self._count(statement, inside.condition)
                if count is not None:
                    statement = replace(statement, extent=count, body=inside.body)
        return map_bodies(statement, self.all)

    def _count(self, loop: For, condition: Expr) -> Expr | None:
        """How many iterations come before all others, and are all of which a condition holds; None
        where it does not say that of the steps of a block.
        """
        if not (isinstance(condition, Apply) and condition.op == "lt"):
            return None
        index, steps = condition.args
        symbols = {each.name: each for each in index.walk() if isinstance(each, Symbol)}
        for kind, blocks in zip(GRID_TYPES, self.launch.grid, strict=True):
            every, block = integers.constant(blocks), symbols.get(kind.name)
            if every is None or block is None:
                continue
            for step in (every, every * self.launch.cluster_blocks):
                if index == integers.add(integers.mul(loop.symbol, step), block):
                    left = integers.sub(integers.add(steps, step - 1), block)
                    return integers.floordiv(left, step)
        return None
