"""A graph of torch's as calls of fusions, and of what torch runs."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Node

from warpsmith.errors import WarpsmithError
from warpsmith.ir.exprs import Precision
from warpsmith.knobs import Knobs
from warpsmith.torch_backend.aten import PRODUCTS, SAME_ORDER, TYPES, name_of
from warpsmith.torch_backend.copies import in_few
from warpsmith.torch_backend.definition import tensors_of
from warpsmith.torch_backend.levels import Kind, has_effects
from warpsmith.torch_backend.meanings import NotTaken
from warpsmith.torch_backend.options import Fallback
from warpsmith.torch_backend.program import Program, Recipe, warn_of
from warpsmith.torch_backend.regions import Regions, regions_of
from warpsmith.torch_backend.sinking import sink
from warpsmith.torch_backend.sizes import UnknownSize, hint_of, is_number
from warpsmith.torch_backend.source import Boxed, Source, Step, source_of
from warpsmith.torch_backend.writes import IN_PLACE, fills_its_own
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Compiled:
    """A graph that was compiled.

    Attributes:
        source: of what runs it, from the values of its inputs to those of its outputs.
        regions: what became of its nodes.
        programs: what runs each region; None for one that torch runs.
    """

    source: Source
    regions: Regions
    programs: tuple[Program | None, ...]

    @property
    def run(self) -> Boxed:
        """A function that runs it."""
        return self.source.function()


def compile_graph(
    module: GraphModule,
    knobs: Knobs,
    *,
    precision: Precision,
    products: bool,
    fallback: Fallback = "eager",
) -> Compiled:
    """Compile what warpsmith takes of a graph; torch runs the rest."""
    graph = module.graph
    regions = regions_of(graph, precision, products)
    (output,) = graph.find_nodes(op="output")
    results = tuple(output.args[0])
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    constants = {n: _attribute(module, n) for n in graph.nodes if n.op == "get_attr"}
    builder = _Builder(regions, knobs, precision)
    steps = builder.steps(graph.nodes, results)
    if fallback == "inductor":
        from warpsmith.torch_backend.inductor import with_inductor

        steps = with_inductor(steps, results)
    source = source_of(inputs, constants, steps, results)
    return Compiled(source, regions, tuple(builder.programs))


def _attribute(module: GraphModule, node: Node) -> Any:
    return operator.attrgetter(str(node.target))(module)


class _Builder:
    """Makes steps of regions and nodes, and puts them in order."""

    def __init__(self, regions: Regions, knobs: Knobs, precision: Precision) -> None:
        self._regions = regions
        self._kinds = regions.kinds
        self._knobs = knobs
        self._precision = precision
        self._alike: dict[object, Program] = {}
        self._read: list[Node] = []
        self._viewed: set[Node] = set()  # views that regions give
        self.programs: list[Program | None] = []

    def steps(self, nodes: Iterable[Node], results: Sequence[Any]) -> list[Step]:
        """The calls that give the results, each behind what it reads."""
        order = {node: number for number, node in enumerate(nodes)}
        made: list[tuple[int, Step]] = []
        home = {n: k for k, region in enumerate(self._regions.members) for n in region}
        for number, region in enumerate(self._regions.members):
            leaving = [n for n in region if self._leaves(n, home, number)]
            outside = [self._as_read(n, region) or n for n in leaving]
            self._viewed |= set(outside) - set(region)
            steps = self._region(region, outside)
            if not steps[0].single:
                stored = zip(leaving, outside, strict=True)
                steps += [_whole(n, view) for n, view in stored if _others(n, view, region)]
            made += [(order[region[-1]], step) for step in steps]
        wanted = [n for n in order if self._kinds.get(n) is Kind.left]
        wanted += self._free_outside(order, results)
        by_torch = frozenset(wanted)
        for node in wanted:
            step = Step.of(node)
            if fills_its_own(node, by_torch):
                step = replace(step, function=IN_PLACE[node.target])
            made.append((order[node], step))
        pairs = {(a, b) for b, each in self._regions.behind.items() for a in each}
        return in_few(_in_order(sink(made, results), order, pairs))

    def _leaves(self, node: Node, home: dict[Node, int], number: int) -> bool:
        """Whether a node of a region is read elsewhere, as it is or through views."""
        if node.users and all(self._is_part(user) for user in node.users):
            return False
        for user in node.users:
            kind = self._kinds.get(user)
            if kind is Kind.free:
                if self._leaves(user, home, number):
                    return True
            elif home.get(user) != number:
                return True
        return False

    def _as_read(self, node: Node, region: Sequence[Node]) -> Node | None:
        """The reshape in which a region reads what it computes, if only torch reads it elsewhere.

        It is the result then: both would be stored, the one for torch and the other for a product.
        A product is stored as it is, since its kernel does not reshape.
        """
        own = set(region)
        if name_of(node.target) in PRODUCTS or not self._is_for_torch(node, own):
            return None
        found = [view for view in self._reshapes(node) if own.intersection(view.users)]
        if not found:
            return None
        view, made = found[0], node.meta["val"]
        if not _others(node, view, region):
            return None if own.issuperset(view.users) else view
        multiplied = any(u in own and name_of(u.target) in PRODUCTS for u in view.users)
        plain = all(map(is_number, made.shape)) and made.is_contiguous()
        return view if multiplied and plain and len(found) == 1 else None

    def _reshapes(self, node: Node) -> Iterator[Node]:
        """Reshapes of a node, and of these."""
        for user in node.users:
            if self._kinds.get(user) is Kind.free and name_of(user.target) in SAME_ORDER:
                yield user
                yield from self._reshapes(user)

    def _is_for_torch(self, node: Node, region: set[Node]) -> bool:
        """Whether torch reads a node, or the caller, and of regions that one alone, views too."""
        kinds = ((user, self._kinds.get(user)) for user in node.users)
        return all(
            self._is_for_torch(user, region)
            if kind is Kind.free
            else user in region or kind in (Kind.left, None)
            for user, kind in kinds
        )

    def _is_part(self, node: Node) -> bool:
        return node.target is operator.getitem and self._kinds[node] is Kind.taken

    def _free_outside(self, order: dict[Node, int], results: Sequence[Any]) -> list[Node]:
        """Free nodes that torch reads, or the caller."""
        found: dict[Node, None] = {}

        def need(node: Any) -> None:
            if not isinstance(node, Node) or node in self._viewed:
                return
            if self._kinds[node] is Kind.free and node not in found:
                found[node] = None
                for source in node.all_input_nodes:
                    need(source)

        for result in (*results, *self._read):
            need(result)
        for node in order:
            if self._kinds.get(node) is Kind.left:
                for source in node.all_input_nodes:
                    need(source)
        return list(found)

    def _region(self, region: Sequence[Node], outside: Sequence[Node]) -> list[Step]:
        """The call of a region; where it makes no fusion, those of its nodes."""
        body = self._regions.body(region)
        recipe = Recipe(body, tuple(outside), self._precision)
        if not recipe.tensors:
            beside = self._beside(body[-1])
            if not beside:
                self.programs.append(None)
                return [Step.of(node) for node in body]
            recipe = replace(recipe, beside=beside)
        self._read += recipe.reads
        try:
            program = self._program(recipe)
        except (NotTaken, UnknownSize, WarpsmithError) as failure:
            warn_of(len(region), failure)
            self.programs.append(None)
            return [Step.of(node) for node in body]
        self.programs.append(program)
        places = map(program.recipe.reads.index, program.inputs)
        arguments = tuple(recipe.reads[place] for place in places)
        return [Step(tuple(outside), program, arguments, {}, single=False, beside=tuple(region))]

    def _beside(self, node: Node) -> tuple[Node, ...]:
        """An input of the graph on the device of a node, if there is one."""
        (wanted,) = {tensor.device for tensor in tensors_of(node)}
        for each in node.graph.find_nodes(op="placeholder"):
            if any(t.device == wanted and t.dtype in TYPES for t in tensors_of(each)):
                return (each,)
        return ()

    def _program(self, recipe: Recipe) -> Program:
        """The program of a region, or of one before it that is the same."""
        key = recipe.key()
        found = self._alike.get(key)
        return found or self._alike.setdefault(key, Program(recipe, self._knobs))


def _others(node: Node, view: Node, region: Sequence[Node]) -> bool:
    """Whether a node is read outside of its region otherwise than as a view of it."""
    return node is not view and bool(set(node.users).difference(region, (view,)))


def _whole(node: Node, view: Node) -> Step:
    """What gives a node of the reshape of it that a region gives."""
    return Step((node,), Tensor.view, (view, tuple(map(hint_of, node.meta["val"].shape))), {})


def _in_order(
    made: Sequence[tuple[int, Step]], order: dict[Node, int], pairs: Iterable[tuple[Node, Node]]
) -> list[Step]:
    """Steps so that each comes behind what it reads, and as they were otherwise.

    What has effects keeps its order among its like.

    Args:
        pairs: results of steps, of which the first comes before the second.
    """
    maker = {node: number for number, (_, step) in enumerate(made) for node in step.beside}
    maker |= {node: number for number, (_, step) in enumerate(made) for node in step.results}
    behind: dict[int, set[int]] = {number: set() for number in range(len(made))}
    waits: dict[int, int] = {}
    effects = [
        n for n, (_, step) in enumerate(made) if step.single and has_effects(step.results[0])
    ]
    effects.sort(key=lambda number: made[number][0])
    for before, after in pairwise(effects):
        behind[before].add(after)
    for first, second in pairs:
        if maker.get(first) == maker.get(second):  # a region that reads what it writes
            continue
        if first in maker and second in maker:  # else nobody reads what a reader gives
            behind[maker[first]].add(maker[second])
    for number, (_, step) in enumerate(made):
        for node in step.reads():
            if node in maker:
                behind[maker[node]].add(number)
    for afters in behind.values():
        for number in afters:
            waits[number] = waits.get(number, 0) + 1
    ready = [(place, number) for number, (place, _) in enumerate(made) if number not in waits]
    heapq.heapify(ready)
    found: list[Step] = []
    while ready:
        _, number = heapq.heappop(ready)
        found.append(made[number][1])
        for after in behind[number]:
            waits[after] -= 1
            if not waits[after]:
                heapq.heappush(ready, (made[after][0], after))
    assert len(found) == len(made), "regions read each other"
    return found
