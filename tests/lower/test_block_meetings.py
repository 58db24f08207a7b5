"""How often the threads of a block meet to reduce: several values at once, and scratch in turn."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsmith
from warpsmith import DataType, FusionDefinition, MemoryType, ParallelType, knobs, ops
from warpsmith.engine.executable import Executable
from warpsmith.ir import integers
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.rings import Begin
from warpsmith.kernel.traversal import walk
from warpsmith.targets.hopper import H200

SCHEDULES, COLUMNS = 16, 2048

Program = Callable[[Any], Any]


def apart(x: Any) -> Any:
    """Two sums of a row, neither of which waits for the other, and one of each column."""
    first = ops.sum(x, [-1], keepdim=True)
    return x - first - ops.sum(x * x, [-1], keepdim=True), ops.sum(x, [0])


def in_turn(x: Any) -> Any:
    """The second sum needs the first."""
    first = ops.sum(x, [-1], keepdim=True)
    return x - ops.sum(x * first, [-1], keepdim=True), ops.sum(x, [0])


def both_stored(x: Any) -> Any:
    """Two sums of a row, which are results too, and what is made of the first one."""
    first, second = (ops.sum(each, [-1], keepdim=True) for each in (x, x * x))
    return x - 0.5 * first - second, first, second


def of_two_kinds(x: Any) -> Any:
    """A sum and a maximum."""
    first = ops.sum(x, [-1], keepdim=True)
    return x - first - ops.max(x, [-1], keepdim=True), ops.sum(x, [0])


def once(x: Any) -> Any:
    """A block has one row."""
    return x - ops.sum(x, [-1], keepdim=True)


def data(rows: int = 20) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((rows, COLUMNS)).astype(np.float32)


def kernel_of(program: Program) -> Kernel:
    return warpsmith.fuse(program).lower(data()).compile().kernels[0].kernel


def reduces(kernel: Kernel) -> list[Reduce]:
    """Those across the threads of a row."""
    found = [s for s in walk(kernel.body) if isinstance(s, Reduce)]
    return [s for s in found if ParallelType.block_x in s.block_axes]


@pytest.mark.parametrize("program", [apart, both_stored])
def test_sums_that_do_not_wait_for_each_other_are_one(program: Program) -> None:
    (joined,) = reduces(kernel_of(program))
    assert joined.elements in (2, 4)  # of a row, or of two


@pytest.mark.parametrize("program", [in_turn, of_two_kinds])
def test_others_stay_apart(program: Program) -> None:
    first, second = reduces(kernel_of(program))
    assert first.elements == second.elements


@pytest.mark.few(2)
@pytest.mark.parametrize("program", [apart, in_turn, of_two_kinds, once, both_stored])
def test_right_and_clean(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocks, which come by several rows each."""
    monkeypatch.setattr(
        "warpsmith.engine.executable.call_target", lambda *_: replace(H200, sm_count=1)
    )
    x = data()
    fused = warpsmith.fuse(program)
    with knobs.scope(device="sim"):
        found = fused(x)
    wide = x.astype(np.float64)
    first = wide.sum(1, keepdims=True)
    rows = {
        apart: wide - first - (wide * wide).sum(1, keepdims=True),
        in_turn: wide - (wide * first).sum(1, keepdims=True),
        of_two_kinds: wide - first - wide.max(1, keepdims=True),
        once: wide - first,
        both_stored: wide - 0.5 * first - (wide * wide).sum(1, keepdims=True),
    }[program]
    result = found if program is once else found[0]
    np.testing.assert_allclose(np.asarray(result), rows, 1e-5, 2e-2)
    assert fused.lower(x).compile().verify(schedules=SCHEDULES).verdict == "clean"


def test_scratch_in_a_loop_has_two_halves() -> None:
    kernel = kernel_of(apart)
    (joined,) = reduces(kernel)
    begun = [s.cursor.phase for s in kernel.body if isinstance(s, Begin)]
    assert joined.fresh is not None
    assert set(begun) & set(joined.fresh.walk())


def test_a_reduction_that_runs_once_needs_none() -> None:
    kernel = kernel_of(once)
    (reduce,) = reduces(kernel)
    assert reduce.fresh == integers.ZERO
    assert not any(isinstance(s, Begin) for s in walk(kernel.body))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("_half_phase ^= 1;", "_half_phase ^= 0;"),  # always the same half
        ("_half_phase * 16", "_half_phase * 15"),  # halves that overlap
    ],
)
def test_halves_that_are_not_taken_in_turn_are_a_race(
    old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "warpsmith.engine.executable.call_target", lambda *_: replace(H200, sm_count=1)
    )
    x = data()
    right = warpsmith.fuse(apart).lower(x).compile()
    assert right.verify(schedules=SCHEDULES).verdict == "clean"
    kernel = right.kernels[0]
    assert old in kernel.cuda
    (tmp_path / f"{kernel.name}.cu").write_text(kernel.cuda.replace(old, new))
    with knobs.scope(override_dir=tmp_path):
        wrong = warpsmith.fuse(apart).lower(x).compile()
        assert wrong.verify(schedules=SCHEDULES).verdict != "clean"


def numbered(elements: int, stages: int = 2) -> FusionDefinition:
    """`x + s`, where a row's `elements` numbers of s are in registers a row ahead."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, elements], True, DataType.Float)
        s = fd.define_tensor([-1, elements], True, DataType.Float)
        y = fd.ops.add(x, s)
        fd.add_output(y)
        ahead = s.cache_after()
        assert ahead.memory is MemoryType.local
        fd.sched.inline_at(y, 1)
        ahead.circular_buffer(stages)
    return fd


@pytest.mark.parametrize(("elements", "loops"), [(1, 1), (8, 1), (9, 2)])
@pytest.mark.parametrize("rows", [0, 1, 2, 7])
def test_small_stages_in_registers_are_moved_and_no_loop_is_unrolled(
    elements: int, loops: int, rows: int
) -> None:
    """Nine elements are too many: the loop over rows becomes one of pairs, and a rest."""
    x, s = np.random.default_rng(1).standard_normal((2, rows, elements)).astype(np.float32)
    (found,) = numbered(elements).manual_execute([x, s])
    np.testing.assert_array_equal(found, x + s)
    if rows:
        text = Executable(numbered(elements).fusion, scheduled=True).plan_for([x, s])
        assert ("b = 0;" in text.launches[0].compiled.cuda) == (loops == 2)
