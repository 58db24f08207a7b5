"""Cut a fusion into segments that one scheduler each can take.

What a reduction gives to operations that need the reduced dimension again (the mean that is
subtracted from every element) goes through global memory; everything that depends on no reduction
is computed again by each segment that needs it, since that costs no more than reading its inputs.
Operands of matrix products go through memory unless they are inputs, with the dimension that is
summed the fastest, since tensor cores are fed best so. What a product gives is computed once where
some scheduler writes it, and goes through memory where what reads it cannot be computed with it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

from warpsmith.errors import SchedulerRefusal
from warpsmith.ir.exprs import Matmul, Move, Operation, Reduction, Welford, tensor_inputs
from warpsmith.ir.fusion import Fusion, Output
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.inner_outer.columns import cut_columns, needing, whole_sums
from warpsmith.schedulers.select import Refusals, refusals


@dataclass(frozen=True)
class Segment:
    """One kernel's share: a fusion whose inputs and outputs carry the whole's tensor names."""

    fusion: Fusion
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    without: Refusals = ()

    @cached_property
    def refusals(self) -> Refusals:
        """What each scheduler says of it; it is cut until one takes it."""
        return refusals(self.fusion, self.without)

    @property
    def can_be_scheduled(self) -> bool:
        return any(not reason for _, reason in self.refusals)


def segment(fusion: Fusion, without: Refusals = ()) -> tuple[Segment, ...]:
    """Segments in an order in which they can run.

    Args:
        without: schedulers that are not to take any, each with the reason.

    Raises:
        SchedulerRefusal: an operation that no scheduler can take even alone.
    """
    fusion.check_not_empty()
    whole = _extract(fusion, [o.value for o in fusion.outputs], frozenset(), without)
    if whole.can_be_scheduled:
        return (whole,)
    live = whole.fusion
    halves = _rows_then_columns(live, without)
    if halves:
        return halves
    _lay_out_operands(live)
    cuts = _first_cuts(live, without)
    while True:
        cuts = _enough_cuts(live, cuts, without)
        groups = _merge_sinks(live, _sinks(live, cuts), cuts, without)
        repeated = _repeated_products(live, groups, cuts, without)
        if not repeated:
            return tuple(_extract(live, group, cuts, without) for group in groups)
        cuts |= repeated


def _rows_then_columns(fusion: Fusion, without: Refusals) -> tuple[Segment, ...]:
    """One segment for rows, which leaves a sum of each block's columns, and those for the rest.

    Nothing where the fusion is not of that kind, or its scheduler is not to take any.
    """
    if any(name == "inner_outer" for name, _ in without):
        return ()
    columns, reason = whole_sums(fusion)
    if reason:
        return ()
    live, known = copy.deepcopy((fusion, columns))
    parts = cut_columns(live, known)
    cuts = frozenset(map(id, parts))
    after = needing(live, known)
    behind = {id(output) for operation in after for output in operation.outputs}
    sinks = _sinks(live, frozenset())
    rows = [*parts, *(t for t in sinks if id(t) not in behind)]
    first = _extract(live, rows, cuts, without)
    if not first.can_be_scheduled:
        return ()
    rest = _extract(live, [t for t in sinks if id(t) in behind], cuts, without)
    return (first, *segment(rest.fusion, without))


def _first_cuts(fusion: Fusion, without: Refusals) -> frozenset[int]:
    """Operands of products, and of what no scheduler computes whole, what a row's reductions give
    to operations on the row.
    """
    operands, between = _cuts(fusion)
    cuts = operands
    while True:
        found = cuts | {
            id(output)
            for sink in _sinks(fusion, cuts)
            if not _extract(fusion, [sink], cuts, without).can_be_scheduled
            for operation in _slice(fusion, [sink], cuts)
            for output in operation.outputs
            if id(output) in between
        }
        if found == cuts:
            return cuts
        cuts = found


def _enough_cuts(fusion: Fusion, cuts: frozenset[int], without: Refusals) -> frozenset[int]:
    """Cuts, these among them, that leave only what some scheduler can compute.

    Where reductions of different dimensions meet, their results go through memory as well, and so
    do those of products beside what no scheduler computes with them.
    """
    while True:
        found = frozenset(
            id(output)
            for sink in _sinks(fusion, cuts)
            if not _extract(fusion, [sink], cuts, without).can_be_scheduled
            for operation in _slice(fusion, [sink], cuts)
            if _sums(operation)
            for output in operation.outputs
        )
        if found <= cuts:
            return cuts
        cuts |= found


def _repeated_products(
    fusion: Fusion,
    groups: list[list[TensorView]],
    cuts: frozenset[int],
    without: Refusals,
) -> frozenset[int]:
    """Results of the products that several groups would compute, and some scheduler can write."""
    seen: set[int] = set()
    repeated: dict[int, TensorView] = {}
    for group in groups:
        made = [op.output for op in _slice(fusion, group, cuts) if isinstance(op, Matmul)]
        repeated.update((id(tensor), tensor) for tensor in made if id(tensor) in seen)
        seen.update(map(id, made))
    return frozenset(
        number
        for number, tensor in repeated.items()
        if _extract(fusion, [tensor], cuts, without).can_be_scheduled
    )


def _lay_out_operands(fusion: Fusion) -> None:
    """Give operands of products that are computed the memory order that products read best."""
    for operation in fusion.operations:
        if not isinstance(operation, Matmul):
            continue
        summed = len(operation.output.root) - 1
        for operand, axes in zip((operation.a, operation.b), operation.axes, strict=True):
            fastest = axes.index(summed)
            free = operand.stride_order is None and not operand.is_output
            if operand.definition is None or not free or fastest == operand.rank - 1:
                continue
            slower = [d for d in range(operand.rank) if d != fastest]
            order = (*slower, fastest)
            operand.stride_order = tuple(
                operand.rank - 1 - order.index(d) for d in range(len(order))
            )


def _cuts(fusion: Fusion) -> tuple[frozenset[int], frozenset[int]]:
    """Operands of products, and reduced results that are widened or reduced again."""
    reduced: dict[int, bool] = {}
    operands: set[int] = set()
    between: set[int] = set()
    for operation in fusion.operations:
        sources = tensor_inputs(operation)
        depends = any(reduced.get(id(t), False) for t in sources)
        if isinstance(operation, Matmul):
            operands.update(id(t) for t in sources if t.definition is not None)
        if depends and (_sums(operation) or _widens(operation)):
            between.update(id(t) for t in sources if reduced.get(id(t), False))
            depends = False
        for output in operation.outputs:
            reduced[id(output)] = depends or _sums(operation)
    return frozenset(operands), frozenset(between)


def _sums(operation: Operation) -> bool:
    return isinstance(operation, Reduction | Welford | Matmul)


def _widens(operation: Operation) -> bool:
    return isinstance(operation, Move) and (
        None in operation.origin or operation.kind in ("expand", "reshape")
    )


def _sinks(fusion: Fusion, cuts: frozenset[int]) -> list[TensorView]:
    """Tensors that must be written: outputs and cuts, in definition order."""
    outputs = {id(o.value) for o in fusion.outputs}
    return [
        t
        for operation in fusion.operations
        for t in operation.outputs
        if id(t) in outputs or id(t) in cuts
    ]


def _merge_sinks(
    fusion: Fusion,
    sinks: list[TensorView],
    cuts: frozenset[int],
    without: Refusals,
) -> list[list[TensorView]]:
    """Join sinks into one segment where a scheduler takes them together and none needs another.

    A sink may join a group if nothing that it reads is made by that group or a later one.
    """
    groups: list[list[TensorView]] = []
    for sink in sinks:
        needed = _needed(fusion, [sink], cuts)
        home = None
        for group in reversed(groups):
            if needed & {id(t) for t in group}:
                break
            if _extract(fusion, [*group, sink], cuts, without).can_be_scheduled:
                home = group
        if home is None:
            _check(fusion, sink, cuts, without)
            groups.append([sink])
        else:
            home.append(sink)
    return groups


def _check(fusion: Fusion, sink: TensorView, cuts: frozenset[int], without: Refusals) -> None:
    alone = _extract(fusion, [sink], cuts, without)
    if not alone.can_be_scheduled:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in alone.refusals)
        raise SchedulerRefusal(
            f"no scheduler can compute {sink.name} ({reasons})",
            remedy="split the program into several fusions, or schedule it by hand",
            line=sink.line,
        )


def _needed(fusion: Fusion, sinks: list[TensorView], cuts: frozenset[int]) -> set[int]:
    """Cut tensors that the sinks read."""
    return {
        id(t)
        for operation in _slice(fusion, sinks, cuts)
        for t in tensor_inputs(operation)
        if id(t) in cuts and t not in sinks
    }


def _slice(fusion: Fusion, sinks: list[TensorView], cuts: frozenset[int]) -> tuple[Operation, ...]:
    """Operations that compute the sinks from the fusion's inputs and the cut tensors."""
    wanted = {id(t) for t in sinks}
    own = set(wanted)
    chosen: list[Operation] = []
    for operation in reversed(fusion.operations):
        if not any(id(out) in wanted for out in operation.outputs):
            continue
        chosen.append(operation)
        for source in tensor_inputs(operation):
            if id(source) not in cuts or id(source) in own:
                wanted.add(id(source))
    return tuple(reversed(chosen))


