"""Loop nests: from loop domains and compute-at positions to nested statements.

At every depth the operations that share a loop (a producer whose compute-at position lies deeper
than it, and its consumers) form one nest. Nests are put in dependence order; inside each the same
happens one level deeper. An operation without loops left is a statement, made by `lower/emit.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from warpsmith.errors import InternalError, ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import IterDomain, ParallelType
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.ir.tensor import Operation
from warpsmith.kernel.nodes import Declare, For, If, Let, Statement
from warpsmith.kernel.pipelines import OneStage, Section, SkipStages
from warpsmith.lower.channels import Channels
from warpsmith.lower.emit import Emitter
from warpsmith.lower.grouping import APART, Siblings, grouped
from warpsmith.lower.skips import Skips
from warpsmith.lower.stream_k import StreamK
from warpsmith.lower.threads import Threads
from warpsmith.lower.tile_scheduler import HandedOut
from warpsmith.lower.tiles import share_less

UNROLL_LIMIT = 64
"""Constant loops up to this length are unrolled: their indices address registers."""

STORES = 8
"""A loop that copies from shared to global memory, and is longer, stays rolled: its index addresses
no registers, and all of its addresses at once would fill them."""


class Nests:
    """Builds the body of a kernel, or of one role of it.

    Args:
        channels: how operations come by stages that pass between roles; None without roles.
        skips: which iterations the roles skip.
        siblings: loops that operations share though none reads the other's result.
        prefix: of the names of loops.
        handed: the iterations that blocks are handed, where a loop is bound to `dynamic`.
    """

    def __init__(
        self,
        domains: DomainMap,
        threads: Threads,
        leaves: Emitter,
        channels: Channels | None = None,
        skips: Skips | None = None,
        siblings: Siblings = APART,
        prefix: str = "i",
        handed: HandedOut | None = None,
    ) -> None:
        self._domains = domains
        self._threads = threads
        self._leaves = leaves
        self._channels = channels
        self._skips = skips
        self._siblings = siblings
        self._prefix = prefix
        self._loops = 0
        self._handed = handed
        self._block: Expr | None = None  # of the tile that is dealt

    def build(self, operations: Sequence[Operation]) -> tuple[Statement, ...]:
        """The loops and statements of operations, given in definition order."""
        return tuple(self._level(list(operations), 0, {}))

    def _level(
        self,
        operations: list[Operation],
        depth: int,
        indices: dict[Operation, list[Expr]],
    ) -> list[Statement]:
        """Statements of operations whose first `depth` loops are already open."""
        parts: list[tuple[list[Operation], list[Statement]]] = []
        for nest in grouped(operations, depth, self._siblings):
            statements: list[Statement] = []
            for operation in nest:
                statements += self._leaves.declare(operation, depth)
            parts.append((nest, [*statements, *self._nest(nest, depth, indices)]))
        if self._channels is None:
            return [s for _, part in parts for s in part]
        return self._turned(operations, depth, self._in_sections(parts, depth))

    def _in_sections(
        self, parts: list[tuple[list[Operation], list[Statement]]], depth: int
    ) -> list[Statement]:
        """The statements of a level, with what groups run one after the other in sections."""
        assert self._channels is not None
        named = [
            dict.fromkeys(s for op in nest for s in self._channels.sections_at(op, depth))
            for nest, _ in parts
        ]
        result: list[Statement] = []
        position = 0
        while position < len(parts):
            name = next(iter(named[position]), "")
            end = position + 1
            if name:
                end = 1 + max(p for p, names in enumerate(named) if name in names)
                inside = [s for _, part in parts[position:end] for s in part]
                declared = [s for s in inside if isinstance(s, Declare)]
                rest = tuple(s for s in inside if not isinstance(s, Declare))
                result += [*declared, Section(name, rest)]
            else:
                result += parts[position][1]
            position = end
        return result

    def _turned(
        self, operations: list[Operation], depth: int, statements: list[Statement]
    ) -> list[Statement]:
        """The statements of a level, marked where a stage is filled or used inside them."""
        assert self._channels is not None
        here = dict.fromkeys(p for op in operations for p in self._channels.at(op, depth))
        ends = dict.fromkeys(p for op in operations for p in self._channels.shares_end(op, depth))
        result: list[Statement] = statements
        if here:
            result = [OneStage(tuple(here), tuple(statements))]
        return [*result, SkipStages(tuple(ends))] if ends else result

    def _nest(
        self, nest: list[Operation], depth: int, indices: dict[Operation, list[Expr]]
    ) -> list[Statement]:
        first = nest[0]
        opened = {op: indices.get(op, []) for op in nest}
        if len(nest) == 1 and self._leaves.is_leaf(first, depth):
            return self._leaves.emit(first, opened[first])
        if any(depth >= len(op.outputs[0].loop) for op in nest):
            raise InternalError(f"{first.outputs[0].name}: loops end inside a shared nest")
        axes = [op.outputs[0].loop[depth] for op in nest]
        if self._handed is not None and axes[0].parallel is ParallelType.dynamic:
            return self._over_tiles(nest, depth, opened, self._handed)
        if self._threads.stream is not None and axes[0].parallel is ParallelType.stream_k:
            return self._over_shared(nest, depth, opened, self._threads.stream)
        if all(self._skips_loop(op, a, depth) for op, a in zip(nest, axes, strict=True)):
            return self._inside(nest, depth, opened, integers.ZERO)
        parallel = self._parallel_type(nest, axes, depth)
        extent = self._domains.extent_of(axes[0])
        if extent == integers.ONE:
            return self._inside(nest, depth, opened, integers.ZERO)
        if parallel is ParallelType.grid_x and self._block is not None:
            return self._inside(nest, depth, opened, self._block)
        if parallel.is_thread:
            return self._inside(nest, depth, opened, self._threads.symbols[parallel])
        symbol = Symbol(f"{self._prefix}{self._loops}", extent=extent)
        self._loops += 1
        index, counted = self._counted(nest, depth, symbol, extent)
        if self._threads.stream is not None and self._is_inside_part(first, depth):
            symbol, extent, index = self._threads.stream.steps_of(symbol.name)
        body = [*counted, *self._inside(nest, depth, opened, index)]
        turns = tuple(name for op in nest for name in self._leaves.turns(op, depth))
        numbers = self._channels is not None and any(self._channels.keeps(op, depth) for op in nest)
        known = isinstance(extent, Const) and int(extent.value) <= UNROLL_LIMIT
        staged = turns and all(self._leaves.is_staging(op) for op in nest if self._turns(op, depth))
        free = (staged or not turns) and not numbers
        short = known and (free or self._in_registers(nest, depth)) and not self._asks(nest)
        unroll, together = short or parallel is ParallelType.unroll, 1
        if isinstance(extent, Const) and unroll and all(map(self._leaves.leaves_shared, nest)):
            unroll, together = extent.value <= STORES, gcd(int(extent.value), STORES)
        return [For(symbol, extent, tuple(body), unroll, turns, together)]

    def _counted(
        self, nest: list[Operation], depth: int, symbol: Symbol, extent: Expr
    ) -> tuple[Expr, list[Statement]]:
        """The index that a loop walks, and the statement that gives it a name, if it is another
        than the loop's own: scans from the end count down.
        """
        down = [self._leaves.runs_backwards(operation, depth) for operation in nest]
        if not any(down):
            return symbol, []
        others = [op for op, back in zip(nest, down, strict=True) if not back]
        forward = next((op for op in others if self._leaves.carries(op, depth)), None)
        if forward is not None:
            name = nest[down.index(True)].outputs[0].name
            raise ScheduleError(
                f"{forward.outputs[0].name} and {name} share a loop that one of them scans from "
                "the front, and the other one from the end",
                code="WS1022",
                remedy="inline them less deep, so that each has a loop of its own",
            )
        index = Symbol(f"{symbol.name}_back", extent=extent)
        return index, [Let(index, integers.sub(integers.sub(extent, 1), symbol))]

    def _over_tiles(
        self,
        nest: list[Operation],
        depth: int,
        indices: dict[Operation, list[Expr]],
        handed: HandedOut,
    ) -> list[Statement]:
        turn, tile = handed.loop(f"{self._prefix}{self._loops}")
        self._loops += 1
        index, self._block = handed.places(tile)
        body = self._inside(nest, depth, indices, index)
        self._block = None
        return [handed.over(turn, tile, body)]

    def _over_shared(
        self,
        nest: list[Operation],
        depth: int,
        indices: dict[Operation, list[Expr]],
        stream: StreamK,
    ) -> list[Statement]:
        extent = self._domains.extent_of(nest[0].outputs[0].loop[depth])
        turn = Symbol(f"{self._prefix}{self._loops}", low=0, extent=extent)
        self._loops += 1
        index, self._block = stream.places(stream.tile)
        body = self._inside(nest, depth, indices, index)
        self._block = None
        return [stream.over(turn, self._threads.symbols[ParallelType.grid_x], body)]

    def _is_inside_part(self, operation: Operation, depth: int) -> bool:
        """Whether a loop is the one over steps of which each block has some."""
        loops = operation.outputs[0].loop
        return depth > 0 and loops[depth - 1].parallel is ParallelType.part

    def _in_registers(self, nest: list[Operation], depth: int) -> bool:
        """Whether the loop's index addresses registers, which have no address when it runs."""
        return any(self._leaves.indexes_registers(operation, depth) for operation in nest)

    def _asks(self, nest: list[Operation]) -> bool:
        """Whether threads of a role ask for copies that nobody waits for inside the loop."""
        kinds = {operation.outputs[0].copied_by for operation in nest}
        return self._channels is not None and kinds == {LoadStoreOpType.cp_async}

    def _turns(self, operation: Operation, depth: int) -> bool:
        return bool(self._leaves.turns(operation, depth))

    def _skips_loop(self, operation: Operation, axis: IterDomain, depth: int) -> bool:
        """Whether one iteration of an operation's loop does for all."""
        numbers = self._channels is not None and self._channels.keeps(operation, depth)
        return not numbers and self._leaves.skips(operation, axis)

    def _inside(
        self,
        nest: list[Operation],
        depth: int,
        indices: dict[Operation, list[Expr]],
        index: Expr,
    ) -> list[Statement]:
        deeper = {key: [*values, index] for key, values in indices.items()}
        body = self._level(nest, depth + 1, deeper)
        if self._skips is None:
            return body
        condition = self._skips.condition(nest, deeper[nest[0]])
        if condition == integers.TRUE:
            return body
        return [If(condition, tuple(body), uniform=True)]

    def _parallel_type(
        self, nest: list[Operation], axes: list[IterDomain], depth: int
    ) -> ParallelType:
        kinds = {axis.parallel for axis in axes}
        threads = {kind for kind in kinds if kind.is_thread}
        if len(threads) > 1 or (threads and len(kinds) > 1):
            names = ", ".join(
                f"{op.outputs[0].name}: {a!r}" for op, a in zip(nest, axes, strict=True)
            )
            raise ScheduleError(
                f"tensors that share a loop bind it differently ({names})",
                code="WS0263",
                remedy=self._alike(nest, axes, depth),
            )
        if threads:
            return threads.pop()
        unrolled = any(kind.is_unrolled for kind in kinds)
        return ParallelType.unroll if unrolled else ParallelType.serial

    def _alike(self, nest: list[Operation], axes: list[IterDomain], depth: int) -> str:
        """How operations could share a loop that some bind to threads, and others otherwise."""
        copy = next((op for op in nest if op.outputs[0].copied_by.is_tma), None)
        bound = next(axis.parallel for axis in axes if axis.parallel.is_thread)
        if copy is None or not bound.is_block:
            return "call parallelize_like on the tensor that is bound as wanted"
        output, (source,) = copy.outputs[0], tensor_inputs(copy)
        if output.is_output and bound is self._threads.groups_along:
            return f"call {output.name}.axis({depth}).parallelize(ParallelType.{bound.name})"
        inner, outer = (source, output) if output.is_output else (output, nest[-1].outputs[0])
        return f"one copy moves what all threads compute: {share_less(outer, inner, depth)}"
