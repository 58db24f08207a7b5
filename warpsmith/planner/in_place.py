"""Results that kernels write into the inputs which they replace, with nothing to copy behind them.

A result takes an input's place where nobody reads the input any more: no later kernel, and in its
own kernel only the thread that writes an element, before it does. A kernel of elements has each in
one thread, whatever its order, and loads it once; so what is told by the operations alone holds for
all its schedules:

    T2[i] = T0[i] - T1[i]       T0 may be T2: whoever has i reads T0[i], and then writes it
    T3[i, j] = T0[i] - T1[j]    and T2[i] besides: others than who writes T0[i] read it
    T4[i] = T2[i] * T1[i]       and T2[i] besides: T2 may be T1 as soon as T1[i] is read, or before
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpsmith.ir.apart import apart
from warpsmith.ir.exprs import Pointwise, tensor_inputs
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.part import Part
from warpsmith.ir.program import Output, Program
from warpsmith.ir.tensor import TensorView
from warpsmith.planner.segment import Segment
from warpsmith.schedulers.pointwise.applicability import uses_agree

OF_ELEMENTS = ("pointwise", "side_by_side")
"""Schedulers in whose kernels one thread has all that is computed of an element."""


def in_place(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Segments of a program, in the order in which they run, that write in place what they may."""
    found: list[Segment] = []
    for number, segment in enumerate(segments):
        part = segment.share
        others = {
            name for each in (*segments[:number], *segments[number + 1 :]) for name in each.inputs
        }
        later = {name for each in segments[number + 1 :] for name in each.inputs}
        if isinstance(part, Part) and (
            chosen := frozenset(
                output.value.number
                for output in part.results
                if output.alias_of is not None
                and output.apart
                and output.alias_of.name not in later
                and output.value.name not in others
                and _may(segment, output, output.alias_of)
            )
        ):
            segment = replace(segment, share=replace(part, here=chosen), known=None)
        found.append(segment)
    return tuple(found)


def _may(segment: Segment, output: Output, whole: TensorView) -> bool:
    """Whether a result lies in memory as an input does, and its kernel reads it so."""
    if output.place is not None or not _alike(output.value, whole):
        return False
    if whole.name not in segment.inputs:
        return True
    if segment.taker not in OF_ELEMENTS:
        return False
    fusion: Program = segment.fusion
    programs = apart(fusion) if segment.taker == "side_by_side" else (fusion,)  # loops of each
    return all(_reads_own(program, output.value, whole) for program in programs)


def _alike(value: TensorView, whole: TensorView) -> bool:
    gaps = False in whole.contiguity or False in value.contiguity
    return not gaps and value.memory_order() == whole.memory_order()


def _reads_own(program: Program, value: TensorView, whole: TensorView) -> bool:
    """Whether all that a loop nest computes of an input, if any, is computed element by element,
    beside results that need no other loops.
    """
    own = next((t for t in program.input_tensors if t.number == whole.number), None)
    if own is None:
        return True
    results = [output.value for output in program.outputs]
    if value.number not in {result.number for result in results} or not uses_agree(program):
        return False
    follows = {whole.number}
    for operation in program.operations:
        if follows.isdisjoint(source.number for source in tensor_inputs(operation)):
            continue
        if not isinstance(operation, Pointwise):
            return False
        follows.update(made.number for made in operation.outputs)
    if value.number not in follows:  # else it may be there before what it replaces is read
        return False
    domains = DomainMap(program, through_inputs=True)
    elements = domains.groups(own.shape_axes)
    for result in results:
        walked = domains.groups(result.shape_axes)
        if not walked <= elements or (result.number in follows and walked != elements):
            return False
    return True
