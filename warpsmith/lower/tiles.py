"""Copies of whole tiles between global and shared memory, by the TMA unit."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.atoms import atom_for
from warpsmith.ir.copies import CHUNK_BYTES, LoadStoreOpType
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.exprs import Matmul, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.groups import looks_up
from warpsmith.ir.reads import Read, start_and_step
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.strides import strides
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.tiles import TileDim, TileNeeds
from warpsmith.lower.access import Access, MemoryDim
from warpsmith.lower.boxes import Box, extent_of, without
from warpsmith.lower.buffers import Buffers, constant_of
from warpsmith.lower.feasible import feasible
from warpsmith.lower.layouts import row_of
from warpsmith.lower.pipelines.multicast import sharing
from warpsmith.lower.predicates import Predicates
from warpsmith.targets.atoms import WGMMA


class TileCopies:
    """Makes the tile copies of one kernel."""

    def __init__(self, buffers: Buffers, predicates: Predicates) -> None:
        self._buffers = buffers
        self._predicates = predicates

    def emit(self, operation: Operation, indices: list[Expr]) -> list[Statement]:
        """The copy of the tile that the remaining loops of `operation` walk."""
        output, source = operation.outputs[0], tensor_inputs(operation)[0]
        stores = output.is_output
        shared, memory = (source, output) if stores else (output, source)
        if not stores and not source.is_input:
            raise ScheduleError(
                f"{output.name} is loaded by {output.copied_by.value} from {source.name}, which "
                f"is in {source.memory.value} memory",
                code="WS0296",
                remedy="use such copies from inputs of the fusion, or to its outputs",
            )
        self._check_asked_once(output, shared, len(indices))
        walking = self._walking(output, len(indices))
        lanes = [index for index in walking if isinstance(index, Symbol)]
        access = self._buffers.access(operation, [*indices, *walking])
        start = self._buffers.access(operation, [*indices, *(integers.ZERO for _ in walking)])
        if stores:
            place = self._buffers.index_row_major(access, source)
            dims: list[tuple[MemoryDim, ...]] = [(dim,) for dim in access.output_dims()]
            order = output.concrete_order()
        else:
            place = self._buffers.own_row_major(access, output)
            dims = _read_dims(access, operation, source)
            order = source.concrete_order()
        ranks = {d: rank for rank, d in enumerate(sorted(order))}
        in_order = [dim for d in order for dim in dims[ranks[d]]]
        tile = Box.of(output, in_order, lanes)
        self._check_packed(output, shared, place, tile)
        # Rows of other groups may be loaded, and are not stored; past all of them is past memory.
        inside, bounds = (
            [
                c
                for c in integers.conjuncts(self._predicates.of_tile(where))
                if stores or not looks_up(c)
            ]
            for where in (start, access)
        )
        if stores:
            tile = tile.ended(bound for bound in bounds if looks_up(bound))
        condition = integers.conjunction(*inside, *(integers.less(0, dim.box) for dim in tile.dims))
        copy = TileCopy(
            shared=self._buffers.buffer(shared),
            index=without(place, lanes),
            memory=self._buffers.buffer(memory),
            dims=tile.dims,
            inside=_inside(output, tile, [b for b in bounds if _touches(b, lanes)]),
            condition=condition,
            how=output.copied_by,
            swizzle=shared.swizzle,
            evict_last=output.evict_last,
            evict_first=output.evict_first,
            stores=stores,
            rounds=_is_rounded(output),
            zeros=output in self._buffers.filled,
        )
        if output.chunks:
            self._check_chunks(copy, output, memory)
        head = self._buffers.head(start, output)
        if output.chunks and self._buffers.rings.has_head(output):
            return [self._in_chunks(copy, output, memory, head)]
        loops = {each for index in indices for each in index.walk() if isinstance(each, Symbol)}
        copy = feasible(copy, output, memory, loops, self._buffers)
        copy = replace(copy, index=integers.add(copy.index, head))
        if not stores:
            self._note_sharing(copy, shared)
        return [copy]

    def _note_sharing(self, copy: TileCopy, shared: TensorView) -> None:
        """Let the pipeline know which blocks of a cluster load the same."""
        pipeline = self._buffers.pipeline(shared)
        sets = sharing(copy, self._buffers.threads.cluster)
        contents = tuple(replace(content, sharing=sets) for content in pipeline.contents)
        self._buffers.note(replace(pipeline, contents=contents))

    def _check_asked_once(self, output: TensorView, shared: TensorView, depth: int) -> None:
        """Refuse a copy whose loops several threads walk that are not groups of their own."""
        along = self._buffers.threads.groups_along
        for place, axis in enumerate(output.loop[:depth]):
            if not axis.parallel.is_block or axis.parallel is along:
                continue
            if self._buffers.extent(axis) != integers.ONE:
                outside = f", and let {shared.name} be computed outside: "
                outside += share_less(output, shared, place)
                raise ScheduleError(
                    f"{axis!r} of {output.name} is bound to {axis.parallel.name}, along which no "
                    "groups of warps take turns, and one thread asks the TMA unit for the "
                    "elements of all",
                    code="WS0219",
                    remedy="leave it serial"
                    + ("" if self._buffers.rings.crosses(shared) else outside),
                )

    def _check_chunks(self, copy: TileCopy, output: TensorView, memory: TensorView) -> None:
        """Refuse to bring chunks of what is no run of memory, or to where others are to lie."""
        reason = ""
        if copy.how is not LoadStoreOpType.bulk or copy.stores or output.buffering is None:
            reason = "only loads by bulk into a circular buffer can"
        elif False in memory.contiguity:
            reason = f"{memory.name} is not contiguous"
        elif not output.in_lines and any(
            a.parallel is not ParallelType.tma for a in self._buffers.layouts[output]
        ):
            reason = "its stages hold several tiles, of which each would begin elsewhere"
        if reason:
            raise ScheduleError(
                f"{output.name} is to be loaded in whole chunks of {CHUNK_BYTES} bytes: {reason}",
                code="WS0298",
                remedy="leave `chunks` out, or let one copy by bulk fill a stage from a contiguous "
                "input",
            )

    def _in_chunks(
        self, copy: TileCopy, output: TensorView, memory: TensorView, head: Expr
    ) -> TileCopy:
        """The copy of all chunks that the tile lies in, which has `head` elements before it.

        The last one of a tensor's may end behind it: nobody uses what is there, and memory, which
        is given out in larger pieces that begin with a chunk, has all of it.
        """
        size = memory.dtype.size
        chunk = CHUNK_BYTES // size
        within = integers.mod(head, chunk)
        total = integers.mul(*(dim.size for dim in copy.dims))
        row = integers.mul(copy.dims[-1].size, size)
        self._buffers.made.needs[output.name] = TileNeeds(output.name, memory.name, (), row)
        whole = integers.ceildiv(integers.add(within, copy.inside), chunk)
        (held,) = (each.elements for each in self._buffers.pipeline(output).contents)
        if output.in_lines:
            held = integers.constant(row_of(output, self._buffers.extent(output.loop[-1]))) or held
        return replace(
            copy,
            index=integers.add(copy.index, integers.sub(head, within)),
            dims=(
                TileDim(
                    box=integers.index(held),
                    first=integers.sub(copy.start, within),
                    size=total,
                    stride=integers.ONE,
                ),
            ),
            inside=integers.mul(whole, chunk),
        )

    def _walking(self, output: TensorView, depth: int) -> list[Expr]:
        """Indices of the loops that walk the tile: 0 of those with one iteration, or symbols."""
        extents: list[Expr] = [self._buffers.extent(axis) for axis in output.loop[depth:]]
        if len(extents) > 1:
            extents = [integers.index(constant_of(extent)) for extent in extents]
        return [
            integers.ZERO if extent == integers.ONE else Symbol(f"lane{number}", extent=extent)
            for number, extent in enumerate(extents)
        ]

    def _check_packed(self, output: TensorView, shared: TensorView, place: Expr, tile: Box) -> None:
        """The tile fills consecutive elements of shared memory, in memory's order."""
        expected: Expr = integers.ZERO
        step: Expr = integers.ONE
        for lane in tile.lanes_fastest_first:
            expected = integers.add(expected, integers.mul(lane, step))
            step = integers.mul(step, extent_of(lane))
        start = without(place, list(tile.lanes_fastest_first))
        if integers.sub(integers.sub(place, start), expected) != integers.ZERO:
            raise ScheduleError(
                f"the tile of {output.name} does not lie in {shared.name} as it lies in memory "
                f"(elements {place!r}, wanted {expected!r} from its start)",
                code="WS0297",
                remedy="order the loops bound to tma as memory's dimensions, the fastest last, "
                "without padding",
            )


