"""One kernel from the disk, or through lowering, code generation and NVRTC.

What makes kernels (`emission.py`), proves them or settles their registers is imported where one is
made: a process that finds all of its kernels on disk imports none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from warpsmith.engine.emitted import Emitted, emitted_cache, name_of, sizes_of
from warpsmith.engine.once import Once
from warpsmith.errors import WarpsmithError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.kernel import Kernel, layout_of
from warpsmith.knobs import Knobs
from warpsmith.lower.request import Request
from warpsmith.runtime.cache import cubin_cache
from warpsmith.runtime.nvrtc import check_remarks
from warpsmith.runtime.source import Binary, Source
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

if TYPE_CHECKING:
    from warpsmith.engine.emission import Lowered
    from warpsmith.sim.program import Program


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel and all that was made of it.

    Attributes:
        kernel: the Kernel form, for launches.
        cuda: the CUDA C++ that was compiled.
        binary: what NVRTC made, with registers and spills.
        budgets: what was decided on the registers of roles, and why; empty without roles.
        shortened: as `prove` gives, for the sizes that it was compiled for.
        target: that it was made for.
    """

    kernel: Kernel
    cuda: str
    binary: Binary
    budgets: str = ""
    shortened: int = 0
    target: Target = field(kw_only=True)

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def shared(self) -> Expr:
        """Bytes of dynamic shared memory, over the launch's scalars."""
        return layout_of(self.kernel).bytes

    @property
    def n_regs(self) -> int:
        """Registers per thread."""
        return self.binary.registers

    @property
    def n_spills(self) -> int:
        """Bytes of spill stores and loads per thread."""
        return self.binary.spill_bytes

    @cached_property
    def program(self) -> Program:
        """The PTX as the simulator takes it."""
        from warpsmith.sim.ptx import read

        return read(str(self.binary.ptx), self.name)

    @cached_property
    def asm(self) -> Mapping[str, str | bytes]:
        """`cuda`, `ptx`, `cubin`, `sass` and `kernel`; SASS is disassembled when asked for."""
        return _Texts(self)


class _Texts(Mapping[str, str | bytes]):
    """The forms of a kernel by name, made on demand."""

    NAMES = ("kernel", "cuda", "ptx", "cubin", "sass")

    def __init__(self, compiled: CompiledKernel) -> None:
        self._compiled = compiled

    def __getitem__(self, name: str) -> str | bytes:
        compiled = self._compiled
        if name == "kernel":
            from warpsmith.kernel.printer import kernel_text

            return kernel_text(compiled.kernel)
        if name == "cuda":
            return compiled.cuda
        if name == "ptx":
            return compiled.binary.ptx
        if name == "cubin":
            return compiled.binary.cubin
        if name == "sass":
            from warpsmith.runtime.sass import disassemble

            return disassemble(compiled.binary.cubin)
        raise KeyError(f"no form named {name!r}; there are {', '.join(self.NAMES)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.NAMES)

    def __len__(self) -> int:
        return len(self.NAMES)


def asked(
    knobs: Knobs,
    *,
    follows: bool = False,
    followed: bool = False,
    settled: tuple[str, ...] = (),
    target: Target | None = None,
) -> Request:
    """What knobs ask of a kernel.

    One that `follows` another kernel of its call may start before that one has ended, and one that
    is `followed` by another lets that one start so; the knob `early_launch` forbids both. What is
    `settled` no kernel of the call writes.
    """
    early = follows and knobs.early_launch
    return Request(
        wait_limit=knobs.wait_limit,
        follows=early,
        followed=followed and knobs.early_launch,
        settled=settled if early else (),
        pace=target.sm_memory / 1000 if target and early and knobs.pace else 0.0,
        thorough=knobs.verify == "all",
    )


def compile_fusion(
    scheduled: Callable[[], Fusion],
    kind: str,
    index_type: DataType,
    knobs: Knobs,
    *,
    target: Target,
    cause: Callable[[], object] | None = None,
    notes: tuple[str, ...] = (),
    tma_alignment: Mapping[str, int] | None = None,
    values: Mapping[str, int] | None = None,
    request: Request | None = None,
    harmless: int = 0,
    lowered: Once[Lowered] | None = None,
    quotients: bool = False,
) -> CompiledKernel:
    """Lower a scheduled fusion and compile it for the target.

    The kernel's name ends in a digest of its text, so equal programs share a name and a cubin.
    Roles get their registers here, since these follow from what ptxas makes of each role's code.

    With a `cause`, which gives all that the fusion follows from, the kernel is looked for on disk,
    and kept there; it is scheduled only where it is not there.

    Without a `request` it is what the knobs ask of a kernel alone. Its protocol is checked for
    `values` of sizes while NVRTC compiles; None checks nothing.

    With `quotients` it divides where the schedule multiplies by reciprocals; it and the kernel that
    multiplies are `lowered` once.

    Raises ProtocolError where warps could hang or race, CompileError where ptxas ignores the roles'
    registers or serializes wgmma; warns where a kernel with roles spills, as `warn_of_spills` does.
    """
    request = request or asked(knobs)
    compile_ = partial(
        cubin_cache(knobs.cache_dir, knobs.cache_mib).get_or_compile,
        always_compile=knobs.always_compile,
    )
    entries = None if cause is None else emitted_cache(knobs)
    name, known = "", None
    if cause is not None and entries is not None:
        alignment = tuple(sorted((tma_alignment or {}).items()))
        name = name_of(target, cause(), kind, notes, index_type, alignment, request)
        known = None if knobs.always_compile else entries.load(name)

    def keep(emitted: Emitted) -> None:
        if entries is not None:
            entries.store(name, emitted)

    emitted = None if known is None else _proved(known, values, target)
    if emitted is None:
        from warpsmith.engine.emission import emit

        emitted, binary = emit(
            scheduled,
            kind,
            index_type,
            knobs,
            compile_,
            target=target,
            request=request,
            notes=notes,
            tma_alignment=tma_alignment,
            values=values,
            lowered=Once() if lowered is None else lowered,
            quotients=quotients,
            keep=keep,
        )
    else:
        entry, arch = emitted.kernel.name, target.family.arch
        binary = compile_(Source(text=emitted.cuda, entry=entry, arch=arch))
        if emitted is not known:
            keep(emitted)
    kernel = emitted.kernel
    check_remarks(binary.log, kernel.name)
    if binary.spill_bytes and kernel.branches:
        from warpsmith.engine.budgets import warn_of_spills

        warn_of_spills(kernel, binary, compile_, target, harmless)
    return CompiledKernel(
        kernel, emitted.cuda, binary, emitted.budgets, emitted.shortened, target=target
    )


def _proved(emitted: Emitted, values: Mapping[str, int] | None, target: Target) -> Emitted | None:
    """A kernel that was kept, proved at these sizes.

    None where that fails: it will again for the kernel made anew, which knows this program's lines.
    """
    if values is None or emitted.proved == sizes_of(values):
        return emitted
    from warpsmith.engine.proofs import prove

    try:
        shortened = prove(emitted.kernel, values, target)
    except WarpsmithError:
        return None
    return replace(emitted, proved=sizes_of(values), shortened=shortened)
