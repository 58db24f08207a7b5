"""The stages from a scheduled fusion to a kernel, in order, each with the reason for its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from warpsmith.errors import InternalError
from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.clusters import RANK
from warpsmith.kernel.nodes import Buffer, Kernel, Statement
from warpsmith.kernel.rings import ELECTED
from warpsmith.kernel.roles import Branch
from warpsmith.kernel.traversal import defined, expressions, walk
from warpsmith.lower.access import stride_symbols
from warpsmith.lower.capacity import check_atoms, check_cluster, check_shared, check_threads
from warpsmith.lower.grouping import readers_together
from warpsmith.lower.leaves import Leaves
from warpsmith.lower.nests import Nests
from warpsmith.lower.passes.batch_welford import batch_welford
from warpsmith.lower.passes.collect_maps import collect_maps
from warpsmith.lower.passes.derive_scalars import derive_scalars
from warpsmith.lower.passes.exchange_parts import exchange_parts
from warpsmith.lower.passes.hoist import hoist_indices
from warpsmith.lower.passes.join_reductions import join_reductions
from warpsmith.lower.passes.multiply_divisions import multiply_divisions
from warpsmith.lower.passes.narrow_results import narrow_results
from warpsmith.lower.passes.order import meets_apart, order, sync_inside_branch
from warpsmith.lower.passes.overlay_shared import overlay_shared
from warpsmith.lower.passes.spare_meetings import spare_meetings
from warpsmith.lower.passes.split_full_passes import split_full_passes
from warpsmith.lower.passes.turn_rings import turn_rings
from warpsmith.lower.passes.turn_roles import turn_roles
from warpsmith.lower.places import Places
from warpsmith.lower.roles import Roles
from warpsmith.lower.specialize import block_of, branches, budgets_of
from warpsmith.lower.threads import check_no_cluster, find_threads
from warpsmith.lower.vectors import Vectorizer
from warpsmith.targets.target import Target


@dataclass(frozen=True, slots=True)
class Stage:
    """One pass and why it stands where it stands."""

    name: str
    apply: Callable[[Kernel], Kernel]
    why: str


STAGES = (
    Stage("join_reductions", join_reductions, "before anything else stands between them"),
    Stage(
        "turn_roles",
        turn_roles,
        "before other rings: what passes between roles is no ring of theirs any more",
    ),
    Stage("turn_rings", turn_rings, "loads change places, and barriers follow the places"),
    Stage("exchange_parts", exchange_parts, "rings have their barriers, to which it adds"),
    Stage("order", order, "every access and every slot has its place, which nothing changes later"),
    Stage("overlay_shared", overlay_shared, "after barriers, some of which it adds"),
    Stage("spare_meetings", spare_meetings, "no statement changes loops any more, but for copies"),
    Stage("narrow_results", narrow_results, "every statement that uses a result has its condition"),
    Stage("split_full_passes", split_full_passes, "after barriers, which no copied loop may hold"),
    Stage("batch_welford", batch_welford, "where splitting left steps without predicates"),
    Stage("multiply_divisions", multiply_divisions, "before hoisting, which names the quotients"),
    Stage("hoist_indices", hoist_indices, "every index is known, and barriers use none"),
    Stage("derive_scalars", derive_scalars, "what hoisting named may be the launch's to know"),
    Stage("collect_maps", collect_maps, "last: sizes and strides have their names"),
)

Observer = Callable[[str, Kernel], None]
"""Called with the name and result of every stage, for dumps."""


def lower(
    fusion: Fusion,
    name: str,
    index_type: DataType = DataType.Int,
    observe: Observer | None = None,
    granules: Mapping[str, int] | None = None,
    *,
    target: Target,
) -> Kernel:
    """Lower a scheduled fusion.

    Args:
        fusion: scheduled; not changed.
        name: C identifier of the kernel.
        index_type: Int32 where every index fits 31 bits, else Int.
        observe: sees the kernel after every stage.
        granules: by the names of tensors that the TMA unit cannot copy, the bytes, fewer than 16,
            that their addresses are multiples of.
        target: that is to run it.

    Raises:
        ScheduleError: the schedule asks for something that cannot be done.
    """
    fusion.check_not_empty()
    check_atoms(fusion, target)
    limits = target.family.limits
    kernel = build(fusion, name, index_type, granules, target=target)
    if observe is not None:
        observe("build", kernel)
    for stage in STAGES:
        kernel = stage.apply(kernel)
        if observe is not None:
            observe(stage.name, kernel)
    kernel = _with_scalars(kernel)
    check_cluster(kernel, limits)
    check_threads(kernel, limits)
    check_shared(fusion, kernel, limits)
    if sync_inside_branch(kernel):
        raise InternalError(f"{name}: a barrier stands under a condition")
    if meets_apart(kernel):
        raise InternalError(f"{name}: some blocks of a cluster meet where others do not come by")
    return kernel


def build(
    fusion: Fusion,
    name: str,
    index_type: DataType,
    granules: Mapping[str, int] | None = None,
    *,
    target: Target,
) -> Kernel:
    """The first Kernel form of a fusion: nests and statements, no barriers yet."""
    domains = DomainMap(fusion)
    roles = Roles(fusion)
    threads = find_threads(fusion.operations, domains)
    vectors = Vectorizer(fusion.divisors, _parameter_names(fusion))
    places = Places(fusion, domains, threads, granules, roles)
    body: tuple[Statement, ...]
    if roles.names:
        check_no_cluster(threads)
        body = branches(fusion, places, roles, vectors, target.family.limits)
        block = block_of([s.role for s in body if isinstance(s, Branch)])
        launch = replace(threads.launch(), block=block)
    else:
        leaves = Leaves(places, vectors)
        siblings = readers_together(fusion)
        body = Nests(domains, threads, leaves, siblings=siblings).build(fusion.operations)
        launch = threads.launch()
    made = places.made
    outputs = [output.value for output in fusion.outputs]
    tensors = dict.fromkeys((*fusion.input_tensors, *outputs))
    parameters = (*map(places.buffer, tensors), *made.workspaces.values())
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
        limits=tuple(fusion.limits),
        alignments=tuple(made.alignments.items()),
        tile_needs=tuple(made.needs.values()),
        exchanged=frozenset(made.exchanged),
        left_to_threads=tuple(made.left_to_threads.items()),
        budgets=budgets_of(fusion.registers) if roles.names else None,
    )


def _parameter_names(fusion: Fusion) -> frozenset[str]:
    """Names of the run-time scalars that a launch knows."""
    found = {symbol.name for symbol in (*fusion.input_scalars, *fusion.launch_symbols)}
    for tensor in fusion.tensors:
        extents = {axis.extent for axis in (*tensor.root, *tensor.logical)}
        for expr in (*extents, *stride_symbols(tensor)):
            found |= {node.name for node in expr.walk() if isinstance(node, Symbol)}
    return frozenset(found)


def _with_scalars(kernel: Kernel) -> Kernel:
    """List the symbols that the kernel needs from its launch, in order of first use."""
    known = {kind.name for kind in (*GRID_TYPES, *BLOCK_TYPES)} | {ELECTED.name, RANK}
    needed: dict[str, Symbol] = {}
    used: list[Expr] = [buffer.size for buffer in kernel.shared]
    for statement in walk(kernel.body):
        used += expressions(statement)
        used += statement.role.block if isinstance(statement, Branch) else ()
        known |= {symbol.name for symbol in defined(statement)}
    for expr in used:
        for node in expr.walk():
            if isinstance(node, Symbol) and node.name not in known:
                needed.setdefault(node.name, node)
    return replace(kernel, scalars=tuple(needed.values()))


def buffers_with_dynamic_size(kernel: Kernel) -> tuple[Buffer, ...]:
    """Workspaces: global buffers that the launch must supply besides inputs and outputs."""
    return tuple(b for b in kernel.parameters if b.name.endswith(("_parts", "_arrivals")))
