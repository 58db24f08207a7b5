"""A family of GPUs: what one instruction set and one kind of multiprocessor have, and how much."""

from __future__ import annotations

from warpsmith.targets.atoms import Atom
from warpsmith.values import dataclass

WARP = 32
"""Threads of a warp, on every GPU that CUDA knows."""

WARP_GROUP = 4
"""Warps of a warp group: `wgmma` and `setmaxnreg` are of whole ones (PTX ISA)."""

THREAD_REGISTERS = 255
"""Registers that the instructions of a thread can name (PTX ISA)."""

HELD = {1: 160, 2: 160, 3: 80}
"""Registers of a thread that may hold sums, and tables that are read again for each head, by the
warp groups that multiply: 80 are left for all else. With 48 kernels of two groups spill 1 KB."""

BUDGETS = range(24, 249, 8)
"""Registers of a thread that `setmaxnreg` may set and that have a use (PTX ISA): it takes 256, too,
of which instructions can name 255."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a block, and a multiprocessor, have at most: memory in bytes, registers of 32 bits.

    Attributes:
        block_threads: threads of a block.
        block_axes: threads of a block along x, y and z.
        grid_axes: blocks of a grid along x, y and z.
        cluster_blocks: blocks of a cluster, where more than the portable 8 are allowed.
        sm_threads: threads of a multiprocessor.
        sm_blocks: blocks of a multiprocessor.
        block_shared: shared memory that a block may ask for.
        sm_shared: shared memory of a multiprocessor.
        shared_taken: what the driver takes of each block's share.
        shared_step: shared memory is given out in multiples of this.
        sm_registers: registers of a multiprocessor.
        partitions: parts of a multiprocessor. Each has as many of its registers and its warps, and
            issues one instruction a cycle.
        register_step: registers of a thread are given out in multiples of this.
        thread_registers: those that a thread's instructions can name.
        named_barriers: of a block; number 0 is that of `__syncthreads`.
    """

    block_threads: int
    block_axes: tuple[int, int, int]
    grid_axes: tuple[int, int, int]
    cluster_blocks: int
    sm_threads: int
    sm_blocks: int
    block_shared: int
    sm_shared: int
    shared_taken: int
    shared_step: int
    sm_registers: int
    partitions: int
    register_step: int
    thread_registers: int
    named_barriers: int

    @property
    def sm_warps(self) -> int:
        """Warps of a multiprocessor."""
        return self.sm_threads // WARP

    def allotted(self, registers: int) -> int:
        """Registers that a thread occupies which uses so many."""
        return -(-registers // self.register_step) * self.register_step

    def blocks_of(self, registers: int, threads: int) -> int:
        """Blocks of so many threads, of so many registers each, that a multiprocessor has registers
        for: each of its parts has its own, for its own warps.
        """
        warp = WARP * self.allotted(registers)
        warps = self.partitions * (self.sm_registers // self.partitions // warp)
        return warps // -(-threads // WARP)

    def registers_each(self, threads: int) -> int:
        """Registers of each of so many threads of a multiprocessor, which share all there are."""
        return self.sm_registers // threads // self.register_step * self.register_step

    def entry_registers(self, warps: int) -> int:
        """Registers of a thread of a launch that takes as many as so many warps of a multiprocessor
        can have.
        """
        lanes = -(-warps // self.partitions) * WARP
        each = self.sm_registers // self.partitions // lanes
        return min(each // self.register_step * self.register_step, self.thread_registers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """GPUs that run the same machine code.

    Attributes:
        arch: what NVRTC compiles for, such as `sm_90a`.
        compute_capability: what the driver says of a device of the family.
        atoms: what multiplies matrices: of tensor cores what is known, and threads, fastest first.
    """

    arch: str
    compute_capability: tuple[int, int]
    limits: Limits
    atoms: tuple[Atom, ...]
