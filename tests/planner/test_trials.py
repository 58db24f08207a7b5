"""What is stored, or written by a kernel of its own, because that is predicted to be faster."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.programs.generate import enlarged, generate
from tests.programs.judge import plan_only
from tests.support.binaries import uncompiled
from tests.support.storable import (
    CASES,
    Body,
    both_ways,
    empty,
    from_two_sides,
    gradients,
    gradients_both_ways,
    residual,
    turned_by_angles,
    turned_in_16_bits,
)
from warpsmith import DataType, ops
from warpsmith.engine import executable, fitting
from warpsmith.engine.executable import Executable
from warpsmith.engine.launches import CallPlan
from warpsmith.engine.planned import NoKernelError
from warpsmith.errors import KernelRefusal, PlanWarning, WarpsmithError
from warpsmith.planner import trials
from warpsmith.planner.cuts import cuts
from warpsmith.planner.decided import NOTHING, Decided
from warpsmith.planner.prices import Prices
from warpsmith.planner.segment import Unfit
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H100, H200


def called(program: Body, *arrays: np.ndarray) -> CallPlan:
    with uncompiled():
        return Executable(warpsmith.fuse(program).lower(*arrays).fusion).plan_for(arrays)


def kernels(call: CallPlan) -> list[tuple[str, int, int]]:
    """Of each kernel, its scheduler, and how many tensors it reads and writes."""
    parts = [(p.candidate, p.segment) for p in call.segments]
    return [(c.scheduler, len(s.inputs), len(s.outputs)) for c, s in parts if c is not None]


@pytest.fixture
def structural(monkeypatch: pytest.MonkeyPatch) -> Callable[..., CallPlan]:
    """Plans a call without any trial."""

    def plan(program: Body, *arrays: np.ndarray) -> CallPlan:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fitting, "faster", lambda *given: NOTHING)
            return called(program, *arrays)

    return plan


@pytest.mark.few(5)
@pytest.mark.parametrize("name", CASES)
def test_what_is_predicted_to_be_faster_is_done(
    name: str, structural: Callable[..., CallPlan]
) -> None:
    program, arrays, wanted = CASES[name]
    call, plain = called(program, *arrays), structural(program, *arrays)
    assert kernels(call) == wanted
    before, after = Prices().both((plain.segments, plain.problem), (call.segments, call.problem))
    assert after * trials.WORTH < before


@pytest.mark.few(5)
@pytest.mark.parametrize("name", CASES)
def test_of_few_elements_launches_count(name: str, structural: Callable[..., CallPlan]) -> None:
    """There are no more kernels than the structure has, and the same ones where none is saved."""
    program, arrays, _ = CASES[name]
    small = [np.empty([min(n, 16) for n in a.shape], a.dtype) for a in arrays]
    call, plain = called(program, *small), structural(program, *small)
    assert len(kernels(call)) < len(kernels(plain)) or kernels(call) == kernels(plain)


def test_tables_of_16_bits_are_made_once_for_all_that_read_them() -> None:
    """Each of which reads them in Float."""
    arrays = empty((8, 32, 2048, 128), (8, 8, 2048, 128), (2048,), (128,))
    tables, readers = called(turned_in_16_bits, *arrays).segments
    assert [t.dtype for t in tables.segment.writes] == [DataType.BFloat16] * 2
    assert len(readers.segment.reads) == 4


def test_what_is_read_at_computed_places_is_moved_too() -> None:
    """All of a slice, and of a tensor that is read twice no more than it has."""
    half = empty((1 << 14, 4096))
    calls = [
        called(lambda x: ops.sum(x, [1]), *half),
        called(lambda x: ops.sum(x[1 << 14 :], [1]), *empty((1 << 15, 4096))),
        called(lambda x: ops.sum(x[1:] + x[:-1], [1]), *empty((1 + (1 << 14), 4096))),
    ]
    plain, *others = [Prices().us(call.segments[0], call.problem) for call in calls]
    assert others == pytest.approx([plain] * 2, rel=0.01)


def test_where_both_are_equal_the_structure_stays() -> None:
    assert kernels(called(residual, *empty((4096, 4096), (4096, 4096), (4096,)))) == [
        ("reduction", 3, 1),
        ("reduction", 2, 1),
    ]


EXPLAINED = {
    "several tensors are read once": [
        "  apart       44.44 and 10.89 µs",
        "  not one     reduction: T14 and T16 reduce different dimensions; ",
        "  not again   kernel 1, computing it again, by reduction would take 36.05 µs, and now it "
        "takes 10.89",
    ],
    "so for rows that no kernel keeps": [
        "  not one     inner_persistent: it would take both, but rows of 2097152 elements"
    ],
    "so are rows that are reduced": ["  apart       2.836 and 19.41 µs"],
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_explain_says_what_a_cut_costs_and_what_keeps_both_apart(name: str) -> None:
    program, arrays, _ = CASES[name]
    call = called(program, *arrays)
    lines = [line for cut in cuts(call.segments, call.problem, 12) for line in cut.lines()]
    for wanted in EXPLAINED[name]:
        assert any(line.startswith(wanted) for line in lines), lines


def test_explain_prices_one_kernel_that_a_scheduler_would_take() -> None:
    call = called(turned_by_angles, *CASES["tables are made before they are broadcast"][1])
    lines = [line for cut in cuts(call.segments, call.problem, 12) for line in cut.lines()]
    (told,) = {line for line in lines if line.startswith("  not one")}
    found = re.search(
        r"one kernel pointwise would take ([\d.]+) µs, and now it takes ([\d.]+)", told
    )
    assert found is not None
    one, now = map(float, found.groups())
    assert one > 2 * now  # of cosines and sines that are computed for each head


@pytest.mark.parametrize(
    "failure",
    [
        KernelRefusal("it has no code"),
        PlanWarning("it has no kernel"),
        NoKernelError(Unfit("reduction", "it has none")),
    ],
)
@pytest.mark.parametrize("place", ["plan_prepared", "plan_call"])
def test_a_trial_that_fails_is_not_taken(
    place: str, failure: Exception, structural: Callable[..., CallPlan], recwarn: Any
) -> None:
    """Where it is planned and where its kernels are made; without a word, even if words end it."""
    program, arrays, _ = CASES["several tensors are read once"]
    module = fitting if place == "plan_prepared" else executable
    wanted, works, failed = kernels(structural(program, *arrays)), getattr(module, place), []

    def fails(*given: Any, **named: Any) -> Any:
        trial = (
            given[4] != NOTHING if place == "plan_prepared" else len(given[1][1].segment.inputs) < 4
        )
        if trial:
            failed.append(place)
            raise failure
        return works(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, place, fails)
        assert kernels(called(program, *arrays)) == wanted
    assert failed
    assert not recwarn.list


def test_what_fails_without_a_trial_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: Any, **named: Any) -> Any:
        raise KernelRefusal("it has no code")

    monkeypatch.setattr(executable, "plan_call", fails)
    with pytest.raises(KernelRefusal):
        called(both_ways, *empty((4096, 4096)))


def test_stores_across_take_as_long_as_they_were_timed(structural: Callable[..., CallPlan]) -> None:
    """Of both gradients on an H100: 3,400 us each both ways, and 243 as they lie."""
    both = structural(gradients_both_ways, *empty(*[(4096, 14336)] * 3))
    upright = structural(gradients, *empty(*[(4096, 14336)] * 3))
    sizes = {f"T{n}_size{d}": (4096, 14336)[d] for n in range(3) for d in (0, 1)}
    problem = Problem(values=sizes, alignment={}, target=H100)
    for call, us in ((both, 3400), (upright, 243)):
        (planned,) = call.segments
        assert planned.candidate is not None
        assert planned.candidate.us(problem) == pytest.approx(us, rel=0.2)


def test_sectors_that_the_l2_holds_until_they_are_whole_are_written_once(
    structural: Callable[..., CallPlan],
) -> None:
    def moved(rows: int) -> tuple[float, float]:
        (planned,) = structural(both_ways, *empty((rows, 4096))).segments
        assert planned.candidate is not None
        sizes = {"T0_size0": rows, "T0_size1": 4096}
        done = planned.candidate.traffic(Problem(values=sizes, alignment={}, target=H200))
        return done.moved, done.partly

    assert moved(4096) == (3 * 2 * 4096 * 4096, 0.0)
    elements = 16384 * 4096
    assert moved(16384) == (3 * 2 * elements, 2 * 32 * elements - 2 * elements)


def test_sectors_that_the_l2_forgets_before_they_are_read_again_come_from_memory_again(
    structural: Callable[..., CallPlan],
) -> None:
    """Of all that a result has in a row of its last two dimensions, or in one of the last."""

    def again(across: int) -> float:
        shapes = (1024, across, 32), (32, across, 1024)
        (planned,) = structural(from_two_sides, *empty(*shapes)).segments
        assert planned.candidate is not None
        sizes = {
            f"T{n}_size{d}": size for n, shape in enumerate(shapes) for d, size in enumerate(shape)
        }
        return planned.candidate.traffic(Problem(values=sizes, alignment={}, target=H200)).partly

    assert again(1024) == 0.0  # a sector is read again after 1024 x 1024 others, of 32 MiB
    assert again(2048) == 15 * 2 * 32 * 1024 * 2048


@pytest.mark.few(1)
@pytest.mark.parametrize("block", range(12))
def test_random_programs_are_planned_no_slower(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the plans are priced at; most stay as they are."""
    changed, asked = 0, 0

    def checked(offers: Any, plan: Any) -> Decided:
        nonlocal changed, asked
        decided = trials.faster(offers, plan)
        asked += 1
        if decided != NOTHING:
            changed += 1
            before, after = (
                sum(Prices().us(each, problem) for each in segments)
                for segments, problem in (plan(NOTHING), plan(decided))
            )
            assert after < before
        return decided

    monkeypatch.setattr(fitting, "faster", checked)
    for seed in range(9000 + 10 * block, 9010 + 10 * block):
        space: dict[str, Any] = {}
        try:
            with np.errstate(all="ignore"):
                exec(compile(enlarged(generate(seed)).definition(), "<program>", "exec"), space)
                plan_only(space["fd"], space["inputs"])
        except WarpsmithError:
            continue  # some have no meaning
    assert changed < asked > 2


def test_explain_prices_no_kernel_that_would_wait_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What one norm writes for another goes past the product between them."""

    def layer(x: Any, w: Any) -> Any:
        total = x - ops.mean(x, -1, keepdim=True)
        normed = ops.cast(total * ops.rsqrt(ops.mean(total * total, -1, keepdim=True)), x.dtype)
        both = ops.linear(normed, w) + total
        return both - ops.mean(both, -1, keepdim=True), total

    everything_apart = Decided(apart=frozenset(range(100)))
    monkeypatch.setattr(fitting, "faster", lambda *given: everything_apart)
    call = called(layer, *empty((2048, 512), (512, 512)))
    told = [line for cut in cuts(call.segments, call.problem, 12) for line in cut.lines()]
    assert "  not one     order: kernel 1 needs kernel 0, and kernel 2 needs kernel 1" in told


def test_a_kernel_that_none_could_be_joined_with_is_not_priced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(Prices, "us")
    x = np.empty((64, 1024), np.float32)
    assert len(kernels(called(lambda x: ops.exp(x) + x, x))) == 1
