"""The lines of a user's program that each line of a kernel's CUDA comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from warpsmith.callers import Line
from warpsmith.codegen.cuda import printed
from warpsmith.engine.compiled import CompiledKernel
from warpsmith.engine.launches import Launch
from warpsmith.engine.planned import PlannedSegment
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.lines import lines_of, own_lines
from warpsmith.kernel.nodes import Declare, Statement
from warpsmith.kernel.traversal import barriers, read, walk, written
from warpsmith.values import dataclass

_TENSOR = re.compile(r"T\d+")

Lines = tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class CudaLine:
    """A line of a kernel's text, and those of the user's program that it is there for."""

    text: str
    lines: Lines = ()


def cuda_lines(planned: PlannedSegment, launch: Launch) -> tuple[CudaLine, ...]:
    """The kernel of a launch, without the prelude; a text that its user edited has no lines."""
    compiled = launch.compiled
    start = compiled.cuda.find('extern "C"')
    head = compiled.cuda.count("\n", 0, max(start, 0))
    text = compiled.cuda.splitlines()
    found = _by_line(compiled, tensor_lines(planned, launch))
    return tuple(
        CudaLine(line, found.get(number, ()))
        for number, line in enumerate(text, 1)
        if number > head
    )


def tensor_lines(planned: PlannedSegment, launch: Launch) -> dict[str, Lines]:
    """By name of a tensor of the kernel, the lines that it is there for, of this segment's own
    where others are alike.
    """
    own = own_lines(planned.segment.fusion)
    scheduled = _scheduled(planned, launch)
    named = {t.name: planned.named(t.name) for t in scheduled.tensors}
    known = {name: own[real] for name, real in named.items() if real in own}
    return lines_of(scheduled, known)


def _scheduled(planned: PlannedSegment, launch: Launch) -> Fusion:
    """What the kernel was lowered from."""
    if planned.candidate is None or launch.params is None:
        return planned.segment.fusion
    return planned.candidate.scheduled(launch.params)


def _by_line(compiled: CompiledKernel, tensors: Mapping[str, Lines]) -> dict[int, Lines]:
    """By number of a line, counted from 1, the user's."""
    text = printed(compiled.kernel, compiled.target)
    if text.named(compiled.name) != compiled.cuda:
        return {}
    passing = {
        barrier.name: pipeline.names
        for pipeline in compiled.kernel.pipelines
        for barrier in pipeline.barriers
    }
    found: dict[int, Lines] = {}
    for number, statement in text.owners:
        names = dict.fromkeys(
            tensor
            for inner in walk((statement,))
            for name in _about(inner)
            for tensor in passing.get(name, (_tensor(name),))
        )
        lines = {line for name in names for line in tensors.get(name, ())}
        found[number] = tuple(sorted(lines))
    return found


def _about(statement: Statement) -> Iterable[str]:
    """Names of what a statement itself is there for: what it writes, or else what it waits for."""
    if isinstance(statement, Declare):
        return (statement.buffer.name,)
    return [buffer.name for buffer in written(statement) or barriers(statement) or read(statement)]


def _tensor(name: str) -> str:
    """The tensor that a buffer belongs to, as `T4_parts` does to T4; empty for one of none."""
    found = _TENSOR.match(name)
    return found[0] if found else ""
