"""Where each tensor of a kernel lives: its buffer, its layout, and the index of an element."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import field, replace

from warpsmith.errors import InternalError, ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul, Pointwise, Reduction, Scan, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.places import begin_of
from warpsmith.ir.readers import Readers, readers_of
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.ir.tensor import Operation, TensorView, Value
from warpsmith.kernel.nodes import Buffer, Element, For, Statement, Store
from warpsmith.kernel.pipelines import Pipeline
from warpsmith.kernel.tiles import TileNeeds
from warpsmith.layouts.swizzle import HARDWARE
from warpsmith.lower.access import Access
from warpsmith.lower.branches import branched_by
from warpsmith.lower.fills import brought_beside, ends_of_operands, zero_past_ends
from warpsmith.lower.grid_barriers import needed_by_all
from warpsmith.lower.independence import independent_axes
from warpsmith.lower.layouts import layout_of, size_of
from warpsmith.lower.rings import Rings
from warpsmith.lower.roles import Roles
from warpsmith.lower.threads import Threads
from warpsmith.values import dataclass


@dataclass(slots=True)
class Made:
    """What lowering makes besides the tensors' own buffers, in order of making.

    Attributes:
        alignments: bytes that the address of a global tensor is a multiple of.
        needs: what the TMA unit asks of copies, by the name of the tensor that is copied.
        left_to_threads: tensors that it cannot copy, with the reason.
        exchanged: names of the buffers of which some thread reads what another one wrote.
        pipelines: by name, which is that of the tensor whose stages they hold.
        limits: the largest values that expressions may have, where indices could have larger ones.
    """

    shared: dict[str, Buffer] = field(default_factory=dict)
    workspaces: dict[str, Buffer] = field(default_factory=dict)
    alignments: dict[str, int] = field(default_factory=dict)
    needs: dict[str, TileNeeds] = field(default_factory=dict)
    left_to_threads: dict[str, str] = field(default_factory=dict)
    exchanged: set[str] = field(default_factory=set)
    pipelines: dict[str, Pipeline] = field(default_factory=dict)
    limits: dict[Expr, int] = field(default_factory=dict)


class Buffers:
    """The buffers of one kernel, and how its operations reach into them.

    Attributes:
        inputs, outputs: the fusion's input and output tensors.
        unused: per tensor, its loop axes that none of its dimensions depends on.
        for_all: results of reductions over the grid that every block needs.
        layouts: axes that each local or shared buffer holds, row-major.
        rings: which tensors have stages, and which loops turn them.
        filled: the tensors that are 0 past the ends of their dimensions.
        beside: those that are, too, where one copy of threads can say so.
        ends: those in registers that are 0 past the end of one dimension, which tensor cores sum.
        deciding: the stages whose values threads branch by, some of which nobody may write.
        placed: the outputs that are parts of inputs.
        made: what lowering makes besides the tensors' own global buffers.
    """

    def __init__(
        self,
        fusion: Fusion,
        domains: DomainMap,
        threads: Threads,
        tma_alignment: Mapping[str, int] | None = None,
        roles: Roles | None = None,
    ) -> None:
        self.domains = domains
        self.threads = threads
        self.facts = fusion.divisors
        self.inputs = set(fusion.input_tensors)
        self.outputs = {output.value for output in fusion.outputs}
        self.unused = independent_axes(fusion, domains)
        self.for_all = needed_by_all(fusion.operations, self.unused)
        self.made = Made()
        self.placed = {o.value: o for o in fusion.outputs if o.place is not None}
        self._into = {o.value: o.alias_of for o in fusion.outputs if o.here}
        self.rings = Rings(fusion, tma_alignment, roles)
        self.filled = zero_past_ends(fusion)
        self.beside = brought_beside(fusion) - self.filled
        self.ends = ends_of_operands(fusion)
        self.deciding = branched_by(fusion)
        self.layouts: dict[TensorView, tuple[IterDomain, ...]] = {}
        self._buffers: dict[TensorView, Buffer] = {}
        # Operations that share their loops, as most of a kernel do, share what follows from them.
        self._derivations: dict[tuple[tuple[Group, Expr], ...], Derivation] = {}
        readers = readers_of(fusion.operations)
        for tensor in fusion.tensors:
            self._place(tensor, readers)

    def _place(self, tensor: TensorView, readers: Readers) -> None:
        _check_reduced_in_registers(tensor)
        if tensor in self.inputs or tensor in self.outputs:
            size = integers.mul(*(axis.extent for axis in tensor.shape_axes))
            written = tensor in self.outputs
            buffer = Buffer(tensor.name, tensor.dtype, MemoryType.global_, size, written)
            if (whole := self._into.get(tensor)) is not None:  # one buffer for both: they are one
                buffer = self._buffers[whole] = replace(buffer, name=whole.name)
        else:
            start = self.rings.stage_start(tensor)
            outside = not self.rings.crosses(tensor)
            layout = layout_of(self.domains, tensor, start, self.unused[tensor], outside=outside)
            if _is_shared_count(tensor) and layout and layout[-1] is tensor.loop[-1]:
                layout = layout[:-1]
            size = size_of(self.domains, tensor, layout)
            buffer = self.rings.buffer(tensor, size)
            if buffer.size != integers.ONE and _is_computed_bool(tensor, readers):
                buffer = replace(buffer, packed=True)
            self.layouts[tensor] = layout
        self._buffers[tensor] = buffer

    def in_role(self, threads: Threads) -> Buffers:
        """The same places as the threads of one role reach them."""
        view = copy(self)
        view.threads = threads
        view._derivations = {}
        return view

    def buffer(self, tensor: TensorView) -> Buffer:
        return self._buffers[tensor]

    def skips(self, operation: Operation, axis: IterDomain) -> bool:
        """Whether the operation's result is the same for every iteration of an own loop."""
        return axis in self.unused[operation.outputs[0]]

    def access(self, operation: Operation, indices: list[Expr]) -> Access:
        """Indices of an operation's tensors, given all its loop indices."""
        loops = zip(operation.outputs[0].loop, indices, strict=True)
        known = {self.domains.group(axis): index for axis, index in loops}
        key = tuple(known.items())
        if key not in self._derivations:
            self._derivations[key] = Derivation(self.domains, known)
        return Access(self.domains, self.threads, operation, self._derivations[key])

    def extent(self, axis: IterDomain) -> Expr:
        return self.domains.extent_of(axis)

    def own(self, access: Access, output: TensorView | None = None) -> Expr:
        """Index of the operation's own element in the output's buffer."""
        tensor = access.output if output is None else output
        return self.swizzled(tensor, self.own_row_major(access, tensor))

    def own_row_major(self, access: Access, tensor: TensorView) -> Expr:
        """That index before the chunks of a swizzled row trade places."""
        if self.buffer(tensor).memory is MemoryType.global_:
            placed = self.placed.get(tensor)
            begin = integers.ZERO if placed is None else begin_of(placed)
            return integers.add(access.of_output(), begin)
        return access.allocated(tensor, self.layouts[tensor])

    def read(self, access: Access, value: Value) -> Expr:
        """The value of an operand for the operation's own element."""
        if not isinstance(value, TensorView):
            return value
        index = self.swizzled(value, self.index_row_major(access, value))
        return Element(self.buffer(value), index)

    def index_row_major(self, access: Access, tensor: TensorView) -> Expr:
        """Where an operand is read, before the chunks of a swizzled row trade places."""
        if tensor in self.inputs:
            return access.of_input(tensor)
        if self.buffer(tensor).memory is MemoryType.global_:
            raise ScheduleError(
                f"{access.output.name} reads {tensor.name}, which is written to global memory "
                "by the same kernel",
                code="WS0265",
                remedy=f"call {tensor.name}.cache_before() so that its value stays in registers",
            )
        passes = self.rings.crosses(tensor)
        access.check_same_threads(tensor, self.unused[tensor], passes=passes)
        if not access.reads_own(tensor, self.unused[tensor]):
            self.made.exchanged.add(tensor.name)
        index = access.allocated(tensor, self.layouts[tensor])
        return integers.add(index, self.head(access, tensor))

    def head(self, access: Access, tensor: TensorView) -> Expr:
        """Elements of its stage that lie before the tile of a tensor which the loops of `access`
        reach: 0, unless its copy brings whole chunks, or leaves it in lines as it is in memory.
        """
        if not self.rings.has_head(tensor):
            return integers.ZERO
        operation = tensor.definition
        assert operation is not None
        begins = [
            integers.ZERO
            if axis.parallel is ParallelType.tma or self.extent(axis) == integers.ONE
            else access.axis(axis)
            for axis in tensor.loop
        ]
        start = self.access(operation, begins)
        (source,) = tensor_inputs(operation)
        return integers.mod(start.of_input(source), self.rings.grain(tensor) // tensor.dtype.size)

    def swizzled(self, tensor: TensorView, index: Expr) -> Expr:
        """Where an index of the tensor's row-major stage lies once its chunks are permuted.

        What chunks that change places have in common stays outside, where it can be a constant.
        """
        if not tensor.swizzle:
            return index
        line, lines, chunk = HARDWARE[tensor.swizzle].terms(tensor.dtype.size)
        number = integers.mod(integers.floordiv(index, line), lines)
        common, within = integers.parted(index, lines * chunk)
        place = Apply("xor", (within, integers.mul(number, chunk)), DataType.Index)
        return integers.add(common, place)

    def pipeline(self, tensor: TensorView) -> Pipeline:
        """The pipeline of a tensor in shared memory or registers, as far as it is known."""
        known = self.made.pipelines.get(tensor.name)
        if known is not None:
            return known
        size = size_of(self.domains, tensor, self.layouts[tensor])
        return self.rings.pipeline(tensor, self.buffer(tensor), size)

    def note(self, pipeline: Pipeline) -> str:
        """Keep what has become known of a pipeline; returns its name."""
        self.made.pipelines[pipeline.name] = pipeline
        return pipeline.name


def is_parallel(operation: Reduction | Matmul) -> bool:
    loops = operation.outputs[0].loop
    return any(axis.is_reduction and axis.parallel.is_thread for axis in loops)


def _check_reduced_in_registers(tensor: TensorView) -> None:
    """Refuse results of reductions elsewhere: threads that share one would all update it."""
    if not isinstance(tensor.definition, Reduction | Matmul | Scan):
        return
    made = "scanned" if isinstance(tensor.definition, Scan) else "reduced"
    if tensor.is_output:
        copied = len(tensor.definition.outputs) > 1
        remedy = "make a copy by ops.set the output" if copied else "call its cache_before"
        raise ScheduleError(
            f"{tensor.name} is {made} in place, and as an output lives in global memory",
            code="WS0275",
            remedy=remedy,
        )
    if tensor.memory is not MemoryType.local:
        raise ScheduleError(
            f"{tensor.name} is {made} in {tensor.memory.value} memory, and only registers can be "
            f"{made} into",
            code="WS0276",
            remedy="set the memory type of its cache_after",
        )


def _is_computed_bool(tensor: TensorView, readers: Readers) -> bool:
    """Whether threads compute bools that stay in registers until they have used them: no access of
    several elements moves them.
    """
    if tensor.dtype is not DataType.Bool or tensor.memory is not MemoryType.local:
        return False
    made = (tensor.definition, *readers.get(tensor, ()))
    return all(isinstance(step, Pointwise) and step.op != "set" for step in made)


def _is_shared_count(tensor: TensorView) -> bool:
    """Whether the tensor counts for a Welford step whose last loop walks results, not values."""
    definition = tensor.definition
    return (
        isinstance(definition, Reduction)
        and definition.counts_elements
        and tensor is definition.outputs[2]
        and not is_parallel(definition)
        and bool(tensor.loop)
        and not tensor.loop[-1].is_reduction
        and definition.source.compute_at < len(tensor.loop)
    )


def constant_of(expr: Expr) -> int:
    value = integers.constant(expr)
    if value is None:
        raise InternalError(f"{expr!r} should be a constant")
    return value


def filled(buffer: Buffer, value: Expr) -> Statement:
    """Every element of a register buffer becomes one value."""
    if buffer.size == integers.ONE:
        return Store(buffer, integers.ZERO, value)
    symbol = Symbol("e", extent=buffer.size)
    return For(symbol, buffer.size, (Store(buffer, symbol, value),), unroll=True)
