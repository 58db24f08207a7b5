"""CUDA text of roles: what each warp runs, how groups meet, and what ptxas makes of it."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.lower.test_snapshots import body_of
from tests.protocol.edits import edited, instead
from tests.support import role_sums
from tests.support.lowering import lowered
from tests.support.ring_loads import Kind
from tests.support.role_feeds import Feed
from tests.support.role_kernels import streaming, turns
from tests.support.role_parts import kernel_of, single
from warpsmith.codegen.cuda import cuda_text
from warpsmith.codegen.roles import bundles, conditions
from warpsmith.codegen.teams import thread_lines
from warpsmith.codegen.values import ValueText
from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Symbol
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Comment, If, Statement, Synchronize
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.rings import ArriveByWarp
from warpsmith.targets.hopper import H200

BLOCK_X, BLOCK_Y = ParallelType.block_x, ParallelType.block_y


# --- who runs what -----------------------------------------------------------------------------


def many(name: str, warp: int, threads: int | Symbol, **more: int) -> Branch:
    agent = Agent(name, warp, (integers.index(threads), integers.ONE, integers.ONE), **more)
    return Branch(agent, (Comment(name),))


def one(name: str, warp: int, registers: int | None = None) -> Branch:
    return Branch(single(name, warp, registers), (Comment(name),))


def test_roles_are_bundled_by_their_warp_groups() -> None:
    loads, few, adding = (one("a", 0), one("b", 1)), many("few", 4, 32), many("add", 8, 256)
    found = bundles((adding, *loads, few), 16)
    assert [(b.start, b.end) for b in found] == [(0, 4), (4, 8), (8, 16)]
    assert [b.branches for b in found] == [loads, (few,), (adding,)]
    cut_short = bundles((one("a", 0), many("add", 4, 80)), 7)
    assert [(b.start, b.end) for b in cut_short] == [(0, 4), (4, 7)]
    open_ended = bundles((one("a", 0), many("add", 4, Symbol("n", low=1))), None)
    assert [(b.start, b.end) for b in open_ended] == [(0, 4), (4, None)]


@pytest.mark.parametrize(
    ("ranges", "end", "expected"),
    [
        (((0, 4), (4, 16)), 16, ["warp < 4", ""]),
        (((0, 4), (4, None)), None, ["warp < 4", ""]),
        (((0, 1), (1, 2)), 4, ["warp == 0", "warp == 1"]),
        (((1, 3),), 4, ["warp >= 1 && warp < 3"]),
        (((0, 4),), 4, [""]),
    ],
)
def test_conditions_tell_warps_apart(
    ranges: tuple[tuple[int, int | None], ...], end: int | None, expected: list[str]
) -> None:
    assert list(conditions(ranges, 0, end)) == expected


def test_idle_warps_and_single_roles_change_registers_with_their_group() -> None:
    text = body_of(streaming(registers=(40, 232)).kernel)
    steps = (
        r"__launch_bounds__\(384, 1\)",
        r"if \(warp < 4\) \{\n +ws_fewer_registers<40>\(\);\n",
        r"if \(warp == 0\) \{\n +if \(elected_lane\) \{",
        r"else if \(warp == 1\) \{\n +if \(elected_lane\) \{",
        r"else \{\n +ws_more_registers<232>\(\);\n",
    )
    assert re.search(".*?".join(steps), text, re.DOTALL)
    assert text.count("_registers<") == 2


def test_what_the_launch_gives_anyway_is_not_asked_for() -> None:
    text = body_of(streaming(registers=(168, 168)).kernel)
    assert "_registers<" not in text
    assert "__launch_bounds__(384, 1)" in text
    fewer = body_of(streaming(registers=(40, 120), blocks_per_sm=1).kernel)
    assert "ws_fewer_registers<120>" in fewer
    two = body_of(streaming(registers=(24, 96), blocks_per_sm=2).kernel)
    assert "__launch_bounds__(384, 2)" in two
    assert "ws_more_registers<96>" in two  # two blocks of 384 threads start with 80


@pytest.mark.parametrize(
    ("agent", "lines"),
    [
        (
            Agent("a", 4, (Const(32), Const(4), Const(2))),
            [
                "const int thread = threadIdx.x - 128;",
                "const int block_x = (unsigned)thread % 32u;",
                "const int block_y = (unsigned)(warp - 4) % 4u;",
                "const int block_z = (unsigned)(warp - 4) / 4u;",
            ],
        ),
        (
            Agent("a", 4, (Const(64), Const(4), Const(2)), ParallelType.block_z),
            [
                "const int group = (warp - 4) / 8;",
                "const int thread = threadIdx.x - 128 - group * 256;",
                "const int block_x = (unsigned)thread % 64u;",
                "const int block_y = (unsigned)(warp - 4 - group * 8) / 2u;",
                "const int block_z = group;",
            ],
        ),
        (
            Agent("a", 4, (Const(3), Const(64), Const(1)), ParallelType.block_x),
            [
                "const int group = (warp - 4) / 2;",
                "const int thread = threadIdx.x - 128 - group * 64;",
                "const int block_y = thread;",
                "const int block_x = group;",
            ],
        ),
        (
            Agent("a", 0, (Symbol("n"), Const(2), Const(1))),
            [
                "const int thread = threadIdx.x;",
                "const int block_x = (unsigned)thread % (unsigned)n;",
                "const int block_y = (unsigned)thread / (unsigned)n;",
            ],
        ),
    ],
)
def test_indices_count_the_threads_of_a_role(agent: Agent, lines: list[str]) -> None:
    assert thread_lines(agent, ValueText(DataType.Int32), "int") == lines


# --- what cannot be printed --------------------------------------------------------------------

ADD = Agent("add", 4, (Const(128), integers.ONE, integers.ONE))
MEET = Synchronize("all")


def with_branches(*branches: Branch) -> Kernel:
    return kernel_of((), (), branches)


def with_end(statement: Statement) -> Kernel:
    kernel = turns().kernel
    return replace(kernel, body=(*kernel.body, statement))


def reducing(**changes: object) -> Kernel:
    """Groups that reduce rows in turn, otherwise than they were lowered."""
    kernel = lowered(role_sums.groups(Feed(Kind.bulk, 4), count=2))
    return edited(kernel, instead(Reduce, lambda s: replace(s, **changes)))


LITTLE = Buffer("scratch", DataType.Float, MemoryType.shared, Const(3))


REFUSED: dict[str, tuple[Callable[[], Kernel], str]] = {
    "after": (lambda: with_end(MEET), "statements follow the branch of a role"),
    "inside": (
        lambda: with_branches(Branch(ADD, (If(integers.TRUE, (one("a", 0),)),))),
        "stands inside a statement",
    ),
    "overlap": (lambda: with_branches(many("a", 0, 160), many("b", 4, 32)), "a and b have warp 4"),
    "two budgets": (
        lambda: with_branches(one("a", 0, 24), one("b", 1, 32), many("c", 4, 128)),
        "a, b share a warp group",
    ),
    "part of a group": (
        lambda: with_branches(one("a", 0), many("b", 4, 96, registers=40)),
        "not made of whole warp groups",
    ),
    "unknown threads": (
        lambda: with_branches(one("a", 0, 40), many("b", 4, Symbol("n", low=1))),
        "not made of whole warp groups",
    ),
    "meeting alone": (
        lambda: with_branches(Branch(single("a", 0), (MEET,))),
        "Synchronize is for many threads",
    ),
    "release alone": (
        lambda: with_branches(
            Branch(single("a", 0), (ArriveByWarp(turns().kernel.shared[1], integers.ZERO),))
        ),
        "ArriveByWarp is for many threads",
    ),
    "no barrier": (lambda: with_branches(Branch(ADD, (MEET,))), "no barrier to meet at"),
    "too many barriers": (
        lambda: with_branches(
            Branch(
                replace(
                    ADD,
                    block=(Const(32), Const(4), Const(1)),
                    barrier=13,
                    groups_along=ParallelType.block_y,
                ),
                (MEET,),
            )
        ),
        "4 groups, whose barriers from 13 on",
    ),
    "parts of warps": (
        lambda: with_branches(
            Branch(
                replace(
                    ADD, block=(Const(48), Const(2), Const(1)), groups_along=ParallelType.block_y
                ),
                (),
            )
        ),
        "not made of whole warps",
    ),
    "little scratch": (lambda: reducing(scratch=LITTLE), "scratch has 1 elements for each of 2"),
    "across groups": (
        lambda: reducing(block_axes=(BLOCK_X, BLOCK_Y)),
        "T1 is reduced across groups",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_text_can_say_is_an_internal_error(name: str) -> None:
    make, words = REFUSED[name]
    with pytest.raises(InternalError, match=words):
        cuda_text(make(), H200)
