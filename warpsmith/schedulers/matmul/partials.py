"""Reductions of what is computed of a product, which its kernel begins.

Over columns, or over all elements, a thread reduces what it has of the columns of one tile; four
have a row of it. Over rows, it reduces a part of the rows of a column, of a chunk that is staged to
be stored. What they find is a tensor of its own, which another kernel reduces. So nobody reads the
product for a sum, and no threads meet for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain, Split
from warpsmith.ir.exprs import Matmul, Pointwise, Reduction, made_by, replace_tensor
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, map_of
from warpsmith.ir.program import Program
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.layouts.fragments import QUAD
from warpsmith.ops.liveness import remove_dead
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.inline import inline_at
from warpsmith.schedule.pinned import pin
from warpsmith.schedule.roles import order_groups
from warpsmith.schedule.transforms import merge, reorder, split
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.matmul.params import FRAGMENT, Flags, MatmulParams
from warpsmith.schedulers.matmul.threads import GROUP_THREADS
from warpsmith.schedulers.matmul.ways import Times, Ways
from warpsmith.targets.atoms import ROWS
from warpsmith.values import dataclass

TILE, CHUNK = "tile_columns", "tile_chunk"
HIGH, PART = "tile_rows", "tile_part"
"""How names of the symbols begin that say of what partial results are: columns of a tile and of a
chunk of it; rows of a tile, and those of which one thread has a column of a chunk."""

SUM_BYTES = 4

OF_A_COLUMN, OF_A_ROW = 1, 2
"""Operations as which an element counts of which threads reduce columns, as they hold it, and rows,
as they read it again: with twice as many seven products at drawn sizes were predicted to take 1 to
4 us longer than they did (an H200, 2026-11-28)."""


def settled(params: MatmulParams) -> dict[str, int]:
    """What these are under a schedule."""
    rows, columns, _ = params.tile
    part = max(params.chunk * ROWS // GROUP_THREADS, 1)
    return {TILE: columns, CHUNK: params.chunk, HIGH: rows, PART: part}


def is_partial(operation: Operation) -> bool:
    """Whether it is such a reduction, of a part of a tile."""
    return isinstance(operation, Reduction) and bool(_sizes(operation.outputs[0]))


def partials_of(fusion: Program) -> tuple[TensorView, ...]:
    """What such reductions give."""
    return tuple(op.outputs[0] for op in fusion.operations if is_partial(op))


def has_parts(tensor: TensorView) -> bool:
    """Whether a tensor is one of these, or a copy."""
    return bool(sizes_of([tensor]))


def sizes_of(tensors: Iterable[TensorView]) -> tuple[Symbol, ...]:
    """The sizes, of such tensors, that a schedule decides."""
    nodes = (n for t in tensors for axis in t.shape_axes for n in axis.extent.walk())
    return tuple(dict.fromkeys(node for node in nodes if _is_size(node)))


def _is_size(node: Expr) -> TypeGuard[Symbol]:
    return isinstance(node, Symbol) and node.name.startswith((TILE, CHUNK, HIGH, PART))


def _sizes(tensor: TensorView) -> list[Symbol]:
    factors = (each.factor for each in tensor.transforms if isinstance(each, Split))
    return [factor for factor in factors if _is_size(factor)]


def over_rows(tensor: TensorView) -> bool:
    """Whether it reduces the rows of a tile, and not its columns."""
    return _sizes(tensor)[0].name.startswith(HIGH)


def reduced_places(domains: DomainMap, product: Matmul, tensor: TensorView) -> set[int | None]:
    """Which of a product's root axes a reduction goes over; None for others."""
    known = {
        domains.group(axis): place
        for place, axis in enumerate(product.output.root)
        if not axis.is_reduction
    }
    return {known.get(domains.group(axis)) for axis in tensor.root if axis.is_reduction}


def counted_parts(fusion: Program) -> tuple[int, int]:
    """How many such reductions a fusion has, of columns and of rows."""
    rows = [over_rows(tensor) for tensor in partials_of(fusion)]
    return len(rows) - sum(rows), sum(rows)


def reduced_as(begun: tuple[int, int]) -> int:
    """How many operations on an element so many reductions are as."""
    columns, rows = begun
    return columns * OF_A_COLUMN + rows * OF_A_ROW


