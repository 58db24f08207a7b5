"""Operands of products that the product's kernel computes itself, and what that costs.

Each of its tiles computes its part of the operand again, where a kernel before it would write the
operand once, and read more or fewer bytes for it. Few rows of the other operand make few tiles.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from warpsmith.ir.exprs import Full, Iota, Matmul, Move, Pointwise
from warpsmith.ir.graph import Graph
from warpsmith.planner.crossing import MOST_REPEATED
from warpsmith.planner.works import work_alone
from warpsmith.schedulers.caching import repeats
from warpsmith.schedulers.matmul.heuristic import Work
from warpsmith.schedulers.matmul.memory import unfit_rows
from warpsmith.schedulers.matmul.prologues import is_packed_across, taken
from warpsmith.schedulers.matmul.shape import is_turned, sources_of
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.traffic import moved_us
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Prologue:
    """A computed operand, with the operations on its elements that lead to it.

    Attributes:
        operand: its number.
        place: 0 or 1, of the product's operands.
        positions: of the operations.
        stored: numbers of smaller tensors in memory, which others make, of which it is computed.
        read: numbers of the program's inputs as large as it, of which it is computed.
        repeats: whether elements of what is stored are repeated, which are read from memory alone.
    """

    operand: int
    place: int
    positions: tuple[int, ...]
    stored: frozenset[int]
    read: tuple[int, ...]
    repeats: bool = False


def prologue_of(graph: Graph, product: Matmul, place: int) -> Prologue | None:
    """The prologue of operand 0 or 1; None for one that is stored anyway, or a copy, for products
    by group, and where something as large is made by others than operations on its elements.
    """
    operand = (product.a, product.b)[place]
    number, size = operand.number, len(operand.concrete_order())
    kept = number in graph.results or len(graph.readers.get(number, ())) != 1
    others = product.a is product.b or product.ends is not None
    if kept or others or number not in graph.maker:
        return None
    positions: set[int] = set()
    stored: set[int] = set()
    repeated: set[int] = set()
    pending, seen, computed = [number], {number}, 0
    while pending:
        tensor = pending.pop()
        position = graph.maker.get(tensor)
        if position is None:
            continue
        operation = graph.operations[position]
        if isinstance(operation, Pointwise | Move | Full | Iota):
            positions.add(position)
            computed += isinstance(operation, Pointwise) and operation.op != "set"
            if computed > MOST_REPEATED:
                return None
            if repeats(operation):  # elements that it can only read from memory
                repeated |= {source for source in graph.sources(position) if source in graph.maker}
                continue
            for source in graph.sources(position):
                if source not in seen:
                    seen.add(source)
                    pending.append(source)
        elif len(graph.tensors[tensor].concrete_order()) == size:
            return None
        else:
            stored.add(tensor)
    read = tuple(source.number for source in sources_of(operand))
    if not computed or not read or is_packed_across(product, place):
        return None
    stored |= repeated
    order = tuple(sorted(positions))
    return Prologue(number, place, order, frozenset(stored), read, bool(repeated))


def saved_us(graph: Graph, product: Matmul, prologue: Prologue, problem: Problem) -> float:
    """Microseconds that a kernel before the product takes and, where memory bounds it, the product
    that reads more, over what it takes to compute tiles; below 0 where all takes longer.
    """
    operand, target = graph.tensors[prologue.operand], problem.target
    written = problem.elements(operand) * operand.dtype.size
    read = sum(problem.bytes_of(graph.tensors[number]) for number in prologue.read)
    if prologue.stored and not prologue.repeats:  # what makes these could write the operand, too
        before = moved_us(written, target) - target.rates.launch_us
    else:
        before = moved_us(written + read, target)
    leading = [graph.operations[position] for position in prologue.positions]
    inside = taken(operand, leading)
    turned = (is_turned(product, 0), is_turned(product, 1))
    free = (turned[0] and prologue.place != 0, turned[1] and prologue.place != 1)
    stored = [work_alone(product, problem, swapped=each, turned=free) for each in (False, True)]
    computing = work_alone(product, problem, swapped=prologue.place == 1, turned=turned)
    computed = [replace(computing, prologue=inside)]  # whose tiles are the first operand's
    return before + _product_us(stored, problem) - _product_us(computed, problem)


def _product_us(works: list[Work], problem: Problem) -> float:
    """Microseconds of the fastest way, found once a call: layers of a model ask the same; infinite
    where no tile has room.
    """
    asked = "us", tuple(works), problem.target, problem.chained
    found: float | None = problem.found.get(asked)
    if found is None:
        each = (us for work in works for _, us in work.best(problem))
        found = problem.found[asked] = min(each, default=inf)
    return found


def computed_operands(graph: Graph, product: Matmul, problem: Problem) -> frozenset[int]:
    """The number of the operand that the kernel of a product on tensor cores is to compute itself,
    if that is faster for one, which the TMA unit can load: only one can be in registers.
    """
    found = (prologue_of(graph, product, place) for place in (0, 1))
    saved = {
        prologue.operand: saved_us(graph, product, prologue, problem)
        for prologue in found
        if prologue is not None
        and not any(unfit_rows(graph.tensors[number], problem) for number in prologue.read)
    }
    best = max(saved, key=saved.__getitem__, default=None)
    return frozenset() if best is None or saved[best] <= 0 else frozenset((best,))
