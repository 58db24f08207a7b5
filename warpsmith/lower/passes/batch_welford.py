"""Let the steps of an unrolled loop move a mean together."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, For, Statement
from warpsmith.kernel.reductions import WelfordBatch, WelfordStep
from warpsmith.kernel.traversal import map_bodies
from warpsmith.values import dataclass


def batch_welford(kernel: Kernel) -> Kernel:
    """Collect what the steps of an unrolled loop add, and move mean and m2 once after the last.

    A step waits for the mean that the step before it left. The steps of a batch depend on each
    other through sums alone, and take one reciprocal and one update between them. Steps under a
    predicate stay as they are: a batch needs to know how many values it has.

    Before::

        for i0 < n: { for i1 < 4 unrolled: { welford T2[0 ..] += x(i0, i1) } }

    After::

        for i0 < n: {
            T2_shift0, T2_sum0, T2_squares0: float[8]
            for i1 < 4 unrolled: { welford T2[0 ..] += x(i0, i1), step i1 of 4 }
        }

    A batch is collected around the mean of what came before it. Where nothing did, joined steps
    take the mean of their first values, others their first value: of the few values of a batch, an
    outlier there costs little.
    """
    names = _Names()
    body = _batch(kernel.body, names)
    return replace(kernel, body=body) if names.used else kernel


@dataclass(slots=True)
class _Names:
    """Numbers the batches."""

    used: int = 0


def _batch(statements: tuple[Statement, ...], names: _Names) -> tuple[Statement, ...]:
    result: list[Statement] = []
    for statement in statements:
        if isinstance(statement, For) and statement.unroll:
            result += _batch_unrolled(statement, names)
        else:
            result.append(map_bodies(statement, lambda body: _batch(body, names)))
    return tuple(result)


def _batch_unrolled(loop: For, names: _Names) -> list[Statement]:
    """The loop, after the declarations that its batches need."""
    declared: list[Statement] = []
    body: list[Statement] = []
    for statement in _batch(loop.body, names):
        if isinstance(statement, WelfordStep) and _is_same_triple(statement, loop):
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
