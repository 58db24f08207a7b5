"""Run the passes of a loop that lie wholly inside without predicates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.bounds import lower_bound, upper_bound
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.polynomials import Polynomial, expression, polynomial
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.clusters import BY_WARP
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Declare, Element, For, If, Let, Statement
from warpsmith.kernel.products import Multiply
from warpsmith.kernel.rings import Advance
from warpsmith.kernel.traversal import defined, replace_symbols, rewritten, walk, written
from warpsmith.values import dataclass


def split_full_passes(kernel: Kernel) -> Kernel:
    """Split each rolled loop into passes in which no predicate can fail, and the rest.

    A predicate costs a branch around each step of a reduction, and with it the overlap of one
    step's latency with the next. Nearly all passes need none: only the last ones run past the end.
    Predicates of which one holds where another does not stay where they are.

    Before::

        for i0 < n: { if (256*i0 + t < N) s += x[256*i0 + t]; }

    After, since `t <= 255`::

        const int full0 = min(n, max(N - 255 + 255, 0) / 256);
        for i0 < full0: { s += x[256*i0 + t]; }
        for i0r < n - full0: { if (256*(full0 + i0r) + t < N) s += x[256*(full0 + i0r) + t]; }
    """
    names = _Names(fills=(Advance,) if any(map(_multiplies, walk(kernel.body))) else ())

    def change(statement: Statement) -> list[Statement]:
        return _split_loop(statement, names) if isinstance(statement, For) else [statement]

    body = rewritten(kernel.body, change)
    return replace(kernel, body=body) if names.used else kernel


@dataclass(slots=True)
class _Names:
    """Numbers the loops that are split.

    Attributes:
        fills: statements of loops by which all threads of a warp come, or none, besides `BY_WARP`:
            ptxas has products wait for each other where threads part before them.
    """

    fills: tuple[type[Statement], ...]
    used: int = 0


def _split_loop(loop: For, names: _Names) -> list[Statement]:
    inside = tuple(walk(loop.body))
    if loop.unroll or any(_is_apart(s) for s in inside):
        return [loop]
    conditions = dict.fromkeys(
        c
        for s in inside
        if isinstance(s, If) and not s.uniform
        for c in integers.conjuncts(s.condition)
    )
    bound = made_in(inside)
    rooms = {c: room for c in conditions if (room := room_of(c, loop, bound)) is not None}
    rooms = {c: room for c, room in rooms.items() if not any(_excludes(c, o) for o in rooms)}
    if any(
        isinstance(s, (*BY_WARP, *names.fills)) for s in inside
    ):  # all threads of a warp, or none
        rooms = {c: room for c, room in rooms.items() if not any(map(_differs, room))}
    if not rooms:
        return [loop]
    number = names.used
    names.used += 1
    full, rest = Symbol(f"full{number}", low=0), Symbol(f"{loop.symbol.name}r", low=0)
    count = loop.extent
    flags: list[Symbol] = []
    lets: list[Statement] = []
    for left, stride in dict.fromkeys(rooms.values()):
        if stride == integers.ZERO:  # all passes are inside, or none is
            flags.append(Symbol(f"inside{number}_{len(flags)}", low=0))
            lets.append(Let(flags[-1], integers.minimum(left, 1)))
        else:
            passes = integers.floordiv(integers.add(left, stride, -1), stride)
            count = integers.minimum(count, passes)
    moved: dict[Expr, Expr] = {loop.symbol: integers.add(full, rest)}
    return [
        *lets,
        Let(full, integers.mul(count, *flags)),
        replace(loop, extent=full, body=without(loop.body, frozenset(rooms))),
        For(
            rest,
            integers.sub(loop.extent, full),
            tuple(replace_symbols(s, moved) for s in loop.body),
            unroll=False,
        ),
    ]


def _excludes(condition: Expr, other: Expr) -> bool:
    """Whether `a < b` and another never hold together, such as of parts that stand side by side:
    no pass is inside both.
    """
    assert isinstance(condition, Apply)
    assert isinstance(other, Apply)
    (a, b), (c, d) = condition.args, other.args
    return upper_bound(integers.sub(integers.add(b, d), integers.add(a, c))) <= 1


def _multiplies(statement: Statement) -> bool:
    return isinstance(statement, Multiply)


def _is_apart(statement: Statement) -> bool:
    """Whether a loop around the statement is not split: it meets, or is long itself.

    Warps that release a stage do so one by one, in whichever of the two loops; threads that wait,
    arrive or move on in a ring do so for themselves.
    """
    if isinstance(statement, For):
        return not statement.unroll
    return statement.collective and not isinstance(statement, BY_WARP)


def made_in(statements: Iterable[Statement]) -> set[str]:
    """Names of what statements define, declare and write: it is not known before them."""
    found: set[str] = set()
    for statement in statements:
        found |= {symbol.name for symbol in defined(statement)}
        found |= {buffer.name for buffer in written(statement)}
        if isinstance(statement, Declare):
            found.add(statement.buffer.name)
    return found


def asked_from_outside(inside: Iterable[Statement]) -> Iterator[Expr]:
    """What statements ask for and do not make themselves."""
    statements = tuple(inside)
    made = made_in(statements)
    for statement in statements:
        if isinstance(statement, If) and not statement.uniform:
            for condition in integers.conjuncts(statement.condition):
                nodes = tuple(condition.walk())
                names = {node.name for node in nodes if isinstance(node, Symbol)}
                names |= {node.buffer.name for node in nodes if isinstance(node, Element)}
                if names.isdisjoint(made):
                    yield condition


def room_of(condition: Expr, loop: For, bound: set[str]) -> tuple[Expr, Expr] | None:
    """(room, stride): pass `p` satisfies `condition`, in all threads and all inner iterations,
    where `p * stride < room`. None where that is not known.
    """
    if not (isinstance(condition, Apply) and condition.op == "lt"):
        return None
    index, limit = condition.args
    if index.dtype is not DataType.Index or _uses(limit, {loop.symbol.name, *bound}):
        return None
    step: Polynomial = {}
    start: Polynomial = {}
    for monomial, coefficient in polynomial(index).items():
        if loop.symbol in monomial:
            left = list(monomial)
            left.remove(loop.symbol)
            step[tuple(left)] = coefficient
        else:
            start[monomial] = coefficient
    stride, last = expression(step), _largest(expression(start), bound)
    if last is None or any(_uses(e, {loop.symbol.name, *bound}) for e in (stride, last)):
        return None
    if stride != integers.ZERO and lower_bound(stride) < 1:
        return None
    return integers.maximum(integers.sub(limit, last), 0), stride


def _largest(expr: Expr, bound: set[str]) -> Expr | None:
    """`expr` at the last iteration of the inner loops and in the last thread, if it grows there.

    Threads agree on the result, so that a warp runs one of the two loops at a time.
    """
    symbols = [
        factor
        for monomial in polynomial(expr)
        for factor in monomial
        if isinstance(factor, Symbol) and _is_last_known(factor, bound)
    ]
    last: dict[Expr, Expr] = {s: integers.sub(s.extent, 1) for s in symbols if s.extent is not None}
    grows = all(
        coefficient > 0 and all(lower_bound(factor) >= 0 for factor in monomial)
        for monomial, coefficient in polynomial(expr).items()
        if any(symbol in monomial for symbol in last)
    )
    largest = substitute(expr, last)
    return largest if grows and not _uses(largest, bound) else None


def _is_last_known(symbol: Symbol, bound: set[str]) -> bool:
    if symbol.extent is None:
        return False
    return symbol.name in bound or symbol.name.startswith("block_")


def _differs(expr: Expr) -> bool:
    """Whether threads of a block may find different values."""
    return any(isinstance(n, Symbol) and n.name.startswith("block_") for n in expr.walk())


def _uses(expr: Expr, names: set[str]) -> bool:
    return any(
        (isinstance(node, Symbol) and node.name in names)
        or (isinstance(node, Element) and node.buffer.name in names)
        for node in expr.walk()
    )


def without(statements: tuple[Statement, ...], known: frozenset[Expr]) -> tuple[Statement, ...]:
    """The statements where the conditions `known` hold."""

    def change(statement: Statement) -> tuple[Statement, ...]:
        if not isinstance(statement, If):
            return (statement,)
        left = [c for c in integers.conjuncts(statement.condition) if c not in known]
        if not left:
            return statement.body
        return (replace(statement, condition=integers.conjunction(*left)),)

    return rewritten(statements, change)
