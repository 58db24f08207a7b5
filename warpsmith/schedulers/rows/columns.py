"""Sums of columns beside what is computed of rows: which they are, and how they are cut.

The blocks of a launch loop over the rows, and each sums the columns of its own rows as it comes by
them. The partial sums are a tensor of their own, a row for each block, whose columns another kernel
sums. So no value of full size is read for the columns alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from warpsmith.ir.exprs import Reduction, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.program import Program, View
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.transforms import merge, reorder, split
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.pointwise.applicability import cached_map
from warpsmith.schedulers.reduction import applicability as reduction_can
from warpsmith.schedulers.reduction.applicability import pattern, reductions
from warpsmith.schedulers.rows import applicability as rows_can

BLOCKS = "row_blocks"
"""How names of the symbols begin: blocks that loop over the rows, thus rows of partial sums."""


def refusal(fusion: Program) -> str:
    """Why rows beside sums of columns are not what a fusion computes; empty when they are.

    Such is what `segment` made of a fusion that reduces rows and columns: sums of columns that
    leave a result for each block.
    """
    columns = partial_sums(fusion)
    if not columns:
        _, reason = whole_sums(fusion)
        return reason or "its sums of columns are not cut into those of each block"
    return rows_can.whole_rows_refusal(rows_alone(fusion, columns))


def partial_sums(fusion: Program) -> tuple[TensorView, ...]:
    """Reductions of columns that leave a result for each block."""
    return tuple(
        tensor
        for tensor in reductions(fusion)
        if isinstance(tensor.definition, Reduction) and _leaves_blocks(tensor)
    )


def _leaves_blocks(tensor: TensorView) -> bool:
    last = tensor.logical[-1].extent if tensor.logical else None
    blocks = isinstance(last, Symbol) and last.name.startswith(BLOCKS)
    return blocks and not tensor.logical[-1].is_reduction


def blocks_of(fusion: Program) -> Symbol:
    """The blocks that loop over the rows of a fusion with partial sums."""
    (tensor, *_) = partial_sums(fusion)
    blocks = tensor.logical[-1].extent
    assert isinstance(blocks, Symbol)
    return blocks


def whole_sums(fusion: Program) -> tuple[tuple[TensorView, ...], str]:
    """Reductions of columns beside rows, or none and why the fusion is not one of both."""
    reduced = reductions(fusion)
    domains = cached_map(fusion)
    patterns = {tensor: pattern(domains, tensor) for tensor in reduced}
    distinct = list(dict.fromkeys(patterns.values()))
    if len(distinct) != 2 or distinct[0] != distinct[1][::-1]:
        return (), "it does not reduce the rows and the columns of the same values"
    reason = ""
    for columns in distinct:
        chosen = tuple(t for t in reduced if patterns[t] == columns)
        reason = _refusal(fusion, domains, chosen)
        if not reason:
            return chosen, ""
    return (), reason


def _refusal(fusion: Program, domains: DomainMap, columns: Sequence[TensorView]) -> str:
    """Why the reductions are no sums of columns that can be cut; empty when they are."""
    _, gone = pattern(domains, columns[0])
    for tensor in columns:
        if tensor.definition is not None and len(tensor.definition.outputs) > 1:
            return f"{tensor.name} is part of a state of columns, which is not summed in parts"
        if _order(domains, tensor) != _order(domains, columns[0]):
            return f"{tensor.name} and {columns[0].name} reduce the same dimensions in two orders"
    own = set(columns)
    for operation in needing(fusion, columns):
        for output in operation.outputs:
            if output not in own and any(domains.group(a) in gone for a in output.root):
                return f"{output.name} combines the sum of a column with its elements"
    rows = rows_alone(fusion, columns)
    if not rows.outputs:
        return "it computes nothing else of the rows whose columns it sums"
    if not reduction_can.refusal(rows):
        return "no row is needed again after it was reduced"
    return rows_can.whole_rows_refusal(rows)


def _order(domains: DomainMap, tensor: TensorView) -> list[Group]:
    return [domains.group(axis) for axis in tensor.logical if axis.is_reduction]


def needing(fusion: Program, tensors: Collection[TensorView]) -> tuple[Operation, ...]:
    """Operations that make the tensors, or need one of them."""
    made = set(tensors)
    found: list[Operation] = []
    for operation in fusion.operations:
        if not made.isdisjoint((*operation.outputs, *tensor_inputs(operation))):
            found.append(operation)
            made.update(operation.outputs)
    return tuple(found)


def rows_alone(program: Program, columns: Collection[TensorView]) -> View:
    """All but the sums of columns, and what needs them."""
    return program.without(needing(program, columns))


def of_rows(caches: Iterable[Cached], columns: Collection[TensorView]) -> tuple[Cached, ...]:
    """The copies that are not those of sums of columns."""
    return tuple(cached for cached in caches if cached.register not in columns)


def cut_columns(
    fusion: Fusion, columns: Sequence[TensorView], blocks: Symbol
) -> tuple[TensorView, ...]:
    """Let each sum of columns first sum what one block comes by; returns those partial sums.

    Row `r` belongs to block `r mod blocks`. The blocks are the last and slowest dimension.
    """
    made: list[TensorView] = []
    for tensor in columns:
        keeps = [p for p, axis in enumerate(tensor.loop) if not axis.is_reduction]
        goes = [p for p, axis in enumerate(tensor.loop) if axis.is_reduction]
        reorder(tensor, {old: new for new, old in enumerate((*keeps, *goes))})
        for _ in goes[1:]:
            merge(tensor, len(keeps))
        split(tensor, len(keeps), blocks)
        (part,) = rfactor(tensor, [len(keeps)])
        part.stride_order = (*reversed(range(len(keeps))), len(keeps))
        made.append(part)
    domains = cached_map(fusion)
    places = {tuple(map(domains.group, part.shape_axes)) for part in made}
    if len(made) > 1 and len(places) == 1:  # one kernel can then sum all of them
        fusion.together += (tuple(made),)
    return tuple(made)
