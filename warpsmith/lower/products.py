"""Statements for tensor cores: products of tiles in shared memory, and `stmatrix`."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import InternalError, ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.atoms import atom_for
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul, Operation, Pointwise, tensor_inputs
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.nodes import Buffer, For, If, Statement, Store
from warpsmith.kernel.products import MatrixRegisters, MatrixTile, Multiply, StoreMatrix
from warpsmith.layouts.algebra import composed, counted, grouped
from warpsmith.layouts.descriptors import Descriptor, descriptor, packed_rows
from warpsmith.layouts.layout import Layout, Place
from warpsmith.layouts.matrices import LOOPS, PARTS, ROWS, Matrices, matrices
from warpsmith.layouts.memory import MemoryLayout
from warpsmith.layouts.swizzle import HARDWARE
from warpsmith.lower.access import Access
from warpsmith.lower.boxes import without
from warpsmith.lower.buffers import Buffers, constant_of
from warpsmith.lower.predicates import Predicates
from warpsmith.lower.threads import GROUP_THREADS
from warpsmith.lower.walked import index_of, layout_of
from warpsmith.targets.atoms import WGMMA
from warpsmith.targets.family import WARP


class Products:
    """Makes the statements of one kernel that tensor cores run, and those beside them."""

    def __init__(self, buffers: Buffers, predicates: Predicates) -> None:
        self._buffers = buffers
        self._predicates = predicates

    def start(self, operation: Operation, buffer: Buffer) -> list[Statement]:
        """Zeros where nothing is summed; else the first product replaces what was there."""
        steps = [
            self._buffers.extent(axis)
            for axis in operation.outputs[0].loop
            if axis.is_reduction and axis.parallel is not ParallelType.mma
        ]
        count = integers.mul(*steps) if steps else integers.ONE
        if integers.constant(count) is not None and integers.constant(count) != 0:
            return []
        symbol = Symbol("e", extent=buffer.size)
        zero = Store(buffer, symbol, Const(0, buffer.dtype))
        empty = Apply("eq", (count, integers.ZERO), DataType.Bool)
        return [If(empty, (For(symbol, buffer.size, (zero,), unroll=True),), uniform=True)]

    def emit(self, operation: Operation, indices: list[Expr]) -> list[Statement]:
        """The one instruction that the remaining loops of `operation` are."""
        self._check_threads(operation)
        if isinstance(operation, Matmul):
            return [self._product(operation, indices)]
        return [self._matrices(operation, indices)]

    def _check_threads(self, operation: Operation) -> None:
        threads = self._buffers.threads
        along = threads.of_warp_group
        if not along or (len(along) > 1 and not isinstance(operation, Matmul)):
            extent = threads.extents.get(ParallelType.block_x, integers.ONE)
            raise ScheduleError(
                f"{operation.outputs[0].name} is computed by {extent!r} threads along block_x, "
                f"and tensor cores take a warp group of {GROUP_THREADS}",
                code="WS1006",
                remedy="bind the first loop that split_fragments makes to block_x, and no other"
                + (", or with quads the first two to block_y and block_x" if not along else ""),
            )

    # --- products ------------------------------------------------------------------------------

    def _product(self, operation: Matmul, indices: list[Expr]) -> Multiply:
        output = operation.output
        lanes = _lanes(operation, len(indices), self._buffers)
        rows, columns, depth = lanes
        access = self._buffers.access(operation, [*indices, *lanes])
        self._check_parts(access, operation)
        outer = [
            index
            for axis, index in zip(output.loop[: len(indices)], indices, strict=True)
            if axis.is_reduction
        ]
        index = access.allocated(output, self._buffers.layouts[output])
        assert columns.extent is not None
        return Multiply(
            accumulators=self._buffers.buffer(output),
            index=self._first(operation, index),
            a=self._left(access, operation, rows, columns, depth),
            b=self._operand(access, operation.b, columns, rows, depth),
            columns=constant_of(columns.extent),
            keep=integers.less(integers.ZERO, integers.add(*outer)),
        )

    def _check_parts(self, access: Access, operation: Matmul) -> None:
        """Refuse tiles that reach from a part of the summed dimension into the next: what is past
        the end of the dimension is 0, and what is there would be summed twice.
        """
        summed = operation.output.root[-1]
        whole = self._buffers.domains.group(summed)
        cut = [g for g in access.inexact(summed, self._buffers.facts) if g != whole]
        if cut:
            extents = ", ".join(repr(self._buffers.domains.extent(group)) for group in cut)
            raise ScheduleError(
                f"tensor cores multiply whole tiles, and those of {operation.output.name} need not "
                f"divide the parts of {extents} into which {summed!r} is split: a tile would reach "
                "into the next part",
                code="WS1014",
                remedy="split the reduced dimension by a tile first, then the loop over tiles into "
                "parts",
            )

    def _first(self, operation: Matmul, index: Expr) -> Expr:
        """The first register of a thread's fragment, given any of them."""
        fragment = operation.output.allocation
        if fragment is None:
            raise InternalError(f"{operation.output.name} has no fragment")
        axes = [axis for axis in self._buffers.layouts[operation.output] if axis not in fragment]
        if axes:
            raise ScheduleError(
                f"{operation.output.name} has several products in registers, along {axes!r}",
                code="WS1007",
                remedy="bind these loops to the block, or inline the product inside them",
            )
        return integers.ZERO

    def _left(
        self, access: Access, operation: Matmul, row: Symbol, other: Symbol, depth: Symbol
    ) -> MatrixTile | MatrixRegisters:
        """Operand a, in shared memory or in the registers of the threads that multiply it."""
        tensor = operation.a
        if tensor.memory is not MemoryType.local:
            return self._operand(access, tensor, row, other, depth)
        atom = atom_for(operation, WGMMA)
        steps = self._buffers.threads.of_warp_group
        lanes = [axis for axis in tensor.loop if axis.parallel in steps]
        thread = integers.add(
            *(integers.mul(access.axis(axis), steps[axis.parallel]) for axis in lanes)
        )
        access.check_same_threads(tensor, self._buffers.unused[tensor].union(lanes))
        index = access.allocated(tensor, self._buffers.layouts[tensor])
        assert atom is not None, f"{operation.output.name} is tensorized, and has no atom"
        held = atom.a_layout()
        wanted = (
            (thread, counted(held, {Place.WARP: WARP, Place.LANE: 1})),
            (index, counted(held, {Place.REGISTER: 1})),
        )
        if any(layout_of(found, [row, depth]) != layout for found, layout in wanted):
            raise ScheduleError(
                f"{tensor.name} is an operand of tensor cores in registers, and does not lie as "
                f"they read it: thread {thread!r}, register {index!r}",
                code="WS1012",
                remedy=f"call split_operand on {tensor.name} where its loops over {atom.rows} rows "
                "and the reduced dimension are the innermost, and bind the first of what it makes "
                "to block_x",
            )
        start = without(index, [row, other, depth])
        return MatrixRegisters(self._buffers.buffer(tensor), start, tensor.dtype)

    def _operand(
        self, access: Access, tensor: TensorView, row: Symbol, other: Symbol, depth: Symbol
    ) -> MatrixTile:
        """An operand that the instruction finds by a descriptor (`layouts/descriptors.py`)."""
        if tensor.memory is not MemoryType.shared or not tensor.swizzle:
            raise ScheduleError(
                f"{tensor.name} is an operand of tensor cores, and is in {tensor.memory.value} "
                f"memory{'' if tensor.memory is not MemoryType.shared else ' without a swizzle'}",
                code="WS1004",
                remedy=f"load it by tma: {tensor.name}.cache_after(op_type=LoadStoreOpType.tma), "
                "set_memory_type(MemoryType.shared), set_swizzle(128)",
            )
        self._check_filled(tensor)
        index = self._buffers.index_row_major(access, tensor)
        start = without(index, [row, other, depth])
        walked = layout_of(index, [row, depth]) if other not in index.walk() else None
        found = None if walked is None else _descriptor(walked, tensor)
        if found is None:
            width = tensor.swizzle // tensor.dtype.size
            turned = f"; or {width} rows, the next one the reduced dimension, and a loop over such "
            turned += "pieces outside"
            raise ScheduleError(
                f"{tensor.name} does not lie in shared memory as tensor cores read it: elements "
                f"{integers.sub(index, start)!r} from the start of a tile, in rows of "
                f"{tensor.swizzle} bytes",
                code="WS1004",
                remedy=f"let its fastest loop walk {width} elements of the reduced dimension, and "
                f"the next one the rows{turned if tensor.dtype.size == 2 else ''}",
            )
        return MatrixTile(self._buffers.buffer(tensor), start, found)

    def _check_filled(self, tensor: TensorView) -> None:
        """Refuse an operand that threads write: nothing fences that before tensor cores read it."""
        definition = tensor.definition
        if tensor.copied_by is not LoadStoreOpType.tma:
            loads = (
                isinstance(definition, Pointwise)
                and definition.op == "set"
                and all(source.is_input for source in tensor_inputs(definition))
            )
            remedy = f"call {tensor.name}.set_load_store_op(LoadStoreOpType.tma) and bind the "
            remedy += "loops of a tile, and no others within them, to tma"
            raise ScheduleError(
                f"{tensor.name} is an operand of tensor cores, and the threads write it, by "
                f"{tensor.copied_by.value}: only TMA fills operands",
                code="WS1005",
                remedy=remedy
                if loads
                else "compute it in another fusion, whose result this one "
                "takes as an input and loads by tma",
            )
        why = self._buffers.made.left_to_threads.get(tensor.name)
        if why is not None:
            raise ScheduleError(
                f"{tensor.name} is an operand of tensor cores, and TMA cannot fill it: {why}",
                code="WS1005",
                remedy="give operands whose rows, and whose start, are multiples of 16 bytes",
            )

    # --- stmatrix ------------------------------------------------------------------------------

    def _matrices(self, operation: Operation, indices: list[Expr]) -> StoreMatrix:
        output, (source,) = operation.outputs[0], tensor_inputs(operation)
        lanes = _lanes(operation, len(indices), self._buffers)
        access = self._buffers.access(operation, [*indices, *lanes])
        condition = self._predicates.predicate(access, operation, always=False)
        if condition != integers.TRUE:
            raise ScheduleError(
                f"{output.name} is stored by stmatrix where {condition!r}, and whole warps store",
                code="WS1008",
                remedy="split by factors that divide, or store it with LoadStoreOpType.set",
            )
        own = self._buffers.index_row_major(access, source)
        first = without(own, [*lanes])
        if layout_of(own, lanes) != Layout.row_major(LOOPS):
            raise self._no_matrix(output, f"registers {own!r} of {source.name}")
        return StoreMatrix(
            target=self._buffers.buffer(output),
            target_index=self._buffers.swizzled(output, self._row(operation, indices, lanes)),
            source=self._buffers.buffer(source),
            source_index=first,
        )

    def _row(self, operation: Operation, indices: list[Expr], lanes: tuple[Symbol, ...]) -> Expr:
        """Where the row lies whose address a lane gives."""
        output, place = operation.outputs[0], _thread_axis(operation.outputs[0])

        def stored(thread: Expr, ends: Sequence[Expr]) -> Expr:
            at = [*indices[:place], thread, *indices[place + 1 :], *ends]
            return self._buffers.own_row_major(self._buffers.access(operation, at), output)

        warp, quad, part = (
            Symbol(name, low=0, extent=Const(extent))
            for name, extent in (("warp", GROUP_THREADS // WARP), ("quad", ROWS), ("part", PARTS))
        )
        thread = integers.add(integers.mul(warp, WARP), integers.mul(quad, PARTS), part)
        index = stored(thread, lanes)
        walked = layout_of(index, [quad, part, *lanes])
        moved = walked and matrices(grouped(walked, (0, 2, len(lanes))), output.dtype.size)
        if not moved or moved != Matrices(4, 2):
            raise self._no_matrix(output, f"elements {index!r} of its rows")
        own = indices[place]
        warp_start = integers.mul(integers.floordiv(own, WARP), WARP)
        first = integers.add(warp_start, index_of(moved.lane, own))
        return stored(first, _ends(moved, integers.mod(own, WARP)))

    def _no_matrix(self, output: TensorView, what: str) -> ScheduleError:
        return ScheduleError(
            f"the loops of {output.name} are no matrices of stmatrix: {what}",
            code="WS1003",
            remedy="call split_fragments, split the n / 8 by 2, and tensorize",
        )


def _descriptor(walked: Layout, tensor: TensorView) -> Descriptor | None:
    """How `wgmma` reads rows and k that lie so; None if it does not.

    Along k, eight rows stand directly behind the others.
    """
    found = descriptor(MemoryLayout(walked, tensor.dtype.size, HARDWARE[tensor.swizzle]))
    if found is None or found.transposed:
        return found
    packed = packed_rows(tensor.swizzle)
    return packed if found.stride in (0, packed.stride) else None


def _ends(moved: Matrices, lane: Expr) -> list[Expr]:
    """The loops of `LOOPS` at the element that begins the row whose address a lane gives."""
    found = []
    for dim in range(len(LOOPS)):
        only = Layout.strided(LOOPS, tuple(int(d == dim) for d in range(len(LOOPS))))
        digit = composed(only, moved.register)
        assert digit is not None, f"{moved} has other registers than {LOOPS}"
        found.append(index_of(digit, lane))
    return found


def is_instruction(output: TensorView, depth: int) -> bool:
    """Whether the loops from `depth` on are one instruction of tensor cores, or `stmatrix`."""
    rest = output.loop[depth:]
    return bool(rest) and all(axis.parallel is ParallelType.mma for axis in rest)


def _lanes(operation: Operation, depth: int, buffers: Buffers) -> tuple[Symbol, Symbol, Symbol]:
    first, second, third = (
        Symbol(f"lane{number}", low=0, extent=buffers.extent(axis))
        for number, axis in enumerate(operation.outputs[0].loop[depth:])
    )
    return first, second, third


def _thread_axis(output: TensorView) -> int:
    return next(p for p, a in enumerate(output.loop) if a.parallel is ParallelType.block_x)
