"""Timelines tell what a block did, as the simulator saw it, or why there is none."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import warpsmith
from warpsmith import knobs, ops
from warpsmith.engine.facts import facts_of
from warpsmith.engine.smaller import smaller
from warpsmith.page import timeline as timelines
from warpsmith.page.lanes import tick
from warpsmith.page.timeline import Span, Timeline, timeline_of


def product(x: Any, w: Any) -> Any:
    return ops.silu(ops.linear(x, w))


def made() -> Timeline | str:
    given = [np.zeros(shape, np.float16) for shape in ((512, 512), (512, 512))]
    compiled = warpsmith.fuse(product).lower(*given).compile()
    binder = compiled._executable.binder
    found = smaller(compiled._call, 0, binder, given, knobs.current(), 8e6)
    launch = facts_of(compiled._call, 0).kernels[0].choice.launch
    assert launch is not None
    return timeline_of(found, launch.roles)


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    found = made()
    assert isinstance(found, Timeline), found
    return found


def test_lanes_have_their_agents_and_copies_apart(timeline: Timeline) -> None:
    names = [name for name, _ in timeline.groups]
    assert names == ["load: copy", "compute: multiply", "ring0", "copies in", "copies out"]
    assert all(len(lanes) <= 8 for _, lanes in timeline.groups)


def test_spans_of_a_lane_follow_each_other(timeline: Timeline) -> None:
    for _, lanes in timeline.groups:
        for lane in lanes:
            assert lane.spans
            assert all(span.begin < span.end <= timeline.end for span in lane.spans)
            assert all(a.end <= b.begin for a, b in pairwise(lane.spans))


def test_products_lie_behind_the_copies_that_they_need(timeline: Timeline) -> None:
    groups = dict(timeline.groups)
    loads = [span for lane in groups["copies in"] for span in lane.spans]
    stores = [span for lane in groups["copies out"] for span in lane.spans]
    for lane in groups["compute: multiply"]:
        products = [span for span in lane.spans if span.kind == "product"]
        assert min(span.end for span in loads) <= products[0].begin
        assert products[-1].end <= min(span.begin for span in stores)
    assert not any(span.kind == "product" for lane in groups["load: copy"] for span in lane.spans)


def test_waits_and_copies_name_the_pipeline(timeline: Timeline) -> None:
    groups = dict(timeline.groups)
    waits = {s.about for lane in groups["compute: multiply"] for s in lane.spans}
    assert "waits for ring0_full of stage 0, phase 0" in waits
    about = {span.about for lane in groups["copies in"] for span in lane.spans}
    assert any(
        "bytes for ring0_full of stage 1, asked for by warp 0: cp.async.bulk.tensor.2d" in each
        for each in about
    )


def test_the_sizes_are_said(timeline: Timeline) -> None:
    assert timeline.sizes.startswith("T0 [128, 128], T1 [128, 128]")


def test_a_run_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "BUDGET", 500)
    said = made()
    assert isinstance(said, str)
    assert said.startswith("with T0 [")
    assert said.endswith("the simulator needs more than 500 instructions of warps")


def test_no_size_that_is_small_enough_says_so() -> None:
    assert timeline_of([], ()) == "the kernel serves no sizes that are small enough"


def test_copies_share_lanes_where_they_do_not_overlap() -> None:
    spans = [Span(0, 4, "load", ""), Span(2, 6, "load", ""), Span(4, 8, "load", "")]
    lanes = list(timelines._tracks(spans))
    assert [[(s.begin, s.end) for s in lane.spans] for lane in lanes] == [
        [(0, 4), (4, 8)],
        [(2, 6)],
    ]


@pytest.mark.parametrize(
    ("end", "step"), [(8, 1), (9, 2), (41, 10), (11400, 2000), (10**6, 200000)]
)
def test_marks_are_at_round_cycles(end: int, step: int) -> None:
    assert tick(end) == step
