"""The picture of a ring in docs/rings.md is what its kernel does on the simulator."""

from __future__ import annotations

import copy
from collections import Counter
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from warpsmith.tools import ring_picture
from warpsmith.tools.ring_spans import Event, Ring, read_ring

ROOT = Path(__file__).parents[2]
DRAWN = ("copy", "warp0", "warp1", "asked")
TILES = -(-ring_picture.COLUMNS // 64)


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return ring_picture.timeline()


@pytest.fixture(scope="module")
def ring(events: list[Event]) -> Ring:
    return read_ring(events)


def shapes(picture: str) -> Counter[str | None]:
    """Shapes of each kind, the legend's among them."""
    found = Counter(element.get("class") for element in ElementTree.fromstring(picture).iter())
    return Counter({kind: found[kind] for kind in DRAWN})


def test_the_picture_is_made_again(ring: Ring) -> None:
    made = ring_picture.picture(ring)
    legend = Counter(copy=1, warp0=1, asked=1)
    assert shapes(made) - legend == dict.fromkeys(DRAWN, TILES)
    assert shapes((ROOT / "docs/pictures/ring.svg").read_text()) == shapes(made)


def test_the_example_of_the_page_is_what_is_drawn() -> None:
    page = (ROOT / "docs" / "rings.md").read_text()
    assert "pictures/ring.svg" in page
    assert f"circular_buffer({ring_picture.STAGES}, {ring_picture.PREFETCH})" in page


def test_uses_lie_between_their_copy_and_the_next_one(ring: Ring) -> None:
    ring.check_order()
    for stage in range(ring.stages):
        turns = ring.of_stage(stage)
        assert [turn.phase for turn in turns] == list(range(len(turns)))
        for turn in turns:
            assert turn.copy.begin < turn.copy.end
            assert all(turn.copy.end <= use.begin < use.end for use in turn.uses.values())
        for turn, later in pairwise(turns):
            assert max(use.end for use in turn.uses.values()) <= later.copy.begin


def test_every_copy_and_arrival_of_the_timeline_is_drawn(ring: Ring, events: list[Event]) -> None:
    copies = {(event["ph"], event["ts"]) for event in events if event.get("cat") == "copy"}
    drawn = {("b", turn.copy.begin) for turn in ring.turns}
    assert copies == drawn | {("e", turn.copy.end) for turn in ring.turns}
    arrivals = [(e["tid"], e["ts"]) for e in events if e.get("cat") == "arrival"]
    releases = [(warp, use.end) for turn in ring.turns for warp, use in turn.uses.items()]
    announced = len(arrivals) - len(releases)
    assert set(releases) <= set(arrivals)
    assert announced == len(ring.turns) == TILES
    assert ring.warps == (0, 1)


def test_stages_are_filled_in_turn_and_as_far_ahead_as_the_schedule_says(ring: Ring) -> None:
    assert [turn.stage for turn in ring.turns] == [n % ring_picture.STAGES for n in range(TILES)]
    begun = [turn.uses[ring.elected].begin for turn in ring.turns]
    for number, turn in enumerate(ring.turns):
        ahead = sum(turn.copy.begin < use for use in begun[:number])
        assert ahead == min(number, ring_picture.PREFETCH)


@pytest.mark.parametrize("later", [-1, 1])
def test_a_timeline_out_of_order_is_noticed(events: list[Event], later: int) -> None:
    """A landing behind a use, and a copy before a stage is free."""
    moved = copy.deepcopy(events)
    copies = [event for event in moved if event.get("cat") == "copy"]
    if later > 0:
        next(event for event in copies if event["ph"] == "e")["ts"] += 100
    else:
        looks = [event for event in moved if event.get("cat") == "over" and event["tid"] == 0]
        for event in looks:
            event["ts"] -= 100
    with pytest.raises(ValueError, match="stage 0"):
        read_ring(moved).check_order()


def test_a_timeline_without_a_ring_is_refused(events: list[Event]) -> None:
    without = [event for event in events if event.get("cat") != "copy"]
    with pytest.raises(ValueError, match="copies are asked for by one warp"):
        read_ring(without)
