"""Products by tensor cores, of tiles in shared memory or of what registers hold."""

from __future__ import annotations

from warpsmith.errors import InternalError, ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.atoms import tensorized_by
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.kernel.products import (
    Fragment,
    MatrixRegisters,
    MatrixTile,
    Multiply,
    MultiplyByWarp,
)
from warpsmith.layouts.algebra import counted
from warpsmith.layouts.descriptors import Descriptor, descriptor, packed_rows
from warpsmith.layouts.layout import Layout, Place
from warpsmith.layouts.memory import MemoryLayout
from warpsmith.layouts.swizzle import HARDWARE
from warpsmith.lower.access import Access
from warpsmith.lower.boxes import length, without
from warpsmith.lower.buffers import Buffers, constant_of, filled
from warpsmith.lower.matrices import lanes_of, wrong_threads
from warpsmith.lower.stream_k import FIRST, STRIDE
from warpsmith.lower.walked import layout_of
from warpsmith.targets.atoms import ATOMS, Atom, Unit
from warpsmith.targets.family import THREAD_REGISTERS, WARP


class Products:
    """Makes the products of one kernel that tensor cores compute."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def start(self, operation: Matmul, buffer: Buffer) -> list[Statement]:
        """Zeros: `mma.sync` adds to them, and what the first `wgmma` replaces is there where none
        comes. Where one is known to come there are none.
        """
        atom = tensorized_by(operation, ATOMS)
        steps = [
            integers.constant(self._buffers.extent(axis))
            for axis in operation.output.loop
            if axis.is_reduction and axis.parallel is not ParallelType.mma
        ]
        if (
            atom is not None
            and atom.is_asynchronous
            and all(steps)
            and not self._may_lack(operation)
        ):
            return []
        return [filled(buffer, Const(0, buffer.dtype))]

    def _may_lack(self, operation: Matmul) -> bool:
        """Whether some block of the grid may have nothing to sum."""
        threads, loops = self._buffers.threads, operation.output.loop
        grid = {axis: threads.symbols[axis.parallel] for axis in loops if axis.parallel.is_grid}
        access = self._buffers.access(operation, [grid.get(a, integers.ZERO) for a in loops])
        first = access.inside(operation.output.root[-1:], self._buffers.facts)
        return bool(set(grid.values()).intersection(first.walk()))

    def emit(self, operation: Matmul, indices: list[Expr]) -> Multiply | MultiplyByWarp:
        """The one instruction that the remaining loops of a product are."""
        output, threads = operation.output, self._buffers.threads
        atom = tensorized_by(operation, ATOMS)
        assert atom is not None, f"{output.name} is tensorized, and has no atom"
        if not threads.along(atom.warps):
            raise wrong_threads(output, threads, atom.warps * WARP)
        lanes = lanes_of(operation, len(indices), self._buffers)
        rows, columns, depth = lanes
        access = self._buffers.access(operation, [*indices, *lanes])
        self._check_parts(access, operation)
        index = access.allocated(output, self._buffers.layouts[output])
        count = constant_of(self._buffers.extent(output.loop[-2]))
        sums = self._buffers.buffer(output)
        if atom.unit is Unit.MMA:
            a_side = (operation.a, atom.a_layout(), lanes)
            b_side = (operation.b, atom.b_layout(count), (columns, rows, depth))
            return MultiplyByWarp(
                sums=sums,
                index=without(index, [*lanes]),
                registers=atom.sums_layout(count).extent(Place.REGISTER),
                a=Fragment(*self._held(access, atom, *a_side)),
                b=Fragment(*self._held(access, atom, *b_side)),
            )
        self._check_held(operation)
        outer = [
            index
            for axis, index in zip(output.loop[: len(indices)], indices, strict=True)
            if axis.is_reduction
        ]
        a: MatrixTile | MatrixRegisters
        if operation.a.memory is MemoryType.local:
            buffer, start, _ = self._held(access, atom, operation.a, atom.a_layout(), lanes)
            a = MatrixRegisters(buffer, start, buffer.dtype)
        else:
            a = self._operand(access, operation.a, rows, columns, depth)
        return Multiply(
            accumulators=sums,
            index=without(index, [*lanes]),
            a=a,
            b=self._operand(access, operation.b, columns, rows, depth),
            columns=count,
            keep=integers.less(integers.ZERO, self._after_first(integers.add(*outer))),
        )

    def _after_first(self, steps: Expr) -> Expr:
        """How many steps of a sum have been before one, with none of other blocks between."""
        if self._buffers.threads.stream is None:
            return steps
        return substitute(steps, {STRIDE: integers.ONE, FIRST: integers.ZERO})

    def _check_parts(self, access: Access, operation: Matmul) -> None:
        """Refuse tiles that reach from a part of the summed dimension into the next: what is past
        the end of the dimension is 0, and what is there would be summed twice.
        """
        summed = operation.output.root[-1]
        past = access.outer_parts(summed)
        cut = [g for g in access.inexact(summed, self._buffers.facts) if g not in past]
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

    def _check_held(self, operation: Matmul) -> None:
        """Refuse more sums than a thread has registers for: what the loops outside an instruction
        tell apart is indexed by constants, in as many copies of it.
        """
        output = operation.output
        if output.allocation is None:
            raise InternalError(f"{output.name} has no fragment")
        held = self._buffers.layouts[output]
        axes = [axis for axis in held if axis not in output.allocation]
        count = integers.constant(self._buffers.buffer(output).size)
        if axes and (count is None or count > THREAD_REGISTERS):
            raise ScheduleError(
                f"{output.name} has several products in registers, along {axes!r}: {count} of a "
                f"thread, which has {THREAD_REGISTERS}",
                code="WS1007",
                remedy="bind these loops to the block, or inline the product inside them",
            )

    def _held(
        self,
        access: Access,
        atom: Atom,
        tensor: TensorView,
        held: Layout,
        lanes: tuple[Symbol, Symbol, Symbol],
    ) -> tuple[Buffer, Expr, int]:
        """An operand in the registers of the threads that multiply it: the first that a thread
        gives one product, and how many.

        Args:
            held: who has what of it, over the first and the last of the instruction's `lanes`.
        """
        row, _, depth = lanes
        call = f"call split_operand on {tensor.name} where its loops over {held.shape[0]} rows and "
        call += "the reduced dimension are the innermost, and bind the first of what it makes to "
        call += "block_x"
        if tensor.memory is not MemoryType.local:
            raise ScheduleError(
                f"{tensor.name} is an operand of {atom.unit.value}, which reads registers, and is "
                f"in {tensor.memory.value} memory",
                code="WS1012",
                remedy=f"copy it: {tensor.name}.cache_after(); then {call}",
            )
        steps = self._buffers.threads.along(atom.warps)
        own = [axis for axis in tensor.loop if axis.parallel in steps]
        thread = integers.add(
            *(integers.mul(access.axis(axis), steps[axis.parallel]) for axis in own)
        )
        access.check_same_threads(tensor, self._buffers.unused[tensor].union(own))
        index = access.allocated(tensor, self._buffers.layouts[tensor])
        wanted = (
            (thread, counted(held, {Place.WARP: WARP, Place.LANE: 1})),
            (index, counted(held, {Place.REGISTER: 1})),
        )
        if any(layout_of(found, [row, depth]) != layout for found, layout in wanted):
            raise ScheduleError(
                f"{tensor.name} is an operand of tensor cores in registers, and does not lie as "
                f"they read it: thread {thread!r}, register {index!r}",
                code="WS1012",
                remedy=call,
            )
        start = without(index, [*lanes])
        return self._buffers.buffer(tensor), start, held.extent(Place.REGISTER)

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
        found = None if other in index.walk() else _found(index, row, depth, tensor)
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
        """Refuse an operand that is not 0 past its ends, or that tensor cores would cut off."""
        call = f"call {tensor.name}.set_load_store_op(LoadStoreOpType.tma)"
        why = self._buffers.made.left_to_threads.get(tensor.name, "")
        if tensor.copied_by is LoadStoreOpType.bulk:
            raise ScheduleError(
                f"{tensor.name} is an operand of tensor cores, and comes by bulk: such copies end "
                "where memory does, and leave what was in a stage behind it, which is to be 0",
                code="WS1005",
                remedy=f"{call}, or LoadStoreOpType.cp_async",
            )
        rounded = tensor.copied_by is LoadStoreOpType.tma and not why
        if tensor.dtype is DataType.Float and not rounded:
            why = why and f", since {why}"
            raise ScheduleError(
                f"{tensor.name} is an operand of tensor cores, and threads write it{why}: they "
                "leave floats as they are, of which tensor cores cut off what TF32 has not",
                code="WS1005",
                remedy=f"{call}, which rounds them, and give it rows and a start at multiples of "
                "16 bytes; or multiply 16-bit types",
            )


def _found(index: Expr, row: Symbol, depth: Symbol, tensor: TensorView) -> Descriptor | None:
    """How `wgmma` reads what lies by an index; the last piece as wide as a swizzle may have more
    rows than are read.
    """
    whole = length(row) + -length(row) % (tensor.swizzle // tensor.dtype.size)
    wider = Symbol(row.name, low=0, extent=Const(whole))
    for rows in dict.fromkeys((row, wider)):
        walked = layout_of(substitute(index, {row: rows}), [rows, depth])
        found = None if walked is None else _descriptor(walked, tensor)
        if found is not None:
            return found
    return None


def _descriptor(walked: Layout, tensor: TensorView) -> Descriptor | None:
    """How `wgmma` reads rows and k that lie so; None if it does not.

    Along k, eight rows stand directly behind the others.
    """
    found = descriptor(MemoryLayout(walked, tensor.dtype.size, HARDWARE[tensor.swizzle]))
    if found is None or found.transposed:
        return found
    packed = packed_rows(tensor.swizzle)
    return packed if found.stride in (0, packed.stride) else None


def is_instruction(output: TensorView, depth: int) -> bool:
    """Whether the loops from `depth` on are one instruction of tensor cores, or `stmatrix`."""
    rest = output.loop[depth:]
    return bool(rest) and all(axis.parallel is ParallelType.mma for axis in rest)
