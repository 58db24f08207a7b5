"""Which stages compute what of a row: what stays in registers, and what is computed again.

The reductions that depend on one another cut the work on a row into **stages**: stage `s` has what
is computed once `s` reductions are done. What two stages use stays in registers from one to the
other, or each computes it from fewer bytes that stay there: a row of bfloat16 stays as it was
loaded, and each stage widens it for itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Pointwise, Reduction, replace_tensor, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Program
from warpsmith.ir.random_blocks import OF_BLOCK
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.table.transcendental import TRANSCENDENTAL
from warpsmith.schedulers.reduction.recompute import clone_of
from warpsmith.schedulers.rows.applicability import stages, walks_rows
from warpsmith.values import dataclass

COSTLY = frozenset(
    {op.name for op in TRANSCENDENTAL} | {"div", "truediv", "pow", "divide_full", *OF_BLOCK}
)
"""Operations of ten instructions and more."""

NOT_REPEATED = COSTLY | {"exp_near", "sigmoid_near", "silu_near"}
"""Those that are computed again only to save registers: these, and some that take few instructions,
but of a unit that is slow."""


@dataclass(frozen=True, slots=True)
class Run:
    """When a tensor is computed, and when it is used.

    Attributes:
        stages: those that compute it, in order; each after the first computes it again for itself.
        used: those that use it; none where it is only a result.
    """

    stages: tuple[int, ...]
    used: frozenset[int]


def runs_of(
    program: Program, *, again: bool, there: Collection[TensorView] = ()
) -> dict[TensorView, Run]:
    """When each computed tensor of a program with caches runs.

    What is cheaper to compute again than to keep, each stage that uses it computes for itself.
    Costly values count as cheap only if `again`, and tensors that are `there` in any case cost
    nothing. All else runs with the first stage that uses it.
    """
    rows, depths = walks_rows(program), stages(program)
    origins = _Origins(program, rows, again=again, there=there)
    uses: dict[TensorView, set[int]] = {}
    found: dict[TensorView, Run] = {}
    for operation in reversed(program.operations):
        output = operation.outputs[0]
        used = uses.get(output, set())
        if isinstance(operation, Reduction):
            first = depths[output] - 1
        else:
            first = min(used, default=depths[output])
        repeated = output in rows and len(used) > 1 and output not in origins.of(output)
        run = Run((first, *sorted(used)[1:]) if repeated else (first,), frozenset(used))
        found.update(dict.fromkeys(operation.outputs, run))
        for source in tensor_inputs(operation):
            uses.setdefault(source, set()).update(run.stages)
    return found


def recompute(fusion: Fusion, runs: Mapping[TensorView, Run], *, apart: bool = False) -> None:
    """Give stages their own copies of what several of them compute.

    `runs` may be those of a part of the fusion; what others read stays as it is. `apart`: copies
    that widen 16 bits do so by an instruction that ptxas does not know for the same, which would
    else keep what the first one made.
    """
    stage_of = {tensor: run.stages[0] for tensor, run in runs.items()}
    for operation in reversed(list(fusion.operations)):
        output = operation.outputs[0]
        later = runs[output].stages[1:] if output in runs else ()
        for time, stage in enumerate(later, 2):
            clone = clone_of(fusion, output, {s: s for s in tensor_inputs(operation)})
            stage_of[clone] = stage
            made = clone.definition
            if apart and isinstance(made, Pointwise) and _widens(made):
                inputs = (*made.inputs, Const(time, DataType.Int))
                fusion.replace(made, Pointwise("widen_again", inputs, clone))
            for use in fusion.uses(output):
                if stage_of.get(use.outputs[0]) == stage:
                    fusion.replace(use, replace_tensor(use, output, clone))


def _widens(operation: Pointwise) -> bool:
    """Whether it makes floats of 16 bits."""
    (source, *_), wide = operation.inputs, operation.output.dtype is DataType.Float
    return operation.op == "cast" and wide and source.dtype in (DataType.BFloat16, DataType.Half)


class _Origins:
    """From what each tensor is computed again with the fewest bytes of registers."""

    def __init__(
        self,
        program: Program,
        rows: Collection[TensorView],
        *,
        again: bool,
        there: Collection[TensorView],
    ) -> None:
        self._rows = rows
        self._again = again
        self._there = frozenset(there)
        self._inputs = frozenset(program.input_tensors)
        self._known: dict[TensorView, frozenset[TensorView]] = {}

    def of(self, tensor: TensorView) -> frozenset[TensorView]:
        """Tensors that walk rows: itself alone where nothing before it is smaller."""
        if tensor not in self._known:
            self._known[tensor] = self._find(tensor)
        return self._known[tensor]

    def _find(self, tensor: TensorView) -> frozenset[TensorView]:
        itself = frozenset((tensor,))
        if tensor not in self._rows:
            return frozenset()
        definition = tensor.definition
        if isinstance(definition, Reduction):  # of a part of a row
            return itself
        if isinstance(definition, Pointwise) and definition.op in NOT_REPEATED and not self._again:
            return itself
        sources = () if definition is None else tensor_inputs(definition)
        if not self._inputs.isdisjoint(sources):
            return itself
        before = frozenset[TensorView]().union(*map(self.of, sources))
        kept = sum(each.dtype.size for each in before - self._there)
        beside = not self._there.isdisjoint(before)
        smaller = kept < tensor.dtype.size or (beside and kept == tensor.dtype.size)
        return before if smaller else itself
