"""A value that products read in another shape is stored in that shape alone.

What else reads it, once a product has, reads the reshape of it that is in memory, reshaped back: as
a residual's gradient, which products read as rows, and the layer before as batches of rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.ir.exprs import Matmul, Move, Pointwise, replace_tensor
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops.reshape import reshape


def read_as_products_do(fusion: Fusion) -> None:
    """Have later operations read values as the products before them do, in place."""
    graph = Graph.of(fusion)
    for move in [op for op in fusion.operations if isinstance(op, Move) and op.kind == "reshape"]:
        value, rows = move.source, move.output
        if value.is_input or value.is_output or graph.live_readers(value) < 2:
            continue
        products = [use for use in graph.uses(rows) if isinstance(use, Matmul)]
        if products:
            behind = fusion.after(products.__contains__)
            later = [use for use in _later(graph, value, behind) if use not in products]
            _reshape_back(fusion, move, later)


def _later(graph: Graph, tensor: TensorView, behind: set[TensorView]) -> Iterator[Operation]:
    """Operations that read a tensor for nothing but what is behind products."""
    waits: dict[Operation, bool] = {}

    def only_behind(use: Operation) -> bool:
        output = use.outputs[0]
        if use not in waits and output not in behind:
            live = [each for each in graph.uses(output) if _is_live(graph, each)]
            kinds = isinstance(use, Pointwise) and not output.is_output
            waits[use] = kinds and bool(live) and all(map(only_behind, live))
        return waits.get(use, True)

    yield from (use for use in graph.uses(tensor) if _is_live(graph, use) and only_behind(use))


def _is_live(graph: Graph, operation: Operation) -> bool:
    return graph.maker[operation.outputs[0].number] in graph.live


def _reshape_back(fusion: Fusion, move: Move, uses: list[Operation]) -> None:
    """Put a reshape back behind a reshape, for these to read."""
    if not uses:
        return
    value, before = move.source, len(fusion.operations)
    back = reshape(move.output, [axis.extent for axis in value.shape_axes])
    made = fusion.operations[before:]
    del fusion.operations[before:]
    fusion.operations.remove(move)
    assert value.definition is not None
    for operation in reversed([move, *made]):
        fusion.insert_after(value.definition, operation)
    for use in uses:
        fusion.replace(use, replace_tensor(use, value, back))
