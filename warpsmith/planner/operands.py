"""How the operands of products lie in memory, and which are copied so that tensor cores take them.

Tensor cores are fed by the TMA unit: elements are neighbours along the summed dimension, or, of 16
bits, along the last row or column of a tile; and rows begin at multiples of 16 bytes. An operand
that lies otherwise is copied first, where that takes less time than a product by threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpsmith.ir.atoms import atom_for
from warpsmith.ir.exprs import Matmul, Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.memory_format import MemoryFormat
from warpsmith.ir.reads import stretch_of
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.promotion import fresh_axes
from warpsmith.planner.halves import halves_of
from warpsmith.planner.orders import inherited_orders
from warpsmith.planner.prologues import computed_operands
from warpsmith.planner.works import work_alone
from warpsmith.schedulers.matmul.applicability import majors
from warpsmith.schedulers.matmul.heuristic import best_way
from warpsmith.schedulers.matmul.memory import unfit_rows
from warpsmith.schedulers.matmul.shape import memory_of
from warpsmith.schedulers.matmul_by_threads.model import product_us
from warpsmith.schedulers.padding import padded as with_padding
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.traffic import moved_us
from warpsmith.targets.atoms import Atom
from warpsmith.values import dataclass

ROW_BYTES = 16
"""What rows of operands begin at multiples of."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Operands that do not go to tensor cores as they lie.

    Attributes:
        copies: (number of a product's result, 0 or 1 for the operand) that are copied first.
        padded: numbers of computed operands whose rows are padded where they are stored.
        computed: numbers of operands that their product's kernel computes itself.
        halves: numbers of the results of products that become two, of halves of the second operand.
    """

    copies: frozenset[tuple[int, int]] = frozenset()
    padded: frozenset[int] = frozenset()
    computed: frozenset[int] = frozenset()
    halves: frozenset[int] = frozenset()


NO_PACKING = Packing()


def operand_formats(
    graph: Graph, padded: frozenset[int], atoms: tuple[Atom, ...]
) -> dict[int, MemoryFormat]:
    """By number, how operands of products are stored that are computed, and what is padded."""
    orders = operand_orders(graph, atoms)
    found: dict[int, MemoryFormat] = {}
    for number in orders.keys() | padded:
        tensor = graph.tensors[number]
        order = orders.get(number, tensor.stride_order)
        flags = with_padding(tensor, order) if number in padded else tensor.contiguity
        found[number] = MemoryFormat(flags, order)
    return found


def operand_orders(graph: Graph, atoms: tuple[Atom, ...]) -> dict[int, tuple[int, ...]]:
    """By number, the `stride_order` of computed operands of products that are not row-major.

    One that all its products take as what it is computed of lies is stored so; of others one that
    they take row-major is; else a dimension that all take is the fastest, or the one that the first
    sums.
    """
    taken: dict[int, list[tuple[int, ...]]] = {}
    for position in graph.needed:
        operation = graph.operations[position]
        if not isinstance(operation, Matmul):
            continue
        for place, operand in enumerate(operation.operands):
            if _is_free(operand):
                dimensions = _fastest_of(operation, place, atom_for(operation, atoms))
                taken.setdefault(operand.number, []).append(dimensions)
    orders = inherited_orders(graph) if taken else {}
    found: dict[int, tuple[int, ...]] = {}
    for number, products in taken.items():
        first, *others = products
        shared = [d for d in first if all(d in dimensions for dimensions in others)]
        rank = graph.tensors[number].rank
        wanted = (*orders.get(number, ())[-1:], rank - 1, *shared)
        fastest = next((d for d in wanted if d in shared), first[0])
        if fastest != rank - 1:
            found[number] = with_fastest(rank, fastest)
    return found


def _fastest_of(product: Matmul, place: int, atom: Atom | None) -> tuple[int, ...]:
    """Dimensions of operand 0 or 1 along one of which its memory is to be contiguous: first the
    summed one, then the other that tensor cores take, if they do, and that threads read in vectors.
    """
    axes = product.axes[place]
    return tuple(axes.index(axis) for axis in majors(product, place, atom))


def packing(graph: Graph, problem: Problem) -> Packing:
    """The operands that are to be copied, or padded, for a call."""
    atoms = problem.target.family.atoms
    orders = operand_orders(graph, atoms)
    copies: set[tuple[int, int]] = set()
    padded: set[int] = set()
    computed: set[int] = set()
    for position in graph.needed:
        operation = graph.operations[position]
        if not isinstance(operation, Matmul):
            continue
        atom = atom_for(operation, atoms)
        if atom is None:
            continue
        inside = computed_operands(graph, operation, problem)
        computed |= inside
        own: list[int] = []
        pads: list[int] = []
        for place, operand in enumerate(operation.operands):
            if operand.number in inside:
                continue
            order = orders.get(operand.number, tuple(range(operand.rank))[::-1])
            fastest = order.index(0)
            row = problem.size(operand.shape_axes[fastest].extent) * operand.dtype.size
            if not _is_free(operand):
                if not _fits(operation, place, atom, problem):
                    own.append(place)
            elif fastest not in _fastest_of(operation, place, atom):
                own.append(place)
            elif row % ROW_BYTES:
                pads.append(operand.number)
        if (own or pads) and _pays(operation, own, problem):
            copies |= {(operation.output.number, place) for place in own}
            padded |= set(pads)
    busy = {number for number, _ in copies}
    halves = frozenset(half for half in halves_of(graph, problem) if half not in busy)
    return Packing(frozenset(copies), frozenset(padded), frozenset(computed), halves)


def copy_operands(fusion: Fusion, chosen: Packing) -> frozenset[int]:
    """Put copies before products, in place; returns the numbers of all tensors that are padded."""
    padded = set(chosen.padded)
    for operation in [op for op in fusion.operations if isinstance(op, Matmul)]:
        operands = list(_operands(operation))
        read = [operand for operand, _ in operands]
        for place, (operand, fastest) in enumerate(operands):
            if (operation.output.number, place) in chosen.copies:
                order = with_fastest(operand.rank, fastest)
                copied = fusion.tensor(operand.dtype, fresh_axes(operand), stride_order=order)
                fusion.insert_before(operation, Pointwise("set", (operand,), copied))
                padded.add(copied.number)
                read[place] = copied
        if read != [operand for operand, _ in operands]:
            fusion.replace(operation, replace(operation, a=read[0], b=read[1]))
    return frozenset(padded)


def with_fastest(rank: int, fastest: int) -> tuple[int, ...]:
    """The row-major `stride_order` of so many dimensions, but for one that is the fastest."""
    order = (*(d for d in range(rank) if d != fastest), fastest)
    return tuple(rank - 1 - order.index(d) for d in range(rank))


def _operands(product: Matmul) -> Iterator[tuple[TensorView, int]]:
    """Both operands, each with the dimension that is summed."""
    summed = len(product.output.root) - 1
    for operand, axes in zip((product.a, product.b), product.axes, strict=True):
        yield operand, axes.index(summed)


def _is_free(operand: TensorView) -> bool:
    """Whether the plan decides how the operand lies in memory."""
    computed = operand.definition is not None and not operand.is_output
    computed = computed and stretch_of(operand) is None
    return computed and operand.stride_order is None


def _fits(product: Matmul, place: int, atom: Atom, problem: Problem) -> bool:
    """Whether the TMA unit and tensor cores take operand 0 or 1 as it lies in memory."""
    operand = memory_of((product.a, product.b)[place])
    order = operand.concrete_order()
    if not order or product.axes[place][order[-1]] not in majors(product, place, atom):
        return False
    return operand.contiguity[order[-1]] is not False and not unfit_rows(operand, problem)


def _pays(product: Matmul, copied: list[int], problem: Problem) -> bool:
    """Whether copies and a product on tensor cores take less time than one by threads."""
    copies = 0.0
    for place in copied:
        operand = (product.a, product.b)[place]
        elements = problem.elements(operand)
        copies += moved_us(2 * elements * operand.dtype.size, problem.target)
    work = work_alone(product, problem)
    return copies + best_way([work], problem)[1] < product_us(product, problem)
