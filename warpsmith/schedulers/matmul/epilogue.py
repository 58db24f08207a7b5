"""What follows a product in its kernel: what is loaded beside it, computed, and stored."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.tensor import TensorView
from warpsmith.layouts.banks import least_swizzle
from warpsmith.layouts.fragments import sums as fragment_of
from warpsmith.layouts.layout import Layout
from warpsmith.layouts.matrices import whole_rows
from warpsmith.schedule import roles
from warpsmith.schedule.caches import cache_after
from warpsmith.schedule.carriers import set_load_store_op
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.products import split_fragments, tensorize
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.roles import order_groups
from warpsmith.schedule.transforms import (
    merge,
    parallelize,
    reorder,
    set_allocation_domain,
    set_memory_type,
    set_swizzle,
    split,
)
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.matmul.memory import MATRIX_BYTES, PAIR, TMA_BYTES
from warpsmith.schedulers.matmul.params import OPERANDS, STORED, MatmulParams
from warpsmith.schedulers.matmul.partials import PART, Begun, settled
from warpsmith.schedulers.matmul.shape import Shape, places_of
from warpsmith.schedulers.matmul.threads import GROUP_THREADS
from warpsmith.schedulers.matmul.turned_columns import reads_beside
from warpsmith.targets.atoms import ROWS
from warpsmith.values import dataclass

LOAD = "load_beside"
"""The role whose one thread asks for chunks of what is read beside the product."""

SWIZZLE = 128
"""Of the 64 rows of a column."""

WARP_ROWS = 16
"""Rows of a fragment that one warp has."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The tensors of a fusion that move behind a product, and how.

    Attributes:
        product: the first, whose dimensions all have.
        shape: of it.
        caches: copies of all inputs and outputs.
        staged: by output, its copy in shared memory, which the TMA unit stores, or threads do.
        loaded: by the register copy of an input, the copy in shared memory that the TMA unit loads.
        begun: reductions that threads begin, of what they hold or of what is staged.
    """

    product: Matmul
    shape: Shape
    caches: tuple[Cached, ...]
    staged: dict[TensorView, TensorView]
    loaded: dict[TensorView, TensorView]
    begun: Begun
    params: MatmulParams

    @classmethod
    def of(
        cls,
        products: Sequence[Matmul],
        shape: Shape,
        caches: tuple[Cached, ...],
        begun: Begun,
        params: MatmulParams,
    ) -> Epilogue:
        """Put copies in shared memory between, before any loops are made.

        Args:
            products: whose operands may be copies of inputs.
            shape: of each.
        """
        staged, loaded = {}, {}
        operands = [operand for each in products for operand in (each.a, each.b)]
        before = {t for op in Fusion.of(operands[0]).depends_on(operands) for t in op.outputs}
        for cached in caches:
            if cached.load and cached.memory.name in params.loaded:
                if cached.register not in before:
                    loaded[cached.register] = _ahead(cached)
            elif cached.memory.name in params.staged:
                by_threads = cached.memory.name in dict(params.by_rows)
                staged[cached.memory] = _stage(cached, by_threads=by_threads)
        begun = begun.read_staged(Fusion.of(operands[0]), staged, caches)
        return cls(products[0], shape, caches, staged, loaded, begun, params)

    def lay_on(self, beside: list[TensorView], sums: Sequence[TensorView]) -> None:
        """Give all of it loops: `[turn, grid_x, chunk, group, thread, columns / 8, 2, 2]` where
        threads compute, `[turn, grid_x, chunk | rows, columns]` where the TMA unit copies.

        Args:
            beside: the tensors that are computed, loaded and stored.
            sums: the whole products that these need.
        """
        at, chunk = self.params.outside, self.params.chunk
        boxes, places = {*self.staged, *self.loaded.values()}, set(self.staged.values())
        read = set(self.begun.reads.values())
        for tensor in beside:
            if chunk:
                split(tensor, at + 1, chunk)  # turn, grid, rows, chunk, columns
            if tensor.name in self.by_rows:
                self._row(tensor)
                continue
            if tensor in boxes:
                self._box(tensor)
                continue
            if tensor in read:
                self._column(tensor)
                continue
            rows = tensor.loop[at]
            split(tensor, at, ROWS)
            if tensor in places:
                self._place(tensor, rows)
            if chunk:
                reorder(tensor, {at + 2: at})
            fragments(tensor, at + 1 + bool(chunk), self.params)
            if self.params.ping_pong > 1:
                order_groups(tensor, "epilogue")
        for memory, staged in self.staged.items():
            self._write(staged, memory)
        self._pairs()
        if self.begun.tensors:
            self.begun.lay(
                next(c.register for c in self.caches if c.memory in self.staged), self.params
            )
        self._inline([t for t in beside if t not in boxes | places | read], sums)

    @property
    def by_rows(self) -> dict[str, int]:
        """By output that threads store along rows, the elements that each stores at once."""
        return dict(self.params.by_rows)

    def _row(self, output: TensorView) -> None:
        """The threads of a group store its rows of a chunk, neighbours next to each other."""
        at, each = self.params.outside, self.by_rows[output.name]
        split(output, at, ROWS)
        reorder(output, {at + 2: at})  # chunk, group, 64, columns
        if self.params.swapped:
            reorder(output, {at + 2: at + 3})
        split(output, at + 3, each)
        merge(output, at + 2)
        split(output, at + 2, GROUP_THREADS)
        parallelize(output, at + 3, ParallelType.block_x)
        if each > 1:
            parallelize(output, at + 4, ParallelType.vectorize)
        bind_groups(output, at + 1, self.params)
        if self.params.ping_pong > 1:
            order_groups(output, "epilogue")

    def _column(self, read: TensorView) -> None:
        """The threads of a group read columns of its rows of a chunk, neighbours next to each
        other, each a part of these rows.
        """
        at, each = self.params.outside, settled(self.params)[PART]
        split(read, at, ROWS)
        reorder(read, {at + 2: at})  # chunk, group, 64, columns
        split(read, at + 2, each)
        reorder(read, {at + 4: at + 3})
        merge(read, at + 2)
        parallelize(read, at + 2, ParallelType.block_x)
        bind_groups(read, at + 1, self.params)
        if self.params.ping_pong > 1:
            order_groups(read, "epilogue")

    def _place(self, staged: TensorView, rows: IterDomain) -> None:
        """How a chunk lies in shared memory: by rows, or by columns of 64 rows where these are the
        product's columns, which lie together in memory.
        """
        at = self.params.outside
        own = staged.loop[at - 1 : at] if self.params.ping_pong else []
        parts, each, chunks, columns = staged.loop[at : at + 4]
        lies = (parts, columns, each) if self.params.swapped else (rows, columns)
        own += [chunks] if self.params.at_once else []
        set_allocation_domain(staged, (*own, *lies))

    def _box(self, tensor: TensorView) -> None:
        """A chunk of rows is a copy of the TMA unit, or one of each 64 rows that lie together."""
        at, pieces = self.params.outside, int(self.params.swapped)
        reorder(tensor, {at + 1: at})
        if pieces:
            split(tensor, at + 1, ROWS)
            reorder(tensor, {at + 2: at + 3})
        for axis in (at + 1 + pieces, at + 2 + pieces):
            parallelize(tensor, axis, ParallelType.tma)
        if tensor.is_output:
            if self.params.ping_pong:
                parallelize(tensor, at - 1, ParallelType.block_y)
            return
        if self._is_plane(tensor):
            set_swizzle(tensor, _swizzle_of(tensor, self.params.chunk))
        self._loads(tensor, at + 1)

    def _loads(self, tensor: TensorView, stage: int) -> None:
        """What brings a chunk: the role that brings operands, through their stages; or its own."""
        if self.params.shares:
            stages, role, ring = self.params.stages, roles.LOAD, OPERANDS
        else:
            stages, role, ring = self.params.load_stages, LOAD, ""
        circular_buffer(tensor, stages, role=role, ring=ring, stage_slice_position=stage)

    def _is_plane(self, tensor: TensorView) -> bool:
        """Whether it has rows of its own and columns."""
        places = places_of(map_of(Fusion.of(tensor)), self.product, tensor)
        return all(
            not set(each).isdisjoint(places) for each in (self.shape.rows, self.shape.columns)
        )

    def _write(self, staged: TensorView, memory: TensorView) -> None:
        """Threads write what they hold of a chunk: eight rows at once, or two elements."""
        turned = self.params.swapped
        set_swizzle(staged, SWIZZLE if turned else _swizzle_of(staged, self.params.chunk))
        if staged.copied_by is LoadStoreOpType.stmatrix:
            together = 2 if self.params.chunk % STORED == 0 else 1  # fragments of eight columns
            split(staged, self.params.threads + 1, together)
            tensorize(staged)
        else:
            parallelize(staged, -1, ParallelType.vectorize)
        if memory.copied_by.is_tma and not self.params.at_once:
            circular_buffer(staged, self.params.store_stages)

    def _pairs(self) -> None:
        """Threads access two columns at once; what the TMA unit stores has whole rows."""
        parts, shape = self.product.output, self.shape
        columns = parts.root[shape.columns[-1]].extent
        line = parts.root[shape.rows[-1]].extent if self.params.swapped else columns
        boxes = (memory for memory in self.staged if memory.copied_by.is_tma)
        planes = [memory for memory in boxes if self._is_plane(memory)]
        whole = {(line, TMA_BYTES // memory.dtype.size) for memory in planes}
        whole |= {(line, each) for each in self.by_rows.values() if each > 1}
        if self.params.pairs:
            whole.add((columns, PAIR))
        Fusion.of(parts).divisors |= whole
        for cached in self.caches:
            if cached.memory.name in self.params.pairs and not cached.copy.copied_by.is_tma:
                parallelize(cached.copy, -1, ParallelType.vectorize)
        for read, memory in reads_beside(Fusion.of(parts), self.product):
            if memory.name in self.params.pairs:
                parallelize(read.output, -1, ParallelType.vectorize)

    def _inline(self, computed: list[TensorView], sums: Sequence[TensorView]) -> None:
        """A chunk is loaded, computed and staged before the next one, or all before any is
        stored.
        """
        at, whole_at = self.params.outside, self.params.threads + 1
        last = [*self.staged.values(), *computed][-1]
        for output, staged in self.staged.items():
            inline_at(output, at + 1 - self.params.at_once, selected_tensors=[staged])
        results = [cached.register for cached in self.caches if cached.memory in self.staged]
        inside = [t for t in computed if not (t.is_output or t in self.loaded)]
        inside += [*self.begun.reads.values(), *self.begun.rows]
        if inside:  # what is staged too: one of them may read another
            inline_most(Fusion.of(last), inside, dict.fromkeys(results, whole_at))
        if self.loaded:  # behind those that read one: its loop would hold them, one before another
            inline_at(last, whole_at, selected_tensors=list(self.loaded))
        inline_at(last, self.params.outer, selected_tensors=sums)


def _stage(stored: Cached, *, by_threads: bool) -> TensorView:
    """The copy in shared memory of what an output stores; what else reads it, another output too,
    reads the registers.
    """
    staged = cache_after(stored.register, cached_uses=[stored.memory])
    set_memory_type(staged, MemoryType.shared)
    if staged.dtype.size == MATRIX_BYTES:
        set_load_store_op(staged, LoadStoreOpType.stmatrix)
    if not by_threads:
        set_load_store_op(stored.memory, LoadStoreOpType.tma)
    return staged


def _ahead(loaded: Cached) -> TensorView:
    """The copy in shared memory of what is read beside a product."""
    tile = cache_after(loaded.memory, cached_uses=[loaded.register], op_type=LoadStoreOpType.tma)
    set_memory_type(tile, MemoryType.shared)
    return tile


def _swizzle_of(tensor: TensorView, columns: int) -> int:
    """The swizzle of a chunk's rows with which threads meet the fewest banks twice."""
    size = tensor.dtype.size
    by_matrices = tensor.copied_by is LoadStoreOpType.stmatrix
    held = whole_rows(columns, size) if by_matrices else fragment_of(WARP_ROWS, columns)
    return least_swizzle(size, Layout.row_major(held.shape), [held])


def fragments(tensor: TensorView, axis: int, params: MatmulParams) -> None:
    """Split 64 rows and columns, behind the loop over 64 rows, as warp groups hold a product."""
    split_fragments(tensor, axis)
    parallelize(tensor, axis, ParallelType.block_x)
    bind_groups(tensor, axis - 1, params)


def bind_groups(tensor: TensorView, halves: int, params: MatmulParams) -> None:
    """Give warp groups 64 rows each of a tile, which loop `halves` walks, once or in each of
    several passes; or a tile each.
    """
    axis = params.outer - 1 if params.ping_pong else halves
    if params.passes > 1:
        split(tensor, halves, params.groups)
        axis += 1
    parallelize(tensor, axis, ParallelType.block_y)
