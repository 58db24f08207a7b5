"""The pictures in docs/rings.md and docs/roles.md are what their kernels do on the simulator."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.pipelines import Pipeline
from warpsmith.tools import timeline_picture
from warpsmith.tools.page_examples import PREFETCH, SHAPE, STAGES
from warpsmith.tools.spans import Timeline, read_timeline
from warpsmith.tools.timeline_picture import EXAMPLES, agents_of
from warpsmith.tools.timelines import Event, planned, timeline

ROOT = Path(__file__).parents[2]
TILES = SHAPE[1] // 128
COMPUTE, STORE = (4, 5, 6, 7), 2
LOADS = {"ring0": 0, "ring1": 1}
KINDS = ("copy", "full", "asked", "warp0", "warp1")
LEGEND = Counter(copy=1, full=1, asked=1, warp0=1)

Run = tuple[Kernel, dict[str, range], list[Event]]


def run_of(name: str) -> Run:
    """A picture's kernel, its agents, and what happens when it runs."""
    fusion, given = EXAMPLES[name]
    call = planned(fusion(), given)
    return call.launches[0].compiled.kernel, agents_of(call), timeline(call, given)


@pytest.fixture(scope="module")
def run() -> Run:
    return run_of("roles")


@pytest.fixture(scope="module")
def ring() -> Run:
    return run_of("ring")


@pytest.fixture(scope="module")
def found(run: Run) -> Timeline:
    return read_timeline(run[2], run[0])


def shapes(picture: str) -> Counter[str | None]:
    """Shapes of each kind, the legend's among them."""
    count = Counter(element.get("class") for element in ElementTree.fromstring(picture).iter())
    return Counter({kind: count[kind] for kind in KINDS})


def test_the_picture_is_made_again(run: Run, found: Timeline) -> None:
    made = timeline_picture.picture(run[0], run[1], found)
    wanted = {
        "copy": 3 * TILES,
        "full": 3 * TILES,
        "asked": 2 * TILES + TILES // 2,  # of two stores one is asked for without a wait behind it
        "warp0": 2 * TILES + TILES // 2,  # two warps that compute, and the one that stores
        "warp1": 2 * TILES,
    }
    assert shapes(made) - LEGEND == wanted
    drawn = ROOT / "docs" / "pictures" / "roles.svg"
    assert shapes(drawn.read_text()) == shapes(made)
    assert words(drawn.read_text()) == words(made)
    assert "pictures/roles.svg" in (ROOT / "docs" / "roles.md").read_text()


def test_the_picture_of_a_ring_is_made_again(ring: Run) -> None:
    found = read_timeline(ring[2], ring[0])
    found.check_order()
    made = timeline_picture.picture(ring[0], ring[1], found)
    drawn = shapes(made) - LEGEND
    assert drawn == {"copy": TILES, "full": TILES, "warp0": TILES, "warp1": TILES}
    assert (ROOT / "docs" / "pictures" / "ring.svg").read_text() == made
    page = (ROOT / "docs" / "rings.md").read_text()
    assert "pictures/ring.svg" in page
    assert f"circular_buffer({STAGES}, {PREFETCH})" in page


def test_a_ring_is_filled_in_turn_and_as_far_ahead_as_the_schedule_says(ring: Run) -> None:
    found = read_timeline(ring[2], ring[0])
    (turns,) = found.turns.values()
    assert [turn.stage for turn in turns] == [n % STAGES for n in range(TILES)]
    begun = [work.span.begin for work in found.works[0]]
    assert len(begun) == len(found.works[1]) == TILES
    for number, turn in enumerate(turns):
        (copied,) = turn.copies
        assert copied.end <= turn.full <= begun[number]
        assert sum(copied.begin < use for use in begun[:number]) == min(number, PREFETCH)


def words(picture: str) -> list[str | None]:
    """Names and numbers from top to bottom, without those of the axis."""
    texts = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    found = [element.text for element in texts]
    return found[: found.index("0", found.index("store  warp 2"))]


def test_roles_stand_between_their_rings(run: Run) -> None:
    parts = [
        part.name if isinstance(part, Pipeline) else part
        for part in timeline_picture.in_order(run[0])
    ]
    assert parts == ["load_gate", "ring0", "load_x", "ring1", "compute", "ring2", "store"]


