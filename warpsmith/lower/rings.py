"""Which tensors have stages, which loop turns them, and what a stage holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.copies import CHUNK_BYTES, LINE_BYTES
from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.nodes import Buffer
from warpsmith.kernel.pipelines import Content, Pipeline
from warpsmith.layouts.swizzle import HARDWARE
from warpsmith.lower.roles import Roles


class Rings:
    """The tensors of a fusion that are filled, or drained, as a ring's stages.

    Args:
        tma_alignment: by name, bytes, fewer than 16, that all addresses of a tensor's TMA copy are
            multiples of; such a copy is left to the threads.
    """

    def __init__(
        self,
        fusion: Fusion,
        tma_alignment: Mapping[str, int] | None = None,
        roles: Roles | None = None,
    ) -> None:
        self._tma_alignment = tma_alignment or {}
        self._roles = roles or Roles(fusion)
        self._axes = {
            t: self._find_axis(t)
            for t in fusion.tensors
            if t.buffering and not self._roles.crosses(t)
        }
        self._drained: dict[TensorView, list[TensorView]] = {}
        for store in dict.fromkeys(output.value for output in fusion.outputs):
            if store.copied_by.is_tma:
                for source in fusion.producers(store):
                    self._drained.setdefault(source, []).append(store)
        for tensor in fusion.tensors:
            self._check(fusion, tensor)

    def crosses(self, tensor: TensorView) -> bool:
        """Whether the tensor passes from one role to others."""
        return self._roles.crosses(tensor)

    def axis(self, tensor: TensorView) -> int | None:
        """Position of the loop that turns the tensor's circular buffer; None without one."""
        return self._axes.get(tensor)

    def home(self, tensor: TensorView) -> int:
        """How many loops are open where the tensor's memory comes into being."""
        if self.crosses(tensor):
            return self.stage_start(tensor)
        axis = self.axis(tensor)
        return tensor.compute_at if axis is None else axis

    def stage_start(self, tensor: TensorView) -> int:
        """The first of the loops that one stage holds."""
        if self.crosses(tensor):
            return slice_start(tensor)
        axis = self.axis(tensor)
        return tensor.compute_at if axis is None else axis + 1

    def is_filled(self, tensor: TensorView) -> bool:
        """Whether what loads the tensor fills a stage, for which its readers wait."""
        if self.crosses(tensor):
            return True
        loaded = tensor.copied_by.loads and not tensor.is_output
        return loaded or (self.axis(tensor) is not None and not self.is_drained(tensor))

    def is_drained(self, tensor: TensorView) -> bool:
        """Whether the TMA unit stores the tensor from shared memory."""
        return tensor in self._drained

    def alignment(self, tensor: TensorView) -> int:
        """Bytes that addresses of the tensor's tiles are multiples of; 16 lets TMA copy them."""
        return self._tma_alignment.get(tensor.name, 16)

    def has_head(self, tensor: TensorView) -> bool:
        """Whether a stage has elements before its tile: those with which a chunk in memory begins,
        or room for those with which a line does.

        Threads copy none of them.
        """
        return (tensor.chunks or tensor.in_lines) and self.alignment(tensor) >= CHUNK_BYTES

    def grain(self, tensor: TensorView) -> int:
        """Bytes in memory of which a stage with a head has as many before its tile as memory has
        behind a multiple of them."""
        return LINE_BYTES if tensor.in_lines else CHUNK_BYTES

    def stage_elements(self, tensor: TensorView, elements: Expr) -> Expr:
        """Elements of one stage, so that the next one begins where copies may, of a tensor of which
        a stage holds so many.
        """
        step = max(1, _alignment(tensor, self.is_drained(tensor)) // tensor.dtype.size)
        if self.has_head(tensor) and not tensor.in_lines:
            elements = integers.add(elements, CHUNK_BYTES // tensor.dtype.size - 1)
        if tensor.buffering:
            elements = integers.mul(integers.ceildiv(elements, step), step)
        return elements

    def pipeline(self, tensor: TensorView, buffer: Buffer, elements: Expr) -> Pipeline:
        """The pipeline of a tensor, in the buffer that `buffer` gave for so many elements.

        Who fills its stages, and by what, are for others to say.
        """
        held = self.stage_elements(tensor, elements)
        known = integers.constant(held)
        contents = (Content(buffer, held if known is None else known),)
        options = tensor.buffering
        if options is None:
            return Pipeline(name=tensor.name, stages=1, contents=contents)
        return Pipeline(
            name=tensor.name,
            stages=options.stages,
            contents=contents,
            prefetch=options.prefetch,
            label=options.ring,
            interval=options.interval,
            where=options.where,
        )

    def buffer(self, tensor: TensorView, elements: Expr) -> Buffer:
        """The buffer of a tensor in registers or shared memory, all stages of it."""
        drained = self.is_drained(tensor)
        if not drained and not self.is_filled(tensor):
            made = Buffer(tensor.name, tensor.dtype, tensor.memory, elements)
            return replace(made, alignment=_alignment(tensor, drained)) if tensor.swizzle else made
        stages = tensor.buffering.stages if tensor.buffering else 1
        return Buffer(
            tensor.name,
            tensor.dtype,
            tensor.memory,
            integers.mul(stages, self.stage_elements(tensor, elements)),
            guarded=tensor.memory is MemoryType.shared,
            alignment=_alignment(tensor, drained),
        )

    def _find_axis(self, tensor: TensorView) -> int:
        """The innermost serial loop that is shared with consumers, outside all unrolled ones."""
        if tensor.compute_at == 0:
            raise ScheduleError(
                f"{tensor.name} has a circular buffer and shares no loop with its consumers "
                "(compute-at position 0)",
                code="WS0290",
                remedy="call inline_at or inline_most before the kernel is compiled",
            )
        shared = tensor.loop[: tensor.compute_at]
        unrolled = [p for p, axis in enumerate(shared) if axis.parallel.is_unrolled]
        candidates = shared[: min(unrolled)] if unrolled else shared
        for position in reversed(range(len(candidates))):
            axis = candidates[position]
            if axis.parallel is ParallelType.serial and not axis.is_broadcast:
                return position
        raise ScheduleError(
            f"{tensor.name} has a circular buffer, and no loop that it shares with its consumers "
            f"can turn it: {shared!r} are all unrolled, within an unrolled one, or bound",
            code="WS0291",
            remedy="keep one shared loop serial, outside every unrolled one",
        )

    def _check(self, fusion: Fusion, tensor: TensorView) -> None:
        """Refuse what no ring can order."""
        loaded = tensor.copied_by.loads and not tensor.is_output
        if loaded and tensor.memory is not MemoryType.shared:
            raise ScheduleError(
                f"{tensor.name} is loaded by {tensor.copied_by.value} into {tensor.memory.value} "
                "memory, and such copies end in shared memory",
                code="WS0292",
                remedy=f"call {tensor.name}.set_memory_type(MemoryType.shared)",
            )
        if tensor.buffering and tensor.buffering.interval:
            self._check_interval(tensor)
        if not self.is_drained(tensor):
            self._check_source(tensor)
            return
        if tensor.memory is not MemoryType.shared:
            raise ScheduleError(
                f"{tensor.name} is stored by TMA from {tensor.memory.value} memory, and such "
                "copies start in shared memory",
                code="WS0293",
                remedy=f"call {tensor.name}.set_memory_type(MemoryType.shared)",
            )
        if self.crosses(tensor):
            return
        stores = self._drained[tensor]
        if tensor.copied_by.loads:
            uses = ", ".join(store.name for store in stores)
            raise ScheduleError(
                f"{tensor.name} is stored by TMA and itself loaded by {tensor.copied_by.value}: "
                "one ring cannot order both",
                code="WS0294",
                remedy="store a copy of its own, in shared memory: "
                f"{tensor.name}.cache_after(cached_uses=[{uses}])",
            )

    def _check_interval(self, tensor: TensorView) -> None:
        """Refuse an interval where no thread of the readers asks the TMA unit for each stage."""
        carrier = tensor.copied_by
        if carrier.is_tma and not self.crosses(tensor) and not self.is_drained(tensor):
            return
        who = f"the role `{tensor.role}`" if self.crosses(tensor) else f"`{carrier.value}`"
        raise ScheduleError(
            f"{tensor.name} has an interval for its loads, and {who} fills its stages as soon as "
            "they are free",
            code="WS0238",
            remedy="load by `bulk` or `tma` without a role, or leave the interval out",
        )

    def _check_source(self, tensor: TensorView) -> None:
        """Refuse to fill stages ahead from what the same iteration only makes."""
        axis = self.axis(tensor)
        if axis is None or tensor.definition is None:
            return
        for source in tensor_inputs(tensor.definition):
            if source.compute_at > axis:
                raise ScheduleError(
                    f"{tensor.name} has a circular buffer, which {tensor.loop[axis]!r} turns, and "
                    f"copies {source.name}, of which that loop makes an iteration at a time: what "
                    "a later iteration will need is not there yet",
                    code="WS0278",
                    remedy=f"let a loop within it turn {tensor.name}, or compute {source.name} "
                    "outside it",
                )


def _alignment(tensor: TensorView, drained: bool) -> int:
    """Bytes that a stage starts at a multiple of.

    Tensor maps want 128; with a swizzle, stages start where its pattern does. Bulk copies and
    `cp.async` want 16.
    """
    if tensor.memory is not MemoryType.shared:
        return 1
    if tensor.swizzle:
        return HARDWARE[tensor.swizzle].period
    return 128 if drained or tensor.copied_by.is_tma else 16


def slice_start(tensor: TensorView) -> int:
    """The first of the loops that one stage holds, for a tensor that passes between roles.

    It is what the schedule says; or what stands inside the innermost serial loop that is shared
    with readers; or what stands inside all loops before those that a copy, or threads, walk.
    """
    if tensor.buffering is not None and tensor.buffering.slice_position is not None:
        return tensor.buffering.slice_position
    shared = tensor.loop[: tensor.compute_at]
    for position in reversed(range(len(shared))):
        if _turns(shared[position]):
            return behind_grid(tensor.loop, position + 1)
    loops = enumerate(tensor.loop)
    inner = [p for p, axis in loops if not (_turns(axis) or axis.parallel.is_of_blocks)]
    return min(inner, default=len(tensor.loop))


def behind_grid(loops: Sequence[IterDomain], position: int) -> int:
    """The position behind axes of blocks: they are no loops, and the same for all roles."""
    while position < len(loops) and loops[position].parallel.is_of_blocks:
        position += 1
    return position


def _turns(axis: IterDomain) -> bool:
    return axis.parallel is ParallelType.serial and not axis.is_broadcast
