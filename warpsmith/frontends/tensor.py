"""Tensors as users see them: operators, nvFuser's methods, and schedule primitives."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith import ops
from warpsmith.frontends.operators import Equality, Operators, equality
from warpsmith.ir.domains import IterDomain, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.shape import Extents
from warpsmith.ops.values import Scalar
from warpsmith.schedule import caches, carriers, products, rings, roles, tile_order, transforms


class Tensor(Operators["Tensor"], TensorView):
    """A tensor of a fusion.

    Operators follow PyTorch. `a == b` is an operand (or a result), not a truth; no other tensor
    has a truth either, since its elements are only known at run time.
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        raise TypeError(
            f"the truth of {self.name} is known only at run time; use `where`, `logical_and` and "
            "`logical_or` instead of `if`, `and` and `or`"
        )

    def __eq__(self, other: object) -> Equality[Tensor]:  # type: ignore[override]  # as PyTorch's
        return equality("eq", self, other)

    def __ne__(self, other: object) -> Equality[Tensor]:  # type: ignore[override]  # as PyTorch's
        return equality("ne", self, other)

    __hash__ = TensorView.__hash__

    def size(self, dim: int) -> Expr:
        """Extent of a dimension; a constant where it is known."""
        return ops.size(self, dim)

    def shape(self) -> tuple[Expr, ...]:
        """Extents of all dimensions."""
        return ops.shape(self)

    def new_full(
        self, shape: Extents, fill_value: Scalar, dtype: DataType | None = None
    ) -> TensorView:
        """A tensor of one value in this one's fusion, and of its type by default."""
        return ops.full(shape, fill_value, dtype or self.dtype, fusion=Fusion.of(self))

    def new_iota(
        self,
        length: int | Expr,
        start: Scalar = 0,
        step: Scalar = 1,
        dtype: DataType = DataType.Int,
    ) -> TensorView:
        """`start + step * i` in this tensor's fusion."""
        return ops.iota(length, start, step, dtype, fusion=Fusion.of(self))

    def has_root(self) -> bool:
        """Whether a reshape or an rfactor made the logical domain from another one."""
        return self.root != self.logical

    def domain(self) -> tuple[IterDomain, ...]:
        """The loops that compute the tensor."""
        return tuple(self.loop)

    def get_loop_domain(self) -> tuple[IterDomain, ...]:
        return tuple(self.loop)

    def get_logical_domain(self) -> tuple[IterDomain, ...]:
        return self.logical

    def get_root_domain(self) -> tuple[IterDomain, ...]:
        return self.root

    # Primitives of one tensor, as its methods.
    cache_after = caches.cache_after
    cache_before = caches.cache_before
    split = transforms.split
    reorder = transforms.reorder
    order_tiles = tile_order.order_tiles
    set_load_store_op = carriers.set_load_store_op
    set_memory_type = transforms.set_memory_type
    set_allocation_domain = transforms.set_allocation_domain
    set_swizzle = transforms.set_swizzle
    load_chunks = carriers.load_chunks
    split_fragments = products.split_fragments
    split_operand = products.split_operand
    tensorize = products.tensorize
    circular_buffer = rings.circular_buffer
    set_role = roles.set_role
    order_groups = roles.order_groups

    def inner_split(self, axis: int, factor: int | Expr) -> Tensor:
        return self.split(axis, factor)

    def outer_split(self, axis: int, factor: int | Expr) -> Tensor:
        return self.split(axis, factor, inner_split=False)

    def merge(self, axis_o: int, axis_i: int | None = None) -> Tensor:
        """Join two loops, by default a loop and the next one."""
        transforms.merge(self, axis_o, axis_i)
        return self

    def rfactor(self, axes: Sequence[int]) -> TensorView | tuple[TensorView, ...]:
        """Reduce some loops in a new producer, and return it; three of them for Welford."""
        made = caches.rfactor(self, axes)
        return made[0] if len(made) == 1 else made

    def axis(self, index: int) -> Axis:
        """A loop, to be bound or looked at."""
        return Axis(self, self.loop[transforms.axis_position(self, index)])


class Axis:
    """A loop of a tensor."""

    def __init__(self, tensor: TensorView, domain: IterDomain) -> None:
        self._tensor = tensor
        self.domain = domain

    def parallelize(self, parallel_type: ParallelType) -> None:
        """Bind the loop to grid, block, vectorize, unroll, tma or serial."""
        transforms.bind(self._tensor, self.domain, parallel_type)

    def extent(self) -> Expr:
        return self.domain.extent

    def is_reduction(self) -> bool:
        return self.domain.is_reduction

    def __repr__(self) -> str:
        return repr(self.domain)
