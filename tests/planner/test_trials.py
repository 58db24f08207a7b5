"""What is stored, or written by a kernel of its own, because that is predicted to be faster."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from tests.programs.generate import enlarged, generate
from tests.programs.judge import judged, plan_only, uncompiled
from tests.programs.meaning import Meaning
from tests.programs.values import perhaps_stored
from warpsmith import DataType, ops
from warpsmith.engine import executable as engine
from warpsmith.engine.executable import Executable
from warpsmith.engine.launches import CallPlan
from warpsmith.engine.plan import prepare
from warpsmith.engine.planned import NoKernelError
from warpsmith.errors import KernelRefusal, PlanWarning, WarpsmithError
from warpsmith.ir.fusion import Fusion
from warpsmith.planner import divided, trials
from warpsmith.planner.cuts import cuts
from warpsmith.planner.decided import NOTHING, Decided
from warpsmith.planner.plan import cut
from warpsmith.planner.prices import Prices
from warpsmith.planner.segment import Unfit
from warpsmith.schedulers.price import kernel_us, traffic_of
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H100, H200

BFLOAT = ml_dtypes.bfloat16
Body = Callable[..., Any]


def two_sums(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Rows and columns of what four tensors make."""
    total = a + b + c + d
    return ops.sum(total, 0), ops.sum(total, 1)


