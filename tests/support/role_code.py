"""Whether machine code holds what a kernel with roles relies on, read from its disassembly."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from warpsmith.codegen.roles import register_lines
from warpsmith.engine.budgets import warp_groups
from warpsmith.engine.compiled import CompiledKernel
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.rings import Await
from warpsmith.kernel.traversal import walk
from warpsmith.targets.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Instructions of roles, as they stand in a text.

    Attributes:
        register_changes: `setmaxnreg`; in SASS `USETMAXREG`.
        products: `wgmma.mma_async`; in SASS `HGMMA` for halves, `IGMMA` and `QGMMA` for bytes.
        waits: `mbarrier.try_wait`; in SASS `SYNCS.PHASECHK`, one or two a wait, since ptxas may
            put the second and later tries elsewhere than the first.
    """

    register_changes: int
    products: int
    waits: int


_PTX: Mapping[str, str] = {
    "register_changes": r"\bsetmaxnreg\.",
    "products": r"\bwgmma\.mma_async\.",
    "waits": r"\bmbarrier\.try_wait\.",
}
_SASS: Mapping[str, str] = {
    "register_changes": r"\bUSETMAXREG\.",
    "products": r"\b[HIQ]GMMA\.",
    "waits": r"\bSYNCS\.PHASECHK\.",
}


def ptx_counts(ptx: str) -> Counts:
    """What a PTX text asks for; comments do not count."""
    bare = re.sub(r"//[^\n]*", "", ptx)
    return Counts(**{name: len(re.findall(pattern, bare)) for name, pattern in _PTX.items()})


def sass_counts(sass: str) -> Counts:
    """What stands in machine code, as `disassemble` prints it."""
    return Counts(**{name: len(re.findall(pattern, sass)) for name, pattern in _SASS.items()})


def missing_from_ptx(ptx: str, sass: str) -> str:
    """Instructions of roles that the PTX has and machine code lacks; empty where it has them all.

    ptxas may copy a wait or a product, when it unrolls a loop; a change of registers stands once.
    """
    asked, found = ptx_counts(ptx), sass_counts(sass)
    pairs = (
        ("setmaxnreg", asked.register_changes, "USETMAXREG", found.register_changes, False),
        ("wgmma.mma_async", asked.products, "HGMMA", found.products, True),
        ("mbarrier.try_wait", asked.waits, "SYNCS.PHASECHK", found.waits, True),
    )
    return ", ".join(
        f"{there} {code} for {number} {name}"
        for name, number, code, there, copied in pairs
        if there < number or (there > number and not copied)
    )


def missing_from_kernel(kernel: Kernel, found: Counts, target: Target) -> str:
    """What machine code lacks of a kernel: one change of registers for the warp groups of each
    budget that differs from what the launch gives, and every wait. Empty where it has them all.
    """
    limits = target.family.limits
    changes = sum(bool(register_lines(part, kernel, limits)) for part in warp_groups(kernel))
    waits = sum(isinstance(statement, Await) for statement in walk(kernel.body))
    wrong = []
    if found.register_changes != changes:
        wrong.append(f"{found.register_changes} USETMAXREG for {changes} budgets of roles")
    if found.waits < waits:
        wrong.append(f"{found.waits} SYNCS.PHASECHK for {waits} waits")
    return ", ".join(wrong)


def confirmed(compiled: CompiledKernel) -> Counts:
    """What a kernel's roles rely on, counted in its machine code, which lacks none of it."""
    sass = str(compiled.asm["sass"])
    found = sass_counts(sass)
    assert missing_from_ptx(str(compiled.binary.ptx), sass) == ""
    assert missing_from_kernel(compiled.kernel, found, compiled.target) == ""
    return found
