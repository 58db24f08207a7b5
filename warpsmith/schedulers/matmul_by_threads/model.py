"""How long a product takes that threads or single warps multiply, roughly."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from warpsmith.ir.atoms import atoms_for
from warpsmith.ir.exprs import Matmul
from warpsmith.schedulers.matmul.model import START_US
from warpsmith.schedulers.matmul.shape import shape_of
from warpsmith.schedulers.matmul_by_threads.heuristic import FEW
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.traffic import MEMORY_SHARE
from warpsmith.targets.atoms import FLOAT_RATE, Atom, Unit
from warpsmith.targets.target import Target

SHARE = 0.299
"""Of the rate of an instruction, what products reach: measured of floats by threads (one H200,
2026-11), and assumed of `mma.sync`, which nobody has timed."""

TILE = 64
"""Rows and columns that warps multiply in any case."""


def sizes_of(product: Matmul, problem: Problem) -> tuple[int, int, int, int]:
    """Batches, rows, columns, and elements that are summed for each result."""
    sizes = [problem.size(axis.extent) for axis in product.output.root]
    shape = shape_of(product)
    walked = (shape.batches, shape.rows, shape.columns)
    batches, m, n = (prod(sizes[place] for place in places) for places in walked)
    return batches, m, n, sizes[-1]


def predicted_us(sizes: Sequence[int], target: Target, atom: Atom, moved: int = 0) -> float:
    """Microseconds of a product of sizes (batches, m, n, k) by one kind of instruction, whose
    operands have so many bytes.
    """
    batches, m, n, k = sizes
    if atom.unit is not Unit.FMA:
        m, n = (-(-extent // TILE) * TILE for extent in (m, n))
    reached = SHARE * target.rates.fma * atom.rate / FLOAT_RATE
    memory = moved / (MEMORY_SHARE * target.rates.memory)
    return START_US + max(2 * batches * m * n * k / reached, memory)


def product_us(product: Matmul, problem: Problem) -> float:
    """Microseconds of a product by the instruction that this scheduler takes for it."""
    sizes = sizes_of(product, problem)
    atoms = [a for a in atoms_for(product, problem.target.family.atoms) if a.unit is not Unit.WGMMA]
    few = min(sizes[1:3]) <= FEW
    atom = next(a for a in atoms if a.unit is Unit.FMA or not few)
    moved = sum(map(problem.bytes_of, product.operands))
    return predicted_us(sizes, problem.target, atom, moved)
