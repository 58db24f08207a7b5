"""The pointwise operations behind a product that its kernel computes, too."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from functools import cached_property

from warpsmith.ir.exprs import Matmul
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.reads import stretch_of
from warpsmith.planner.crossing import Crossing
from warpsmith.planner.flow import Node, cheapest_cut
from warpsmith.planner.followers import followers, is_cast_of, only_casts, until_needed_twice
from warpsmith.planner.forms import narrow_forms
from warpsmith.planner.prologues import prologue_of
from warpsmith.planner.segment import Segment, Segments
from warpsmith.schedulers.matmul.blocks import factors_of
from warpsmith.schedulers.matmul.partials import is_partial
from warpsmith.schedulers.views import viewed_by
from warpsmith.values import dataclass

BY_THREADS = "matmul_by_threads"
"""The scheduler that takes every product; it computes cheap operands itself, a tile at a time."""


_PRODUCTS, _NEVER = "products", 1 << 30
"""The node from which all products of a kernel follow, and a cost at which no cut is through it."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A product with the operations behind it that are computed with it.

    Attributes:
        positions: of these operations, the product's first.
        sinks: numbers of what they make that somebody else needs, or that is a result.
        operands: numbers of the computed operands that are stored before.
    """

    positions: tuple[int, ...]
    sinks: tuple[int, ...]
    operands: frozenset[int]


Offer = tuple[tuple[int, ...], tuple[int, ...]]
"""Positions of operations that a kernel may compute, a product's first, and what it stores."""


@dataclass(frozen=True)
class Offers:
    """The products of a program, and what may be computed with each; found once for all who ask.

    Attributes:
        forms: by number of a tensor, that of its cast to the type in which it is stored.
        crossing: in which form values are stored.
        seconds: by position of a product, that of another one which its kernel computes, too.
    """

    graph: Graph
    forms: Mapping[int, int]
    crossing: Crossing
    seconds: Mapping[int, int] = field(default_factory=dict)
    _first: dict[int, Offer] = field(default_factory=dict)

    @classmethod
    def of(cls, fusion: Fusion) -> Offers:
        graph = Graph.of(fusion)
        forms = narrow_forms(graph)
        return cls(graph, forms, Crossing(graph, forms=forms))

    def keeping(self, numbers: frozenset[int]) -> Offers:
        """The same where these tensors are stored though they could be computed again."""
        if numbers == self.crossing.kept:
            return self
        crossing = Crossing(self.graph, numbers, self.forms)
        return Offers(self.graph, self.forms, crossing, self.seconds)

    def with_seconds(self, seconds: Mapping[int, int]) -> Offers:
        return Offers(self.graph, self.forms, self.crossing, seconds)

    @cached_property
    def products(self) -> tuple[int, ...]:
        """Positions of the products that the results need."""
        return tuple(p for p in self.graph.needed if isinstance(self.graph.operations[p], Matmul))

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """Positions of the products that have a kernel each, with what follows them."""
        seconds = set(self.seconds.values())
        return tuple(p for p in self.products if p not in seconds)

    def together(self, product: int) -> tuple[int, ...]:
        """Positions of the products of a kernel, the first of them given."""
        return (product, *([self.seconds[product]] if product in self.seconds else []))

    @cached_property
    def values(self) -> frozenset[int]:
        """Numbers of the narrow forms."""
        return frozenset(self.forms.values())

    @cached_property
    def views(self) -> frozenset[int]:
        """Positions of the operations that make results views of what is stored: no kernel's."""
        graph = self.graph
        found = filter(None, (viewed_by(graph.tensors[number]) for number in graph.outputs))
        made = (each.outputs[0].number for view in found for each in view.operations)
        return frozenset(graph.maker[number] for number in made)

    @cached_property
    def last(self) -> dict[int, int]:
        """By position of each operation that is needed, the last of the `firsts` whose kernel it
        depends on.
        """
        graph, numbers = self.graph, {p: number for number, p in enumerate(self.firsts)}
        numbers |= {second: numbers[first] for first, second in self.seconds.items()}
        last: dict[int, int] = {}
        for position in graph.needed:
            makers = (graph.maker.get(t) for t in graph.sources(position))
            before = max((last[maker] for maker in makers if maker is not None), default=-1)
            last[position] = numbers.get(position, before)
        return last

    def largest(self, product: int) -> Offer:
        """The offer of the most operations."""
        if product not in self._first:
            self._first[product] = self._offer(_grown_cheapest(self, product, reshapes=True))
        return self._first[product]

    def all(self, product: int) -> Iterator[Offer]:
        """Those of a product, the most operations first; mostly the first is taken."""
        largest = self.largest(product)
        yield largest
        if product in self.seconds:
            return
        met = {largest}
        for positions in _fewer(self, product):
            offer = self._offer(positions)
            if offer not in met:
                met.add(offer)
                yield offer

    def _offer(self, positions: tuple[int, ...]) -> Offer:
        sinks = _sinks(self.graph, positions, self.crossing)
        forms = {self.graph.maker[self.forms[t]] for t in sinks if t in self.forms}
        return (*positions, *sorted(forms - set(positions))), sinks


