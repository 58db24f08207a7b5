"""Schedule attention of a few rows by its parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.schedule.caches import cache_after, rfactor
from warpsmith.schedule.carriers import set_load_store_op
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.products import split_fragments, split_operand, tensorize
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.transforms import (
    pad_allocation,
    parallelize,
    set_allocation_domain,
    set_memory_type,
    set_swizzle,
)
from warpsmith.schedulers.attention.heuristic import AttentionParams
from warpsmith.schedulers.attention.loops import CHUNK, SIDE, Loops
from warpsmith.schedulers.attention.shape import products_of
from warpsmith.schedulers.caching import Cached
from warpsmith.targets.family import WARP

PADDING = 8
"""Elements behind each row of weights, so that eight rows of 16 bytes meet all banks."""


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: AttentionParams) -> None:
    """Loops: P what is apart, S blocks that share it, J tiles; T keys of one, R rows, D depth, E
    columns; y warps and x their threads.

    ======== =====================================================================================
    scores   `[P, S, J | T, y, R, D | 16 keys, 8 rows, 16]`, by `mma.sync`
    weights  `[P, S, J | R, y (rows) | T, x]`, from shared memory to shared memory
    sums     `[P, S, J | E, y, R, T | 16 columns, 8 rows, 16]`, by `mma.sync`
    joined   `[P, S, J | E, y, R | 16, 8]`, as the sums lie in registers; over J, then the grid
    ======== =====================================================================================

    Tiles of keys and values come through stages of shared memory by the TMA unit.
    """
    Schedule(fusion, params).lay()


class Schedule:
    """A schedule that is being laid, section by section."""

    def __init__(self, fusion: Fusion, params: AttentionParams) -> None:
        self._fusion, self._params = fusion, params
        self._shape = products_of(fusion)
        self._axes = self._shape.axes
        keys, rows = self._shape.extent("T"), self._shape.extent("R")
        assert keys is not None
        assert rows is not None
        self._keys, self._rows = keys, rows
        self._warps = keys // SIDE  # each has 16 keys of a tile

    def lay(self) -> None:
        """Lay it."""
        fusion, shape = self._fusion, self._shape
        before = _outputs(fusion.depends_on([shape.scores]))
        for_weights = _outputs(fusion.depends_on([shape.weights]), before)
        for_sums = _outputs(fusion.depends_on([shape.sums]), (*before, *for_weights))
        behind = _outputs(fusion.operations, (*before, *for_weights, *for_sums, shape.total))
        loads = [_source(tensor) for tensor in (shape.keys, shape.values)]
        scores = _shared(shape.scores, for_weights)
        scores_read = cache_after(scores)
        weights = _shared(shape.weights, for_sums)
        weights_read = cache_after(weights)
        tops = [_shared(each, behind) for each in (shape.top, shape.total)]
        first = (*loads, shape.values, weights, *tops)  # so that a block meets once for all three
        fusion.bring_first(t.definition for t in first if t.definition is not None)

        for load in loads:
            self._load(load)
        self._load_query()
        outside = self._multiply_scores(scores)
        self._weigh([scores_read, *for_weights, weights], tops, weights)
        self._multiply_values(weights_read)
        made = self._join(behind)

        inline_at(shape.sums, outside - 2, best_effort=True, selected_tensors=[shape.query])
        whole = [*loads, scores, scores_read, weights, weights_read, *tops, *made]
        whole += [shape.weights, shape.sums]
        inline_at(shape.sums, outside, best_effort=True, selected_tensors=whole)
        products = [shape.scores, shape.keys, shape.values]
        inline_at(shape.scores, outside + 2, best_effort=True, selected_tensors=products)
        early = {shape.query, *whole, *products}
        inline_most(fusion, [t for t in fusion.computed if t not in early and not t.is_output])
        shallow = [t for t in (*for_weights, shape.total) if t.compute_at < outside]
        inline_at(shape.sums, outside, best_effort=True, selected_tensors=shallow)
        if self._params.stages > 1:
            for load in loads:
                circular_buffer(load, self._params.stages)

    def _loops(self, tensor: TensorView) -> Loops:
        return Loops(tensor, self._axes, self._keys, self._params.blocks)

    def _load(self, tensor: TensorView) -> None:
        """A tile of keys or values comes in copies of 128 bytes of its rows."""
        set_memory_type(tensor, MemoryType.shared)
        set_load_store_op(tensor, LoadStoreOpType.tma)
        loops = self._loops(tensor).split("D", CHUNK, "d").split("E", CHUNK, "d")
        loops.ordered("PSJDETd").copied(2)
        set_swizzle(tensor, 2 * CHUNK)

    def _load_query(self) -> None:
        """Straight from memory, by two elements where they lie so."""
        query = self._shape.query
        self._loops(query).rows().split("D", SIDE, "d").ordered("PRDrd")
        _hold(query)
        if self._params.pairs:
            parallelize(query, -1, ParallelType.vectorize)

    def _multiply_scores(self, scores: TensorView) -> int:
        """Scores, and their copy in shared memory; how many loops stand outside a tile."""
        shape = self._shape
        loops = self._loops(shape.scores).rows().keys(self._warps).split("D", SIDE, "d")
        loops.ordered("PSJTyRDtrd")
        tensorize(shape.scores)
        self._loops(shape.keys).keys(self._warps).split("D", SIDE, "d").ordered("PSJTyDtd")
        _hold(shape.keys)
        self._loops(scores).rows().keys(self._warps).ordered("PSJTyRtr")
        _hold_sums(scores)
        return loops.outside

    def _weigh(
        self, tensors: Iterable[TensorView], tops: Iterable[TensorView], weights: TensorView
    ) -> None:
        """What follows from scores: a warp has whole rows.

        Args:
            tops: copies in shared memory of what a tile has once a row; `weights` is that of these.
        """
        shape = self._shape
        set_allocation_domain(weights, weights.logical[-1:-3:-1])
        pad_allocation(weights, PADDING)
        laid = (shape.weights, shape.top, shape.total)
        for tensor in (*laid, *tops):
            self._loops(tensor).split("T", WARP, "x").shared_rows(self._rows, self._warps).ordered(
                "PSJRyTx"
            )
        _like(shape.weights, [tensor for tensor in tensors if tensor not in laid])
        for tensor in laid[1:]:
            rfactor(tensor, [len(tensor.loop) - 2])

    def _multiply_values(self, weights: TensorView) -> None:
        shape = self._shape
        self._loops(weights).rows().split("T", SIDE, "t").ordered("PSJRTrt")
        _hold(weights)
        self._loops(shape.values).columns(self._warps).split("T", SIDE, "t").ordered("PSJEyTet")
        _hold(shape.values)
        loops = self._loops(shape.sums).rows().columns(self._warps).split("T", SIDE, "t")
        loops.ordered("PSJEyRTert")
        tensorize(shape.sums)

    def _join(self, behind: Collection[TensorView]) -> list[TensorView]:
        """The states of all tiles; what is made of each tile for that."""
        shape = self._shape
        joined = shape.joined[0]
        loops = self._loops(joined).rows().columns(self._warps).ordered("PSJEyRer")
        _hold_sums(joined)
        parts = rfactor(joined, [loops.names.index("J")])[0]
        assert parts.definition is not None
        sources = [t for t in tensor_inputs(parts.definition) if t is not shape.sums]
        of_tile = [t for t in _outputs(self._fusion.depends_on(sources)) if t in behind]
        _like(parts, of_tile)
        _like(joined, [t for t in behind if t not in of_tile and t not in shape.joined])
        return [*of_tile, parts]


def _source(tiles: TensorView) -> TensorView:
    assert tiles.definition is not None
    (source,) = tensor_inputs(tiles.definition)
    return source


def _hold(operand: TensorView) -> None:
    """Have the threads of a warp hold it as tensor cores read it."""
    place = len(operand.loop) - 2
    split_operand(operand)
    parallelize(operand, place, ParallelType.block_x)


def _hold_sums(tensor: TensorView) -> None:
    """The same, as tensor cores leave sums."""
    place = len(tensor.loop) - 2
    split_fragments(tensor)
    parallelize(tensor, place, ParallelType.block_x)


def _outputs(operations: Iterable[Operation], but: Collection[TensorView] = ()) -> list[TensorView]:
    return [out for op in operations for out in op.outputs if out not in but]


def _shared(tensor: TensorView, readers: Collection[TensorView]) -> TensorView:
    """A copy in shared memory, which those of its readers read."""
    own = [out for op in Fusion.of(tensor).uses(tensor) for out in op.outputs if out in readers]
    copy = cache_after(tensor, cached_uses=own)
    set_memory_type(copy, MemoryType.shared)
    return copy


def _like(reference: TensorView, others: Collection[TensorView]) -> None:
    if others:
        transform_like(reference, others)
        parallelize_like(reference, selected_tensors=others)