def test_stages_are_filled_used_and_filled_again(run: Run, found: Timeline) -> None:
    found.check_order()
    for ring in run[0].pipelines:
        turns = found.turns[ring.name]
        assert [turn.stage for turn in turns] == [n % ring.stages for n in range(TILES)]
        assert [turn.phase for turn in turns] == [n // ring.stages for n in range(TILES)]


def test_every_copy_of_the_timeline_is_drawn_once(run: Run, found: Timeline) -> None:
    copies = Counter(
        e["ts"] for e in run[2] if e.get("cat") == "copy" and e["ph"] == "b" and e["pid"] == 0
    )
    drawn = Counter(c.begin for turns in found.turns.values() for t in turns for c in t.copies)
    assert drawn == copies
    assert sum(drawn.values()) == 3 * TILES


def test_each_warp_works_on_each_tile_when_its_stages_are_full(found: Timeline) -> None:
    for warp in COMPUTE:
        works = found.works[warp]
        assert [work.number for work in works] == list(range(TILES))
        for work in works:
            loaded = [found.turns[ring][work.number] for ring in LOADS]
            written = found.turns["ring2"][work.number]
            assert all(turn.full <= work.span.begin <= turn.empty for turn in loaded)
            assert work.span.end <= written.full
    for turn in found.turns["ring2"]:
        (stored,) = turn.copies
        assert turn.full <= stored.begin < stored.end <= turn.empty


def test_loads_run_ahead_as_far_as_there_are_stages(run: Run, found: Timeline) -> None:
    """What the page says: as many copies as stages before the first use; then a wait for each."""
    first = found.works[COMPUTE[0]][0].span
    for ring in run[0].pipelines:
        if ring.name in LOADS:
            asked = [turn.copies[0].begin for turn in found.turns[ring.name]]
            assert sum(at < first.begin for at in asked) == ring.stages
            assert len(found.waits[LOADS[ring.name]]) == TILES - ring.stages


def test_in_the_steady_state_all_wait_for_the_store_role(found: Timeline) -> None:
    """What the page says: a store of each stage is on its way, and tiles come in pairs."""
    stores = [turn.copies[0] for turn in found.turns["ring2"]]
    assert all(b.begin < a.end for a, b in zip(stores[::2], stores[1::2], strict=True))
    pairs = list(zip(stores[2:], stores[4:], strict=False))
    assert all(before.end <= after.begin for before, after in pairs)
    period = {after.begin - before.begin for before, after in pairs}
    computed = [work.span.begin for work in found.works[COMPUTE[0]]][2:]
    apart = {after - before for before, after in zip(computed, computed[2:], strict=False)}
    assert len(apart) == 1
    assert apart == period


@pytest.mark.parametrize("early", ["empty", "full"])
def test_a_timeline_out_of_order_is_noticed(run: Run, early: str) -> None:
    """A stage that is empty before it is full, and one that is filled before it is empty."""
    moved = copy.deepcopy(run[2])
    turn = read_timeline(run[2], run[0]).turns["ring1"][3 if early == "empty" else 0]
    wanted = turn.empty
    for event in moved:
        if event.get("cat") == "phase" and event["ts"] == wanted:
            event["ts"] = turn.begin - 1 if early == "empty" else wanted + 1000
    with pytest.raises(ValueError, match="ring1 stage 0 in phase"):
        read_timeline(moved, run[0]).check_order()


def test_a_timeline_of_another_kernel_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match="at any mbarrier"):
        read_timeline(
            [event for event in run[2] if "mbarrier" not in event.get("args", {})], run[0]
        )
    shifted = copy.deepcopy(run[2])
    event = next(e for e in shifted if e.get("cat") == "arrival")
    event["args"]["mbarrier"] = "0x10000"
    with pytest.raises(ValueError, match="elsewhere than"):
        read_timeline(shifted, run[0])
    gone = read_timeline(run[2], run[0]).turns["ring2"][0].empty
    last = [e for e in run[2] if not (e.get("cat") == "phase" and e["ts"] == gone)]
    with pytest.raises(ValueError, match="is not emptied in phase"):
        read_timeline(last, run[0])
