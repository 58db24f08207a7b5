"""The graph of a call as SVG: a band for each kernel, rows of memory between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from warpsmith.page.layers import Box, Link, Picture, Placed, Way, laid_out
from warpsmith.page.markup import Markup, joined, tag
from warpsmith.page.program import Node, ProgramGraph

SIGN = 6.7
"""Width of a sign of the monospaced text, in the picture's units."""

MARGIN = 16.0
HEAD = 30.0
"""Of a band, over its operations, for the title."""

_ROW = 6
"""Tensors side by side in memory; more are in several rows."""

_HEIGHT = {True: 38.0, False: 24.0}


def picture(graph: ProgramGraph, titles: Sequence[str], references: Mapping[str, str]) -> Markup:
    """The whole picture.

    Args:
        titles: of the kernels.
        references: by node, its lines as the page names them.
    """
    layers = _layers(graph)
    boxes = [Box(n.key, _width(n), _HEIGHT[n.kind.is_memory], layers[n.key]) for n in graph.nodes]
    links = [Link(edge.source, edge.target) for edge in graph.edges]
    bands = _bands(graph, layers)
    above = {first: HEAD for first, _ in bands.values()}
    above |= {last + 1: MARGIN / 2 for _, last in bands.values()}
    placed = laid_out(boxes, links, above)
    wide = max(placed.width, *(SIGN * len(title) + 2 * MARGIN for title in titles))
    shift = MARGIN + (wide - placed.width) / 2
    nodes = {node.key: node for node in graph.nodes}
    content = [
        *(_band(number, placed, layers, bands[number], wide) for number in bands),
        tag(
            "g",
            *_nodes(placed, nodes, references),
            transform=f"translate({shift:.1f} {MARGIN})",
        ),
        *(_title(titles[number], placed, layers, bands[number][0]) for number in bands),
    ]
    width, height = wide + 2 * MARGIN, placed.height + 2 * MARGIN
    return tag(
        "svg",
        *content,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        class_="graph",
        role="img",
        aria_label="operations by kernel",
    )


def _width(node: Node) -> float:
    both = len(node.label), len(node.detail)
    signs = max(both) if node.kind.is_memory else sum(both)
    return SIGN * signs + 20


def _layers(graph: ProgramGraph) -> dict[str, int]:
    """The layer of each node among those of all kernels and rows."""
    made = {edge.target for edge in graph.edges}
    found: dict[str, int] = {}
    start = 0
    for kernel in sorted({node.kernel for node in graph.nodes}):
        mine = [node for node in graph.nodes if node.kernel == kernel]
        memory = [node.key for node in mine if node.kind.is_memory]
        written = [key for key in memory if key in made]
        read = [key for key in memory if key not in made]
        for row in [memory] if len(memory) <= _ROW else [*_rows(written), *_rows(read)]:
            found |= dict.fromkeys(row, start)
            start += 1
        operations = [node for node in mine if not node.kind.is_memory]
        found |= {node.key: start + node.layer for node in operations}
        start += 1 + max((node.layer for node in operations), default=-1)
    return found


def _rows(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[place : place + _ROW] for place in range(0, len(keys), _ROW))


def _bands(graph: ProgramGraph, layers: Mapping[str, int]) -> dict[int, tuple[int, int]]:
    """By kernel, the first and the last layer of its operations."""
    found: dict[int, tuple[int, int]] = {}
    for node in graph.nodes:
        if not node.kind.is_memory:
            layer = layers[node.key]
            first, last = found.get(node.kernel, (layer, layer))
            found[node.kernel] = min(first, layer), max(last, layer)
    return found


def _band(
    number: int,
    placed: Picture,
    layers: Mapping[str, int],
    band: tuple[int, int],
    wide: float,
) -> Markup:
    inside = [p for key, p in placed.boxes.items() if band[0] <= layers[key] <= band[1]]
    top = min(p.y for p in inside) + MARGIN - HEAD
    bottom = max(p.bottom for p in inside) + MARGIN + 8
    return tag(
        "a",
        tag(
            "rect",
            x=MARGIN / 2,
            y=top,
            width=wide + MARGIN,
            height=round(bottom - top, 1),
            rx=8,
            class_="band",
        ),
        href=f"#kernel-{number}",
    )


def _title(title: str, placed: Picture, layers: Mapping[str, int], first: int) -> Markup:
    """Over the links, which pass behind it."""
    top = min(p.y for key, p in placed.boxes.items() if layers[key] == first)
    return tag("text", title, x=MARGIN, y=top + MARGIN - HEAD + 18, class_="title")


def _nodes(
    placed: Picture, nodes: Mapping[str, Node], references: Mapping[str, str]
) -> Iterator[Markup]:
    yield from (_way(way) for way in placed.ways)
    for key, place in placed.boxes.items():
        yield _node(nodes[key], place, references.get(key))


def _way(way: Way) -> Markup:
    """A smooth line, which goes straight down through each layer that it passes."""
    (x, y), *rest = way.points
    parts = [f"M{x:.1f} {y:.1f}"]
    for place, (to_x, to_y) in enumerate(rest):
        if place % 2 == 1:
            parts.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            half = (y + to_y) / 2
            parts.append(f"C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return tag("path", d=" ".join(parts), class_="way")


def _node(node: Node, place: Placed, lines: str | None) -> Markup:
    box = place.box
    radius = box.height / 2 if node.kind.is_memory else 4
    shape = tag("rect", x=place.x, y=place.y, width=box.width, height=box.height, rx=radius)
    at = {"x": round(place.middle, 1), "text_anchor": "middle"}
    if node.kind.is_memory:
        words = joined(
            tag("text", node.label, y=place.y + 16, **at),
            tag("text", node.detail, y=place.y + 30, class_="detail", **at),
        )
    else:
        name = tag("tspan", f" {node.detail}", class_="detail")
        words = tag("text", node.label, name, y=place.y + 16, **at)
    about = tag("title", node.about)
    return tag(
        "g",
        about,
        shape,
        words,
        class_=f"node {node.kind.value}",
        data_lines=lines or None,
        data_tensor=node.tensor,
        data_key=node.key,
    )


def is_drawn(graph: ProgramGraph, most: int) -> bool:
    """Whether a picture can still be read: of so many operations, and not of too many tensors."""
    return graph.operations <= most and len(graph.nodes) <= 2 * most
