"""The picture of drawn sizes: a mark for each time, where it belongs."""

import re
from dataclasses import replace
from xml.etree import ElementTree

from bench.drawn import drawn_rows
from bench.measure import Setting
from bench.plot import picture
from bench.row import Row

SETTING = Setting(gpu="NVIDIA H200", versions=(), date="2026-11-27")


def rows(problem: str, us: float, peer: float, ceiling: float) -> list[Row]:
    given = {"warpsmith": us, "nvfuser": peer}
    size = problem, (600, 512), "float"
    return drawn_rows(*size, given, "warpsmith", seed=7, setting=SETTING, ceiling_us=ceiling)


def places(svg: str, kind: str) -> list[tuple[float, float]]:
    found = re.findall(rf'<circle cx="(.*?)" cy="(.*?)" r=".*?" class="{kind}">', svg)
    return [(float(x), float(y)) for x, y in found]


def test_marks_are_higher_for_more_and_further_right_for_longer() -> None:
    svg = picture([*rows("softmax", 10.0, 20.0, 9.0), *rows("softmax", 100.0, 400.0, 90.0)])
    ElementTree.fromstring(svg)
    (short, long), (short_peer, long_peer) = places(svg, "us"), places(svg, "peer")
    assert short[0] < long[0]
    assert short[1] == long[1]  # both 90 %
    assert short_peer[0] == short[0]
    assert short[1] < short_peer[1] < long_peer[1]
    assert "600x512 float, nvfuser: 20.0 µs, 45 %" in svg


def test_each_problem_has_a_panel_and_what_failed_no_mark() -> None:
    failed = [replace(row, us=None) for row in rows("add3", 10, 20, 9)]
    svg = picture([*rows("softmax", 10, 20, 9), *rows("add3", 10, 20, 9), *failed])
    assert len(places(svg, "us")) == len(places(svg, "peer")) == 2
    assert ">softmax</text>" in svg
    assert ">add3</text>" in svg
