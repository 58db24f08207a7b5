"""How much memory the reductions of the prelude need: the twins of its device code."""

from __future__ import annotations

from math import prod

from warpsmith.ir.carry import Carry
from warpsmith.ir.dtypes import DataType

Axes = tuple[bool, bool, bool]
Block = tuple[int, int, int]


def state_room(carry: Carry) -> tuple[DataType, int]:
    """The type that a state is aligned as, and how many of them it takes, as a struct of C++."""
    unit = max(carry.dtypes, key=lambda dtype: dtype.size)
    end = 0
    for dtype in carry.dtypes:
        end = -(-end // dtype.size) * dtype.size + dtype.size
    return unit, -(-end // unit.size)


def block_reduce_scratch(count: int, reduced: Axes, block: Block) -> int:
    """Elements of shared memory that `ws_block_reduce` needs; 0 when shuffles suffice.

    Args:
        count: values that each thread holds (`N`).
        reduced: whether each of the axes x, y, z is reduced.
        block: threads along x, y, z.
    """
    parts = prod(
        extent >> bits.bit_count()
        for extent, bits, gone in zip(block, _lane_bits(block), reduced, strict=True)
        if gone
    )
    return 0 if parts == 1 else count * parts * kept_threads(reduced, block)


def block_scan_scratch(axis: int, block: Block) -> int:
    """Elements of shared memory that `ws_block_scan` needs a turn: of each warp, or of each thread.

    Args:
        axis: 0, 1 or 2 for threads along x, y or z.
    """
    extent, threads = block[axis], prod(block)
    if axis == 0 and extent % 32 == 0:
        extent, threads = extent // 32, threads // 32
    return 0 if extent == 1 else threads


def groups_reduce_scratch(count: int, reduced: Axes, block: Block, apart: int | None) -> int:
    """Elements of shared memory for all groups of a role, which reduce apart, each in its own.

    Args:
        count, reduced: as for `block_reduce_scratch`; the axis of the groups is not reduced.
        block: threads of all groups along x, y, z.
        apart: 0, 1 or 2 for groups numbered along x, y or z; None where all threads are one group.
    """
    if apart is None:
        return block_reduce_scratch(count, reduced, block)
    x, y, z = (1 if axis == apart else extent for axis, extent in enumerate(block))
    return block_reduce_scratch(count, reduced, (x, y, z)) * block[apart]


def kept_threads(reduced: Axes, block: Block) -> int:
    """Threads of a block that hold different results after a reduction along some axes."""
    return prod(extent for extent, gone in zip(block, reduced, strict=True) if not gone)


def _lane_bits(block: Block) -> tuple[int, int, int]:
    """Which bits of a lane's number count along x, y, z: `ws_lane_bits_of` of the prelude."""
    bx, by, bz = block
    if bx % 32 == 0:
        return 31, 0, 0
    if bx > 32 or not _power_of_two(bx):
        return 0, 0, 0
    x = bx - 1
    if by % (32 // bx) == 0:
        return x, 31 & ~x, 0
    if not _power_of_two(by):
        return x, 0, 0
    xy = bx * by - 1
    if bz % (32 // (bx * by)) == 0:
        return x, xy & ~x, 31 & ~xy
    return x, xy & ~x, (bx * by * bz - 1) & ~xy if _power_of_two(bz) else 0


def _power_of_two(n: int) -> bool:
    return n & (n - 1) == 0
