"""What autotuning may choose from, where rows and columns stay with blocks: each of it is right."""

from collections.abc import Sequence
from typing import Any

import pytest

from bench import batch_norm, group_norm, instance_norm, norm_backward, norms
from bench.images import Images
from bench.row_shapes import plan
from tests.schedulers.test_parts import check_right
from warpsmith import knobs
from warpsmith.engine import autotune, launches
from warpsmith.engine.planned import PlannedSegment
from warpsmith.knobs import Knobs
from warpsmith.schedulers.problem import Problem

PLANES, CHANNELS_LAST = Images(2, 32, 8, False), Images(2, 32, 8, True)
PROBLEMS = {
    "inner_persistent": norms.layer_norm(5, 1032, "bfloat16"),
    "inner_outer": norm_backward.rms_norm_bwd(7, 1032, "bfloat16"),
    "inner_grid": batch_norm.batch_norm_bwd(Images(32, 64, 28, False), "bfloat16"),
    "parts": group_norm.group_norm_bwd(PLANES, "bfloat16"),
    "outer_persistent": instance_norm.instance_norm(CHANNELS_LAST, "bfloat16"),
    "outer_grid": batch_norm.batch_norm_bwd(Images(32, 64, 28, True), "bfloat16"),
    "outer_groups": group_norm.group_norm(Images(32, 64, 28, True), "bfloat16"),
}
"""By scheduler."""

SMALL = [name for name in PROBLEMS if "gr" not in name]
"""Those whose problems the simulator runs in a second."""


@pytest.mark.few(4)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("scheduler", PROBLEMS)
def test_the_first_is_what_the_model_chooses(scheduler: str) -> None:
    call = plan(PROBLEMS[scheduler])
    segment = call.segments[call.launches[0].segment]
    candidate = segment.candidate
    assert candidate is not None
    assert candidate.scheduler == scheduler
    local = segment.local(call.problem)
    (_, first), *others = candidate.alternatives(local)
    assert candidate.settled(first, local) == candidate.choose(local)
    assert len({first, *(params for _, params in others)}) == 1 + len(others) > 3


@pytest.mark.few(2)
@pytest.mark.parametrize("number", range(1, autotune.MOST))
@pytest.mark.parametrize("scheduler", SMALL)
def test_each_is_right(scheduler: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that a kernel decides on are as many where another one adds up what they leave."""
    taken = favour(number, monkeypatch)
    with knobs.scope(autotune=True):
        check_right(PROBLEMS[scheduler])
    assert taken


def favour(number: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels take such a one of what they may choose from; the list gets what it is."""
    taken: list[str] = []

    def recall(segments: Sequence[PlannedSegment], problem: Problem, asked: Knobs) -> None:
        for planned, local, names in autotune.choices(segments, problem):
            taken.append(names[number])
            planned.favour(local, names[number])

    monkeypatch.setattr(launches, "recall", recall)
    return taken


@pytest.mark.usefixtures("uncompiled")
def test_no_role_is_among_them_where_none_is_allowed() -> None:
    assert {"a role", "waves"} <= who("auto")
    assert who(False) == {"waves"}
    assert who(True) == {"a role"}


def who(asked: Any) -> set[str]:
    with knobs.scope(warp_specialize=asked):
        call = plan(norms.rms_norm(5000, 4096, "bfloat16"))
    segment = call.segments[0]
    assert segment.candidate is not None
    return {n.split(",")[0] for n, _ in segment.candidate.alternatives(segment.local(call.problem))}
