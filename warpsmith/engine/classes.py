"""Classes of sizes: which of a fusion's kernels served which sizes, and what about them chose it.

A kernel depends on a few facts of the sizes only. All sizes for which these facts are the same are
a class, and have one kernel; `explain` lists the classes that a fusion has met.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, fields

from warpsmith.engine.compiled import CompiledKernel
from warpsmith.engine.launches import CallPlan, Launch
from warpsmith.engine.planned import PlannedSegment
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.kernel import Kernel
from warpsmith.runtime.kept import CLASSES
from warpsmith.runtime.recent import Recent
from warpsmith.values import dataclass

_LISTED = 64
"""Classes of one part of a fusion that `explain` lists, at most: those met last."""

_Params = tuple[tuple[str, object], ...]
_Key = tuple[tuple[str, ...], _Params, str, DataType]
"""Results of the part of a fusion, what was chosen, the kernel's name, and its index type."""


@dataclass(slots=True)
class SizeClass:
    """What is known of one class.

    Attributes:
        params: what was chosen, by name.
        facts: what about the sizes makes it this class, in words.
        calls: how often calls were planned; those of arrays that were met before are not.
        compiled: how often its kernel was compiled.
        sizes: smallest and largest extent met, by name.
    """

    params: _Params
    facts: tuple[str, ...]
    calls: int = 0
    compiled: int = 0
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    _latest: weakref.ref[CompiledKernel] | None = None

    def meet(self, compiled: CompiledKernel, sizes: Mapping[str, int]) -> None:
        """Count a signature of these sizes, which this kernel serves."""
        self.calls += 1
        if self._latest is None or self._latest() is not compiled:
            self.compiled += 1
            self._latest = weakref.ref(compiled)
        for name, size in sizes.items():
            low, high = self.sizes.get(name, (size, size))
            self.sizes[name] = (min(low, size), max(high, size))


class Classes:
    """All classes that a fusion has met, for each kernel's share of it by the results' names."""

    def __init__(self, fusion: Fusion) -> None:
        extents = [axis.extent for t in fusion.input_tensors for axis in t.shape_axes]
        self._names = tuple(e.name for e in extents if isinstance(e, Symbol))
        self._defined = {t.name: t.contiguity for t in fusion.input_tensors}
        self._met: Recent[_Key, SizeClass] = Recent(CLASSES)

    def meet(self, call: CallPlan) -> None:
        """Take in the plan of a new signature."""
        values = call.problem.values
        sizes = {name: values[name] for name in self._names if name in values}
        for planned, launch in launched(call):
            if launch is None:
                continue
            key = _key(planned, launch)
            found = self._met.get(key)
            if found is None:
                facts = _facts(launch.compiled.kernel)
                contiguous = self._contiguous(planned.segment.reads)
                found = self._met.put(key, SizeClass(key[1], (*facts, *contiguous)))
            found.meet(launch.compiled, sizes)

    def _contiguous(self, tensors: Sequence[TensorView]) -> Iterator[str]:
        """Which tensors lie contiguous where their definition leaves that open."""
        for tensor in tensors:
            flags = zip(tensor.contiguity, self._defined.get(tensor.name, ()), strict=False)
            dims = [str(d) for d, (now, defined) in enumerate(flags) if now and defined is False]
            if dims:
                yield f"{tensor.name} contiguous in dimensions {', '.join(dims)}"

    def of(self, planned: PlannedSegment) -> tuple[SizeClass, ...]:
        """The latest classes of a part of the fusion, the one met last behind the others."""
        outputs = planned.segment.outputs
        return tuple(met for (part, *_), met in self._met.by_use() if part == outputs)[-_LISTED:]

    def lines(self, planned: PlannedSegment) -> list[str]:
        """What `explain` says of them; of parameters, those in which they differ."""
        met = self.of(planned)
        lines = [f"  classes     {len(met)} of sizes so far"] if met else []
        for number, each in enumerate(met, 1):
            times = "once" if each.compiled == 1 else f"{each.compiled} times"
            calls = "once" if each.calls == 1 else f"{each.calls} times"
            last = ", this call's" if number == len(met) else ""
            lines.append(f"    class {number}   planned {calls}, compiled {times}{last}")
            lines.append(f"      sizes     {', '.join(map(_range, each.sizes.items())) or 'none'}")
            lines.append(f"      since     {', '.join(each.facts)}")
            if chosen := ", ".join(f"{k}={v}" for k, v in _own(each, met)):
                lines.append(f"      chosen    {chosen}")
        return lines


def launched(call: CallPlan) -> Iterator[tuple[PlannedSegment, Launch | None]]:
    """Each part of a call's fusion with its launch; None where there is nothing to compute."""
    launches = {launch.segment: launch for launch in call.launches}
    for number, planned in enumerate(call.segments):
        yield planned, launches.get(number)


def _key(planned: PlannedSegment, launch: Launch) -> _Key:
    params = launch.params
    chosen = (
        () if params is None else tuple((f.name, getattr(params, f.name)) for f in fields(params))
    )
    kernel = launch.compiled.kernel
    return planned.segment.outputs, chosen, kernel.name, kernel.index_type


def _facts(kernel: Kernel) -> tuple[str, ...]:
    """What a kernel relies on, as conditions of sizes, strides and addresses."""
    facts = [f"{divisor} divides {expr!r}" for expr, divisor in kernel.requirements if divisor > 1]
    facts += [f"{expr!r} is at most {most}" for expr, most in kernel.limits]
    facts += [f"{expr!r} is at least {least}" for expr, least in kernel.least]
    by_bytes: dict[int, list[str]] = {}
    for name, size in kernel.alignments:
        by_bytes.setdefault(min(size, 16), []).append(name)
    facts += [
        f"{', '.join(dict.fromkeys(names))} at multiples of {size} bytes"
        for size, names in sorted(by_bytes.items())
    ]
    tiles = dict.fromkeys(need.memory for need in kernel.tile_needs)
    if tiles:
        facts.append(f"rows of {', '.join(tiles)} at multiples of 16 bytes, by TMA")
    facts += [f"{name} not by TMA: {reason}" for name, reason in kernel.left_to_threads]
    bits = 32 if kernel.index_type is DataType.Int32 else 64
    return (*facts, f"{bits}-bit indices")


def _own(each: SizeClass, met: Sequence[SizeClass]) -> Iterator[tuple[str, object]]:
    """The parameters of a class in which some other class differs."""
    for name, value in each.params:
        if any(dict(other.params).get(name, value) != value for other in met):
            yield name, value


def _range(size: tuple[str, tuple[int, int]]) -> str:
    name, (low, high) = size
    return f"{name} {low}" if low == high else f"{name} {low} to {high}"
