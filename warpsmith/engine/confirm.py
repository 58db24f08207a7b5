"""Whether machine code holds what a kernel with roles relies on, read from its disassembly."""

from __future__ import annotations

from warpsmith.codegen.roles import register_lines
from warpsmith.engine.budgets import warp_groups
from warpsmith.engine.compiled import CompiledKernel
from warpsmith.errors import CompileError
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.rings import Await
from warpsmith.kernel.traversal import walk
from warpsmith.runtime.sass import Counts, check_emitted, sass_counts
from warpsmith.targets.target import Target


def confirm(compiled: CompiledKernel) -> Counts:
    """Disassemble a kernel, and count what its roles rely on; takes about 50 ms.

    Raises:
        CompileError: WS0512 where SASS lacks what stands in the PTX, WS0513 where it lacks what
            stands in the kernel: one change of registers for the warp groups of each budget that
            differs from what the launch gives, and every wait.
        DeviceError: there is no nvdisasm.
    """
    sass = str(compiled.asm["sass"])
    check_emitted(str(compiled.binary.ptx), sass, compiled.name)
    confirm_counts(compiled.kernel, sass_counts(sass), compiled.target)
    return sass_counts(sass)


def confirm_counts(kernel: Kernel, found: Counts, target: Target) -> None:
    """Compare what was counted in SASS with the kernel: CompileError WS0513 where it has less."""
    limits = target.family.limits
    changes = sum(bool(register_lines(part, kernel, limits)) for part in warp_groups(kernel))
    waits = sum(isinstance(statement, Await) for statement in walk(kernel.body))
    wrong = []
    if found.register_changes != changes:
        wrong.append(f"{found.register_changes} USETMAXREG for {changes} budgets of roles")
    if found.waits < waits:
        wrong.append(f"{found.waits} SYNCS.PHASECHK for {waits} waits")
    if wrong:
        raise CompileError(
            f"the machine code of kernel `{kernel.name}` has {', '.join(wrong)}",
            code="WS0513",
            remedy="look for ptxas's remarks in the log",
        )
