"""Candidates that are timed, by a clock that the test winds, and kept between processes."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.matmuls import check, linear, operands
from tests.support.norms_backward import Case, rms_norm_backward
from warpsmith import knobs, ops
from warpsmith.engine import autotune, compiled, executable
from warpsmith.engine.executable import Executable
from warpsmith.engine.launches import CallPlan
from warpsmith.errors import KernelRefusal
from warpsmith.runtime.cache import Entries

SIZES = (300, 136, 200)
MOST = 4


class Clock:
    """Says that the n-th candidate is the fastest, and what it was asked about."""

    def __init__(self, fastest: int) -> None:
        self.fastest = fastest
        self.asked: list[list[str]] = []

    def __call__(
        self, ordinal: int, calls: Mapping[str, Callable[[], object]]
    ) -> Mapping[str, float]:
        self.asked.append(list(calls))
        for call in calls.values():
            call()
        return {name: float(n != self.fastest) for n, name in enumerate(calls)}


class Device:
    """A GPU that notes which parameters were launched, and for what arrays."""

    def __init__(self) -> None:
        self.runs: list[tuple[Any, tuple[int, ...]]] = []

    def __call__(
        self, fusion: Any, call: CallPlan, ordinal: int, agreements: Any = None
    ) -> Callable[[Any], list[Any]]:
        def run(inputs: Any) -> list[Any]:
            self.runs.append((call.launches[0].params, tuple(map(id, inputs))))
            return []

        return run


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Device]:
    made = Device()
    monkeypatch.setattr(executable, "OnDevice", made)
    monkeypatch.setattr(executable, "place_of", lambda binding, asked: 0)
    monkeypatch.setattr(executable, "is_on_device", lambda binding: True)
    kept = Entries(tmp_path, "tuned", b"tried\n", 1 << 20)
    monkeypatch.setattr(autotune, "_entries", lambda asked: kept)
    monkeypatch.setattr(autotune, "MOST", MOST)
    with knobs.scope(autotune=True):
        yield made


def wound(monkeypatch: pytest.MonkeyPatch, fastest: int) -> Clock:
    clock = Clock(fastest)
    monkeypatch.setattr(autotune, "by_events", clock)
    return clock


def parameters(program: Executable, *sizes: int) -> Any:
    """Of the kernel that a call runs."""
    given = operands(*sizes, seed=1)
    program.run(given)
    return program.plan_for(given).launches[0].params


def test_the_fastest_of_a_few_is_taken_and_timed_once(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    clock, program = wound(monkeypatch, 3), Executable(linear().fusion)
    chosen = parameters(program, *SIZES)
    (asked,) = clock.asked
    assert len(set(asked)) == MOST
    tried = [params for params, _ in device.runs[:MOST]]
    assert len(set(tried)) == MOST
    assert chosen == tried[3] == device.runs[-1][0]
    parameters(program, *SIZES)
    assert len(clock.asked) == 1
    assert program.explain().count("    class ") == 2, "the model's and the winner's"


def test_blocks_that_share_a_product_of_floats_are_told_how_many(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    with warpsmith.FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True, warpsmith.DataType.Float) for _ in range(2))
        fd.add_output(fd.ops.linear(a, b))
    wound(monkeypatch, 1)
    given = [np.zeros((rows, 2000), np.float32) for rows in (40, 50)]
    program = Executable(fd.fusion)
    program.run(given)
    (launch,) = program.plan_for(given).launches
    assert launch.params == device.runs[1][0] != device.runs[0][0]
    assert launch.params.shared  # type: ignore[union-attr]
    assert launch.grid[1] > 1


def test_winners_are_kept_for_other_processes_and_like_sizes(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    wound(monkeypatch, 2)
    chosen = parameters(Executable(linear().fusion), *SIZES)
    clock = wound(monkeypatch, 0)
    assert parameters(Executable(linear().fusion), *SIZES) == chosen
    like = parameters(Executable(linear().fusion), 308, 136, 200)
    assert clock.asked == []
    assert (like.tile, like.cluster, like.splits) == (chosen.tile, chosen.cluster, chosen.splits)
    parameters(Executable(linear().fusion), 2000, 136, 200)
    assert len(clock.asked) == 1


def norm() -> tuple[Executable, list[Any]]:
    """RMSNorm backward, whose first kernel leaves as many sums of columns as it has blocks."""
    inputs = Case((300, 1032), "bfloat16").inputs(rms_norm_backward)
    lowered = warpsmith.fuse(rms_norm_backward).lower(*inputs)
    return Executable(lowered.fusion), [*inputs, *(1 for _ in lowered.fusion.input_scalars)]


@pytest.mark.usefixtures("uncompiled")
def test_shapes_of_rows_are_timed_and_the_winner_is_kept(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    clock, (program, given) = wound(monkeypatch, 3), norm()
    with knobs.scope(verify="off"):
        program.run(given)
    (asked,) = clock.asked
    tried = [params for params, _ in device.runs[:MOST]]
    assert len(set(asked)) == len(set(tried)) == MOST
    call = program.plan_for(given)
    assert call.launches[0].params == tried[3] == device.runs[-1][0]
    segment = call.segments[0]
    assert segment.candidate is not None
    decided = segment.agreed(segment.local(call.problem))
    assert decided
    assert decided.items() <= call.problem.values.items(), "the sums are as many as its blocks"
    clock, (again, given) = wound(monkeypatch, 0), norm()
    assert again.plan_for(given).launches[0].params == tried[3], "what was kept is found"
    problem = replace(call.problem, autotune=False)
    held = segment.with_candidate(replace(segment.candidate, held=tried[0]))
    assert [len(list(autotune.choices([each], problem))) for each in (segment, held)] == [1, 0]


def test_without_the_knob_the_model_decides(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    wound(monkeypatch, 2)
    program = Executable(linear().fusion)
    tuned = parameters(program, *SIZES)
    with knobs.scope(autotune=False):
        plain = parameters(program, *SIZES)
    assert plain == device.runs[0][0] != tuned


def test_an_entry_that_is_none_of_the_candidates_is_left(
    monkeypatch: pytest.MonkeyPatch, device: Device, tmp_path: Path
) -> None:
    wound(monkeypatch, 1)
    monkeypatch.setattr(autotune, "_name", lambda planned, local: "entry")
    entries = autotune._entries(knobs.current())
    entries.store("entry", json.dumps({"winner": "none such"}).encode())
    clock = wound(monkeypatch, 1)
    parameters(Executable(linear().fusion), *SIZES)
    assert len(clock.asked) == 1


def test_candidates_that_make_no_kernel_are_passed_over(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    from warpsmith.errors import ScheduleError
    from warpsmith.schedulers.matmul import apply

    laid = apply.apply

    def some(fusion: Any, caches: Any, params: Any) -> None:
        if params.ping_pong or params.cluster != (1, 1):
            raise ScheduleError("no", code="WS0000", remedy="")
        laid(fusion, caches, params)

    monkeypatch.setattr(apply, "apply", some)
    clock = wound(monkeypatch, 0)
    chosen = parameters(Executable(linear().fusion), *SIZES)
    assert chosen.cluster == (1, 1)
    assert all("cluster" not in name and "ping-pong" not in name for name in clock.asked[0])


def test_the_simulator_times_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autotune, "measure", None)
    x, weight = operands(64, 64, 64, seed=1)
    fused = warpsmith.fuse(lambda a, b: ops.linear(a, b), autotune=True)
    with knobs.scope(device="sim"):
        result = fused(x, weight)
        (other,) = linear().execute([x, weight], autotune=True)
    check(np.asarray(result), x, weight)
    check(np.asarray(other), x, weight)


def test_what_a_call_writes_into_is_copied(monkeypatch: pytest.MonkeyPatch, device: Device) -> None:
    """Outputs that alias an input would add up over the runs that are timed."""
    torch = pytest.importorskip("torch")
    from warpsmith import DataType, FusionDefinition

    with FusionDefinition() as fd:
        a, b, c = (fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(3))
        fd.add_output(fd.ops.add(fd.ops.linear(a, b), c), alias_input=c)
    made = [torch.ones(shape, dtype=torch.bfloat16) for shape in ((64, 64), (64, 64), (64, 64))]
    wound(monkeypatch, 1)
    Executable(fd.fusion).run(made)
    own = id(made[2])
    *timed, last = [ids[2] for _, ids in device.runs]
    assert last == own
    assert timed
    assert own not in timed


def test_a_candidate_without_machine_code_is_not_timed_as_another(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    """The second one that is met; the first is the model's, and runs."""
    met: dict[str, None] = {}

    def remarks(log: str, entry: str) -> None:
        met[entry] = None
        if list(met).index(entry) == 1:
            raise KernelRefusal("serialized")

    monkeypatch.setattr(compiled, "check_remarks", remarks)
    clock = wound(monkeypatch, fastest=0)
    parameters(Executable(linear().fusion), *SIZES)
    (asked,) = clock.asked
    assert len(met) == MOST
    assert len(asked) == MOST - 1
