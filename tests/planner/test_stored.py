"""Whatever is stored or has a kernel of its own, results are right."""

from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.programs.judge import judged
from tests.programs.meaning import Meaning
from tests.programs.values import perhaps_stored
from tests.support.storable import BFLOAT, CASES, Body
from warpsmith import DataType, FusionDefinition, ops
from warpsmith.engine import fitting
from warpsmith.engine.plan import prepare
from warpsmith.ir.fusion import Fusion
from warpsmith.knobs import scope
from warpsmith.planner import divided, scattered, trials
from warpsmith.planner.decided import NOTHING, Decided
from warpsmith.planner.plan import cut
from warpsmith.targets.hopper import H200


@pytest.fixture
def everything_tried(monkeypatch: pytest.MonkeyPatch) -> list[Decided]:
    """Whatever may be stored is, and whatever may be apart; what was decided, by call."""
    found: list[Decided] = []
    faster = trials.faster
    monkeypatch.setattr(trials, "WORTH", 0.0)
    monkeypatch.setattr(trials._Stores, "saved_us", lambda self, number: 1.0)
    monkeypatch.setattr(divided, "_may_be_faster", lambda *given: (True, True))
    monkeypatch.setattr(scattered, "_lost_us", lambda planned, problem: 1.0)
    monkeypatch.setattr(fitting, "faster", lambda *given: found.append(faster(*given)) or found[-1])
    return found


@pytest.mark.few(5)
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


@pytest.mark.few(5)
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
    given = np.ones((33, 0, 127), np.float16), 3, np.ones((127, 0), np.float32)
    with FusionDefinition() as fd:
        empty = fd.define_tensor([-1, 0, 127], True, DataType.Half)
        seed = fd.define_scalar(DataType.Int)
        nothing = fd.define_tensor([127, 0], True)
        whole = fd.ops.iota(127, 0, 1, DataType.Int32)
        float_ = fd.ops.iota(127, -3, 1, DataType.Float)
        moved = ops.roll(float_, [-4], [0])
        kept, mask = ops.dropout(float_ * 0.25, 0.1, rng_seed=seed, rng_offset=1)
        fd.add_output(ops.bitwise_not(ops.bitwise_and(whole, whole)))
        fd.add_output(ops.isfinite(ops.transpose(empty, 0, 1)))
        fd.add_output(ops.cosh(ops.tanh(whole * 0.25)))
        fd.add_output(mask)
        fd.add_output(moved / (ops.abs(float_ * 0.25) + 0.5))
        fd.add_output(ops.einsum("a,az->z", kept, nothing))
    with scope(device="sim"):
        fd.validate(given)
