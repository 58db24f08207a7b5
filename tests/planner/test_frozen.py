"""Planning reads a program and changes nothing of it: whatever would raises."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from bench.texts import all_problems, texts_of
from tests.programs.generate import enlarged, generate
from tests.programs.judge import plan_only
from tests.support.frozen import ChangedError, Guard
from tests.support.program import Program
from warpsmith import DataType
from warpsmith.errors import InternalError, WarpsmithError
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.planner.plan import _in_order, cut
from warpsmith.schedule.transforms import split
from warpsmith.schedulers import select
from warpsmith.schedulers.caching import add_caches
from warpsmith.schedulers.pointwise import applicability
from warpsmith.schedulers.rows.recompute import recompute, runs_of
from warpsmith.targets.hopper import H200
from warpsmith.targets.target import Target

SUITES = ("pointwise", "reduction", "norm_fwd", "norm_bwd", "softmax", "batch_norm", "matmul")


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> Guard:
    made = Guard(monkeypatch)
    made.watch_planning()
    return made


@pytest.mark.few(2)
@pytest.mark.parametrize("suite", SUITES)
def test_the_programs_of_the_benches_stay_as_they_are(guard: Guard, suite: str) -> None:
    for problem in all_problems([suite], quick=True):
        assert texts_of(problem)
    assert guard.schedulers
    assert guard.asked > 10


@pytest.mark.few(1)
@pytest.mark.parametrize("block", range(6))
def test_random_programs_stay_as_they_are(guard: Guard, block: int) -> None:
    for seed in range(8000 + 8 * block, 8008 + 8 * block):
        program = generate(seed)
        space: dict[str, Any] = {}
        text = (enlarged(program) if seed % 2 else program).definition()
        with suppress(WarpsmithError), np.errstate(all="ignore"):  # some have no meaning
            exec(compile(text, "<program>", "exec"), space)
            plan_only(space["fd"], space["inputs"])
    assert len(guard.schedulers) > 2
    assert guard.asked > 100


def softmax() -> Fusion:
    p = Program()
    x = p.cast(p.input(DataType.BFloat16, (None, None)), DataType.Float)
    e = p.op("exp", p.op("sub", x, p.broadcast(p.reduce("max", x, [1]), [False, True])))
    return p.output(p.op("div", e, p.broadcast(p.reduce("sum", e, [1]), [False, True]))).fusion


def _hidden_for_a_while(fusion: Fusion) -> None:
    operations = fusion.operations
    fusion.operations = operations[:1]
    fusion.operations = operations


CHANGES: dict[str, Callable[[Fusion], object]] = {
    "operations are taken out for a while": _hidden_for_a_while,
    "an operation is taken out": lambda f: f.operations.pop(),
    "an operation comes first": lambda f: f.bring_first(f.operations[1:]),
    "an output is forgotten": lambda f: f.outputs.clear(),
    "a loop is split": lambda f: split(f.computed[0], 0, 4),
    "loops change places": lambda f: f.computed[0].loop.reverse(),
    "a loop is bound": lambda f: setattr(f.computed[0].loop[0], "parallel", ParallelType.grid_x),
    "a tensor is inlined": lambda f: setattr(f.computed[0], "compute_at", 1),
    "a tensor moves": lambda f: setattr(f.computed[0], "memory", MemoryType.shared),
    "facts are added": lambda f: setattr(f, "divisors", frozenset()),
    "caches are added": add_caches,
    "values are computed again": lambda f: recompute(f, runs_of(f, again=True)),
    "a tensor is made": lambda f: f.tensor(DataType.Float, f.computed[0].logical),
    "a draft is made": lambda f: f.draft(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_raise_while_a_program_is_read_alone(
    guard: Guard, change: Callable[[Fusion], object]
) -> None:
    fusion = softmax()
    add_caches(fusion)  # it may be changed before
    with guard.frozen(fusion, strict=True), pytest.raises(ChangedError):
        change(fusion)
    fusion.draft()
    split(fusion.computed[0], 0, 4)  # and after


def test_planning_does_not_get_by(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler that hides operations while it looks at the others is found out."""

    def hiding(fusion: Fusion, target: Target) -> str:
        _hidden_for_a_while(fusion)
        return applicability.refusal(fusion)

    monkeypatch.setattr(select.SCHEDULERS[0], "refusal", hiding)
    (problem, *_) = all_problems(["softmax"], quick=True)
    with pytest.raises(FrozenInstanceError, match="operations"):
        texts_of(problem)


def test_a_program_that_is_planned_again_has_the_same_parts() -> None:
    """Numbers of tensors that a plan adds are given by the plan, not by the program."""
    p = Program()
    x, dy = p.input(DataType.Float, (None, None)), p.input(DataType.Float, (None, None))
    product = p.op("mul", x, dy)
    total = p.broadcast(p.reduce("sum", product, [1]), [False, True])
    p.output(p.op("sub", dy, p.op("mul", x, total)), p.reduce("sum", product, [0]))
    own = {tensor.name for tensor in p.fusion.tensors}
    first, again = (
        [tensor.name for segment in cut(p.fusion, target=H200) for tensor in segment.fusion.tensors]
        for _ in range(2)
    )
    assert first == again
    assert len(set(first) - own) == 1


def test_no_kernel_stands_before_one_whose_tensor_it_reads() -> None:
    p = Program()
    x = p.input(DataType.Float, (None, None))
    rows, columns = p.reduce("sum", x, [1]), p.reduce("sum", x, [0])
    wide = p.op("add", p.broadcast(rows, [False, True]), p.broadcast(columns, [True, False]))
    p.output(p.op("sub", x, wide))
    segments = cut(p.fusion, target=H200)
    assert len(segments) > 1
    assert _in_order(segments) == segments
    with pytest.raises(InternalError, match="before others write them"):
        _in_order(reversed(segments))
