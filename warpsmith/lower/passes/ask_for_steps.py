"""Conditions of a step of a loop, asked once for all elements that it computes of an operand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.scalar import Apply, Const
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, For, If, Statement, Store
from warpsmith.kernel.traversal import rewritten, walk
from warpsmith.lower.passes.mask_last_pass import ends_inside
from warpsmith.lower.passes.split_full_passes import asked_from_outside, without


def ask_for_steps(kernel: Kernel) -> Kernel:
    """Compute elements of an operand under the condition that there is such a step, or make all of
    them what they are where there is none.

    Where blocks of a cluster have steps in turns the last of some are none. Asked around each
    element, that takes a selection of each, and registers: of weights of 4 bits 11 instructions an
    element in place of 7.

    Before::

        for step: unrolled for i < 32: { r[i] = 0; if (step < n) r[i] = f(x[step, i]); }

    After::

        for step: { if (step < n) unrolled for i < 32: r[i] = f(x[step, i]);
                    if (n <= step) unrolled for i < 32: r[i] = 0; }
    """

    def of_steps(statement: Statement) -> Iterable[Statement]:
        if not isinstance(statement, For) or statement.unroll:
            return (statement,)
        body = tuple(part for inner in statement.body for part in _parts(inner))
        return (replace(statement, body=body),)

    return kernel.with_body(rewritten(kernel.body, of_steps))


def _parts(nest: Statement) -> Iterator[Statement]:
    """A nest that computes elements, in its two parts where it asks for the step."""
    inside = tuple(walk((nest,)))
    if isinstance(nest, For) and nest.unroll and not any(s.collective for s in inside):
        own = {s.buffer for s in inside if isinstance(s, Declare)}
        others = tuple(_otherwise((nest,), own))
        (rest,) = rewritten((nest,), lambda s: () if _leaves(s, own) else (s,))
        for condition in dict.fromkeys(asked_from_outside(inside) if others else ()):
            compared = isinstance(condition, Apply) and condition.op == "lt"
            if compared and ends_inside(rest, condition, own):
                yield If(condition, without((nest,), frozenset((condition,))))
                yield If(integers.negated(condition), others)
                return
    yield nest


def _leaves(statement: Statement, own: Collection[Buffer]) -> bool:
    """Whether a constant is stored in what others read."""
    return (
        isinstance(statement, Store)
        and statement.buffer not in own
        and isinstance(statement.value, Const)
    )


def _otherwise(statements: tuple[Statement, ...], own: Collection[Buffer]) -> Iterator[Statement]:
    """The constants that they leave, in their loops."""
    for statement in statements:
        if isinstance(statement, For):
            inside = tuple(_otherwise(statement.body, own))
            if inside:
                yield replace(statement, body=inside)
        elif _leaves(statement, own):
            yield statement
