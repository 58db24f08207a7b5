"""What a heuristic may look at: the sizes of one call and the device that it runs on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr, evaluate
from warpsmith.ir.tensor import TensorView


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The device facts that schedules depend on; the defaults are one H200's.

    Attributes:
        clusters: (blocks, clusters of so many that run at once where a multiprocessor has one
            block). They lie within groups of multiprocessors, so some of these are left over.
        memory_bytes_per_us: by the clock and the bus of its memory, of which kernels reach some
            90 %; 0 if unknown.
    """

    sm_count: int = 132
    threads_per_sm: int = 2048
    clusters: tuple[tuple[int, int], ...] = ((2, 66), (4, 30), (8, 15), (16, 7))
    memory_bytes_per_us: int = 4_814_304

    def runs(self, clusters: Iterable[int]) -> tuple[int, ...]:
        """Those sizes of clusters, in blocks, that the device runs."""
        return tuple(filter(self.teams, clusters))

    def teams(self, blocks: int) -> int:
        """Clusters of so many blocks that run at once where a multiprocessor has one block; 0 where
        the device runs none.
        """
        if blocks == 1:
            return self.sm_count
        return next((count for most, count in self.clusters if most >= blocks), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One call.

    Attributes:
        values: integer symbols by name: sizes `T0_size1`, strides `T0_stride1`, integer scalars.
        alignment: bytes that each global tensor's address is a multiple of, by name; 16 where
            absent (warpsmith's own allocations are).
        target: the device.
        rings: whether loads run ahead through shared memory: `auto`, `prefer` or `never`.
        warp_specialize: whether a role of its own loads what kernels of rows compute.
        pace: whether blocks that go round many bytes of rows keep to the memory's pace.
    """

    values: Mapping[str, int]
    alignment: Mapping[str, int]
    target: Target = Target()
    rings: str = "auto"
    warp_specialize: bool | Literal["auto"] = "auto"
    pace: bool = True

    def size(self, expr: Expr) -> int:
        return evaluate(expr, dict(self.values))

    def aligned(self, tensor: TensorView, width: int) -> bool:
        """Whether vectors of `width` elements of the tensor start at multiples of their size."""
        wanted = min(width * tensor.dtype.size, 16)
        return self.alignment.get(tensor.name, 16) % wanted == 0


def widest_vector(dtypes: list[DataType]) -> int:
    """Elements per access: 16 bytes of the narrowest type, at most 32 of the widest."""
    if not dtypes:
        return 1
    narrow = min(dtype.size for dtype in dtypes)
    wide = max(dtype.size for dtype in dtypes)
    return max(1, min(16 // narrow, 32 // wide))
