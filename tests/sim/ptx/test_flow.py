"""Control-flow graphs and post-dominators."""

from hypothesis import given
from hypothesis import strategies as st

from tests.sim.support.ptx_body import program
from warpsmith.sim.isa import Op
from warpsmith.sim.ptx.flow import EXIT, post_dominators

Graph = list[list[int]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(1, 9))
    block = st.integers(-1, count - 1)
    return [draw(st.lists(block, max_size=3, unique=True)) for _ in range(count)]


def reaches(graph: Graph, start: int, without: int | None = None) -> bool:
    """Whether a path leads from a block to the end, past the block that is left out."""
    seen = {start}
    pending = [] if start == without else [start]
    while pending:
        for following in graph[pending.pop()]:
            if following == EXIT:
                return True
            if following not in seen and following != without:
                seen.add(following)
                pending.append(following)
    return False


def by_force(graph: Graph, block: int) -> int:
    """The nearest of the blocks that stand on all paths from `block` to the end."""
    strict = [
        other for other in range(len(graph)) if other != block and not reaches(graph, block, other)
    ]
    for nearest in strict:
        if all(other == nearest or not reaches(graph, nearest, other) for other in strict):
            return nearest
    return EXIT


@given(graphs())
def test_immediate_post_dominators_are_those_found_by_force(graph: Graph) -> None:
    found = post_dominators(graph)
    for block in range(len(graph)):
        if reaches(graph, block):
            assert found[block] == by_force(graph, block)


@given(graphs())
def test_blocks_that_never_end_are_judged_too(graph: Graph) -> None:
    assert all(EXIT <= block < len(graph) for block in post_dominators(graph))


def meetings(body: str) -> list[int]:
    """`reconverge` of each guarded or indexed branch."""
    found = program("setp.eq.u32 %p1, 1, 1;\n" + body).instructions
    return [i.reconverge for i in found if i.op is Op.BRX or (i.op is Op.BRA and i.guard)]


def test_a_branch_over_code() -> None:
    assert meetings("@%p1 bra A; mov.u32 %r1, 1; A: exit;") == [3]


def test_two_sides() -> None:
    assert meetings("@%p1 bra A; nanosleep.u32 1; bra B; A: nanosleep.u32 2; B: exit;") == [5]


def test_a_loop_meets_behind_itself() -> None:
    assert meetings("A: nanosleep.u32 1; @%p1 bra A; exit;") == [3]


def test_sides_that_both_end_never_meet() -> None:
    assert meetings("@%p1 bra A; exit; A: nanosleep.u32 1; exit;") == [-1]


def test_traps_and_guarded_exits_are_no_paths() -> None:
    assert meetings("@%p1 bra A; trap; A: exit;") == [3]
    assert meetings("@%p1 bra A; @%p1 exit; nanosleep.u32 1; A: exit;") == [4]


def test_lanes_meet_without_those_that_returned_early() -> None:
    body = "@%p1 bra Y; @%p1 bra R; nanosleep.u32 1; bra Y; R: exit; Y: bar.sync 0; exit;"
    assert meetings(body) == [6, -1]


def test_an_exit_that_stands_last_need_not_be_the_end() -> None:
    body = "@%p1 bra Y; @%p1 bra R; nanosleep.u32 1; Y: bar.sync 0; exit; R: exit;"
    assert meetings(body) == [4, -1]


def test_of_two_ends_behind_a_loop_neither_is_waited_for() -> None:
    loop = "A: @%p1 bra R; nanosleep.u32 1; @%p1 bra A;"
    assert meetings(f"{loop} bar.sync 0; exit; R: nanosleep.u32 2; exit;") == [-1, -1]


def test_an_endless_loop_has_meetings_inside() -> None:
    assert meetings("A: @%p1 bra B; nanosleep.u32 1; B: nanosleep.u32 2; bra A;") == [3]