def _read_dims(
    access: Access, operation: Operation, source: TensorView
) -> list[tuple[MemoryDim, ...]]:
    """For each dimension of memory, broadcast ones left out, those that a copy of it, or of a
    stretch of it, walks: of elements apart, every so many of them, and which one of these.
    """
    if not isinstance(operation, Read):
        return [(dim,) for dim in access.input_dims(source)]
    root, extents = operation.output.root, [axis.extent for axis in source.shape_axes]
    found: list[tuple[MemoryDim, ...]] = []
    for k, stride in enumerate(strides(source, extents)):
        if source.shape_axes[k].is_broadcast:
            continue
        walked = start_and_step(operation.places[0][k], k)
        assert walked is not None, f"`stretch_of` admitted {operation.output.name}"
        (start, step), index = walked, access.axis(root[k])
        if step == 1:
            found.append((MemoryDim(integers.add(start, index), extents[k], stride),))
            continue
        first = integers.mod(start, step)
        count = integers.ceildiv(integers.sub(extents[k], first), step)
        whole = integers.add(integers.floordiv(start, step), index)
        found.append(
            (
                MemoryDim(whole, count, integers.mul(stride, step)),
                MemoryDim(first, integers.index(step), stride),
            )
        )
    return found


def _is_rounded(output: TensorView) -> bool:
    """Whether tensor cores read the copy as TF32: else they would cut off what they do not read."""
    readers = [use for use in Fusion.of(output).uses(output) if isinstance(use, Matmul)]
    atoms = [atom_for(use, WGMMA) for use in readers]
    return any(atom is not None and atom.precision == "tf32" for atom in atoms)


