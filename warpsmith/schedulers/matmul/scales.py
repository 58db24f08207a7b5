"""Scales along k on their way: threads of an agent copy those of several steps to shared memory.

A scale of a row and 128 of k is one number a step: brought by whoever multiplies by it, it costs
a sector of the L2 each. So an agent of its own copies steps that lie in one sector at once, by
`cp.async`, which takes scales of any layout and alignment, to a pipeline beside that of the
operands; tensor cores' threads read one step after the other of a stage.
"""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after, rfactor
from warpsmith.schedule.carriers import set_load_store_op
from warpsmith.schedule.inline import inline_at
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.transforms import merge, parallelize, reorder, set_memory_type, split
from warpsmith.schedulers.matmul.blocks import Carried, Spread, carried
from warpsmith.schedulers.matmul.epilogue import fragments
from warpsmith.schedulers.matmul.joins import own_steps
from warpsmith.schedulers.matmul.params import FOUR, SCALE_STAGES, MatmulParams
from warpsmith.targets.atoms import ROWS
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

SCALES = "load_scales"
"""The role whose threads copy them."""

LANES = 64
"""Threads of it: two warps, which the warp group of the thread that loads operands has idle."""


@dataclass(frozen=True, slots=True)
class Scales:
    """What is summed over blocks of k, and by what it is multiplied.

    Attributes:
        blocks: what threads carry.
        tiles: copies of scales in shared memory, each with how the product has it.
    """

    blocks: Carried
    tiles: dict[TensorView, Spread]

    @classmethod
    def of(cls, fusion: Fusion, product: Matmul, params: MatmulParams) -> Scales | None:
        """With the copies, before any loops are made; None where a product sums all of k."""
        blocks = carried(fusion, product)
        if blocks is None:
            return None
        has = blocks.scales.items()
        return cls(blocks, {_copied(s): x.swapped if params.swapped else x for s, x in has})

    @property
    def inside(self) -> set[TensorView]:
        """All that is computed in the loop over blocks."""
        return {*self.tiles, *self.blocks.loads, *self.blocks.scaled}

    def parted(self, params: MatmulParams) -> Scales:
        """With loops over the steps of k that a block has; its sums are what it has of a tile."""
        at, sums = params.outer, self.blocks.sums
        for tensor in (sums, *self.blocks.scales, *self.blocks.scaled):
            reorder(tensor, {at + 2: at})  # turn, grid, k tile, rows, columns
            own_steps(tensor, at, params)
        if not params.stream:
            return self
        (own,) = rfactor(sums, [at + 1, at + 2])
        return replace(self, blocks=replace(self.blocks, sums=own))

    def lay(self, parts: TensorView, params: MatmulParams) -> None:
        """Threads scale each block's product where they have it, and add it to what they carry."""
        at, sums, scaled = params.outer + params.stream, self.blocks.sums, self.blocks.scaled
        if params.whole > 1:
            blocks = sums.root[-1].extent
            Fusion.of(sums).divisors |= {(blocks, params.scaled)}
        for tensor in (sums, *self.blocks.scales, *scaled):
            split(tensor, at + 2, ROWS)
            fragments(tensor, at + 3, params)
        for tile, spread in self.tiles.items():
            self._lay(tile, spread, params)
        inline_at(sums, at + 2, selected_tensors=list(self.blocks.scales))
        inline_at(sums, at + 3 + (params.passes > 1), selected_tensors=[parts])
        inline_at(sums, len(sums.loop), selected_tensors=scaled)

    def _lay(self, tile: TensorView, spread: Spread, params: MatmulParams) -> None:
        """Loops `[turn, grid_x, k tiles, what has no scale of its own, what has, k tile]`, of which
        threads share the last two in the order of memory.
        """
        at, edge = params.outer, params.tile[0 if spread.rows else 1]
        reorder(tile, {at + 2: at})  # turn, grid, k tile, rows, columns
        own = own_steps(tile, at, params)
        reorder(tile, {own: own + 2})  # turn, grid, k tiles, rows, columns, k tile
        at = own - 1
        if spread.rows:
            reorder(tile, {at + 2: at + 1})
        together = int(spread.together(edge))
        split(tile, at + 2, together)
        reorder(tile, {at + 3: at + 2})
        fusion = Fusion.of(tile)
        (memory,), domains = fusion.producers(tile), map_of(fusion)
        fastest = memory.concrete_order()[-1]
        steps = self.blocks.sums.root[-1]
        along_k = domains.group(tile.shape_axes[fastest]) == domains.group(steps)
        if not along_k:
            reorder(tile, {at + 4: at + 3})
        merge(tile, at + 3)
        count = edge // together * params.scaled
        if memory.name in params.fours and (along_k or edge // together % FOUR == 0):
            fusion.divisors |= {(memory.shape_axes[fastest].extent, FOUR)}
            split(tile, at + 3, FOUR)
            parallelize(tile, at + 4, ParallelType.vectorize)
            count //= FOUR
        split(tile, at + 3, LANES if count > WARP else WARP)
        parallelize(tile, at + 4, ParallelType.block_x)
        circular_buffer(tile, SCALE_STAGES, role=SCALES, stage_slice_position=at + 1)


def _copied(scale: TensorView) -> TensorView:
    """The copy in shared memory of the input that a scale is."""
    (source,) = Fusion.of(scale).producers(scale)
    tile = cache_after(source, cached_uses=[scale]) if source.is_input else source
    set_memory_type(tile, MemoryType.shared)
    set_load_store_op(tile, LoadStoreOpType.cp_async)
    return tile
