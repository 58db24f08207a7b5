"""One kernel from its schedule to its text, proved, and to machine code."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from warpsmith.codegen.cuda import Printed, printed
from warpsmith.engine import proofs
from warpsmith.engine.budgets import Compile, settle_registers
from warpsmith.engine.emitted import Emitted, sizes_of
from warpsmith.errors import DeviceError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.printer import kernel_text
from warpsmith.knobs import Knobs
from warpsmith.lower.pipeline import lower
from warpsmith.lower.request import Request
from warpsmith.runtime.source import Binary, Source
from warpsmith.targets.target import Target


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
) -> tuple[Emitted, Binary]:
    """A scheduled fusion lowered, printed and compiled; its arguments are as `compile_fusion` has
    them. Its protocol is checked for `values` of sizes while NVRTC compiles; None checks nothing.

    Raises:
        ProtocolError: warps could hang or race.
        CompileError: as `compile_` does.
    """
    dumps: list[tuple[str, str]] = []

    def observe(stage: str, made: Kernel | str) -> None:
        if "all" in knobs.dump or stage in knobs.dump:
            dumps.append((stage, made if isinstance(made, str) else kernel_text(made)))

    kernel = lower(
        scheduled(), kind, index_type, observe, tma_alignment, target=target, request=request
    )
    shortened: Callable[[], int] | None = None
    if values is not None:
        shortened = cache(partial(proofs.prove, kernel, values, target))
        compile_ = partial(compile_, meanwhile=shortened)
    emitted = _printed(replace(kernel, notes=notes), kind, compile_, target)
    kernel = emitted.kernel
    text = _overridden(kernel.name, emitted.cuda, knobs)
    observe("cuda", text)
    _write_dumps(kernel.name, dumps, knobs.dump_dir)
    binary = compile_(Source(text=text, entry=kernel.name, arch=target.family.arch))
    emitted = replace(emitted, cuda=text)
    if values is not None and shortened is not None:
        emitted = replace(emitted, proved=sizes_of(values), shortened=shortened())
    return emitted, binary


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


def _write_dumps(name: str, dumps: list[tuple[str, str]], directory: Path) -> None:
    if not dumps:
        return
    folder = directory / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, (stage, text) in enumerate(dumps):
            suffix = "cu" if stage == "cuda" else "txt"
            (folder / f"{number:02}_{stage}.{suffix}").write_text(text)
    except OSError as failure:
        raise DeviceError(
            f"the dump of {name} cannot be written to {folder}: {failure}",
            code="WS0602",
            remedy="set WARPSMITH_DUMP_DIR to a directory that can be written",
        ) from failure
