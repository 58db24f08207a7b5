"""Unrolled loops whose last passes alone are masked, each of them as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.substitution import at_least
from warpsmith.kernel.clusters import BY_WARP, RANK
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, For, If, Let, Statement
from warpsmith.kernel.traversal import children, replace_symbols, rewritten, walk, written
from warpsmith.lower.passes.peel_ends import is_end
from warpsmith.lower.passes.split_full_passes import made_in, room_of, without


def mask_last_pass(kernel: Kernel) -> Kernel:
    """Split each unrolled loop at the pass from which on a predicate may fail, where sizes that
    the kernel was made for say which one that is.

    Threads cover a row whose length nothing divides with one pass that is not full. Predicates on
    all passes cost instructions, and registers for values that else are computed again. A warp
    that lies past the end skips the last pass: what it would compute, nobody uses. Sizes that a
    call has are no less than what the kernel was made for (`Kernel.least`).

    Before, with 256 threads, `t <= 255`::

        unrolled for i < 5: { y = f(x[i]); if (256*i + t < 1250) s[i] += y; }

    After::

        unrolled for i < 4: { y = f(x[i]); s[i] += y; }
        unrolled for r < 1: { if (256*r + t + 1024 < 1250) { y = f(x[4+r]); s[4+r] += y; } }
    """

    if not kernel.least:
        return kernel
    sizes: dict[Expr, Expr] = {expr: Const(least) for expr, least in kernel.least}

    def change(statement: Statement) -> Iterable[Statement]:
        return _masked(statement, sizes) if isinstance(statement, For) else (statement,)

    return replace(kernel, body=rewritten(kernel.body, change))


def _masked(loop: For, sizes: dict[Expr, Expr]) -> Iterable[Statement]:
    passes, inside = integers.constant(loop.extent), tuple(walk(loop.body))
    if passes is None or not loop.unroll or loop.pipelines:
        return (loop,)
    if any(s.collective or isinstance(s, BY_WARP) for s in inside):
        return (loop,)
    full = {c: count for c, count in _full_passes(loop, inside, sizes).items() if count < passes}
    if not full:
        return (loop,)
    first = min(full.values())
    rest = Symbol(f"{loop.symbol.name}r", low=0, extent=Const(passes - first))
    moved: dict[Expr, Expr] = {loop.symbol: integers.add(rest, first)}
    body = loop.body
    for condition in full:
        body = _under(body, condition)
    last = replace(
        loop,
        symbol=rest,
        extent=Const(passes - first),
        body=tuple(replace_symbols(statement, moved) for statement in body),
    )
    if not first:
        return (last,)
    return (replace(loop, extent=Const(first), body=without(loop.body, frozenset(full))), last)


def _full_passes(
    loop: For, inside: tuple[Statement, ...], sizes: dict[Expr, Expr]
) -> dict[Expr, int]:
    """By condition of threads, the first passes in which it holds in all of them."""
    bound = {RANK, *made_in(inside)}
    found: dict[Expr, int] = {}
    for statement in inside:
        if not isinstance(statement, If) or statement.uniform:
            continue
        for condition in integers.conjuncts(statement.condition):
            if is_end(condition) or not isinstance(condition, Apply):
                continue
            index, *limits = condition.args
            limits = [at_least(limit, sizes) for limit in limits]
            least = Apply(condition.op, (index, *limits), condition.dtype)
            room = room_of(least, loop, bound)
            left, stride = map(integers.constant, room) if room else (None, None)
            if left is not None and stride:
                found[condition] = -(-left // stride)
    return found


def _under(body: tuple[Statement, ...], condition: Expr) -> tuple[Statement, ...]:
    """The statements of a pass under the condition as a whole, where nothing but what they declare
    themselves is written without it; else as they are.
    """
    own = {s.buffer for s in walk(body) if isinstance(s, Declare)}
    inner = {s.symbol for s in walk(body) if isinstance(s, For)}
    if inner.intersection(condition.walk()) or not all(
        ends_inside(statement, condition, own) for statement in body
    ):
        return body
    return (If(condition, without(body, frozenset((condition,)))),)


def ends_inside(statement: Statement, condition: Expr, own: set[Buffer]) -> bool:
    """Whether nobody sees that the statement did not run where the condition does not hold."""
    if isinstance(statement, If) and condition in integers.conjuncts(statement.condition):
        return True
    if isinstance(statement, For | If):
        return all(ends_inside(inner, condition, own) for inner in children(statement))
    if isinstance(statement, Declare | Let):
        return True
    targets = written(statement)
    return bool(targets) and all(buffer in own for buffer in targets)
