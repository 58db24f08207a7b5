"""Whether a schedule has been laid on a fusion by hand."""

from __future__ import annotations

from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView


def is_scheduled(fusion: Fusion) -> bool:
    """Whether any tensor was given loops, places, stages or warps of its own.

    Copies, and reductions in two steps, are no schedule by themselves: programs have them, too.
    """
    return any(map(_is_laid, fusion.computed))


def _is_laid(tensor: TensorView) -> bool:
    return bool(
        tensor.loop != list(tensor.logical)
        or any(axis.parallel is not ParallelType.serial for axis in tensor.loop)
        or tensor.compute_at
        or tensor.memory is MemoryType.shared
        or tensor.copied_by is not LoadStoreOpType.set
        or tensor.buffering
        or tensor.role
        or tensor.section
    )