def _extract(
    fusion: Fusion, sinks: list[TensorView], cuts: frozenset[int], without: Refusals
) -> Segment:
    """A copy of the part of the fusion that computes the sinks."""
    chosen = _slice(fusion, sinks, cuts)
    made = {id(out) for operation in chosen for out in operation.outputs}
    read = {id(t): t for op in chosen for t in tensor_inputs(op) if id(t) not in made}
    memo: dict[int, object] = {}
    clone = copy.deepcopy(fusion, memo)

    def twin(tensor: TensorView) -> TensorView:
        found = memo[id(tensor)]
        assert isinstance(found, TensorView)
        return found

    kept = {id(memo[id(operation)]) for operation in chosen}
    clone.operations = [operation for operation in clone.operations if id(operation) in kept]
    clone.follows = any(tensor.definition is not None for tensor in read.values())
    inputs = [twin(t) for t in read.values()]
    for tensor in inputs:
        _make_input(tensor)
    clone.inputs = [*inputs, *clone.input_scalars]
    aliases = {id(o.value): o.alias_of for o in fusion.outputs}
    clone.outputs = []
    for sink in sinks:
        alias = aliases.get(id(sink))
        clone.outputs.append(Output(twin(sink), twin(alias) if alias is not None else None))
    outputs = tuple(twin(sink).name for sink in sinks)
    return Segment(clone, tuple(t.name for t in inputs), outputs, without)


def _make_input(tensor: TensorView) -> None:
    """A tensor that another segment writes is an input here: row-major, without reductions."""
    if tensor.definition is None:
        return
    tensor.definition = None
    tensor.logical = tensor.root = tensor.shape_axes
    tensor.loop = list(tensor.logical)
    tensor.transforms = []
