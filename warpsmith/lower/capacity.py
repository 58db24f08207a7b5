"""Whether the target has what a kernel takes: threads, blocks, shared memory, instructions."""

from __future__ import annotations

from math import prod

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.atoms import tensorized_by
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.fusion import Fusion
from warpsmith.kernel.kernel import Kernel, layout_of
from warpsmith.kernel.shared_memory import bytes_of
from warpsmith.lower.products import is_instruction
from warpsmith.targets.atoms import ATOMS
from warpsmith.targets.family import Limits
from warpsmith.targets.target import Target


def check_cluster(kernel: Kernel, limits: Limits) -> None:
    """Refuse more blocks than a cluster can have."""
    blocks = kernel.launch.cluster_blocks
    if blocks > limits.cluster_blocks:
        raise ScheduleError(
            f"a cluster would have {blocks} blocks, and it may have {limits.cluster_blocks}",
            code="WS0288",
            remedy="split the loop that is bound to cluster_x by 2, 4, 8 or 16 blocks with "
            "inner_split=False, and bind the outer loop",
        )


def check_atoms(fusion: Fusion, target: Target) -> None:
    """Refuse products by an instruction that the target's tensor cores do not have."""
    for operation in fusion.operations:
        if not isinstance(operation, Matmul) or not is_instruction(operation.output, -1):
            continue
        if tensorized_by(operation, target.family.atoms) is None:
            a, b = operation.a.dtype.value, operation.b.dtype.value
            atom = tensorized_by(operation, ATOMS)
            unit = "tensor cores" if atom is None else atom.unit.value
            raise ScheduleError(
                f"{operation.output.name} is computed by {unit} of {a} and {b}, and "
                f"{target.name} ({target.family.arch}) has no such instruction",
                code="WS1011",
                remedy="leave the product to the threads, or name another target",
            )


def check_threads(kernel: Kernel, limits: Limits) -> None:
    """Refuse more threads than a block can have, where their number is known."""
    known = [integers.constant(extent) or 1 for extent in kernel.launch.block]
    for axis, extent, most in zip("xyz", known, limits.block_axes, strict=True):
        if extent > most:
            raise ScheduleError(
                f"a block would have {extent} threads along block_{axis}, and it may have {most}",
                code="WS1102",
                remedy=f"split the loop that is bound to block_{axis} by {most} or less",
            )
    if prod(known) > limits.block_threads:
        raise ScheduleError(
            f"a block would have {' x '.join(map(str, known))} = {prod(known)} threads, and it may "
            f"have {limits.block_threads}",
            code="WS1102",
            remedy="split the loops that are bound to the block by less",
        )


def check_shared(fusion: Fusion, kernel: Kernel, limits: Limits) -> None:
    """Refuse more shared memory than a block can have, and say how many stages would fit."""
    total = layout_of(kernel).least
    if total <= limits.block_shared:
        return
    sizes = {b.name: integers.constant(bytes_of(b)) or 0 for b in kernel.shared}
    rings = {
        tensor.name: tensor.buffering.stages
        for tensor in fusion.tensors
        if tensor.buffering is not None and tensor.memory is MemoryType.shared
    }
    a_stage = sum(sizes[name] // stages for name, stages in rings.items() if name in sizes)
    rest = total - sum(sizes[name] for name in rings if name in sizes)
    fitting = (limits.block_shared - rest) // a_stage if a_stage else 0
    listing = ", ".join(f"{name} {size}" for name, size in sizes.items())
    remedy = "make the tiles smaller"
    names = " and ".join(rings)
    if kernel.offsets and rings:  # which of them are alive together may change with their sizes
        remedy = f"use circular buffers of fewer stages for {names}, or smaller tiles"
    elif fitting >= 2:
        remedy = f"use circular buffers of {fitting} stages at most for {names}, or smaller tiles"
    raise ScheduleError(
        f"a block would need {total} bytes of shared memory ({listing}), and it may have "
        f"{limits.block_shared}",
        code="WS0256",
        remedy=remedy,
    )
