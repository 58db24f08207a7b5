"""One kernel from its schedule to its text, proved, and to machine code."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from pathlib import Path

from warpsmith.codegen.cuda import Printed, printed
from warpsmith.engine import proofs
from warpsmith.engine.budgets import Compile, settle_registers
from warpsmith.engine.emitted import Emitted, sizes_of
from warpsmith.engine.once import Once
from warpsmith.errors import DeviceError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.printer import kernel_text
from warpsmith.kernel.quotients import divided
from warpsmith.knobs import Knobs
from warpsmith.lower.pipeline import lower
from warpsmith.lower.request import Request
from warpsmith.runtime.heap import give_back
from warpsmith.runtime.source import Binary, Source
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

Forms = tuple[tuple[str, str], ...]
"""Texts of a kernel after each step that knobs ask for, by the step's name."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """What a schedule is lowered to.

    Attributes:
        quotients: of the tensors that multiply by reciprocals in their place.
        proof: that its blocks neither hang nor race, whichever of the two it computes.
    """

    kernel: Kernel
    quotients: Mapping[str, tuple[str, Expr]]
    forms: Forms
    proof: Once[int] = field(default_factory=Once)


def emit(
    scheduled: Callable[[], Fusion],
    kind: str,
    index_type: DataType,
    knobs: Knobs,
    compile_: partial[Binary],
    *,
    target: Target,
    request: Request,
    notes: tuple[str, ...],
    tma_alignment: Mapping[str, int] | None,
    values: Mapping[str, int] | None,
    lowered: Once[Lowered],
    quotients: bool,
    keep: Callable[[Emitted], None],
) -> tuple[Emitted, Binary]:
    """A scheduled fusion lowered, printed and compiled; its arguments are as `compile_fusion` has
    them. Its protocol is checked for `values` of sizes while NVRTC compiles; None checks nothing.
    Then it is kept, if NVRTC has not ended before with a refusal.

    Raises:
        ProtocolError: warps could hang or race.
        CompileError: as `compile_` does.
    """

    def asked(stage: str, made: Kernel | str) -> Forms:
        if "all" not in knobs.dump and stage not in knobs.dump:
            return ()
        return ((stage, made if isinstance(made, str) else kernel_text(made)),)

    def lower_it() -> Lowered:
        fusion, forms = scheduled(), list[tuple[str, str]]()
        kernel = lower(
            fusion,
            kind,
            index_type,
            lambda stage, made: forms.extend(asked(stage, made)),
            tma_alignment,
            target=target,
            request=request,
        )
        found = {t.name: t.quotient for t in fusion.computed if t.quotient is not None}
        return Lowered(kernel, found, tuple(forms))

    made = lowered(lower_it)
    kernel, forms = made.kernel, made.forms
    if quotients:
        kernel = divided(kernel, made.quotients)
        forms += asked("divide", kernel)
    shortened: Callable[[], int] | None = None
    if values is not None:
        shortened = partial(made.proof, partial(proofs.prove, made.kernel, values, target))
        compile_ = partial(compile_, meanwhile=shortened)
    emitted = _printed(replace(kernel, notes=notes), kind, compile_, target)
    kernel = emitted.kernel
    text = _overridden(kernel.name, emitted.cuda, knobs)
    _write_dumps(kernel.name, (*forms, *asked("cuda", text)), knobs.dump_dir)

    def proved() -> Emitted:
        found = replace(emitted, cuda=text)
        if values is not None and shortened is not None:
            found = replace(found, proved=sizes_of(values), shortened=shortened())
        keep(found)
        give_back()
        return found

    once = Once[Emitted]()
    source = Source(text=text, entry=kernel.name, arch=target.family.arch)
    binary = compile_(source, meanwhile=partial(once, proved))
    return once(proved), binary


def _printed(kernel: Kernel, kind: str, compile_: Compile, target: Target) -> Emitted:
    """A lowered kernel, printed, and not proved yet."""
    kernel, cuda = _named(kernel, kind, target)
    settled = settle_registers(kernel, compile_, target, text=cuda.named(kernel.name))
    if settled.kernel is not kernel:
        kernel, cuda = _named(settled.kernel, kind, target)
    return Emitted(kernel, cuda.named(kernel.name), settled.note, None, 0)


def _named(kernel: Kernel, kind: str, target: Target) -> tuple[Kernel, Printed]:
    """The kernel under the name that its text gives it, and the text."""
    cuda = printed(kernel, target)
    digest = hashlib.sha256(cuda.named(kind).encode()).hexdigest()[:10]
    return replace(kernel, name=f"{kind}_{digest}"), cuda


def _overridden(name: str, text: str, knobs: Knobs) -> str:
    """The user's edited CUDA of that name, where there is one."""
    if knobs.override_dir is None:
        return text
    path = knobs.override_dir / f"{name}.cu"
    return path.read_text() if path.is_file() else text


def _write_dumps(name: str, forms: Forms, directory: Path) -> None:
    if not forms:
        return
    folder = directory / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, (stage, text) in enumerate(forms):
            suffix = "cu" if stage == "cuda" else "txt"
            (folder / f"{number:02}_{stage}.{suffix}").write_text(text)
    except OSError as failure:
        raise DeviceError(
            f"the dump of {name} cannot be written to {folder}: {failure}",
            code="WS0602",
            remedy="set WARPSMITH_DUMP_DIR to a directory that can be written",
        ) from failure
