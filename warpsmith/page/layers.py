"""Boxes in layers, top to bottom, and the ways of the links between them.

A link leads from a box to one of a lower layer. Where it passes others, it has a place of its own
in each, so that it crosses no box.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf

from warpsmith.values import dataclass

GAP = 18.0
"""Between boxes of one layer; half of it beside a link that passes."""

LAYER_GAP = 26.0
"""Between layers."""

_SWEEPS = 12
_MOVES = 40
_STRAIGHTENED = 4
_PULL = 0.08
_STIFF = 4.0
"""How much more a link that passes keeps to its place than a box does: it is to be straight."""


@dataclass(frozen=True, slots=True)
class Box:
    """Something to place: its size, and its layer, counted from 0."""

    key: str
    width: float
    height: float
    layer: int


@dataclass(frozen=True, slots=True)
class Link:
    """From one box to another one of a lower layer."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A box with its upper left corner."""

    box: Box
    x: float
    y: float

    @property
    def middle(self) -> float:
        return self.x + self.box.width / 2

    @property
    def right(self) -> float:
        return self.x + self.box.width

    @property
    def bottom(self) -> float:
        return self.y + self.box.height


@dataclass(frozen=True, slots=True)
class Way:
    """A link with its points: from the bottom of its source to the top of its target. Two follow
    each other in each layer that it passes: where it enters and leaves it.
    """

    link: Link
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """All boxes and ways, and the size of the whole."""

    boxes: Mapping[str, Placed]
    ways: tuple[Way, ...]
    width: float
    height: float


def laid_out(
    boxes: Sequence[Box], links: Iterable[Link], above: Mapping[int, float] | None = None
) -> Picture:
    """A place for each box, so that links cross seldom and are short.

    Args:
        above: by layer, space that is left free over it besides the gap.
    """
    graph = _Graph(boxes, tuple(dict.fromkeys(links)))
    graph.order()
    graph.place()
    graph.straighten()
    return graph.picture(above or {})


