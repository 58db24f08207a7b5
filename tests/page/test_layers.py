"""Graphs of any shape are laid out without overlaps, and links end at their boxes."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.page.layers import Box, Link, Picture, Placed, apart, laid_out

Graph = tuple[list[Box], list[Link]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to forty boxes in layers, and links that lead down, over any number of layers."""
    counts = draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    boxes = [
        Box(f"{layer}.{place}", draw(st.sampled_from((30.0, 90.0, 210.0))), 24.0, layer)
        for layer, count in enumerate(counts)
        for place in range(count)
    ]
    down = [Link(a.key, b.key) for a, b in combinations(boxes, 2) if a.layer < b.layer]
    links = draw(st.lists(st.sampled_from(down), max_size=60)) if down else []
    return boxes, links


def overlap(a: Placed, b: Placed) -> bool:
    return a.x < b.right and b.x < a.right and a.y < b.bottom and b.y < a.bottom


@settings(max_examples=25, deadline=None)
@given(graphs())
def test_no_boxes_overlap_and_all_lie_within_the_picture(graph: Graph) -> None:
    made = laid_out(*graph)
    assert made.boxes.keys() == {box.key for box in graph[0]}
    for a, b in combinations(made.boxes.values(), 2):
        assert not overlap(a, b)
    for each in made.boxes.values():
        assert each.x >= -0.1
        assert each.y >= 0
        assert each.right <= made.width + 0.2
        assert each.bottom <= made.height + 0.2


@settings(max_examples=25, deadline=None)
@given(graphs())
def test_links_lead_down_from_box_to_box_and_through_no_other(graph: Graph) -> None:
    made = laid_out(*graph)
    assert {way.link for way in made.ways} == set(graph[1])
    for way in made.ways:
        source, target = made.boxes[way.link.source], made.boxes[way.link.target]
        assert way.points[0] == (source.middle, source.bottom)
        assert way.points[-1] == (target.middle, target.y)
        assert all(a[1] < b[1] or a[1:] == b[1:] for a, b in pairwise(way.points))
        for x, y in way.points[1:-1]:
            for box in made.boxes.values():
                assert not (box.x < x < box.right and box.y <= y <= box.bottom)


def crossings(made: Picture) -> int:
    ends = [(way.points[0][0], way.points[-1][0]) for way in made.ways]
    return sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for a, b in combinations(ends, 2))


def test_links_are_uncrossed_where_they_can_be() -> None:
    boxes = [Box(f"{layer}{n}", 60.0, 24.0, layer) for layer in (0, 1) for n in range(5)]
    links = [Link(f"0{n}", f"1{4 - n}") for n in range(5)]
    assert crossings(laid_out(boxes, links)) == 0


def test_a_link_over_many_layers_is_straight() -> None:
    chain = [Box(str(n), 80.0, 24.0, n) for n in range(8)]
    links = [Link(str(n), str(n + 1)) for n in range(7)]
    made = laid_out(chain, [*links, Link("0", "7")])
    (long,) = (way for way in made.ways if way.link == Link("0", "7"))
    assert len({x for x, _ in long.points[1:-1]}) == 1
    assert len({made.boxes[str(n)].middle for n in range(1, 7)}) == 1


def test_parts_without_links_do_not_drift_away() -> None:
    boxes = [Box(f"{layer}{n}", 100.0, 24.0, layer) for layer in range(12) for n in range(2)]
    links = [Link(f"{layer}1", f"{layer + 1}0") for layer in range(11)]
    assert laid_out(boxes, links).width < 12 * 118 / 2  # of 1400, where each stood under the last


def test_space_is_left_above_a_layer() -> None:
    boxes = [Box("a", 50.0, 24.0, 0), Box("b", 50.0, 24.0, 1)]
    plain, spaced = laid_out(boxes, []), laid_out(boxes, [], {1: 30.0})
    assert spaced.boxes["b"].y == plain.boxes["b"].y + 30
    assert spaced.boxes["a"].y == plain.boxes["a"].y


@pytest.mark.parametrize(
    ("wanted", "weights", "places"),
    [
        ((0.0, 100.0), (1.0, 1.0), (0.0, 100.0)),
        ((50.0, 50.0), (1.0, 1.0), (45.0, 55.0)),
        ((50.0, 50.0), (4.0, 1.0), (48.0, 58.0)),
        ((100.0, 0.0, 50.0), (1.0, 1.0, 1.0), (40.0, 50.0, 60.0)),
        ((), (), ()),
    ],
)
def test_neighbours_that_come_too_near_move_together(
    wanted: tuple[float, ...], weights: tuple[float, ...], places: tuple[float, ...]
) -> None:
    distances = [10.0] * (len(wanted) - 1)
    assert apart(wanted, distances, weights) == pytest.approx(list(places))
