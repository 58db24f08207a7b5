"""Products priced with what is behind them: as one kernel, and as a pair of kernels.

Tensor cores wait while a product's epilogue runs, so what it computes, and what its threads load,
adds to the time of the kernel; what the TMA unit loads ahead adds little. A kernel of its own reads
and writes memory once more, at the full rate of memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from warpsmith.ir.atoms import atom_for
from warpsmith.ir.exprs import Matmul, Pointwise
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.planner.epilogues import Epilogue, Offers, around, dimensions, is_cast_of
from warpsmith.planner.price import moved_us, product_us
from warpsmith.schedulers.matmul.memory import unfit_rows
from warpsmith.schedulers.matmul.model import epilogue_us
from warpsmith.schedulers.matmul.shape import concrete_order
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.atoms import Atom
from warpsmith.targets.target import Target


@dataclass(frozen=True, slots=True)
class Pair:
    """A product that tensor cores may take, and what its epilogue would be.

    Attributes:
        product: number of the product's result.
        atom: what computes it.
        extents: of the product: batches, m, n and k.
        operations: pointwise ones behind the product, casts of it left out.
        loaded: what the epilogue loads for each element, besides what rows or columns share.
        passed: bytes of an element of the product where it is stored for another kernel.
        stored: bytes that are written for each element in the end.
    """

    product: int
    atom: Atom
    extents: tuple[Expr, ...]
    operations: int
    loaded: tuple[TensorView, ...]
    passed: int
    stored: int

    def one_us(self, problem: Problem) -> float:
        """Microseconds of one kernel for all."""
        sizes, elements = self._sizes(problem)
        ahead = _bytes(tensor for tensor in self.loaded if _is_ahead(tensor, problem))
        by_threads = _bytes(self.loaded) - ahead
        epilogue = epilogue_us(elements, self.operations, ahead, by_threads, problem.target)
        return product_us(sizes, problem.target.rates, self.atom) + epilogue

    def two_us(self, problem: Problem) -> float:
        """Microseconds of the product, and of a kernel that reads it."""
        sizes, elements = self._sizes(problem)
        moved = elements * (self.passed + _bytes(self.loaded) + self.stored)
        rates = problem.target.rates
        return product_us(sizes, rates, self.atom) + moved_us(moved, rates)

    def _sizes(self, problem: Problem) -> tuple[list[int], int]:
        sizes = [problem.size(extent) for extent in self.extents]
        elements = 1
        for size in sizes[:-1]:
            elements *= size
        return sizes, elements


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
            passed = offers.forms.get(result, result)
            found.append(
                Pair(
                    result,
                    atom,
                    tuple(axis.extent for axis in operation.output.root),
                    sum(isinstance(graph.operations[p], Pointwise) for p in behind),
                    _loaded(offers, Epilogue(positions, sinks, operands)),
                    graph.tensors[passed].dtype.size,
                    _bytes(graph.tensors[offers.forms.get(sink, sink)] for sink in sinks),
                )
            )
    return tuple(found)


def apart(pairs: Iterable[Pair], problem: Problem) -> frozenset[int]:
    """Numbers of the products whose epilogue takes less time in a kernel of its own."""
    return frozenset(p.product for p in pairs if p.two_us(problem) < p.one_us(problem))


def _loaded(offers: Offers, epilogue: Epilogue) -> tuple[TensorView, ...]:
    """What an epilogue reads for each element beside the product's operands."""
    graph = offers.graph
    product, *_ = epilogue.positions
    inside = graph.slice(epilogue.sinks, around(graph, epilogue, offers.crossing))
    own = set(graph.sources(product))
    size = dimensions(graph.operations[product].outputs[0])
    read = [graph.tensors[offers.forms.get(t, t)] for t in graph.reads(inside) if t not in own]
    return tuple(tensor for tensor in read if dimensions(tensor) == size)


def _is_ahead(tensor: TensorView, problem: Problem) -> bool:
    """Whether the TMA unit can bring its rows while tensor cores multiply."""
    order = concrete_order(tensor)
    return order == sorted(order) and not unfit_rows(tensor, problem)


def _bytes(tensors: Iterable[TensorView]) -> int:
    return sum(tensor.dtype.size for tensor in tensors)