def part_bytes(begun: tuple[int, int], ways: Ways) -> Times:
    """Bytes of partial results for each element of a result."""
    columns, rows = begun
    part = np.maximum(ways.chunk * ROWS // GROUP_THREADS, 1)
    return SUM_BYTES * (columns * QUAD / ways.columns + rows / part)


def whole_chunks(begun: tuple[int, int], ways: Ways) -> Flags:
    """With which schedules threads of one block have all sums of a tile, and results are staged in
    chunks, of which, where rows are reduced, threads have equal parts of each column.
    """
    staged = (ways.chunk > 0) & (ways.store_stages > 1) & (ways.splits == 1)
    _, rows = begun
    return np.asarray(staged & ((rows == 0) | (ROWS % np.maximum(ways.chunk, 1) == 0)))


def refusal(fusion: Program, product: Matmul) -> str:
    """Why partial results do not fit the tiles of a product; empty where they do."""
    found = partials_of(fusion)
    if not found:
        return ""
    if len([op for op in fusion.operations if isinstance(op, Matmul)]) > 1:
        return f"{found[0].name} is reduced of two products"
    if product.ends is not None:
        return f"{found[0].name} is reduced of a product by group"
    stored = [output.value for output in fusion.outputs if not has_parts(output.value)]
    if not stored:
        return f"nothing else than {found[0].name} is stored"
    for tensor in found:
        if over_rows(tensor) and _stored_as(tensor, stored) is None:
            return f"what {tensor.name} is reduced of is not stored"
    return ""


def _stored_as(tensor: TensorView, stored: Iterable[TensorView]) -> TensorView | None:
    """What is stored of the elements that a reduction has: these, or the form in which their user
    knows them.
    """
    assert isinstance(tensor.definition, Reduction)
    chain = [tensor.definition.source]
    while (source := _cast(chain[-1])) is not None:
        chain.append(source)

    def fits(each: TensorView) -> bool:
        wide = _cast(each)
        return each in chain or (wide in chain and wide.narrow is each.dtype)

    return next(filter(fits, stored), None)


def _cast(tensor: TensorView) -> TensorView | None:
    """What a tensor is another type of, if it is one."""
    made = made_by(tensor, "cast")
    value = made.inputs[0] if made is not None and len(made.inputs) == 1 else None
    return value if isinstance(value, TensorView) else None


def cut_columns(tensor: TensorView, places: Sequence[int], mark: str) -> TensorView:
    """Let a reduction first reduce what a thread has of the columns of a tile; returns that.

    Args:
        places: of its loops, those over the columns.
        mark: ends the names of sizes that are decided.
    """
    tile, chunk = (Symbol(f"{name}_{mark}", low=1) for name in (TILE, CHUNK))
    at = _last(tensor, places)
    factors: tuple[int | Expr, ...] = (tile, chunk, FRAGMENT, FRAGMENT // QUAD)
    for number, factor in enumerate(factors):
        split(tensor, at + number, factor)
    (part,) = rfactor(tensor, [at + 1, at + 2, at + 4])
    return part


def cut_rows(tensor: TensorView, places: Sequence[int], mark: str) -> TensorView:
    """Let a reduction over rows first reduce what a thread has of a column of a chunk; returns
    that, whose columns are the fastest.
    """
    high, each = (Symbol(f"{name}_{mark}", low=1) for name in (HIGH, PART))
    at = _last(tensor, places)
    factors: tuple[int | Expr, ...] = (high, ROWS, each)
    for number, factor in enumerate(factors):
        split(tensor, at + number, factor)
    (part,) = rfactor(tensor, [at + 3])
    part.stride_order = (*reversed(range(at)), at + 2, at + 1, at)
    return part


def _last(tensor: TensorView, places: Sequence[int]) -> int:
    """Have loops be the last ones, and one; its place."""
    others = [p for p in range(len(tensor.loop)) if p not in places]
    reorder(tensor, {old: new for new, old in enumerate((*others, *places))})
    for _ in places[1:]:
        merge(tensor, len(others))
    return len(others)


@dataclass(frozen=True, slots=True)
class Begun:
    """The reductions that a kernel begins.

    Attributes:
        columns: where they are stored, by what threads find of columns.
        rows: the same of rows.
        reads: by what is staged, the copies of it of which rows are reduced.
    """

    columns: Mapping[TensorView, TensorView]
    rows: Mapping[TensorView, TensorView]
    reads: Mapping[TensorView, TensorView]

    @staticmethod
    def of(fusion: Fusion, caches: Iterable[Cached], params: MatmulParams) -> Begun:
        """Those of a fusion, whose sizes are those of a schedule from now on."""
        found = partials_of(fusion)
        stored = {c.register: c.memory for c in caches if c.register in found}
        rows = {part: memory for part, memory in stored.items() if over_rows(part)}
        columns = {part: memory for part, memory in stored.items() if part not in rows}
        values = settled(params)
        for tensor in found:
            sizes: dict[Symbol, int] = {}
            for place, made in enumerate(tensor.transforms):
                if isinstance(made, Split) and _is_size(made.factor):
                    kind = next(k for k in values if made.factor.name.startswith(k))
                    sizes[made.factor] = values[kind]
                    factor: Expr = integers.index(values[kind])
                    tensor.transforms[place] = replace(made, factor=factor)
            pin(fusion, sizes)
        return Begun(columns, rows, {})

    @property
    def tensors(self) -> frozenset[TensorView]:
        """All that have loops of their own."""
        both = (*self.columns.items(), *self.rows.items())
        return frozenset(t for pair in both for t in pair)

    def read_staged(
        self, fusion: Fusion, staged: Mapping[TensorView, TensorView], caches: Iterable[Cached]
    ) -> Begun:
        """With rows reduced of copies of what is staged, by the outputs that are stored."""
        places = {c.register: staged[c.memory] for c in caches if c.memory in staged}
        reads: dict[TensorView, TensorView] = {}
        for part in self.rows:
            made = part.definition
            register = _stored_as(part, places)
            assert isinstance(made, Reduction)
            assert register is not None, "`refusal` looked for it"
            place, source = places[register], made.source
            if place not in reads:
                reads[place] = _copy(fusion, made, "set", place, place)
            read = reads[place]
            if read.dtype is not source.dtype:
                read = _copy(fusion, made, "cast", read, source)
                reads[source] = read
            fusion.replace(made, replace_tensor(made, source, read))
        if reads:
            remove_dead(fusion)
        return replace(self, reads=reads)

    def lay(self, like: TensorView, params: MatmulParams) -> None:
        """Loops of what is reduced: of columns `[turn, grid_x, chunk, group, thread, columns / 8,
        2, 2]`, those over columns reduced, so that what is found is stored behind the chunks; of
        rows `[turn, grid_x, chunk, group, thread, rows]`.

        Args:
            like: a tensor of the first kind.
        """
        for parts, inside in ((self.columns, None), (self.rows, self.reads)):
            for part, memory in parts.items():
                assert isinstance(part.definition, Reduction)
                _walk_like(part, memory, part.definition.source if inside else like)
                if params.ping_pong > 1:
                    for tensor in (part, memory):
                        order_groups(tensor, "epilogue")
                if inside is None:
                    inline_at(memory, params.outer, selected_tensors=[part])


def _copy(
    fusion: Fusion, before: Operation, op: str, source: TensorView, like: TensorView
) -> TensorView:
    axes = tuple(axis.clone() for axis in source.shape_axes)
    copy = fusion.tensor(like.dtype, axes)
    fusion.insert_before(before, Pointwise(op, (source,), copy))
    return copy


def _walk_like(register: TensorView, memory: TensorView, like: TensorView) -> None:
    """Give a reduction, and what stores it, the loops of what it is reduced of."""
    domains = map_of(Fusion.of(register))
    own = {domains.group(a): a for a in register.logical if a.is_reduction}
    register.loop = [own.get(domains.group(axis)) or _same(axis) for axis in like.loop]
    memory.loop = [_same(axis) for axis in like.loop if domains.group(axis) not in own]


def _same(axis: IterDomain) -> IterDomain:
    clone = axis.clone()
    clone.parallel = axis.parallel
    return clone