def epilogue_of(
    segments: Segments,
    offers: Offers,
    product: int,
    inside: frozenset[int] = frozenset(),
    *,
    alone: bool = False,
) -> Epilogue:
    """As much behind a product as the fastest scheduler that takes any of it takes.

    Args:
        product: its position.
        inside: numbers of operands that tensor cores read as their kernel computes them.
        alone: tensor cores compute no more than the product and casts of it.

    Raises:
        SchedulerRefusal: no scheduler takes the product alone.
    """
    graph = segments.graph
    own = {t for p in offers.together(product) for t in graph.sources(p)}
    computed = frozenset(t for t in own if t in graph.maker)
    before = frozenset(t for p in offers.together(product) for t in made_before(graph, p))
    costly = frozenset(t for t in computed if not offers.crossing.is_cheap(t))
    tried: list[Segment] = []
    ways = [("matmul", before), ("matmul", computed), (BY_THREADS, costly), (BY_THREADS, computed)]
    if computed & inside:
        ways.insert(0, ("matmul", _without(graph, product, computed, inside)))
    scaled = _scaled(graph, product)
    if scaled is not None:
        ways.insert(0, ("matmul", scaled))
    for scheduler, stored in ways:
        for positions, sinks in offers.all(product):
            if alone and scheduler != BY_THREADS and not only_casts(graph, positions, product):
                continue
            epilogue = Epilogue(positions, sinks, stored)
            found = segments.of(sinks, around(graph, epilogue, offers.crossing))
            tried.append(found)
            if found.taken_by(scheduler):
                return epilogue
    raise tried[-1].refusal()


def made_before(graph: Graph, product: int) -> Iterator[int]:
    """Numbers of the operands of a product that another kernel makes; a stretch of a tensor in
    memory is read where it lies.
    """
    for number in graph.sources(product):
        if number in graph.maker and stretch_of(graph.tensors[number]) is None:
            yield number


def _scaled(graph: Graph, product: int) -> frozenset[int] | None:
    """Numbers of what is computed of the operands, and scales, of a product by blocks of k."""
    operation = graph.operations[product]
    factors = factors_of(operation) if isinstance(operation, Matmul) else None
    if factors is None:
        return None
    read = {source.number for each in factors for source in each.sources}
    return frozenset(t for t in read if t in graph.maker)


def _without(
    graph: Graph, product: int, computed: frozenset[int], inside: frozenset[int]
) -> frozenset[int]:
    """Of what is stored for a product, all but the operands `inside`, and what these need."""
    operation = graph.operations[product]
    assert isinstance(operation, Matmul)
    found = (prologue_of(graph, operation, place) for place in (0, 1))
    needed = (p.stored for p in found if p is not None and p.operand in inside)
    return (computed - inside).union(*needed)


def around(graph: Graph, epilogue: Epilogue, crossing: Crossing) -> frozenset[int]:
    """What must be stored before the kernel of an epilogue runs."""
    made = {number for position in epilogue.positions for number in graph.made(position)}
    read = {t for p in epilogue.positions[1:] for t in graph.sources(p)} - made
    return epilogue.operands | crossing.of_all(read) | (crossing.kept - made)


def _grown_cheapest(offers: Offers, product: int, *, reshapes: bool) -> tuple[int, ...]:
    products = offers.together(product)
    taken = {p: last for p, last in offers.last.items() if p not in offers.views}
    grown = followers(offers.graph, products, taken, reshapes=reshapes)
    return _cheapest(offers, grown, products)


def _fewer(offers: Offers, product: int) -> Iterator[tuple[int, ...]]:
    """The operations of offers behind the largest, found when they are asked for."""
    graph = offers.graph
    cheapest = _grown_cheapest(offers, product, reshapes=True)
    yield until_needed_twice(graph, cheapest)
    cheapest = _grown_cheapest(offers, product, reshapes=False)
    yield cheapest
    yield until_needed_twice(graph, cheapest)
    casts = [p for p in cheapest[1:] if is_cast_of(graph, p, product)]
    yield (product, *casts)
    yield (product,)


def _cheapest(offers: Offers, grown: tuple[int, ...], products: tuple[int, ...]) -> tuple[int, ...]:
    """Of these operations, those behind which the fewest bytes are stored; more where it is equal.

    Results are stored in any case, and a value that is stored in a narrow form is that form, too.
    """
    graph, inside = offers.graph, set(grown)
    made = [number for position in grown for number in graph.made(position)]
    readers: dict[Node, list[Node]] = {}
    needed: set[Node] = set()
    cost: dict[Node, int] = {}
    for number in made:
        using = graph.readers.get(number, ())
        readers[number] = [t for p in using if p in inside for t in graph.made(p)]
        live = [p for p in using if p not in inside and p in graph.live]
        if live or number in graph.results:
            needed.add(number)
        form = graph.tensors[offers.forms.get(number, number)]
        free = form.number in graph.results or number in offers.values
        free = free or is_partial(graph.operations[graph.maker[number]])
        cost[number] = 0 if free else form.dtype.size
    results = [number for product in products for number in graph.made(product)]
    readers[_PRODUCTS], cost[_PRODUCTS] = list(results), _NEVER
    stored = [n for n in cheapest_cut(_PRODUCTS, readers, needed, cost) if isinstance(n, int)]
    outside = {t for p in grown for t in graph.sources(p)} - set(made)
    operands = {t for product in products for t in graph.sources(product)}
    behind = graph.slice([*stored, *results], outside | operands)
    return tuple(p for p in grown if p in set(behind))


def _sinks(graph: Graph, positions: Collection[int], crossing: Crossing) -> tuple[int, ...]:
    """What of these operations' results is stored: for others to read, or as a result."""
    inside = set(positions)
    made = [number for position in sorted(positions) for number in graph.made(position)]
    stored: set[int] = set()
    for number in made:
        readers = graph.readers.get(number, ())
        outside = [p for p in readers if p not in inside and p in graph.live]
        asked = number in graph.results or number in crossing.kept
        if asked or any(isinstance(graph.operations[p], Matmul) for p in outside):
            stored.add(number)
        if outside:
            stored |= crossing.stored(number)
    return tuple(number for number in made if number in stored)
