"""What kernels with rings become: PTX, and machine code where it can be disassembled."""

import re
from collections.abc import Iterable
from functools import cache

import pytest

from tests.support.lowering import lowered
from tests.support.machine_code import machine_lines
from tests.support.tiling import Tiling, loading, rarely, storing
from warpsmith import FusionDefinition, LoadStoreOpType
from warpsmith.codegen.cuda import cuda_text
from warpsmith.runtime.nvrtc import compile_source
from warpsmith.runtime.source import Binary, Source
from warpsmith.targets.hopper import H200

TMA, BULK = LoadStoreOpType.tma, LoadStoreOpType.bulk

LOADS = {
    "box": lambda: loading(Tiling((8, 16), threads=128), stages=3),
    "box of five dimensions": lambda: loading(Tiling((2, 1, 2, 2, 4)), stages=2),
    "boxes of a stage": lambda: loading(Tiling((8, 16)), stages=2, inline=1, shape=[20, 40]),
    "swizzled box": lambda: loading(Tiling((8, 32), vector=4), stages=4, swizzle=128),
    "one stage": lambda: loading(Tiling((8, 16), grid=True)),
    "run": lambda: loading(Tiling((64,)), BULK, stages=3),
    "whole run": lambda: loading(Tiling((1, 64)), BULK, stages=2, shape=[-1, 128]),
    "runs of a stage": lambda: loading(Tiling((1, 32)), BULK, stages=2, inline=1, shape=[-1, 128]),
}
STORES = {
    "stored box": lambda: storing(Tiling((8, 16), threads=128), stages=3),
    "stored box of one stage": lambda: storing(Tiling((8, 16)), load=TMA),
    "stored boxes": lambda: storing(Tiling((8, 16)), stages=2, outputs=2, load=TMA, load_stages=3),
    "stored run": lambda: storing(Tiling((64,)), BULK, stages=3, load=BULK, load_stages=2),
}
ALL = {**LOADS, **STORES}
SELDOM = ("box of five dimensions", "swizzled box", "one stage", "runs of a stage")
CONSTANT = {
    "box": 8 * 16 * 4,
    "box of five dimensions": 2 * 2 * 2 * 4 * 4,
    "boxes of a stage": 8 * 16 * 4,
    "swizzled box": 8 * 32 * 4,
    "one stage": 8 * 16 * 4,
    "whole run": 64 * 4,
    "runs of a stage": 32 * 4,
}
"""Bytes of each copy, where all copies of a kernel bring equally many."""

COPY = re.compile(r"\bU(?:TMALDG|TMASTG|BLKCP)\b")


def names(kernels: Iterable[str]) -> list[object]:
    return [rarely(name) if name in SELDOM else name for name in kernels]


@cache
def compiled(name: str) -> Binary:
    fd: FusionDefinition = ALL[name]()
    return compile_source(Source(text=cuda_text(lowered(fd), H200), entry="k", arch="sm_90a"))


@cache
def machine_code(name: str) -> tuple[str, ...]:
    return machine_lines(compiled(name).cubin)


def ptx_lines(name: str) -> list[str]:
    lines = [line.strip() for line in str(compiled(name).ptx).splitlines()]
    return [line for line in lines if line and not line.startswith("//")]


def loops(lines: list[str]) -> list[list[str]]:
    """The lines of each loop: from a label to the last branch back to it."""
    labels = {line[:-1]: place for place, line in enumerate(lines) if re.fullmatch(r"\$\w+:", line)}
    ends: dict[int, int] = {}
    for place, line in enumerate(lines):
        branch = re.search(r"\bbra(?:\.uni)?\s+(\$\w+);", line)
        if branch and labels[branch[1]] < place:
            ends[labels[branch[1]]] = place
    return [lines[start:end] for start, end in ends.items()]


def constants(lines: list[str]) -> dict[str, int]:
    """Registers that are given a constant and nothing else."""
    written = re.compile(r"mov\.(?:u|b|s)32\s+(%r\d+), (-?\d+);")
    found: dict[str, set[int]] = {}
    for line in lines:
        if match := written.fullmatch(line):
            found.setdefault(match[1], set()).add(int(match[2]))
    return {register: values.pop() for register, values in found.items() if len(values) == 1}


