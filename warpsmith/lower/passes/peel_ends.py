"""Unrolled loops over rows that begin anywhere, of which the first and last passes are apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.substitution import at_least, substitute
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.traversal import replace_symbols, rewritten, walk


def peel_ends(kernel: Kernel) -> Kernel:
    """Split each unrolled loop where only the first pass and the last ones may lie in part outside
    of a row: others ask for no predicates.

    Pieces of a row that begin at multiples of their size in memory reach beyond it at its begin and
    at its end. Which passes are between follows from the sizes that the kernel was made for.

    Before, with 32 threads, pieces of 8, and rows of 600 elements or more of which `h = r*n % 8`
    stand before the row in its first piece::

        unrolled for i < 4: for j < 8: if (h < 256*i + 8*t + j + 1 && 256*i + 8*t + j < n + h) ..

    After::

        unrolled for i < 1: for j < 8: if (h < 8*t + j + 1) ..
        unrolled for m < 1: for j < 8: ..
        unrolled for r < 2: for j < 8: if (512 + 256*r + 8*t + j < n + h) ..
    """
    asked = (s.condition for s in walk(kernel.body) if isinstance(s, If))
    if not any(is_begin(c) for condition in asked for c in integers.conjuncts(condition)):
        return kernel
    sizes: dict[Expr, Expr] = {expr: Const(least) for expr, least in kernel.least}

    def change(statement: Statement) -> Iterable[Statement]:
        return _peeled(statement, sizes) if isinstance(statement, For) else (statement,)

    return replace(kernel, body=rewritten(kernel.body, change))


def _peeled(loop: For, sizes: Mapping[Expr, Expr]) -> Iterable[Statement]:
    passes = integers.constant(loop.extent)
    if passes is None or not loop.unroll or loop.pipelines:
        return (loop,)
    inside = [s for s in walk(loop.body) if isinstance(s, If)]
    conditions = [c for s in inside for c in integers.conjuncts(s.condition)]
    begins = [c for c in dict.fromkeys(conditions) if is_begin(c)]
    if any(s.collective for s in walk(loop.body)) or not begins:
        return (loop,)
    if passes == 1:
        return (_part(loop, 0, 1, "", sizes),)
    if not all(_holds(c, loop.symbol, 1, passes - 1, sizes) for c in begins):
        return (loop,)
    ends = [c for c in dict.fromkeys(conditions) if is_end(c)]
    full = passes - 1
    while full > 1 and not all(_holds(c, loop.symbol, 0, full, sizes) for c in ends):
        full -= 1
    parts = ((0, 1, ""), (1, full - 1, "m"), (max(1, full), passes - max(1, full), "r"))
    return [_part(loop, *part, sizes) for part in parts if part[1] > 0]


def _part(loop: For, first: int, count: int, suffix: str, sizes: Mapping[Expr, Expr]) -> Statement:
    """So many passes from one on, without what is known of them."""
    symbol = Symbol(f"{loop.symbol.name}{suffix}", low=0, extent=Const(count))
    moved: dict[Expr, Expr] = {loop.symbol: integers.add(symbol, first)}

    def known(statement: Statement) -> Iterable[Statement]:
        if not isinstance(statement, If):
            return (statement,)
        left = []
        for condition in integers.conjuncts(statement.condition):
            if _compares(condition):
                if _holds(condition, loop.symbol, first, count, sizes):
                    continue
                if _holds(integers.negated(condition), loop.symbol, first, count, sizes):
                    return ()
            left.append(condition)
        if not left:
            return statement.body
        return (replace(statement, condition=integers.conjunction(*left)),)

    body = tuple(replace_symbols(s, moved) for s in rewritten(loop.body, known))
    return replace(loop, symbol=symbol, extent=Const(count), body=body)


def _compares(condition: Expr) -> bool:
    return (
        isinstance(condition, Apply)
        and condition.op == "lt"
        and condition.args[0].dtype is DataType.Index
    )


def is_begin(condition: Expr) -> bool:
    """Whether it asks if a row has begun: what stands before it is below a place."""
    if not (_compares(condition) and isinstance(condition, Apply)):
        return False
    before = condition.args[0]
    return isinstance(before, Apply) and before.op == "mod"


def is_end(condition: Expr) -> bool:
    """Whether it asks if a row has not ended: a place is below its length and what is before it."""
    if not (_compares(condition) and isinstance(condition, Apply)):
        return False
    end = condition.args[1]
    heads = [n for n in end.walk() if isinstance(n, Apply) and n.op == "mod"]
    return isinstance(end, Apply) and end.op == "add" and bool(heads)


def _holds(
    condition: Expr, symbol: Symbol, first: int, count: int, sizes: Mapping[Expr, Expr]
) -> bool:
    """Whether a condition is known to hold in so many passes from one on."""
    if not isinstance(condition, Apply):
        return condition == integers.TRUE
    a, b = condition.args
    each = Symbol(symbol.name, low=0, extent=Const(count))
    moved: dict[Expr, Expr] = {symbol: integers.add(each, first)}
    a, b = substitute(a, moved), at_least(substitute(b, moved), sizes)
    return integers.provably_less(a, b)
