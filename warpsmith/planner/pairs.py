"""Products priced with what is behind them: as one kernel, and as a pair of kernels.

Tensor cores wait while a product's epilogue runs, unless groups take turns; what the TMA unit loads
ahead adds little, what threads load much. The matmul scheduler predicts both kernels. One of its
own for what is behind reads and writes memory once more, at the full rate of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from warpsmith.ir.atoms import atom_for
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.planner.epilogues import Epilogue, Offers, around, dimensions, is_cast_of
from warpsmith.schedulers.matmul.heuristic import Work, counted
from warpsmith.schedulers.matmul.memory import TMA_BYTES, Beside, unfit_rows
from warpsmith.schedulers.matmul.shape import concrete_order
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.traffic import moved_us
from warpsmith.targets.atoms import Atom
from warpsmith.targets.target import Target

WORTH = 1.05
"""So many times as fast two kernels are predicted to be where a product is cut off: predictions are
7 % off, and one kernel needs no memory between."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A product that tensor cores may take, and what its epilogue would be.

    Attributes:
        product: number of the product's result.
        atom: what computes it.
        extents: of the product: batches, m, n and k.
        operations: as of `Work`.
        loaded: what the epilogue loads for each element, besides what rows or columns share.
        passed: bytes of an element of the product where it is stored for another kernel.
        stored: bytes of an element of each tensor that is written in the end.
    """

    product: int
    atom: Atom
    extents: tuple[Expr, ...]
    operations: int
    loaded: tuple[TensorView, ...]
    passed: int
    stored: tuple[int, ...]

    def one(self, problem: Problem) -> Work:
        """All in one kernel."""
        ahead = _bytes(tensor for tensor in self.loaded if _is_ahead(tensor, problem))
        alone, by_threads = self.alone(problem), _bytes(self.loaded) - ahead
        results = _results(self.stored, alone.n)
        moved = replace(results, loaded=("",) * (ahead > 0), each=ahead, by_threads=by_threads)
        return replace(alone, operations=self.operations, moved=moved)

    def alone(self, problem: Problem) -> Work:
        """The product, which another kernel reads."""
        *outer, m, n, k = (1, *(problem.size(extent) for extent in self.extents))
        moved, element = _results([self.passed], n), self.atom.size
        return Work(m=m, n=n, k=k, batches=prod(outer), element=element, moved=moved)

    def behind_us(self, problem: Problem) -> float:
        """Microseconds of that kernel."""
        elements = prod(problem.size(extent) for extent in self.extents[:-1])
        moved = elements * (self.passed + _bytes(self.loaded) + sum(self.stored))
        return moved_us(moved, problem.target)


def pairs_of(offers: Offers, target: Target) -> tuple[Pair, ...]:
    """The products of a program that have more behind them than casts."""
    graph = offers.graph
    found: list[Pair] = []
    for product in offers.products:
        operation = graph.operations[product]
        assert isinstance(operation, Matmul)
        atom = atom_for(operation, target.family.atoms)
        if atom is None:
            continue
        positions, sinks = offers.largest(product)
        behind = [p for p in positions if p != product and not is_cast_of(graph, p, product)]
        if behind:
            result = operation.output.number
            operands = frozenset(t for t in graph.sources(product) if t in graph.maker)
            epilogue = Epilogue(positions, sinks, operands)
            inside = graph.slice(sinks, around(graph, epilogue, offers.crossing))
            passed = offers.forms.get(result, result)
            found.append(
                Pair(
                    result,
                    atom,
                    tuple(axis.extent for axis in operation.output.root),
                    counted(graph.operations[p] for p in inside),
                    _loaded(offers, product, inside),
                    graph.tensors[passed].dtype.size,
                    tuple(graph.tensors[offers.forms.get(t, t)].dtype.size for t in sinks),
                )
            )
    return tuple(found)


def apart(pairs: Iterable[Pair], problem: Problem) -> frozenset[int]:
    """Numbers of the products whose epilogue clearly takes less time in a kernel of its own."""
    predicted: dict[Work, float] = {}

    def us(work: Work) -> float:
        if work not in predicted:
            predicted[work] = work.ranked(problem)[0][1]
        return predicted[work]

    return frozenset(
        pair.product
        for pair in pairs
        if us(pair.alone(problem)) + pair.behind_us(problem) < us(pair.one(problem)) / WORTH
    )


def _loaded(offers: Offers, product: int, inside: Sequence[int]) -> tuple[TensorView, ...]:
    """What the operations of a kernel read for each element beside the product's operands."""
    graph = offers.graph
    own = set(graph.sources(product))
    size = dimensions(graph.operations[product].outputs[0])
    read = [graph.tensors[offers.forms.get(t, t)] for t in graph.reads(inside) if t not in own]
    return tuple(tensor for tensor in read if dimensions(tensor) == size)


def _is_ahead(tensor: TensorView, problem: Problem) -> bool:
    """Whether the TMA unit can bring its rows while tensor cores multiply."""
    order = concrete_order(tensor)
    return order == sorted(order) and not unfit_rows(tensor, problem)


def _results(sizes: Sequence[int], columns: int) -> Beside:
    """Results of so many bytes an element each, which the TMA unit stores where rows allow it."""
    if any(columns * size % TMA_BYTES for size in sizes):
        return Beside()
    return Beside(staged=("",), out=sum(sizes), widest=max(sizes))


def _bytes(tensors: Iterable[TensorView]) -> int:
    return sum(tensor.dtype.size for tensor in tensors)