# --- PTX -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names(ALL))
def test_one_thread_is_elected_once(name: str) -> None:
    text = str(compiled(name).ptx)
    assert text.count("elect.sync") == 1
    assert text.index("elect.sync") < text.index("cp.async.bulk")


@pytest.mark.parametrize("name", names(CONSTANT))
def test_a_barrier_expects_the_bytes_that_are_asked_for(name: str) -> None:
    lines = ptx_lines(name)
    known = constants(lines)
    expected: list[int] = []
    asked: list[int] = []
    for line in lines:
        if match := re.search(r"mbarrier\.arrive\.expect_tx\S* _, \[\S+\], (%r\d+);", line):
            expected.append(known[match[1]])
            asked.append(0)
        elif "cp.async.bulk.tensor" in line:
            asked[-1] += CONSTANT[name]
        elif match := re.search(r"cp\.async\.bulk\.shared\S* \[\S+\], \[\S+\], (%r\d+),", line):
            assert known[match[1]] == CONSTANT[name]
            asked[-1] += known[match[1]]
    assert expected
    assert expected == asked
    per_stage = {"boxes of a stage": 3, "runs of a stage": 4}.get(name, 1)
    assert set(expected) == {CONSTANT[name] * per_stage}


@pytest.mark.parametrize("name", names(LOADS))
def test_threads_meet_in_no_loop_of_a_ring_of_loads(name: str) -> None:
    main = [loop for loop in loops(ptx_lines(name)) if any("ld.shared" in line for line in loop)]
    assert main
    for loop in main:
        assert any("mbarrier.try_wait" in line for line in loop)
        assert not any(re.match(r"bar\.sync|barrier\.", line) for line in loop)


@pytest.mark.parametrize(
    ("name", "meetings"), [("stored box", 1), ("stored run", 1), ("stored boxes", 2)]
)
def test_threads_meet_once_for_each_stored_tile(name: str, meetings: int) -> None:
    main = [loop for loop in loops(ptx_lines(name)) if any("st.shared" in line for line in loop)]
    innermost = min(main, key=len)
    assert sum(line.startswith("bar.sync") for line in innermost) == meetings


@pytest.mark.parametrize("name", names(STORES))
def test_what_is_stored_was_made_visible_and_committed(name: str) -> None:
    """In order: a write, the fence, the meeting, the store, its commit; in the end, the wait."""
    text = "\n".join(ptx_lines(name))
    steps = (
        r"st\.shared",
        r"fence\.proxy\.async",
        r"bar\.sync",
        r"cp\.async\.bulk\.(tensor\.\dd\.)?global\.shared",
        r"cp\.async\.bulk\.commit_group",
    )
    assert re.search(".*?".join(steps), text, re.DOTALL)
    assert re.search(r"cp\.async\.bulk\.wait_group\.read\s+0;(?!.*cp\.async)", text, re.DOTALL)


# --- machine code --------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("name", names(ALL))
def test_copies_are_asked_for_by_instructions_of_the_tma_unit(name: str) -> None:
    found = {line.split(" ")[0] for line in machine_code(name) if COPY.match(line)}
    kinds = {re.sub(r"\.\dD$", "", kind) for kind in found}
    loads = {"UBLKCP.S.G"} if "run" in name else {"UTMALDG"}
    stores = {"UBLKCP.G.S"} if "run" in name else {"UTMASTG"}
    if name in LOADS:
        assert kinds == loads
    elif name == "stored box":
        assert kinds == stores
    else:
        assert kinds == loads | stores


@pytest.mark.few(2)
@pytest.mark.parametrize("name", names(ALL))
def test_ptxas_knows_that_one_lane_asks(name: str) -> None:
    """Where it does not, each copy is a loop that elects one of the lanes left (BRA.U.ANY).

    So no copy has a predicate of its own, and a lane is elected once, at the start: the warp issues
    them once, behind a branch that it takes whole.
    """
    code = machine_code(name)
    elections = [place for place, line in enumerate(code) if re.search(r"\bELECT\b", line)]
    copies = [place for place, line in enumerate(code) if COPY.search(line)]
    assert copies
    (election,) = elections
    assert election < copies[0]
    assert not code[election].startswith("@")
    assert not any("BRA.U.ANY" in line for line in code)
    assert not any(code[place].startswith("@") for place in copies)
