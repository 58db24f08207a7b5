"""Tensors of a fusion under nvFuser's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from warpsmith.frontends.nvfuser_direct import memory, swizzles
from warpsmith.frontends.nvfuser_direct.axes import IterDomain, TensorDomain
from warpsmith.frontends.nvfuser_direct.enums import (
    CacheOp,
    DataType,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    ours,
    theirs,
)
from warpsmith.frontends.nvfuser_direct.failures import as_runtime_errors, unsupported
from warpsmith.frontends.nvfuser_direct.pairs import PARTS, constant
from warpsmith.frontends.nvfuser_direct.statements import Expr, Val, expr_of
from warpsmith.frontends.nvfuser_direct.streams import split_input
from warpsmith.frontends.tensor import Tensor
from warpsmith.ir.domains import IterDomain as Domain
from warpsmith.ir.domains import MemoryType as Memory
from warpsmith.schedule import caches


class TensorView(Val):
    """A tensor of a fusion."""

    __slots__ = ()
    value: Tensor

    def __str__(self) -> str:
        return f"{self.value.name}_{self.value.dtype.value}{self.domain()}"

    __repr__ = __str__

    def is_symbolic(self) -> bool:
        return True

    def is_tensor(self) -> bool:
        return True

    def definition(self) -> Expr | None:
        made = self.value.definition
        return None if made is None else expr_of(made, self.fusion)

    @property
    def ndim(self) -> int:
        return self.value.rank

    def size(self, dim: int) -> Val:
        """Extent of a dimension."""
        return self.fusion.size(self, dim)

    def shape(self) -> list[Val]:
        """Extents of all dimensions."""
        return [self.fusion.size(self, dim) for dim in range(self.ndim)]

    def dtype(self) -> DataType:
        return theirs(self.value.dtype)

    def has_root(self) -> bool:
        return self.value.has_root()

    def domain(self) -> TensorDomain:
        return TensorDomain(self.value.domain())

    def get_logical_domain(self) -> list[IterDomain]:
        return self._axes(self.value.get_logical_domain())

    def get_loop_domain(self) -> list[IterDomain]:
        return self._axes(self.value.get_loop_domain())

    def get_root_domain(self) -> list[IterDomain]:
        return self._axes(self.value.get_root_domain())

    def cache_after(
        self,
        op_type: LoadStoreOpType = LoadStoreOpType.set,
        cache_op: CacheOp = CacheOp.unspecified,
        propagate_allocation_domain: bool = True,
        cached_uses: Iterable[TensorView] = (),
    ) -> TensorView:
        """Copy the tensor into a new one that its users (or `cached_uses`) read; returns it."""
        readers = [user.value for user in cached_uses]
        with as_runtime_errors():
            made = self.value.cache_after(
                ours(op_type), ours(cache_op), propagate_allocation_domain, readers
            )
        return self._made(made)

    def cache_before(self, op_type: LoadStoreOpType = LoadStoreOpType.set) -> TensorView:
        """Let a new tensor take over the definition; this one becomes a copy of it.

        Who reads an output reads the new tensor; of others, still this one.
        """
        value, kind = self.value, ours(op_type)
        with as_runtime_errors():
            made = caches.cache_before(value, op_type=kind, keep_readers=not value.is_output)
        return self._made(made)

    def set_memory_type(self, memory_type: MemoryType) -> None:
        with as_runtime_errors():
            self.value.set_memory_type(ours(memory_type))

    def split(self, axis: int, factor: int | Val, inner_split: bool = True) -> TensorView:
        """Divide a loop; `factor` is the extent of the inner part, or of the outer one."""
        with as_runtime_errors():
            if self.value.is_input:
                split_input(self.value, axis, bare(factor), inner_split)
            else:
                self.value.split(axis, bare(factor), inner_split)
        return self

    def inner_split(self, axis: int, factor: int | Val) -> TensorView:
        return self.split(axis, factor)

    def outer_split(self, axis: int, factor: int | Val) -> TensorView:
        return self.split(axis, factor, inner_split=False)

    def merge(self, axis_o: int, axis_i: int | None = None) -> TensorView:
        """Join two loops, by default a loop and the next one."""
        with as_runtime_errors():
            self.value.merge(axis_o, axis_i)
        return self

    def reorder(self, old2new: Mapping[int, int]) -> TensorView:
        """Move loops to new positions; the others keep their order."""
        with as_runtime_errors():
            self.value.reorder(old2new)
        return self

    def swizzle(self, x: int, y: int) -> TensorView:
        """Permute the second of two loops by the first one: a swizzle of shared memory.

        The second loop is over chunks of 16 bytes, and what it and the loops behind the first one
        walk has 128 bytes.

        Raises:
            Unsupported: WS0190 for other loops: TMA and tensor cores permute memory so.
        """
        with as_runtime_errors():
            rows = swizzles.row_bytes(self.value, x, y)
            if rows is None:
                raise unsupported(
                    "TensorView.swizzle",
                    "memory is permuted by chunks of 16 bytes in lines of 128",
                    "split rows so, as [.., 8, 8, 16 bytes] for rows of 128 bytes",
                )
            self.value.set_swizzle(rows)
        return self

    def swizzle1d(self, x: int, parallel_type: ParallelType) -> TensorView:
        raise unsupported("TensorView.swizzle1d", "it hands work to several GPUs in turns")

    def rfactor(self, axes: Sequence[int]) -> TensorView | tuple[TensorView, ...]:
        """Reduce some loops in a new producer, and return it; three of them for Welford."""
        with as_runtime_errors():
            made = self.value.rfactor(axes)
        return tuple(map(self._made, made)) if isinstance(made, tuple) else self._made(made)

    def set_allocation_domain(
        self, ids: Sequence[IterDomain], new_contiguity: object = True
    ) -> None:
        """Lay memory out by these loops, or axes that loops are made from; fastest last.

        Inputs and results lie by whole dimensions (`memory`); registers hold what loops walk.
        """
        value, axes = self.value, [each.domain for each in ids]
        with as_runtime_errors():
            if value.is_input or value.is_output:
                memory.set_order(value, axes, bool(new_contiguity))
            elif value.memory is not Memory.local:
                value.set_allocation_domain(axes)

    def set_device_mesh(self, mesh: object) -> None:
        raise unsupported("TensorView.set_device_mesh", "a fusion runs on one GPU")

    def axis(self, index: int) -> IterDomain:
        """A loop, to be bound or looked at."""
        with as_runtime_errors():
            return IterDomain(self, self.value.axis(index).domain)

    def _axes(self, domains: Iterable[Domain]) -> list[IterDomain]:
        return [IterDomain(self, domain) for domain in domains]

    def _made(self, tensor: Any) -> TensorView:
        made = self.fusion.wrapped(tensor)
        assert isinstance(made, TensorView)
        return made


def bare(value: object) -> Any:
    """What an argument is in warpsmith: values and members of enumerations, also in sequences.

    Complex numbers are pairs, and their types stay nvFuser's.
    """
    if isinstance(value, Val):
        return value.value
    if isinstance(value, complex):
        return constant(value)
    if isinstance(value, Enum):
        return value if value in PARTS else ours(value)
    if isinstance(value, list | tuple):
        return [bare(each) for each in value]
    return value
