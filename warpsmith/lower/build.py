"""The first Kernel form of a scheduled fusion, which the passes of `lower/pipeline.py` change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.reads import Own
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.strides import all_strides, stride_symbols
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.reductions import blocks_meet
from warpsmith.lower.agents import block_of, budgets_of
from warpsmith.lower.block_order import block_order, numbered
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.emit import Emitter
from warpsmith.lower.grid_barriers import check_no_grid_barrier
from warpsmith.lower.grouping import readers_together
from warpsmith.lower.nests import Nests
from warpsmith.lower.roles import Roles
from warpsmith.lower.side_by_side import side_by_side
from warpsmith.lower.specialize import branches
from warpsmith.lower.stream_k import stream_k
from warpsmith.lower.threads import find_threads
from warpsmith.lower.tile_scheduler import handed_out
from warpsmith.lower.vectors import Vectorizer
from warpsmith.targets.target import Target


def build(
    fusion: Fusion,
    name: str,
    index_type: DataType,
    tma_alignment: Mapping[str, int] | None = None,
    *,
    target: Target,
) -> Kernel:
    """The first Kernel form of a fusion: nests and statements, no barriers yet."""
    domains = map_of(fusion)
    roles = Roles(fusion)
    order = block_order(fusion.operations, domains)
    threads = find_threads(fusion.operations, domains, order)
    threads = replace(threads, stream=stream_k(fusion.operations, domains))
    vectors = Vectorizer(fusion.divisors, parameter_names(fusion))
    buffers = Buffers(fusion, domains, threads, tma_alignment, roles)
    body: tuple[Statement, ...]
    if roles.names:
        body = branches(fusion, buffers, roles, vectors, target.family.limits)
        check_no_grid_barrier(body)
        block = block_of([s.agent for s in body if isinstance(s, Branch)])
        launch = replace(threads.launch(), block=block)
    elif fusion.side_by_side:
        body, launch = side_by_side(fusion, buffers, vectors)
    else:
        handed_out(fusion.operations, buffers, ())
        leaves = Emitter(buffers, vectors)
        siblings = readers_together(fusion)
        body = Nests(domains, threads, leaves, siblings=siblings).build(fusion.operations)
        body = (*numbered(threads, buffers.made), *body)
        launch = replace(threads.launch(), together=blocks_meet(body))
    made = buffers.made
    outputs = [output.value for output in fusion.outputs]
    tensors = dict.fromkeys((*fusion.input_tensors, *outputs))
    parameters = (*dict.fromkeys(map(buffers.buffer, tensors)), *made.workspaces.values())
    shared = tuple(made.shared.values())
    return Kernel(
        name=name,
        parameters=parameters,
        scalars=(),
        shared=shared,
        body=body,
        launch=replace(launch, blocks_per_sm=fusion.blocks_per_sm, last_first=fusion.last_first),
        index_type=index_type,
        requirements=tuple({**dict.fromkeys(fusion.divisors), **vectors.requirements}),
        least=tuple(fusion.least),
        limits=(*fusion.limits, *(made.limits.items() if index_type is DataType.Int else ())),
        alignments=tuple(made.alignments.items()),
        tile_needs=tuple(made.needs.values()),
        exchanged=frozenset(made.exchanged),
        left_to_threads=tuple(made.left_to_threads.items()),
        pipelines=tuple(made.pipelines.values()),
        kept_turns=fusion.kept_turns,
        at_once=fusion.at_once,
        behind=fusion.behind,
        budgets=budgets_of(fusion.registers) if roles.names else None,
    )


def parameter_names(fusion: Fusion) -> frozenset[str]:
    """Names of the run-time scalars that a launch knows."""
    found = {symbol.name for symbol in (*fusion.input_scalars, *fusion.launch_symbols)}
    for tensor in fusion.tensors:
        extents = {axis.extent for axis in (*tensor.root, *tensor.logical)}
        for expr in (*extents, *stride_symbols(tensor)):
            found |= {node.name for node in expr.walk() if isinstance(node, Symbol)}
    found |= {symbol.name for o in fusion.outputs if o.place for symbol in all_strides(o.value)}
    for operation in fusion.operations:  # sizes among its scalars may be of what others read
        for value in operation.inputs:
            if isinstance(value, Expr):
                nodes = value.walk()
                found |= {n.name for n in nodes if isinstance(n, Symbol) and not isinstance(n, Own)}
    return frozenset(found)
