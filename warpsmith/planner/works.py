"""What calls ask of single products, before anything is computed beside them."""

from __future__ import annotations

from warpsmith.ir.atoms import atom_for
from warpsmith.ir.exprs import Matmul
from warpsmith.schedulers.matmul.candidates import MOST_COLUMNS, STEP, few_columns
from warpsmith.schedulers.matmul.heuristic import Work
from warpsmith.schedulers.matmul_by_threads.model import sizes_of
from warpsmith.schedulers.problem import Problem


def work_alone(
    product: Matmul,
    problem: Problem,
    *,
    swapped: bool = False,
    turned: tuple[bool, bool] = (False, False),
) -> Work:
    """What a call asks of a product on tensor cores, or of it with its operands swapped.

    Args:
        turned: for each operand, as the product has them, whether it lies along m or n.
    """
    atom = atom_for(product, problem.target.family.atoms)
    assert atom is not None, f"no atom computes {product.output.name}, which was asked before"
    batches, m, n, k = sizes_of(product, problem)
    if swapped:
        m, n, turned = n, m, turned[::-1]
    return Work(
        m=m,
        n=n,
        k=k,
        swapped=swapped,
        few=few_columns(n, atom, turned=turned[1]),
        batches=batches,
        element=atom.size,
        odd=atom.takes(MOST_COLUMNS - STEP),
        turned=turned,
    )
