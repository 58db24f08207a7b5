"""Lists of steps, held against those of a walk that leaves no iteration out."""

from collections.abc import Sequence
from random import Random

import pytest

from tests.protocol.kernels import chain, fed_by, matmul
from tests.protocol.random_bodies import BARRIER, STAGES, RandomBody, Trace, trace
from tests.support.role_kernels import CASES, turns
from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.rings import Advance, Arrive, Await, Begin, Cursor, Expect
from warpsmith.protocol import extract
from warpsmith.protocol.bodies import Body
from warpsmith.protocol.extract import skeleton_of
from warpsmith.protocol.launched import launch_values
from warpsmith.protocol.numbers import Prepared, Runner, Shared
from warpsmith.protocol.scalars import Scope, Values
from warpsmith.protocol.walks import (
    MOST_ITERATIONS,
    MOST_STEPS,
    Condition,
    Leaf,
    Loop,
    Node,
    Segment,
    Steps,
    TooLongError,
    walked,
)

RUNNER = Runner(role="r", group=0, threads=1, elected=True, meeting=None)


def steps_of(statements: Sequence[Statement]) -> Trace:
    """What the check makes of a body that one thread runs."""
    body = Body(Shared({BARRIER.name: (0, STAGES)}, Prepared({})), Scope({}), RUNNER)
    found = walked(body.nodes(statements))
    return [(s.kind.name, s.place, s.amount) for s in found]


@pytest.mark.few(2)
@pytest.mark.parametrize("batch", range(10))
def test_random_bodies(batch: int) -> None:
    random = Random(batch)
    steps = 0
    for _ in range(150):
        statements = RandomBody(random).statements()
        wanted = trace(statements)
        assert steps_of(statements) == wanted, statements
        steps += len(wanted)
    assert steps > 3000


def every_iteration(nodes: Sequence[Node]) -> Steps:
    """`walked`, without any of its short cuts."""
    values: Values = {}
    out: Steps = []
    _emit(nodes, values, out)
    return out


def _emit(nodes: Sequence[Node], values: Values, out: Steps) -> None:
    for node in nodes:
        match node:
            case Loop():
                for number in range(node.extent(values)):
                    values[node.name] = number
                    _emit(node.body, values, out)
            case Condition():
                if node.holds(values):
                    _emit(node.body, values, out)
            case Segment():
                for item in node.items:
                    if isinstance(item, Leaf):
                        out += item.make(*[operand(values) for operand in item.operands])
                    else:
                        before = 0 if item.starts else values[item.name]
                        values[item.name] = (before + item.by(values)) % item.turn


