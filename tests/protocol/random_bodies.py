"""Random bodies of kernels that wait, announce bytes and move cursors, and all that they do.

`trace` runs a body the slow way: every iteration, every expression evaluated anew.
"""

from collections.abc import Sequence
from random import Random

from tests.protocol.random_expressions import random_number, random_truth
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol, evaluate
from warpsmith.kernel.nodes import Buffer, For, If, Let, Statement
from warpsmith.kernel.rings import Advance, Arrive, Await, Begin, Cursor, Expect, Jump

STAGES = 12
"""Of the barrier, whose stages tell steps apart."""

BARRIER = Buffer("full", DataType.Int, MemoryType.shared, Const(STAGES))

Trace = list[tuple[str, int, int]]


class RandomBody:
    """Makes one body.

    Attributes:
        loops: made so far.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._cursors = [Cursor("c0", 2), Cursor("c1", 3)]
        self._lets = 0
        self.loops = 0

    def statements(self) -> tuple[Statement, ...]:
        begins = tuple(Begin(cursor, Const(n)) for n, cursor in enumerate(self._cursors))
        leaves = [s for cursor in self._cursors for s in cursor.symbols]
        return (*begins, *self._some(tuple(leaves), 0))

    def _some(self, leaves: tuple[Expr, ...], depth: int) -> tuple[Statement, ...]:
        result: list[Statement] = []
        for _ in range(self._random.randint(1, 3)):
            made, leaves = self._one(leaves, depth)
            result.append(made)
        return tuple(result)

    def _one(self, leaves: tuple[Expr, ...], depth: int) -> tuple[Statement, tuple[Expr, ...]]:
        random = self._random
        kind = random.choice(
            (
                "loop",
                "loop",
                "loop",
                "if",
                "await",
                "arrive",
                "expect",
                "advance",
                "jump",
                "let",
                "begin",
            )
        )
        if depth == 0:
            kind = random.choice(("loop", "loop", "loop", kind))
        if depth >= 3 and kind == "loop":
            kind = "expect"
        inner = tuple(s for s in leaves if isinstance(s, Symbol) and s.name.startswith("i"))
        match kind:
            case "loop":
                return self._loop(leaves, depth), leaves
            case "if":
                condition = random_truth(random, leaves, 2)
                return If(condition, self._some(leaves, depth + 1), uniform=True), leaves
            case "await":
                return Await(BARRIER, self._within(leaves, STAGES), self._number(leaves)), leaves
            case "arrive":
                return Arrive(BARRIER, self._within(leaves, STAGES)), leaves
            case "expect":
                return Expect(BARRIER, self._within(leaves, STAGES), self._number(leaves)), leaves
            case "let" if inner:
                # a name stands for what it is at its place, so it leaves cursors out
                symbol = Symbol(f"n{self._lets}")
                self._lets += 1
                return Let(symbol, random_number(random, inner, 2)), (*leaves, symbol)
            case "begin":
                cursor = random.choice(self._cursors)
                return Begin(cursor, self._within(leaves, cursor.stages)), leaves
            case "jump":
                return Jump(random.choice(self._cursors), self._within(leaves, 4)), leaves
        return Advance(random.choice(self._cursors)), leaves

    def _loop(self, leaves: tuple[Expr, ...], depth: int) -> For:
        random = self._random
        # loops that follow each other may have indices of one name, of different ranges
        symbol = Symbol(f"i{depth}" if random.random() < 0.7 else f"i{depth}_{self.loops}", low=0)
        self.loops += 1
        extent: Expr = Const(random.choice((0, 1, 2, 3, 5, 8, 13, 21 if depth == 0 else 4)))
        if random.random() < 0.35:
            extent = self._within(leaves, 6)
        body = self._some((*leaves, symbol, symbol), depth + 1)
        return For(symbol, extent, body, unroll=False)

    def _number(self, leaves: Sequence[Expr]) -> Expr:
        return random_number(self._random, leaves, self._random.randint(0, 3))

    def _within(self, leaves: Sequence[Expr], count: int) -> Expr:
        """0 to count - 1."""
        return Apply("mod", (self._number(leaves), Const(count)), DataType.Index)


def trace(statements: Sequence[Statement]) -> Trace:
    """All steps, in order: kind, stage, and parity or bytes."""
    result: Trace = []
    _run(statements, {}, result)
    return result


def _run(statements: Sequence[Statement], values: dict[str, int], out: Trace) -> None:
    for statement in statements:
        match statement:
            case For(symbol=symbol, extent=extent, body=body):
                for number in range(evaluate(extent, values)):
                    values[symbol.name] = number
                    _run(body, values, out)
            case If(condition=condition, body=body):
                if evaluate(condition, values):
                    _run(body, values, out)
            case Let(symbol=symbol, value=value):
                values[symbol.name] = evaluate(value, values)
            case Begin(cursor=cursor, stage=stage):
                _move(values, cursor, evaluate(stage, values), begins=True)
            case Advance(cursor=cursor, by=by):
                _move(values, cursor, by)
            case Jump(cursor=cursor, by=by):
                _move(values, cursor, evaluate(by, values))
            case Await(stage=stage, parity=parity):
                out.append(("AWAIT", evaluate(stage, values), evaluate(parity, values) & 1))
            case Arrive(stage=stage):
                out.append(("ARRIVE", evaluate(stage, values), 1))
            case Expect(stage=stage, bytes=amount):
                out.append(("EXPECT", evaluate(stage, values), evaluate(amount, values)))


def _move(values: dict[str, int], cursor: Cursor, by: int, *, begins: bool = False) -> None:
    stage, phase = (integers.index(s) for s in (cursor.stage, cursor.phase))
    assert isinstance(stage, Symbol)
    assert isinstance(phase, Symbol)
    place = 0 if begins else values[stage.name] + cursor.stages * values[phase.name]
    place = (place + by) % (2 * cursor.stages)
    values[stage.name], values[phase.name] = place % cursor.stages, place // cursor.stages
