"""What kernels with roles do on the simulator, and what ptxas makes of them."""

import re
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from tests.support import role_sums, simulating
from tests.support.lowering import lowered
from tests.support.machine_code import machine_lines
from tests.support.ring_loads import Kind
from tests.support.role_feeds import Feed
from tests.support.role_kernels import CASES, RoleCase, check, streaming, turns
from warpsmith.codegen.cuda import cuda_text
from warpsmith.kernel.kernel import Kernel
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Binary, Source
from warpsmith.targets.hopper import H200
from warpsmith.targets.target import Target


@pytest.mark.few(6)
@pytest.mark.parametrize("name", CASES)
def test_it_is_clean_and_right(name: str) -> None:
    check(CASES[name]())


def rows_in_turn() -> RoleCase:
    """Two groups of threads take sums off rows in turn."""
    x = np.random.default_rng(0).integers(-8, 9, (9, 128)).astype(np.float32)
    found = x - x.sum(1, keepdims=True)
    kernel = lowered(role_sums.groups(Feed(Kind.bulk, 4), count=2))
    return RoleCase(kernel, {"T0_size0": 9}, {"T0": x.reshape(-1)}, {"T3": found.reshape(-1)})


# --- faults that the simulator finds -----------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "right", "wrong"),
    [
        (rows_in_turn, r"scratch \+ group \* \d+", "scratch"),
        (rows_in_turn, r"1 \+ group, 64", "1, 64"),
        (rows_in_turn, r"1 \+ group, 64", "1 + group, 96"),
        (
            lambda: streaming(registers=(40, 232)),
            r"ws_fewer_registers<40>",
            "if (warp < 2) ws_fewer_registers<40>",
        ),
        (
            lambda: streaming(registers=(40, 232)),
            r"ws_fewer_registers<40>",
            "ws_more_registers<40>",
        ),
        (CASES["loaded by one of many"], r"elected_warp = warp == 0;", "elected_warp = true;"),
        (turns, r"(?<=ring0_empty \+ ring0_use_stage, )thread", "1"),
    ],
    ids=[
        "groups share scratch",
        "groups share a barrier",
        "a barrier of too many threads",
        "registers of half a group",
        "more registers that are fewer",
        "an elected thread of each warp",
        "no warp arrives",
    ],
)
def test_the_simulator_finds_a_wrong_text(
    make: Callable[[], object], right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(kernel: Kernel, target: Target) -> str:
        text, count = re.subn(right, wrong, cuda_text(kernel, target))
        assert count
        return text

    case = make()
    monkeypatch.setattr(simulating, "cuda_text", changed)
    with pytest.raises(AssertionError, match="findings under 16 schedules"):
        check(case)  # type: ignore[arg-type]


# --- machine code ------------------------------------------------------------------------------

COPY = re.compile(r"\bU(?:TMALDG|TMASTG|BLKCP)\b")


KERNELS: dict[str, Callable[[], Kernel]] = {
    **{name: lambda make=make: make().kernel for name, make in CASES.items()},  # type: ignore[misc]
    "rows by two groups": lambda: rows_in_turn().kernel,
    "columns": lambda: lowered(role_sums.outer(Feed(Kind.bulk, 3))),
}


@cache
def compiled(name: str) -> Binary:
    return compile_source(Source(text=cuda_text(KERNELS[name](), H200), entry="k", arch="sm_90a"))


@cache
def machine_code(name: str) -> tuple[str, ...]:
    return machine_lines(compiled(name).cubin)


def having(pattern: str, code: tuple[str, ...]) -> list[int]:
    return [place for place, line in enumerate(code) if re.search(pattern, line)]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", KERNELS)
def test_one_election_and_no_loop_over_lanes(name: str) -> None:
    code = machine_code(name)
    (election,) = having(r"\bELECT\b", code)
    assert not code[election].startswith("@")
    copies = having(COPY.pattern, code)
    assert bool(copies) == ("copied by" not in name)
    assert all(election < place and not code[place].startswith("@") for place in copies)
    assert not having(r"BRA\.U\.ANY", code)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CASES)
def test_ptxas_knows_that_warps_branch_whole(name: str) -> None:
    """The number of a warp is read from one lane, once; lanes that branch by it do not meet again.

    Where ptxas cannot exclude that lanes of a warp part, it puts the branch between BSSY and BSYNC.
    """
    code = machine_code(name)
    (number,) = having(r"SHFL\.IDX", code)
    found = re.search(r"SHFL\.IDX PT, (R\d+)", code[number])
    assert found is not None
    meeting = having(r"BAR\.SYNC", code)[0]
    branch = next(place for place in having(r"^@!?P\d BRA", code) if place > meeting)
    predicate = code[branch].split()[0].lstrip("@!")
    tests = having(rf"ISETP\S* {predicate}, PT, ", code[:branch])
    assert re.search(rf"{predicate}, PT, {found[1]}(\.reuse)?, 0x\d+, PT", code[tests[-1]])
    assert not having(r"BSSY|WARPSYNC", code[meeting:branch])


def test_registers_change_once_in_each_warp_group() -> None:
    code = machine_code("streaming with registers")
    assert len(having("USETMAXREG.DEALLOC", code)) == 1
    assert len(having("USETMAXREG.TRY_ALLOC", code)) == 1
    assert len(having("USETMAXREG", code)) == 2
    assert compiled("streaming with registers").registers == 168
    assert "C7508" not in compiled("streaming with registers").log


@pytest.mark.parametrize("name", ["rows by two groups", "columns"])
def test_groups_meet_at_barriers_of_their_own(name: str) -> None:
    """The whole block meets once, at barrier 0, and never again."""
    ptx = str(compiled(name).ptx)
    meetings = re.findall(r"(?:bar|barrier)(?:\.cta)?\.sync\S*\s+([^;]+);", ptx)
    assert [m.strip() for m in meetings].count("0") == 1
    assert len(meetings) > 1
    assert all("," in m for m in meetings if m.strip() != "0")