def centred(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Rows that no kernel keeps where they are long."""
    total = a + b + c + d
    return total - ops.mean(total, -1, keepdim=True)


def turned_by_angles(x: Any, places: Any, speeds: Any) -> Any:
    angles = ops.reshape(places, [-1, 1]) * ops.reshape(speeds, [1, -1])
    return x * ops.cos(angles) + x * ops.sin(angles)


def turned_in_16_bits(x: Any, y: Any, places: Any, speeds: Any) -> Any:
    """Tables of 16 bits, each of which two tensors are multiplied with in Float."""
    angles = ops.reshape(places, [-1, 1]) * ops.reshape(speeds, [1, -1])
    tables = [ops.cast(made(angles), DataType.BFloat16) for made in (ops.cos, ops.sin)]
    return tuple(x * tables[0] + x * tables[1] for x in (x, y))


def weighted(x: Any, y: Any) -> Any:
    """A softmax that is the same for all of a dimension that it lacks."""
    power = ops.exp(x - ops.max(x, -1, keepdim=True))
    return ops.broadcast(power / ops.sum(power, -1, keepdim=True), [False, True, False]) * y


def both_ways(x: Any) -> Any:
    return x + 1, ops.permute(x * 2, [1, 0]) + 0


def from_two_sides(x: Any, y: Any) -> Any:
    """Two tensors that lie along two other dimensions than the result."""
    return ops.permute(x, [2, 0, 1]) + ops.permute(y, [0, 2, 1]) + 0


def gradients(d: Any, gate: Any, up: Any) -> Any:
    """Of the halves of a gated unit."""
    share = ops.sigmoid(gate)
    return d * up * (share * (1 + gate * (1 - share))), d * gate * share


def gradients_both_ways(d: Any, gate: Any, up: Any) -> Any:
    found = gradients(d, gate, up)
    return *found, *(ops.permute(each, [1, 0]) + 0 for each in found)


def residual(x: Any, y: Any, w: Any) -> Any:
    """Two tensors that two kernels read, or one of them writes, and the other reads one."""
    total = x + y
    return ops.sum(total * w, 0), ops.sum(total, 1)


def norm_and_mask(ids: Any, table: Any, w: Any, count: Any, weight: Any) -> Any:
    """A norm that keeps what its gradient needs, beside a mask that no kernel computes at once: two
    of its dimensions come from one. A product reads the norm.
    """
    x = ops.embedding(ids, table)
    scale = ops.rsqrt(ops.mean(x * x, -1, keepdim=True) + 1e-6)
    places = count * 2
    mask = ops.reshape(places, [-1, 1]) >= ops.reshape(places, [1, -1])
    normed = ops.cast(x * scale * w, x.dtype)
    return x, scale, normed, mask, ops.linear(normed, weight)


def bias_by_distance(table: Any, here: Any, there: Any, lasts: Any) -> Any:
    """What heads add for a distance, `[queries, keys, heads]`, masks, and what they leave of it."""
    queries, keys = ops.reshape(here + 1, [-1, 1]), ops.reshape(there + 1, [1, -1])
    far = ops.neg(ops.minimum(keys - queries, 0))
    large = 16 + ops.cast(ops.log(ops.cast(far, DataType.Float) / 16) * 8, DataType.Int)
    bias = ops.embedding(ops.where(far < 16, far, ops.minimum(large, 31)), table)
    seen = ops.reshape(keys + 2, [1, 1, 1, -1]) <= ops.reshape(lasts * 2, [-1, 1, 1, 1])
    heads = ops.permute(bias, [2, 0, 1])
    return bias, seen, ops.where(seen, ops.broadcast(heads, [True, False, False, False]), -1.0)


def empty(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [np.empty(shape, BFLOAT) for shape in shapes]


FOUR = [(4096, 4096)] * 4
CASES: dict[str, tuple[Body, list[np.ndarray], list[tuple[str, int, int]]]] = {
    "several tensors are read once": (
        two_sums,
        empty(*FOUR),
        [("reduction", 4, 2), ("reduction", 1, 1)],
    ),
    "so for rows that no kernel keeps": (
        centred,
        empty(*[(16, 1 << 21)] * 4),
        [("reduction", 4, 2), ("pointwise", 2, 1)],
    ),
    "tables are made before they are broadcast": (
        turned_by_angles,
        empty((8, 32, 2048, 128), (2048,), (128,)),
        [("pointwise", 2, 2), ("pointwise", 3, 1)],
    ),
    "so are rows that are reduced": (
        weighted,
        empty((64, 4096), (64, 64, 4096)),
        [("inner_persistent", 1, 1), ("pointwise", 2, 1)],
    ),
    "a result across the others has its kernel": (
        both_ways,
        empty((4096, 4096)),
        [("pointwise", 1, 1), ("pointwise", 1, 1)],
    ),
    "a norm is one kernel, whatever is beside it": (
        norm_and_mask,
        [
            np.zeros((2, 2048), np.int64),
            *empty((32000, 4096), (4096,), (2048,), (64, 4096)),
        ],
        [
            ("inner_persistent", 3, 3),
            ("pointwise", 1, 2),
            ("pointwise", 2, 1),
            ("matmul", 2, 1),
        ],
    ),
    "so has one of many elements, among many that could be stored": (
        bias_by_distance,
        [*empty((32, 32)), *(np.zeros(n, np.int64) for n in (2048, 2048, 2))],
        [("pointwise", 3, 1), ("pointwise", 3, 2)],
    ),
    "several across the others have theirs": (
        gradients_both_ways,
        empty(*[(4096, 14336)] * 3),
        [("pointwise", 3, 2), ("pointwise", 3, 2)],
    ),
}


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
            patch.setattr(engine, "faster", lambda *given: NOTHING)
            return called(program, *arrays)

    return plan


@pytest.mark.parametrize("name", CASES)
def test_what_is_predicted_to_be_faster_is_done(
    name: str, structural: Callable[..., CallPlan]
) -> None:
    program, arrays, wanted = CASES[name]
    call, plain = called(program, *arrays), structural(program, *arrays)
    assert kernels(call) == wanted
    before, after = Prices().both((plain.segments, plain.problem), (call.segments, call.problem))
    assert after * trials.WORTH < before


@pytest.mark.parametrize("name", CASES)
def test_of_few_elements_launches_count(name: str, structural: Callable[..., CallPlan]) -> None:
    """There are no more kernels than the structure has, and the same ones where none is saved."""
    program, arrays, _ = CASES[name]
    small = [np.empty([min(n, 64) for n in a.shape], a.dtype) for a in arrays]
    call, plain = called(program, *small), structural(program, *small)
    assert len(kernels(call)) < len(kernels(plain)) or kernels(call) == kernels(plain)


def test_tables_of_16_bits_are_made_once_for_all_that_read_them() -> None:
    """Each of which reads them in Float."""
    arrays = empty((8, 32, 2048, 128), (8, 8, 2048, 128), (2048,), (128,))
    tables, *readers = called(turned_in_16_bits, *arrays).segments
    assert [t.dtype for t in tables.segment.writes] == [DataType.BFloat16] * 2
    assert all(len(reader.segment.reads) == 3 for reader in readers)


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
    "so are rows that are reduced": ["  apart       3.03 and 19.41 µs"],
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
    wanted, works, failed = kernels(structural(program, *arrays)), getattr(engine, place), []

    def fails(*given: Any, **named: Any) -> Any:
        trial = (
            given[4] != NOTHING if place == "plan_prepared" else len(given[1][1].segment.inputs) < 4
        )
        if trial:
            failed.append(place)
            raise failure
        return works(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, place, fails)
        assert kernels(called(program, *arrays)) == wanted
    assert failed
    assert not recwarn.list


def test_what_fails_without_a_trial_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: Any, **named: Any) -> Any:
        raise KernelRefusal("it has no code")

    monkeypatch.setattr(engine, "plan_call", fails)
    with pytest.raises(KernelRefusal):
        called(both_ways, *empty((4096, 4096)))


@pytest.fixture
def everything_tried(monkeypatch: pytest.MonkeyPatch) -> list[Decided]:
    """Whatever may be stored is, and whatever may be apart; what was decided, by call."""
    found: list[Decided] = []
    faster = trials.faster
    monkeypatch.setattr(trials, "WORTH", 0.0)
    monkeypatch.setattr(trials._Stores, "saved_us", lambda self, number: 1.0)
    monkeypatch.setattr(divided, "_may_be_faster", lambda *given: (True, True))
    monkeypatch.setattr(trials, "_is_scattered", lambda planned, problem: True)
    monkeypatch.setattr(engine, "faster", lambda *given: found.append(faster(*given)) or found[-1])
    return found


def test_stores_across_take_as_long_as_they_were_timed(structural: Callable[..., CallPlan]) -> None:
    """Of both gradients on an H100: 3,400 us each both ways, and 243 as they lie."""
    both = structural(gradients_both_ways, *empty(*[(4096, 14336)] * 3))
    upright = structural(gradients, *empty(*[(4096, 14336)] * 3))
    sizes = {f"T{n}_size{d}": (4096, 14336)[d] for n in range(3) for d in (0, 1)}
    problem = Problem(values=sizes, alignment={}, target=H100)
    for call, us in ((both, 3400), (upright, 243)):
        (planned,) = call.segments
        assert planned.candidate is not None
        assert kernel_us(planned.candidate, problem) == pytest.approx(us, rel=0.2)


def test_sectors_that_the_l2_holds_until_they_are_whole_are_written_once(
    structural: Callable[..., CallPlan],
) -> None:
    def moved(rows: int) -> tuple[float, float]:
        (planned,) = structural(both_ways, *empty((rows, 4096))).segments
        assert planned.candidate is not None
        sizes = {"T0_size0": rows, "T0_size1": 4096}
        done = traffic_of(planned.candidate, Problem(values=sizes, alignment={}, target=H200))
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
        return traffic_of(
            planned.candidate, Problem(values=sizes, alignment={}, target=H200)
        ).partly

    assert again(1024) == 0.0  # a sector is read again after 1024 x 1024 others, of 32 MiB
    assert again(2048) == 15 * 2 * 32 * 1024 * 2048


@pytest.mark.parametrize("name", CASES)
def test_results_are_right(name: str, everything_tried: list[Decided]) -> None:
    program, arrays, _ = CASES[name]
    random = np.random.default_rng(3)
    drawn = ((random.standard_normal([min(n, 24) for n in a.shape]), a.dtype) for a in arrays)
    small = [
        (numbers if dtype == BFLOAT else np.abs(numbers)).astype(dtype) for numbers, dtype in drawn
    ]
    with warpsmith.knobs.scope(device="sim"):
        got = warpsmith.fuse(program)(*small)
    with warpsmith.knobs.scope(device="reference"):
        exact = (a.astype(np.float64) if a.dtype == BFLOAT else a for a in small)
        want = warpsmith.fuse(program)(*exact)
    assert everything_tried[0] != NOTHING
    several = isinstance(got, tuple)
    for ours, true in zip(got if several else [got], want if several else [want], strict=True):
        peak = float(np.abs(true).max())
        np.testing.assert_allclose(np.asarray(ours, np.float64), true, atol=0.02 * peak)


@pytest.mark.few(1)
@pytest.mark.parametrize("block", range(6))
def test_random_programs_are_right_whatever_is_stored(
    block: int, everything_tried: list[Decided], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is stored is rounded as its user knows it, in programs of one kernel too."""
    from tests.programs.run import program_of

    monkeypatch.setattr(Meaning, "_perhaps_stored", lambda self, value: perhaps_stored(value))
    for seed in range(30000 + 5 * block, 30005 + 5 * block):
        verdict = judged(program_of(seed, "sim"), "sim")
        assert verdict.kind in ("passed", "skipped"), f"seed {seed}: {verdict.message}"
    assert any(decided != NOTHING for decided in everything_tried)


@pytest.mark.few(1)
@pytest.mark.parametrize("block", range(6))
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

    monkeypatch.setattr(engine, "faster", checked)
    for seed in range(9000 + 20 * block, 9020 + 20 * block):
        space: dict[str, Any] = {}
        try:
            with np.errstate(all="ignore"):
                exec(compile(enlarged(generate(seed)).definition(), "<program>", "exec"), space)
                plan_only(space["fd"], space["inputs"])
        except WarpsmithError:
            continue  # some have no meaning
    assert changed < asked > 5


def spread(x: Any) -> tuple[Any, ...]:
    both = ops.var(x, [1])
    return ops.transpose(x, 0, 1), ops.sum(both, [0]), both


def both_of_one_operation(x: Any) -> tuple[Any, ...]:
    return ops.welford(x, [0, 1])


def spread_at_other_places(x: Any) -> tuple[Any, ...]:
    both = ops.var(x, [1])
    return ops.sum(both, [0]), ops.take_along_axis(both, ops.iota(8, fusion=Fusion.of(x)), 0)


def centred_by_both(x: Any) -> tuple[Any, ...]:
    """Of rows, whose sums two kernels need that go another way."""
    rows = ops.sum(x, [1])
    far = x - ops.broadcast(rows / ops.sum(rows, [0]), [False, True])
    return ops.sum(far, [0]), far * ops.broadcast(rows, [False, True])


def multiplied_and_stacked(x: Any) -> tuple[Any, ...]:
    """The Float value is read by the rows, and as it is stored by what is stacked."""
    less = ops.neg(x)
    far = ops.tanh(less)
    parts = ops.exp(far - ops.max(far, -1, keepdim=True))
    shares = parts / ops.sum(parts, -1, keepdim=True)
    product = ops.matmul(far, ops.matmul(ops.transpose(x, 0, 1), x))
    return ops.stack([x, less], 0), ops.where(product > 0, far, x), less, ops.mean(shares, [1])


@pytest.mark.parametrize("kind", [BFLOAT, np.float32])
@pytest.mark.parametrize(
    "program",
    [
        spread,
        both_of_one_operation,
        spread_at_other_places,
        centred_by_both,
        multiplied_and_stacked,
    ],
)
def test_no_kernel_reads_what_it_writes_and_none_writes_what_another_does(
    program: Body, kind: Any
) -> None:
    """The Float value of a result of 16 bits is another tensor, which is stored as that result. A
    kernel that widened what it wrote had operations that waited for each other, and no end.
    """
    fusion = prepare(warpsmith.fuse(program).lower(np.empty((64, 32), kind)).fusion)
    for number in [tensor.number for tensor in fusion.computed]:
        for stored in ("kept", "alone"):
            decided = Decided(**{stored: frozenset({number})})
            written: set[str] = set()
            for segment in cut(fusion, decided=decided, target=H200):
                outputs = set(segment.outputs)
                assert outputs.isdisjoint({*segment.inputs, *written}), (stored, number)
                segment.share.draft()
                written |= outputs
            assert written >= {output.value.name for output in fusion.outputs}


def test_what_is_empty_is_joined_with_nothing_else() -> None:
    """A grid of no blocks would leave a dropout's mask unwritten, beside a product of nothing."""
    from tests.programs.run import program_of

    verdict = judged(program_of(261510722, "sim"), "sim")
    assert verdict.kind == "passed", verdict.message


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
    monkeypatch.setattr(engine, "faster", lambda *given: everything_apart)
    call = called(layer, *empty((64, 64), (64, 64)))
    told = [line for cut in cuts(call.segments, call.problem, 12) for line in cut.lines()]
    assert "  not one     order: kernel 1 needs kernel 0, and kernel 2 needs kernel 1" in told