KERNELS = {
    **CASES,
    "fed by three": lambda: fed_by(3),
    "chain": chain,
    "matmul": lambda: matmul(8, 33),
    "shares": lambda: turns(size=9300, groups=3, share=2),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = KERNELS[name]()
    for block in ((0, 0, 0), (1, 0, 0)):
        known = launch_values(case.kernel, case.values, block)
        found = skeleton_of(case.kernel, known)
        with monkeypatch.context() as patch:
            patch.setattr(extract, "walked", every_iteration)
            wanted = skeleton_of(case.kernel, known)
        assert found == wanted
        assert found.steps > 10


def number(op: str, *operands: Expr | int) -> Expr:
    return Apply(op, tuple(map(integers.index, operands)), DataType.Index)


def loop(index: Symbol, extent: Expr | int, *body: Statement) -> For:
    return For(index, integers.index(extent), body, unroll=False)


OUTER, INNER = Symbol("i", low=0), Symbol("j", low=0)
WAIT, ARRIVAL = Await(BARRIER, Const(0), Const(0)), Arrive(BARRIER, Const(1))


@pytest.mark.parametrize("longer_first", [True, False])
def test_loops_of_one_index_that_follow_each_other(longer_first: bool) -> None:
    """What depends on the index in one of them has the range that it has there."""
    condition = number("lt", number("mul", OUTER, 2), INNER)
    loops = (
        loop(INNER, 9, If(condition, (WAIT,), uniform=True)),
        loop(INNER, 1, ARRIVAL),
    )
    body = (loop(OUTER, 4, *(loops if longer_first else reversed(loops))),)
    assert steps_of(body) == trace(body)
    assert len(trace(body)) == 8 + 6 + 4 + 2 + 4


def test_loops_as_long_as_the_index_of_another_one() -> None:
    last = Symbol("k", low=0)
    body = (loop(OUTER, 9, loop(INNER, OUTER, loop(last, INNER, Await(BARRIER, last, OUTER)))),)
    assert steps_of(body) == trace(body)
    assert len(trace(body)) == 84


def test_a_cursor_that_begins_in_every_iteration() -> None:
    cursor = Cursor("c", 3)
    one = (Begin(cursor, Const(1)), Await(BARRIER, cursor.stage, cursor.phase), Advance(cursor, 2))
    body = (loop(OUTER, 4, *one, Arrive(BARRIER, cursor.stage)),)
    assert steps_of(body) == trace(body)


def test_a_cursor_that_begins_anew_after_its_use() -> None:
    """The steps before it begins depend on where it was."""
    cursor = Cursor("c", 3)
    again = Begin(cursor, integers.ZERO)
    body = (Begin(cursor, Const(2)), loop(OUTER, 4, Arrive(BARRIER, cursor.stage), again))
    assert steps_of(body) == trace(body)
    assert [stage for _, stage, _ in trace(body)] == [2, 0, 0, 0]


def test_an_index_is_of_one_loop_at_a_time() -> None:
    with pytest.raises(InternalError, match="a loop over i stands in another one"):
        steps_of((loop(OUTER, 2, loop(OUTER, 2, WAIT)),))


def test_as_many_steps_as_may_be() -> None:
    most = MOST_STEPS // 2
    assert len(steps_of((loop(OUTER, most, WAIT, ARRIVAL),))) == MOST_STEPS
    with pytest.raises(TooLongError):
        steps_of((loop(OUTER, most + 1, WAIT, ARRIVAL),))


def test_iterations_that_all_differ_are_not_too_many() -> None:
    """Each of them takes time, so there is an end before the list is too long."""

    def body(extent: int) -> tuple[Statement, ...]:
        return (loop(OUTER, extent, Expect(BARRIER, integers.ZERO, number("mul", OUTER, 16))),)

    assert len(set(steps_of(body(5000)))) == 5000
    with pytest.raises(TooLongError):
        steps_of(body(1 << 30))


def test_long_loops_whose_first_and_last_iterations_differ_are_short_work() -> None:
    extent = MOST_STEPS // 4
    amount = number("minimum", 256, number("sub", 256 * extent - 100, number("mul", OUTER, 256)))
    first = If(number("lt", 0, OUTER), (ARRIVAL,), uniform=True)
    steps = steps_of((loop(OUTER, extent, WAIT, first, Expect(BARRIER, Const(2), amount)),))
    assert len(steps) == 3 * extent - 1
    assert steps[:4] == [("AWAIT", 0, 0), ("EXPECT", 2, 256), ("AWAIT", 0, 0), ("ARRIVE", 1, 1)]
    assert steps[-2:] == [("ARRIVE", 1, 1), ("EXPECT", 2, 156)]


def test_a_loop_that_is_met_again_is_not_walked_again() -> None:
    """All iterations of both loops differ, but the inner one does the same each time."""
    inner = loop(INNER, 300, Expect(BARRIER, integers.ZERO, number("mul", INNER, 16)))
    outer = Expect(BARRIER, integers.ZERO, number("mul", OUTER, 16))
    body = (loop(OUTER, 300, outer, inner),)
    assert MOST_ITERATIONS < 300 * 300
    assert steps_of(body) == trace(body)


def test_a_loop_that_is_met_again_with_other_places_is_walked_again() -> None:
    """Its steps depend on an index around it and on two cursors, and it moves two."""
    moved, still, after = Cursor("c", 3), Cursor("d", 2), Cursor("e", 7)
    before = number("lt", OUTER, INNER)
    inner = loop(
        INNER,
        5,
        Await(BARRIER, moved.stage, still.phase),
        If(before, (Arrive(BARRIER, still.stage),), uniform=True),
        Advance(moved),
        Advance(after),
    )
    begins = tuple(Begin(cursor, integers.ZERO) for cursor in (moved, still, after))
    body = (*begins, loop(OUTER, 100, inner, Advance(still), Await(BARRIER, after.stage, Const(0))))
    assert steps_of(body) == trace(body)
    assert len(trace(body)) == 100 * 6 + 4 + 3 + 2 + 1


def test_loops_met_again_make_no_list_too_long() -> None:
    inner = loop(INNER, MOST_STEPS // 2, ARRIVAL)
    outer = Expect(BARRIER, integers.ZERO, number("mul", OUTER, 16))
    with pytest.raises(TooLongError):
        steps_of((loop(OUTER, 2, outer, inner),))
