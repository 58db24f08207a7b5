"""The pictures in docs/rings.md and docs/roles.md are what their kernels do on the simulator."""

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pages.examples import PREFETCH, SHAPE, STAGES
from pages.timelines import example, picture
from warpsmith.page.timeline import Span, Timeline

DOCS = Path(__file__).parents[2] / "docs"
TILES = SHAPE[1] // 128


@pytest.fixture(scope="module")
def roles() -> Timeline:
    return example("roles")


@pytest.fixture(scope="module")
def ring() -> Timeline:
    return example("ring")


def spans(timeline: Timeline, group: str) -> list[Span]:
    """Those of all lanes of a group, in the order in which they begin."""
    lanes = dict(timeline.groups)[group]
    return sorted((span for lane in lanes for span in lane.spans), key=lambda each: each.begin)


def shapes(text: str) -> Counter[str | None]:
    """Shapes of each kind, those that say what colours mean among them."""
    return Counter(element.get("class") for element in ElementTree.fromstring(text).iter())


def test_the_pictures_are_made_again(ring: Timeline, roles: Timeline) -> None:
    assert (DOCS / "pictures" / "ring.svg").read_text() == picture(ring) + "\n"
    made, drawn = shapes(picture(roles)), shapes((DOCS / "pictures" / "roles.svg").read_text())
    for kind, count in (("full", 3 * TILES), ("load", 2 * TILES), ("store", TILES)):
        assert made[kind] == drawn[kind] == count + 1
    assert "pictures/roles.svg" in (DOCS / "roles.md").read_text()
    page = (DOCS / "rings.md").read_text()
    assert "pictures/ring.svg" in page
    assert f"circular_buffer({STAGES}, {PREFETCH})" in page


def test_a_ring_is_filled_in_turn_and_as_far_ahead_as_the_page_says(ring: Timeline) -> None:
    stages = dict(ring.groups)["ring0"]
    assert [[span.number for span in lane.spans] for lane in stages] == [
        list(range(stage, TILES, STAGES)) for stage in range(STAGES)
    ]
    fills, copies = spans(ring, "ring0"), spans(ring, "copies in")
    assert [fill.number for fill in fills] == list(range(TILES))
    assert len(copies) == TILES
    assert all(copy.end <= fill.begin for copy, fill in zip(copies, fills, strict=True))
    assert sum(copy.begin < fills[0].begin for copy in copies) == STAGES
    for before, copy in zip(fills, copies[STAGES:], strict=False):
        assert before.end <= copy.begin


def test_groups_are_roles_then_pipelines_then_copies(roles: Timeline) -> None:
    agents = ["load_gate: copy", "load_x: copy", "store: store", "compute: compute"]
    rings = ["ring0", "ring1", "ring2"]
    assert [name for name, _ in roles.groups] == [*agents, *rings, "copies in", "copies out"]


def test_stages_hold_what_was_copied_until_it_is_used(roles: Timeline) -> None:
    for name in ("ring0", "ring1"):
        fills = sorted(spans(roles, name), key=lambda each: each.number or 0)
        copies = [s for s in spans(roles, "copies in") if f"for {name}_full" in s.about]
        assert [fill.number for fill in fills] == list(range(TILES))
        assert all(copy.end <= fill.begin for copy, fill in zip(copies, fills, strict=True))
    stored = zip(spans(roles, "ring2"), spans(roles, "copies out"), strict=True)
    assert all(fill.begin <= copy.begin < copy.end <= fill.end for fill, copy in stored)


def test_loads_run_ahead_as_far_as_there_are_stages(roles: Timeline) -> None:
    """What the page says: as many copies as stages before the first use; then a wait for each."""
    for name, role in (("ring0", "load_gate"), ("ring1", "load_x")):
        stages = len(dict(roles.groups)[name])
        copies = [s for s in spans(roles, "copies in") if f"for {name}_full" in s.about]
        assert sum(copy.begin < spans(roles, name)[0].begin for copy in copies) == stages
        waits = [s for s in spans(roles, f"{role}: copy") if f"for {name}_empty" in s.about]
        assert len(waits) == TILES - stages


def test_in_the_steady_state_all_wait_for_the_store_role(roles: Timeline) -> None:
    """What the page says: a store of each stage is on its way, and tiles come in pairs."""
    stores = spans(roles, "copies out")
    assert all(b.begin < a.end for a, b in zip(stores[::2], stores[1::2], strict=True))
    pairs = list(zip(stores[2:], stores[4:], strict=False))
    assert all(before.end <= after.begin for before, after in pairs)
    period = {after.begin - before.begin for before, after in pairs}
    filled = [fill.begin for fill in spans(roles, "ring2")][2:]
    apart = {after - before for before, after in zip(filled, filled[2:], strict=False)}
    assert apart == period
    assert len(apart) == 1