class _Graph:
    """The boxes with a box of no height for each layer that a link passes."""

    def __init__(self, boxes: Sequence[Box], links: Sequence[Link]) -> None:
        self._links = links
        self._known = {box.key: box for box in boxes}
        self._up: dict[str, list[str]] = defaultdict(list)
        self._down: dict[str, list[str]] = defaultdict(list)
        self._ways: dict[Link, list[str]] = {}
        self._layers: list[list[str]] = [[] for _ in range(1 + max(b.layer for b in boxes))]
        for box in boxes:
            self._layers[box.layer].append(box.key)
        for link in links:
            self._add(link)
        self._middle: dict[str, float] = {}

    def _add(self, link: Link) -> None:
        first, last = (self._known[key].layer for key in (link.source, link.target))
        assert first < last, f"{link} does not lead down"
        way = [link.source]
        for layer in range(first + 1, last):
            key = f"{link.source} > {link.target} @ {layer}"
            self._known[key] = Box(key, 0.0, 0.0, layer)
            self._layers[layer].append(key)
            way.append(key)
        way.append(link.target)
        for one, other in pairwise(way):
            self._down[one].append(other)
            self._up[other].append(one)
        self._ways[link] = way

    def order(self) -> None:
        """Sort each layer by the places of what its boxes are linked to, as long as that helps."""
        best, fewest = [list(layer) for layer in self._layers], self._crossings()
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            near = self._up if down else self._down
            for layer in self._layers[1:] if down else self._layers[-2::-1]:
                places = {key: place for row in self._layers for place, key in enumerate(row)}
                wanted = {key: _mean([places[k] for k in near[key]], places[key]) for key in layer}
                layer.sort(key=wanted.__getitem__)
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(layer) for layer in self._layers], crossings
        self._layers = best

    def _crossings(self) -> int:
        """Pairs of links between two layers that cross."""
        count = 0
        for upper, lower in pairwise(self._layers):
            place = {key: number for number, key in enumerate(lower)}
            ends = [place[k] for key in upper for k in sorted(self._down[key], key=place.get)]  # type: ignore[arg-type]  # all are there
            count += sum(b < a for i, a in enumerate(ends) for b in ends[i + 1 :])
        return count

    def place(self) -> None:
        """Middles of all boxes: again and again near to what they are linked to, at first above or
        below them, and in the end both.
        """
        for layer in self._layers:
            half = (len(layer) - 1) / 2
            self._set(layer, [100.0 * (place - half) for place in range(len(layer))])
        for move in range(_MOVES):
            down, last = move % 2 == 0, move >= _MOVES // 2
            for layer in self._layers if down else self._layers[::-1]:
                self._set(
                    layer, [self._wanted(key, last or down, last or not down) for key in layer]
                )

    def _wanted(self, key: str, up: bool, down: bool) -> float:
        """The mean of the middles of what a box is linked to, above or below it, and a little of
        the middle of the whole.
        """
        near = [*(self._up[key] if up else ()), *(self._down[key] if down else ())]
        return (1 - _PULL) * _mean([self._middle[other] for other in near], self._middle[key])

    def _set(self, layer: Sequence[str], wanted: Sequence[float]) -> None:
        weights = [1.0 if self._known[key].height else _STIFF for key in layer]
        places = apart(wanted, self._distances(layer), weights)
        self._middle.update(zip(layer, places, strict=True))

    def straighten(self) -> None:
        """Let links pass layers straight down, as far as there is room, and boxes that have one
        above them and one below stand in line with the one above.
        """
        for _ in range(_STRAIGHTENED):
            for way in sorted(self._ways.values(), key=len, reverse=True):
                self._align(way[1:-1])
            for layer in self._layers:
                for key in layer:
                    above, below = self._up[key], self._down[key]
                    if len(above) == 1 and len(self._down[above[0]]) == 1 and len(below) <= 1:
                        low, high = self._room(key)
                        self._middle[key] = min(max(self._middle[above[0]], low), high)

    def _align(self, chain: Sequence[str]) -> None:
        """Give places of one link the same middle, if all of them have room for one."""
        if chain:
            rooms = [self._room(key) for key in chain]
            low, high = max(low for low, _ in rooms), min(high for _, high in rooms)
            if low <= high:
                middle = _mean([self._middle[key] for key in chain], 0.0)
                self._middle.update(dict.fromkeys(chain, min(max(middle, low), high)))

    def _room(self, key: str) -> tuple[float, float]:
        """How far the middle of a box can move without coming too near to its neighbours."""
        layer = self._layers[self._known[key].layer]
        place, distances = layer.index(key), self._distances(layer)
        low = -inf if place == 0 else self._middle[layer[place - 1]] + distances[place - 1]
        last = place == len(layer) - 1
        high = inf if last else self._middle[layer[place + 1]] - distances[place]
        return min(low, self._middle[key]), max(high, self._middle[key])

    def _distances(self, layer: Sequence[str]) -> list[float]:
        """Of the middles of neighbours, at least."""
        boxes = [self._known[key] for key in layer]
        return [
            (a.width + b.width) / 2 + (GAP if a.height and b.height else GAP / 2)
            for a, b in pairwise(boxes)
        ]

    def picture(self, above: Mapping[int, float]) -> Picture:
        left = min(self._middle[k] - self._known[k].width / 2 for k in self._known)
        right = max(self._middle[k] + self._known[k].width / 2 for k in self._known)
        placed: dict[str, Placed] = {}
        bounds: list[tuple[float, float]] = []
        y = 0.0
        for number, layer in enumerate(self._layers):
            y += above.get(number, 0.0) + (LAYER_GAP if number else 0.0)
            height = max((self._known[key].height for key in layer), default=0.0)
            for key in layer:
                box = self._known[key]
                x = self._middle[key] - left - box.width / 2
                placed[key] = Placed(box, round(x, 1), round(y + (height - box.height) / 2, 1))
            bounds.append((round(y, 1), round(y + height, 1)))
            y += height
        ways = []
        for link, keys in self._ways.items():
            first, last = placed[keys[0]], placed[keys[-1]]
            points = [(round(first.middle, 1), first.bottom)]
            for key in keys[1:-1]:
                points += [(placed[key].x, edge) for edge in bounds[placed[key].box.layer]]
            points.append((round(last.middle, 1), last.y))
            ways.append(Way(link, tuple(points)))
        own = {key: each for key, each in placed.items() if " @ " not in key}
        return Picture(own, tuple(ways), round(right - left, 1), round(y, 1))


def apart(
    wanted: Sequence[float], distances: Sequence[float], weights: Sequence[float]
) -> list[float]:
    """Places in the same order, at least so far apart, that are the nearest to those wanted, by
    the weighted squares of what is between.

    Neighbours that would come too near move together, to the mean of what they want.
    """
    offsets = [0.0]
    for distance in distances:
        offsets.append(offsets[-1] + distance)
    runs: list[tuple[float, float, int]] = []  # (mean, weight, how many) of places less offsets
    for place, offset, weight in zip(wanted, offsets, weights, strict=False):
        mean, count = place - offset, 1
        while runs and runs[-1][0] > mean:
            before, heavy, many = runs.pop()
            mean = (mean * weight + before * heavy) / (weight + heavy)
            weight, count = weight + heavy, count + many
        runs.append((mean, weight, count))
    means = [mean for mean, _, count in runs for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
