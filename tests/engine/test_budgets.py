"""Registers of roles: derived, given or left; what ptxas makes of them; and what is refused."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.binaries import UNCOMPILED, compiled_sources
from tests.support.hungry_roles import hungry
from tests.support.role_code import Counts, confirmed, missing_from_kernel
from tests.support.role_kernels import chained, check, copied_by_threads, storing, streaming
from warpsmith.codegen.cuda import cuda_text
from warpsmith.engine.budgets import role_registers, settle_registers, warn_of_spills
from warpsmith.engine.compiled import CompiledKernel
from warpsmith.errors import CompileError, ScheduleError, SpillWarning
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Budgets, Kernel
from warpsmith.protocol.registers import entry_registers
from warpsmith.runtime.cache import CubinCache
from warpsmith.runtime.nvrtc import check_remarks
from warpsmith.runtime.source import Binary, Source
from warpsmith.targets.hopper import H200, SM90A

SHAPES = ((32, 4, 2), (128, 2, 1), (256, 1, 1))


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[Source]:
    """The sources that were compiled, in any order."""
    return compiled_sources(monkeypatch)


@pytest.fixture
def compile_(tmp_path: Path) -> Callable[[Source], Binary]:
    return CubinCache(tmp_path).get_or_compile


def source_of(kernel: Kernel) -> Source:
    return Source(text=cuda_text(kernel, H200), entry=kernel.name, arch="sm_90a")


def registers_of(kernel: Kernel) -> dict[str, int | None]:
    branches = (statement for statement in kernel.body if isinstance(statement, Branch))
    return {branch.agent.name: branch.agent.registers for branch in branches}


def never(source: Source) -> Binary:
    raise AssertionError("nothing is to be compiled")


# --- derived -----------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_hungry_role_gets_what_a_loading_one_gives_away(
    shape: tuple[int, int, int], compile_: Callable[[Source], Binary]
) -> None:
    case = hungry(180, block=shape, budgets=Budgets())
    before = compile_(source_of(case.kernel))
    assert before.spill_bytes > 0

    settled = settle_registers(case.kernel, compile_, H200)
    assert registers_of(settled.kernel) == {"load": 24, "compute": 240}
    after = compile_(source_of(settled.kernel))
    check_remarks(after.log, settled.kernel.name)
    assert after.spill_bytes == 0
    assert after.registers == entry_registers(384, SM90A.limits)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_spills(settled.kernel, after, never, H200)
    compiled = CompiledKernel(settled.kernel, "", after, target=H200)
    assert confirmed(compiled).register_changes == 2
    check(replace(case, kernel=settled.kernel), 4)


def test_the_note_says_what_each_role_needs(compile_: Callable[[Source], Binary]) -> None:
    kernel = hungry(180, budgets=Budgets()).kernel
    load, compute = role_registers(kernel, compile_, H200)
    assert load < 24
    assert 180 < compute < 256
    assert settle_registers(kernel, compile_, H200).note == (
        f"role `load` 24 (needs {load}), role `compute` 240 (needs {compute}); 168 at entry"
    )


def test_two_blocks_on_a_multiprocessor_have_half_each(
    compile_: Callable[[Source], Binary],
) -> None:
    """128 + 128 threads, two blocks: 128 registers each at entry."""
    kernel = hungry(160, block=(128, 1, 1), budgets=Budgets(), blocks_per_sm=2).kernel
    settled = settle_registers(kernel, compile_, H200)
    assert registers_of(settled.kernel) == {"load": 24, "compute": 232}
    assert settled.kernel.launch.blocks_per_sm == 2
    binary = compile_(source_of(settled.kernel))
    assert (binary.registers, binary.spill_bytes) == (128, 0)


@pytest.mark.parametrize("make", [streaming, chained, storing])
def test_roles_that_have_enough_are_left_alone_at_no_cost(
    make: Callable[[], object], compiles: list[Source], tmp_path: Path
) -> None:
    case = make()
    kernel = replace(case.kernel, budgets=Budgets())  # type: ignore[attr-defined]
    cache = CubinCache(tmp_path)
    settled = settle_registers(kernel, cache.get_or_compile, H200)
    assert set(registers_of(settled.kernel).values()) == {None}
    assert settled.note.startswith("as launched: every thread has 168 registers, and ")
    assert settled.note.endswith(" suffice")
    cache.get_or_compile(source_of(settled.kernel))
    assert len(compiles) == 1


def test_a_second_time_nothing_is_compiled(compiles: list[Source], tmp_path: Path) -> None:
    kernel = hungry(180, budgets=Budgets()).kernel
    first = settle_registers(kernel, CubinCache(tmp_path).get_or_compile, H200)
    assert len(compiles) == 3  # as it is, and each of two roles alone
    assert settle_registers(kernel, CubinCache(tmp_path).get_or_compile, H200) == first
    assert len(compiles) == 3


def test_roles_of_one_warp_group_are_compiled_together(
    compiles: list[Source], tmp_path: Path
) -> None:
    needs = role_registers(streaming().kernel, CubinCache(tmp_path).get_or_compile, H200)
    assert len(needs) == len(compiles) == 2


def test_where_every_thread_has_all_that_it_can_use_nothing_is_compiled() -> None:
    settled = settle_registers(replace(copied_by_threads().kernel, budgets=Budgets()), never, H200)
    assert settled.note == "as launched: every thread has 255 registers, and none can use more"


@pytest.mark.parametrize(
    ("threads", "note"),
    [
        (80, "as launched: 208 threads are no whole warp groups"),
        (Symbol("threads", low=1), "as launched: threads are not known before the launch"),
    ],
)
def test_blocks_without_whole_warp_groups_are_left_alone(threads: int | Symbol, note: str) -> None:
    kernel = replace(streaming(threads=threads).kernel, budgets=Budgets())
    settled = settle_registers(kernel, never, H200)
    assert settled.note == note
    assert set(registers_of(settled.kernel).values()) == {None}


def test_what_cannot_be_compiled_as_it_is_is_compiled_role_by_role(
    compile_: Callable[[Source], Binary],
) -> None:
    """A product, for one, needs 90 registers at least: with fewer ptxas ends."""
    kernel = hungry(180, budgets=Budgets()).kernel

    def choosy(source: Source) -> Binary:
        if source.entry == kernel.name:
            raise CompileError("ptxas fatal: (C7602) Insufficient registers")
        return compile_(source)

    assert registers_of(settle_registers(kernel, choosy, H200).kernel)["compute"] == 240


# --- given, and off ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "registers"),
    [
        (Budgets(pair=(40, 232)), {"load_x": 40, "load_y": 40, "add": 232}),
        (Budgets(pair=(40, 168)), {"load_x": 40, "load_y": 40, "add": None}),
        (
            Budgets(roles=(("load_x", 56), ("add", 224))),
            {"load_x": 56, "load_y": 56, "add": 224},
        ),
    ],
)
def test_given_budgets_are_taken_without_compiling(
    wish: Budgets, registers: dict[str, int | None]
) -> None:
    settled = settle_registers(replace(streaming().kernel, budgets=wish), never, H200)
    assert registers_of(settled.kernel) == registers
    assert settled.kernel.launch.blocks_per_sm == 1
    assert settled.note.startswith("roles `load_x`, `load_y` ")


def test_given_budgets_reach_the_machine_code(compile_: Callable[[Source], Binary]) -> None:
    case = streaming()
    kernel = settle_registers(
        replace(case.kernel, budgets=Budgets(pair=(40, 232))), never, H200
    ).kernel
    binary = compile_(source_of(kernel))
    check_remarks(binary.log, kernel.name)
    counts = confirmed(CompiledKernel(kernel, "", binary, target=H200))
    assert counts.register_changes == 2
    check(replace(case, kernel=kernel), 4)


def test_roles_that_are_not_named_are_derived(compile_: Callable[[Source], Binary]) -> None:
    kernel = hungry(180, budgets=Budgets(roles=(("load", 40),))).kernel
    assert registers_of(settle_registers(kernel, compile_, H200).kernel) == {
        "load": 40,
        "compute": 232,
    }


def test_off_leaves_the_kernel_as_it_is() -> None:
    kernel = streaming().kernel
    assert settle_registers(kernel, never, H200).kernel is kernel


@pytest.mark.parametrize(
    ("wish", "code", "words"),
    [
        (Budgets(pair=(24, 248)), "WS0234", "roles `load_x`, `load_y` 128 x 24, role `add` 256 x"),
        (Budgets(pair=(20, 232)), "WS0231", "20 registers for roles `load_x`, `load_y`"),
        (Budgets(pair=(24, 230)), "WS0232", "230 registers for role `add`"),
        (
            Budgets(roles=(("loads", 24),)),
            "WS0235",
            "`loads`, which is no role.*its roles are load_x, load_y, add",
        ),
        (
            Budgets(roles=(("load_x", 24), ("load_y", 40), ("add", 232))),
            "WS0236",
            "`load_x`, `load_y` are given 24 and 40 registers.*give all of them 40",
        ),
    ],
)
def test_wishes_that_cannot_be_are_refused(wish: Budgets, code: str, words: str) -> None:
    with pytest.raises(ScheduleError, match=words) as caught:
        settle_registers(replace(streaming().kernel, budgets=wish), never, H200)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("threads", "code", "words"),
    [
        (80, "WS0233", "role `add`: 80 threads are no multiple of 128.* use 128 threads"),
        (Symbol("threads", low=1), "WS0237", "only the launch knows the threads of role `add`"),
    ],
)
def test_budgets_for_parts_of_warp_groups_are_refused(
    threads: int | Symbol, code: str, words: str
) -> None:
    kernel = replace(streaming(threads=threads).kernel, budgets=Budgets(pair=(24, 240)))
    with pytest.raises(ScheduleError, match=words) as caught:
        settle_registers(kernel, never, H200)
    assert caught.value.code == code


def test_registers_that_stand_in_the_roles_are_checked() -> None:
    settle_registers(streaming(registers=(24, 240)).kernel, never, H200)
    with pytest.raises(ScheduleError, match=r"WS0234\] registers of the roles cannot fit"):
        settle_registers(streaming(registers=(24, 248)).kernel, never, H200)


# --- what ptxas made of it ---------------------------------------------------------------------


def test_spills_name_the_role_that_needs_more(compile_: Callable[[Source], Binary]) -> None:
    wish = Budgets(pair=(104, 200))
    kernel = settle_registers(hungry(220, budgets=wish).kernel, never, H200).kernel
    binary = compile_(source_of(kernel))
    assert binary.spill_bytes > 0
    words = rf"spills {binary.spill_bytes} bytes a thread: role `compute` needs 25\d registers and "
    with pytest.warns(SpillWarning, match=words + "has 200. Give"):
        warn_of_spills(kernel, binary, compile_, H200)


def test_spills_of_roles_as_launched_are_named_too(compile_: Callable[[Source], Binary]) -> None:
    kernel = hungry(180).kernel
    with pytest.warns(SpillWarning, match=r"role `compute` needs 25\d registers and has 168"):
        warn_of_spills(kernel, compile_(source_of(kernel)), compile_, H200)


def test_few_spills_of_rows_that_a_scheduler_chose_are_let_pass(
    compile_: Callable[[Source], Binary],
) -> None:
    """Nobody could do anything about them; of many, a caller can have no roles."""
    kernel = hungry(180).kernel
    binary = compile_(source_of(kernel))
    enough = binary.spill_bytes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_spills(kernel, binary, compile_, H200, enough)
    with pytest.warns(SpillWarning, match=r"registers and has 168\. warp_specialize=False may be"):
        warn_of_spills(kernel, binary, compile_, H200, enough - 1)


def test_what_no_role_needs_alone_gets_what_others_leave() -> None:
    """Alone, each does with what the launch gives; together they spill: the neediest has more."""
    kernel = hungry(180, budgets=Budgets()).kernel
    entry = entry_registers(384, SM90A.limits)

    def pretended(source: Source) -> Binary:
        if source.entry != "alone":
            return replace(UNCOMPILED, registers=entry, spill_bytes=8)
        return replace(UNCOMPILED, registers=entry if "sums" in source.text else 6)

    settled = settle_registers(kernel, pretended, H200)
    assert registers_of(settled.kernel) == {"load": 24, "compute": 240}
    assert "role `compute` 240 (needs 168)" in settled.note


def test_missing_changes_and_waits_are_seen() -> None:
    def missing(kernel: Kernel, changes: int, waits: int) -> str:
        counts = Counts(register_changes=changes, products=0, waits=waits)
        return missing_from_kernel(kernel, counts, H200)

    kernel = streaming(registers=(24, 240)).kernel
    assert missing(kernel, 2, 4) == ""
    as_launched = streaming(registers=(40, 168)).kernel  # which nothing changes to
    assert missing(as_launched, 1, 4) == ""
    assert missing(kernel, 1, 4) == "1 USETMAXREG for 2 budgets of roles"
    assert missing(kernel, 2, 3) == "3 SYNCS.PHASECHK for 4 waits"
