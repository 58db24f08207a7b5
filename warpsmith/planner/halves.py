"""Products of which two stretches of columns meet, as those of a gated unit with one weight do.

Each becomes the product of that stretch of the weight, which is read where it lies, and what was
computed of the whole product is computed of both. So they are two products of one left operand
(`gates.py`): one kernel, that stores neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.atoms import atom_for
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Matmul, Move, Pointwise, with_values
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.reads import Read, at, start_and_step
from warpsmith.ir.substitution import substitute
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.liveness import remove_dead
from warpsmith.planner.forms import add_narrow_forms
from warpsmith.planner.works import work_alone
from warpsmith.schedulers.matmul.heuristic import best_way
from warpsmith.schedulers.matmul.memory import TMA_BYTES, unfit_rows
from warpsmith.schedulers.matmul.operations import counted
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.read_through import read_through
from warpsmith.schedulers.traffic import moved_us

MOST_REPEATED = 8
"""Operations between a product and its stretches, which are computed of each."""


RESULT_BYTES = 2
"""Of an element of what the kernels of a product and of a gate pass on."""


def halves_of(graph: Graph, problem: Problem) -> Iterator[int]:
    """Numbers of the results of such products that take less time as two, in one kernel with what
    follows both, than as one whose result another kernel reads.
    """
    for product in (op for op in graph.operations if isinstance(op, Matmul)):
        atom, (reads, _) = atom_for(product, problem.target.family.atoms), _split(graph, product)
        if atom is None or not reads or not _fits(product, reads, problem):
            continue
        *_, last = reads[0].output.root
        half, behind = problem.size(last.extent), counted(_behind(graph, reads[0].output))
        whole, swapped = (work_alone(product, problem, swapped=each) for each in (False, True))
        gated = replace(whole, n=half, few=0, products=2, operations=behind)
        ways = [whole, swapped] if swapped.few else [whole]
        moved = moved_us(whole.batches * whole.m * (whole.n + half) * RESULT_BYTES, problem.target)
        (_, one), (_, two) = (best_way(w, problem) for w in ([gated], ways))
        if one < two + moved:
            yield product.output.number


def _fits(product: Matmul, reads: Sequence[Read], problem: Problem) -> bool:
    """Whether the TMA unit reads both parts of the weight, and what they are multiplied by."""
    size, weight = product.b.dtype.size, product.b
    fastest = product.axes[1][weight.concrete_order()[-1]]
    columns = len(product.output.root) - 2
    starts = (start_and_step(read.places[0][columns], columns) for read in reads)
    late = (problem.size(start) * size % TMA_BYTES for start, _ in filter(None, starts))
    if fastest == columns and any(late):
        return False
    memory = (tensor for tensor in product.operands if tensor.definition is None)
    return not any(unfit_rows(tensor, problem) for tensor in memory)


def split_halves(fusion: Fusion, chosen: Collection[int]) -> None:
    """Have products of these results be two, in place."""
    if not chosen:
        return
    graph = Graph.of(fusion)
    for product in [op for op in graph.operations if isinstance(op, Matmul)]:
        if product.output.number in chosen:
            reads, between = _split(graph, product)
            for read in reads:
                _Half(fusion, product, read, between).replace()
    remove_dead(fusion)
    read_through(fusion)
    add_narrow_forms(fusion)


def _split(graph: Graph, product: Matmul) -> tuple[tuple[Read, ...], frozenset[TensorView]]:
    """The two reads of such a product, and what is between; nothing for any other product."""
    reads, between = _stretches(graph, product)
    if len(reads) != 2 or product.ends is not None or not _is_split(graph, product, reads):
        return (), frozenset()
    return reads, between


def _stretches(graph: Graph, product: Matmul) -> tuple[tuple[Read, ...], frozenset[TensorView]]:
    """The reads of a product, and what is computed of its elements before; nothing where anything
    else than reads needs that.
    """
    reads: list[Read] = []
    between: set[TensorView] = set()
    pending = [product.output]
    while pending:
        tensor = pending.pop()
        between.add(tensor)
        if tensor.is_output or len(between) > MOST_REPEATED:
            return (), frozenset()
        for use in graph.uses(tensor):
            if isinstance(use, Read) and use.is_one:
                reads.append(use)
            elif isinstance(use, Pointwise) and use.output.rank == tensor.rank:
                if use.output not in between:
                    pending.append(use.output)
            else:
                return (), frozenset()
    return tuple(dict.fromkeys(reads)), frozenset(between)


def _is_split(graph: Graph, product: Matmul, reads: tuple[Read, ...]) -> bool:
    """Whether reads are stretches of columns alone, of which something is computed together, and
    the TMA unit reads those of the weight.
    """
    columns, (weight, axes) = len(product.output.root) - 2, (product.b, product.axes[1])
    order = weight.concrete_order()
    if columns not in axes or columns in product.axes[0] or weight.definition is not None:
        return False
    for read in reads:
        *others, place = read.places[0]
        walked = start_and_step(place, columns)
        if walked is None or any(other != at(d) for d, other in enumerate(others)):
            return False
        if walked[1] > 1 and axes[order[-1]] == columns:
            return False
    first, second = (set(_behind(graph, read.output)) for read in reads)
    return not first.isdisjoint(second)


def _behind(graph: Graph, tensor: TensorView) -> Iterator[Pointwise | Move]:
    """The operations on the elements of a tensor."""
    pending, seen = [tensor], {tensor}
    while pending:
        for use in graph.uses(pending.pop()):
            if isinstance(use, Pointwise | Move) and use.output not in seen:
                seen.add(use.output)
                pending.append(use.output)
                yield use


class _Half:
    """What a stretch of columns of a product is computed of, in front of what reads it."""

    def __init__(
        self, fusion: Fusion, product: Matmul, read: Read, between: frozenset[TensorView]
    ) -> None:
        self._fusion, self._product, self._read, self._between = fusion, product, read, between
        self._made: dict[TensorView, TensorView] = {}

    def replace(self) -> None:
        """Have the stretch be computed, and not read."""
        value = self._of(self._read.sources[0])
        self._fusion.replace(self._read, Pointwise("set", (value,), self._read.output))

    def _of(self, tensor: TensorView) -> TensorView:
        if tensor not in self._made:
            self._made[tensor] = self._computed(tensor)
        return self._made[tensor]

    def _computed(self, tensor: TensorView) -> TensorView:
        made = tensor.definition
        if tensor not in self._between:
            return self._stretch(tensor, len(tensor.shape_axes) - 1, len(tensor.shape_axes) - 1)
        if made is self._product:
            return self._multiplied()
        assert isinstance(made, Pointwise)
        inputs = [self._of(v) if isinstance(v, TensorView) else v for v in made.inputs]
        output = self._fresh(tensor, [a.clone() for a in self._read.output.root])
        self._fusion.insert_before(self._read, with_values(made, inputs, [output]))
        return output

    def _multiplied(self) -> TensorView:
        """The product of the stretch of the weight."""
        product = self._product
        columns = len(product.output.root) - 2
        weight = self._stretch(product.b, product.axes[1].index(columns), columns)
        axes = [a.clone() for a in (*self._read.output.root, product.output.root[-1])]
        output = self._fresh(product.output, axes)
        half = replace(product, b=weight, output=output)
        self._fusion.insert_before(self._read, half)
        return output

    def _stretch(self, tensor: TensorView, dimension: int, columns: int) -> TensorView:
        """That of a tensor along one of its dimensions, which the columns are; all of it where all
        columns share it.
        """
        if tensor.shape_axes[dimension].is_broadcast:
            return tensor
        place = substitute(self._read.places[0][columns], {at(columns): at(dimension)})
        extent = self._read.output.root[columns].extent
        places = tuple(
            place if d == dimension else integers.ZERO if axis.is_broadcast else at(d)
            for d, axis in enumerate(tensor.shape_axes)
        )
        axes = [IterDomain(axis.extent, axis.kind) for axis in tensor.shape_axes]
        axes[dimension] = IterDomain(extent, axes[dimension].kind)
        output = self._fresh(tensor, axes)
        insides = (integers.TRUE,)
        read = Read("slice", (tensor,), (), None, (places,), insides, output, self._read.arguments)
        self._fusion.insert_before(self._read, read)
        return output

    def _fresh(self, like: TensorView, axes: list[IterDomain]) -> TensorView:
        output = self._fusion.tensor(like.dtype, tuple(axes))
        output.narrow = like.narrow
        return output
