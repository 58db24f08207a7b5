"""TensorView: a tensor value of a fusion, with its domains and where it lives."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeVar

from warpsmith.callers import Line
from warpsmith.ir.copies import CircularBuffer, LoadStoreOpType
from warpsmith.ir.domains import IterDomain, IterType, MemoryType, Transform
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr


class Owner(Protocol):
    """What has tensors, and numbers them: `Fusion.of` is a tensor's as the fusion that it is."""

    def register(self, tensor: TensorView) -> int: ...

    def is_input(self, tensor: TensorView) -> bool: ...

    def is_output(self, tensor: TensorView) -> bool: ...


class TensorView:
    """A tensor value.

    Only scheduling changes one after it is made: its loop domain and transforms, its memory, its
    compute-at position, and who defines it when a cache or an rfactor is put between.

    Attributes:
        number: names it, `T<number>`.
        root: axes as its producers see them; equals `logical` unless reshaped or rfactored.
        logical: its shape, plus its reduction axes.
        stride_order: memory order of global tensors: `stride_order[d]` is the rank of dimension
            `d`, 0 the fastest; None is row-major. Counts non-reduction dimensions.
        contiguity: per non-reduction dimension in logical order, whether its stride is the product
            of the faster ones' extents; None for a broadcast dimension.
        loop: the loops that compute it.
        transforms: every split and merge that connects root, logical and loop.
        allocation: axes that a tensor's memory is laid out by, row-major; None is its loops.
        lanes: the axis that tells the 128 threads of a warp group apart in whose registers tensor
            cores leave the tensor; None for all other tensors. `allocation` then are the axes of
            one thread's part.
        padding: elements added to the fastest row of that layout.
        chunks: its copy by `bulk` brings all of the 16-byte chunks that a tile lies in, where tiles
            neither begin nor end at multiples of 16 bytes.
        in_lines: its copy by `bulk` leaves each tile as far behind a line of 128 bytes in its stage
            as it is in memory.
        evict_last: what its load brings into the L2 is the last to go.
        evict_first: what its load by `bulk` or `tma` brings into the L2 is the first to go.
        streaming: its load leaves no copy in L1.
        around: its loads in vectors go on behind the end of what they read at the beginning of it.
        copied_by: what carries the copy that defines it.
        buffering: the stages that it is loaded through, ahead of their use; None is one stage.
        swizzle: bytes of the rows in which its shared memory permutes 16-byte chunks as TMA does:
            32, 64 or 128; 0 for none.
        line: of the user's program, which defined it; None if unknown.
        compute_at: how many outer loops it shares with its consumers.
        section: what groups of a role compute one after the other, by name; empty for no order.
        narrow: the type of 16 bits that a Float value is rounded to where it goes through memory:
            its user's type; None where the value is Float to its user, too.
        quotient: the operation and the divisor that it is without what a schedule did, which
            multiplies by the divisor's reciprocal; None for all other tensors.
        role: the warps that run its definition; empty where its consumers decide.
    """

    __slots__ = (
        "allocation",
        "around",
        "buffering",
        "chunks",
        "compute_at",
        "contiguity",
        "copied_by",
        "definition",
        "dtype",
        "evict_first",
        "evict_last",
        "fusion",
        "implicit_cast",
        "in_lines",
        "lanes",
        "line",
        "logical",
        "loop",
        "memory",
        "narrow",
        "number",
        "padding",
        "quotient",
        "role",
        "root",
        "section",
        "streaming",
        "stride_order",
        "swizzle",
        "transforms",
    )

    def __init__(
        self,
        fusion: Owner,
        dtype: DataType,
        logical: tuple[IterDomain, ...],
        *,
        root: tuple[IterDomain, ...] | None = None,
        transforms: tuple[Transform, ...] = (),
        stride_order: tuple[int, ...] | None = None,
        contiguity: tuple[bool | None, ...] | None = None,
    ) -> None:
        self.fusion = fusion
        self.number = fusion.register(self)
        self.dtype = dtype
        self.root = logical if root is None else root
        self.logical = logical
        self.loop: list[IterDomain] = list(logical)
        self.transforms: list[Transform] = list(transforms)
        self.stride_order = stride_order
        rank = len(self.shape_axes)
        self.contiguity = (True,) * rank if contiguity is None else contiguity
        self.memory = MemoryType.local
        self.padding = 0
        self.chunks = False
        self.in_lines = False
        self.evict_last = False
        self.evict_first = False
        self.streaming = False
        self.around = False
        self.copied_by = LoadStoreOpType.set
        self.buffering: CircularBuffer | None = None
        self.swizzle = 0
        self.allocation: tuple[IterDomain, ...] | None = None
        self.lanes: IterDomain | None = None
        self.compute_at = 0
        self.role = ""
        self.section = ""
        self.definition: Operation | None = None
        self.line: Line | None = None
        self.implicit_cast = False
        self.narrow: DataType | None = None
        self.quotient: tuple[str, Expr] | None = None

    @property
    def name(self) -> str:
        return f"T{self.number}"

    @property
    def every_axis(self) -> tuple[IterDomain, ...]:
        """Those of all its domains, and of the splits and merges between them; some twice."""
        lanes = () if self.lanes is None else (self.lanes,)
        made = (axis for each in self.transforms for axis in (each.axis, each.outer, each.inner))
        domains = (*self.root, *self.logical, *self.loop, *(self.allocation or ()))
        return (*domains, *lanes, *made)

    @property
    def shape_axes(self) -> tuple[IterDomain, ...]:
        """Logical axes without reductions: the tensor's dimensions."""
        return tuple([axis for axis in self.logical if axis.kind is not IterType.reduction])

    @property
    def rank(self) -> int:
        return len(self.shape_axes)

    @property
    def ndim(self) -> int:
        return self.rank

    @property
    def is_input(self) -> bool:
        return self.fusion.is_input(self)

    @property
    def is_output(self) -> bool:
        return self.fusion.is_output(self)

    @property
    def has_reduction(self) -> bool:
        return any(axis.is_reduction for axis in self.root)

    def memory_order(self) -> tuple[int, ...]:
        """Dimensions from slowest to fastest in memory."""
        if self.stride_order is None:
            return tuple(range(self.rank))
        return tuple(sorted(range(self.rank), key=lambda d: -self.stride_order[d]))  # type: ignore[index]

    def concrete_order(self) -> tuple[int, ...]:
        """Those of `memory_order` that are no broadcast ones, which have one element."""
        axes = self.shape_axes
        return tuple(d for d in self.memory_order() if not axes[d].is_broadcast)

    def __repr__(self) -> str:
        return f"{self.name}_{self.dtype.value}[{', '.join(map(repr, self.logical))}]"


TensorT = TypeVar("TensorT", bound=TensorView)

Value = TensorView | Expr
"""An operand: a tensor or a scalar expression."""

Pair = tuple[IterDomain, IterDomain]
"""(axis of a producer, root axis of the consumer) that are one iteration."""


class OneResult:
    """An operation with one result."""

    __slots__ = ()

    output: TensorView

    @property
    def outputs(self) -> tuple[TensorView, ...]:
        return (self.output,)


class Operation(Protocol):
    """What defines tensors: one of the frozen classes of `ir/exprs.py`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def inputs(self) -> tuple[Value, ...]: ...

    @property
    def outputs(self) -> tuple[TensorView, ...]: ...

    def pairs(self, source: TensorView) -> tuple[Pair, ...]:
        """The axes of an input and the outputs' root axes that are one iteration."""