def _touches(expr: Expr, lanes: list[Symbol]) -> bool:
    return any(node in lanes for node in expr.walk())


def _inside(output: TensorView, tile: Box, bounds: list[Expr]) -> Expr:
    """Elements of the tile's fastest dimension that are inside, given what bounds its loops.

    A box that is loaded may reach beyond its part of a dimension: nobody reads what is there. One
    that is stored may not, for the elements there belong to other tiles.
    """
    fastest = tile.dims[-1]
    bulk = output.copied_by is LoadStoreOpType.bulk
    walked = [bound for bound in bounds if _touches(bound, [*tile.lanes_fastest_first])]
    elsewhere = [bound for bound in walked if bound not in tile.ends]
    if elsewhere and (bulk or output.is_output):
        raise ScheduleError(
            f"the tile of {output.name} may end at {' and at '.join(map(repr, elsewhere))}, and "
            f"{'bulk copies' if bulk else 'stores'} can only be cut short where memory ends",
            code="WS0257",
            remedy="split by factors that divide"
            + ("" if output.is_output else ", or copy by LoadStoreOpType.tma"),
        )
    if not any(_touches(bound, [*tile.fastest]) for bound in bounds):
        return integers.index(fastest.box)
    return integers.minimum(integers.sub(fastest.size, fastest.first), fastest.box)


def share_less(copy: TensorView, shared: TensorView, depth: int) -> str:
    """The call that has one copy by the TMA unit move what threads along a loop compute."""
    return f"inline_at({copy.name}, {depth}, selected_tensors=[{shared.name}])"


def is_tile(output: TensorView, depth: int) -> bool:
    """Whether the loops from `depth` on are the tile of a copy by the TMA unit."""
    rest = output.loop[depth:]
    return output.copied_by.is_tma and all(a.parallel is ParallelType.tma for a in rest)
