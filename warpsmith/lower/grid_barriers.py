"""Which reductions over the grid every block needs the results of, so that the blocks meet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from warpsmith.errors import ScheduleError
from warpsmith.ir.domains import IterDomain, ParallelType
from warpsmith.ir.exprs import Reduction, tensor_inputs
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.reductions import blocks_meet


def needed_by_all(
    operations: Iterable[Operation], unused: Mapping[TensorView, Collection[IterDomain]]
) -> frozenset[TensorView]:
    """Results of reductions over the grid from which something is computed in the very loops that
    they reduce: each block needs them for its own iterations. Else the block that comes last has
    them alone.

    Args:
        unused: per tensor, its loops that none of its dimensions depends on.
    """
    reduced: dict[TensorView, dict[Operation, frozenset[ParallelType]]] = {}
    found: set[TensorView] = set()
    for operation in operations:
        output = operation.outputs[0]
        known: dict[Operation, frozenset[ParallelType]] = {}
        for source in tensor_inputs(operation):
            known |= reduced.get(source, {})
        loops = (axis for axis in output.loop if axis not in unused[output])
        own = {axis.parallel for axis in loops if not axis.is_reduction}
        for reduction, kinds in known.items():
            if not kinds.isdisjoint(own):
                found |= set(reduction.outputs)
        if isinstance(operation, Reduction):
            gone = (axis.parallel for axis in output.loop if axis.is_reduction)
            if over := frozenset(kind for kind in gone if kind.is_grid):
                known[operation] = over
        if known:
            reduced.update(dict.fromkeys(operation.outputs, known))
    return frozenset(found)


def check_no_grid_barrier(branches: tuple[Statement, ...]) -> None:
    """Refuse meetings of blocks in roles: all threads of a block take part in one."""
    if blocks_meet(branches):
        raise ScheduleError(
            "a role reduces over the grid what all blocks need again, in a kernel with roles",
            code="WS0266",
            remedy="keep that axis within a block, or use a second kernel",
        )
