"""Let the steps of an unrolled loop move a mean together."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, For, If, Statement
from warpsmith.kernel.reductions import WelfordBatch, WelfordStep
from warpsmith.kernel.traversal import map_bodies, replace_symbols, walk
from warpsmith.values import dataclass


def batch_welford(kernel: Kernel) -> Kernel:
    """Collect what the steps of an unrolled loop add, and move mean and m2 once after the last.

    A step waits for the mean that the step before it left. The steps of a batch depend on each
    other through sums alone, and take one reciprocal and one update between them. Steps under a
    predicate stay as they are: a batch needs to know how many values it has.

    Before::

        for i0 < n: { for i1 < 4 unrolled: { welford T2[0 ..] += x(i0, i1) } }

    After::

        if 0 < n: { for i1 < 4 unrolled: { welford T2[0 ..] += x(0, i1) } }
        for i0 < n - min(n, 1): {
            T2_shift0, T2_sum0, T2_squares0: float[8]
            for i1 < 4 unrolled: { welford T2[0 ..] += x(i0 + 1, i1), step i1 of 4 }
        }

    The first pass stays apart, since a batch is collected around the mean of what came before it.
    Joined steps need no such pass: their first values have a mean of their own.
    """
    names = _Names()
    body = _batch(kernel.body, names, frozenset())
    return replace(kernel, body=body) if names.used else kernel


@dataclass(slots=True)
class _Names:
    """Numbers the batches."""

    used: int = 0


def _batch(
    statements: tuple[Statement, ...], names: _Names, begun: frozenset[str]
) -> tuple[Statement, ...]:
    """`begun` names the counts that are above 0 here, of triples that take one value a step."""
    result: list[Statement] = []
    for statement in statements:
        if isinstance(statement, For):
            batched = _batch_unrolled if statement.unroll else _batch_rolled
            result += batched(statement, names, begun)
        else:
            result.append(map_bodies(statement, lambda body: _batch(body, names, begun)))
    return tuple(result)


def _batch_rolled(loop: For, names: _Names, begun: frozenset[str]) -> list[Statement]:
    """The loop; its first pass apart, where that gives later ones a mean to start from."""
    fresh = _counts(loop.body) - {s.buffer.name for s in walk(loop.body) if isinstance(s, Declare)}
    if not fresh - begun:
        return [replace(loop, body=_batch(loop.body, names, begun))]
    first = tuple(replace_symbols(s, {loop.symbol: integers.ZERO}) for s in loop.body)
    moved: dict[Expr, Expr] = {loop.symbol: integers.add(loop.symbol, 1)}
    later = tuple(replace_symbols(s, moved) for s in loop.body)
    left = integers.sub(loop.extent, integers.minimum(loop.extent, 1))
    return [
        If(integers.less(0, loop.extent), _batch(first, names, begun), uniform=True),
        replace(loop, extent=left, body=_batch(later, names, begun | fresh)),
    ]


def _counts(statements: tuple[Statement, ...]) -> frozenset[str]:
    """Counts of the triples that every pass of these statements adds to, one value a step."""
    found: set[str] = set()
    for loop in statements:
        if not (isinstance(loop, For) and loop.unroll):
            continue
        found |= _counts(loop.body)
        for step in loop.body:
            if isinstance(step, WelfordStep) and not step.joined and _is_same_triple(step, loop):
                found.add(step.count.name)
    return frozenset(found)


def _batch_unrolled(loop: For, names: _Names, begun: frozenset[str]) -> list[Statement]:
    """The loop, after the declarations that its batches need."""
    declared: list[Statement] = []
    body: list[Statement] = []
    for statement in _batch(loop.body, names, begun):
        if not (isinstance(statement, WelfordStep) and _is_same_triple(statement, loop)):
            body.append(statement)
        elif statement.joined or statement.count.name in begun:
            batch = _new_batch(statement, loop, names)
            declared += map(Declare, (batch.shift, batch.sum, batch.squares))
            body.append(replace(statement, batch=batch))
        else:
            body.append(statement)
    return [*declared, replace(loop, body=tuple(body))]


def _is_same_triple(step: WelfordStep, loop: For) -> bool:
    """Whether the loop has several steps that add to the same triples, all values of each, in no
    batch yet.
    """
    used = (node for expr in (step.index, step.count_index) for node in expr.walk())
    several = (integers.constant(loop.extent) or 0) > 1
    return several and step.batch is None and not step.inside and loop.symbol not in used


def _new_batch(step: WelfordStep, loop: For, names: _Names) -> WelfordBatch:
    size = integers.ONE if step.joined else integers.index(len(step.values))
    shift, total, squares = (
        Buffer(f"{step.mean.name}_{role}{names.used}", step.mean.dtype, MemoryType.local, size)
        for role in ("shift", "sum", "squares")
    )
    names.used += 1
    steps = integers.constant(loop.extent)
    assert steps is not None
    return WelfordBatch(loop.symbol, steps, shift, total, squares)
