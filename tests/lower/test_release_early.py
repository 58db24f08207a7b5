"""Stages that products read are released early where the next one has not come."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from tests.support.product_programs import close, values, wide
from warpsmith import FusionDefinition, knobs
from warpsmith.kernel.clusters import BY_WARP
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.rings import Await
from warpsmith.kernel.traversal import rewritten, walk
from warpsmith.lower import pipeline
from warpsmith.lower.passes.release_early import release_early
from warpsmith.schedulers.matmul import heuristic

X, WEIGHT = values((64, 328), 1), values((32, 328), 2)
"""Six steps over k."""


@pytest.fixture(autouse=True)
def _few_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = heuristic.choose
    given = {"splits": 1, "cluster": (1, 1), "stages": 3, "tile": (64, 32, 64)}
    monkeypatch.setattr(heuristic, "choose", lambda *args: replace(chosen(*args), **given))


def product() -> FusionDefinition:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.linear(fd.from_pytorch(X), fd.from_pytorch(WEIGHT)))
    return fd


def kernel_of(fd: FusionDefinition) -> Kernel:
    with knobs.scope(device="sim"):
        (launch,) = fd._ready(False).plan_for([X, WEIGHT]).launches
    return launch.compiled.kernel


def test_the_same_stage_is_released_at_one_of_two_places() -> None:
    kernel = kernel_of(product())
    (loop,) = [
        each
        for each in walk(kernel.body)
        if isinstance(each, For) and any(isinstance(s, Await) and s.early for s in each.body)
    ]
    (wait,) = [each for each in loop.body if isinstance(each, Await)]
    assert wait.early is not None
    (late,) = [each for each in loop.body if isinstance(each, If)]
    assert late.condition == wait.early.condition
    assert [each.unless for each in late.body if isinstance(each, BY_WARP)] == [wait.early.name]
    assert loop.body.index(late) > loop.body.index(wait)


def test_results_are_right_and_nothing_races() -> None:
    fd = product()
    with knobs.scope(device="sim"):
        (result,) = fd.execute([X, WEIGHT])
        assert fd.verify([X, WEIGHT], schedules=4).verdict == "clean"
    close(np.asarray(result), wide(X) @ wide(WEIGHT).T, X.shape[1])


def twice(kernel: Kernel) -> Kernel:
    """As of the pass, but the later release is not left out."""

    def forgetful(statement: Statement) -> tuple[Statement, ...]:
        return (replace(statement, unless=""),) if isinstance(statement, BY_WARP) else (statement,)

    return replace(kernel, body=rewritten(release_early(kernel).body, forgetful))


def test_a_stage_that_is_released_twice_is_found() -> None:
    """So warps do come by before stages are full, in the simulator as well."""
    passes = tuple(
        pipeline.Pass(each.name, lambda request: twice, each.why)
        if each.name == "release_early"
        else each
        for each in pipeline.PASSES
    )
    fd = product()
    with (
        mock.patch.dict(pipeline.passed.__kwdefaults__ or {}, passes=passes),
        knobs.scope(device="sim"),
    ):
        verification = fd.verify([X, WEIGHT], schedules=4)
    assert "arrival-unordered" in str(verification)
