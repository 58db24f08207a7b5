"""Schedule images whose channels are summed, and then groups of them, by their parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.exprs import Move, replace_tensor, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import Group, map_of
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after, rfactor
from warpsmith.schedule.inline import inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import parallelize, reorder, set_memory_type, split
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.cover import merge_all, order_loops
from warpsmith.schedulers.outer_grid.apply import in_turns
from warpsmith.schedulers.outer_groups.heuristic import Groups
from warpsmith.schedulers.outer_groups.shapes import OuterGroupsParams
from warpsmith.schedulers.reduction.applicability import reductions
from warpsmith.schedulers.reduction.apply import SPLITS, split_over_blocks
from warpsmith.schedulers.reduction.recompute import clone_of
from warpsmith.values import dataclass

LOOPS = (
    ParallelType.grid_x,
    ParallelType.grid_y,
    ParallelType.serial,
    ParallelType.unroll,
    ParallelType.block_y,
    ParallelType.serial,
    ParallelType.block_x,
    ParallelType.serial,
)
ONE_PART = 5
"""The place of the loop that has one iteration, of what a block has of the channels: all."""

OWN = [1, 2, 3]
"""Of what a thread reduces by itself: blocks, where an image has one, turns, and accesses."""

GROUP_LOOPS = (ParallelType.grid_x, ParallelType.serial, ParallelType.block_x)
"""The loops of what a thread has for groups, and around the channels of each."""

SHARED_BY = {0: ParallelType.grid_y, 1: ParallelType.serial}
"""Who runs the loop over blocks of an image, by how many of a cluster; else `cluster_x`."""


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: OuterGroupsParams) -> None:
    """Loops of every tensor that walks channels, N images, R reduced, C channels:

    `[N grid_x | R grid_y or cluster_x, R serial (turns), R unroll, R block_y | C serial (one part),
    C block_x, C vector]`

    A thread reduces what it has in its turns, then the block and the blocks that share an image.
    Each of these puts its channels' sums into shared memory, and reduces groups of them, G:

    `[N grid_x, G serial, G block_x | channels serial]`

    These results come back through shared memory, and all go through their turns again. Of one
    image the one part of its channels stands in front.
    """
    groups = Groups(fusion, map_of(fusion), caches)
    axes, images = groups.axes, len(groups.kept) - 2
    sides = _Sides.of(fusion, groups)
    blocks: Symbol | int = params.cluster or Symbol(SPLITS, low=1)
    if isinstance(blocks, Symbol):
        fusion.launch_symbols.append(blocks)
    own = OWN if params.cluster == 1 else OWN[1:]
    kinds = list(LOOPS)
    if not images:
        del kinds[ONE_PART]
    kinds[1] = SHARED_BY.get(params.cluster, ParallelType.cluster_x)

    def divide(tensor: TensorView, keeps: int) -> TensorView:
        merge_all(tensor, keeps, len(tensor.loop))
        split(tensor, keeps, params.block_y)
        split(tensor, keeps, params.unroll)
        split_over_blocks(tensor, keeps, blocks)
        merge_all(tensor, images, keeps)
        fusion.divisors |= {(map_of(fusion).extent_of(tensor.loop[images]), params.vector)}
        split(tensor, images, params.vector)
        vectors = map_of(fusion).extent_of(tensor.loop[images])
        fusion.limits |= {(vectors, params.block_x)}
        fusion.divisors |= {(vectors, params.block_x)}
        split(tensor, images, params.block_x)
        merge_all(tensor, 0, images)
        reorder(tensor, {1: 5, 2: 6, 3: 7} if images else {1: 5, 2: 6})
        for position, kind in enumerate(kinds):
            parallelize(tensor, position, kind)
        return rfactor(tensor, own)[0]

    _divide_groups(fusion, sides, axes, images, params.joining)
    in_turns(fusion, caches, params, _places(fusion, axes), divide, aside=sides.of_groups)


@dataclass(frozen=True, slots=True)
class _Sides:
    """The tensors that one thread computes for a group, on the way from channels and back.

    Attributes:
        joined: reductions of groups.
        others: what is computed of these for groups, and what comes back to channels.
    """

    joined: tuple[TensorView, ...]
    others: tuple[TensorView, ...]

    @property
    def of_groups(self) -> frozenset[TensorView]:
        results = [output for tensor in self.joined for output in _results(tensor)]
        return frozenset((*results, *self.others))

    @staticmethod
    def of(fusion: Fusion, groups: Groups) -> _Sides:
        """Those of a fusion, which gets copies in shared memory between channels and groups."""
        joined = tuple(t for t in reductions(fusion) if t not in groups.sums)
        results = [output for tensor in joined for output in _results(tensor)]
        others = _made_of(fusion, groups, results)
        for source in dict.fromkeys(s for t in joined for s in _sources(t)):
            _through_shared(source, results)
        own = dict.fromkeys((*results, *others))
        back: list[TensorView] = []
        for tensor in own:
            readers = (out for use in fusion.uses(tensor) for out in use.outputs)
            back += _through_shared(tensor, (out for out in readers if out not in own))
        return _Sides(joined, (*others, *back))


def _results(tensor: TensorView) -> tuple[TensorView, ...]:
    assert tensor.definition is not None
    return tensor.definition.outputs


def _sources(tensor: TensorView) -> tuple[TensorView, ...]:
    assert tensor.definition is not None
    return tuple(tensor_inputs(tensor.definition))


def _made_of(fusion: Fusion, groups: Groups, joined: Collection[TensorView]) -> list[TensorView]:
    """What is computed of reduced groups and has a value for each of them, with what else that
    takes, which is computed again. What spreads such a value over others is theirs.
    """
    domains, after = groups.domains, fusion.after(lambda op: not set(joined).isdisjoint(op.outputs))
    found: list[TensorView] = []
    for operation in reversed(fusion.operations):
        output = operation.outputs[0]
        axes = domains.groups((*output.root, *output.logical))
        own = output in after and output not in joined and axes <= groups.levels.kept
        uses = (out for use in fusion.uses(output) for out in use.outputs)
        if own and (not isinstance(operation, Move) or all(out in found for out in uses)):
            found.append(output)
    theirs = dict.fromkeys((*joined, *found))
    clones = {tensor: tensor for tensor in theirs}
    for output in found:
        reader = output.definition
        assert reader is not None
        for source in tensor_inputs(reader):
            if source not in theirs:
                clone = clone_of(fusion, source, clones, together=True)
                reader, old = replace_tensor(reader, source, clone), reader
                fusion.replace(old, reader)
    return [*(clone for tensor, clone in clones.items() if tensor not in theirs), *found]


def _through_shared(tensor: TensorView, readers: Iterable[TensorView]) -> tuple[TensorView, ...]:
    """A copy for these readers, if there are any: other threads have it from there."""
    chosen = tuple(readers)
    if not chosen:
        return ()
    copy = cache_after(tensor, cached_uses=chosen)
    set_memory_type(copy, MemoryType.shared)
    return (copy,)


def _places(fusion: Fusion, axes: Sequence[IterDomain]) -> dict[Group, int]:
    """Of dimensions in memory order, by their groups as the fusion stands now."""
    domains = map_of(fusion)
    return {domains.group(axis): place for place, axis in enumerate(axes)}


def _divide_groups(
    fusion: Fusion, sides: _Sides, axes: Sequence[IterDomain], images: int, threads: int
) -> None:
    """A block's threads along x have a group each, and reduce it one channel after the other."""
    for tensor in sides.joined:
        order_loops(tensor, map_of(fusion), _places(fusion, axes))
        merge_all(tensor, 0, images)
        split(tensor, min(images, 1), threads)
        for position, kind in enumerate(GROUP_LOOPS if images else GROUP_LOOPS[1:]):
            parallelize(tensor, position, kind)
    reference = sides.joined[0]
    transform_like(reference, sides.others)
    parallelize_like(reference, selected_tensors=sides.others)
    inline_most(
        fusion, [tensor for tensor in sides.of_groups if tensor.memory is not MemoryType.shared]
    )
