"""Segments: parts of a program that a scheduler each computes in one kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from warpsmith.errors import SchedulerRefusal
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.lines import lines_of, own_lines
from warpsmith.ir.memory_format import MemoryFormat
from warpsmith.ir.part import Part
from warpsmith.ir.tensor import TensorView
from warpsmith.planner.alike import Label, Labels, Shape, renamed, shape_of
from warpsmith.planner.decided import NOTHING, Decided
from warpsmith.schedulers.candidate import Refusals
from warpsmith.schedulers.select import refusals
from warpsmith.schedulers.views import viewed_by
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

Said = dict[tuple[Label, Refusals], tuple[Shape, Refusals]]
"""By the key of a segment and who is not to take it, its shape and what schedulers said of it."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """A scheduler that is not to take a part of a program after all.

    Attributes:
        tensors: names of what the part computes; None for all parts.
        key: of the shape of the part, where that alone is the reason: all that are alike are meant.
    """

    scheduler: str
    reason: str
    tensors: frozenset[str] | None = None
    key: Label | None = None

    def concerns(self, part: Part, shape: Shape) -> bool:
        """Whether a part is alike, or computes any of these tensors."""
        if self.key is not None:
            return shape.key == self.key
        if self.tensors is None:
            return True
        return any(f"T{number}" in self.tensors for number in part.computed)


@dataclass(frozen=True)
class Segment:
    """One kernel's share: a fusion whose inputs and outputs carry the whole's tensor names.

    Attributes:
        share: of a program that was cut, or all of one that its user scheduled.
        target: that is to run it.
        without: schedulers that are not to take it, each with the reason.
        said: what schedulers said of segments that are alike.
        known: its shape, where that was asked for before.
    """

    share: Part | Fusion
    target: Target
    without: Refusals = ()
    said: Said = field(default_factory=dict, repr=False)
    known: Shape | None = field(default=None, repr=False)

    @property
    def fusion(self) -> Fusion:
        return self.share.fusion if isinstance(self.share, Part) else self.share

    @cached_property
    def reads(self) -> tuple[TensorView, ...]:
        """The tensors that it reads, as they lie in memory."""
        return self.share.read if isinstance(self.share, Part) else self.share.input_tensors

    @cached_property
    def writes(self) -> tuple[TensorView, ...]:
        """Those that it writes."""
        if isinstance(self.share, Part):
            return self.share.written
        return tuple(output.value for output in self.share.outputs)

    @cached_property
    def into(self) -> Mapping[str, TensorView]:
        """By name of what it writes, the inputs in whose place it does."""
        share = self.share
        written = share.results if isinstance(share, Part) else ()
        pairs = ((each.value.name, each.alias_of) for each in written if each.here)
        return {name: whole for name, whole in pairs if whole is not None}

    @cached_property
    def views(self) -> Mapping[str, str]:
        """Names of what it writes by those of what they are views of, each of another tensor; none
        where it computes anything besides.
        """
        if not isinstance(self.share, Part):
            return {}
        read = {*self.reads}
        found = {written: viewed_by(written, read) for written in self.writes}
        names = {v.source.name: t.name for t, v in found.items() if v and v.source in read}
        whole = len(names) == len(found) and not any(o.alias_of for o in self.share.results)
        return names if whole else {}

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the tensors that it reads."""
        return tuple(tensor.name for tensor in self.reads)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of those that it writes."""
        return tuple(tensor.name for tensor in self.writes)

    @cached_property
    def shape(self) -> Shape:
        """What it is without its names."""
        if self.known is not None:
            return self.known
        part = self.share if isinstance(self.share, Part) else Part.of(self.share)
        return shape_of(part, Labels(part.graph, part.formats))

    @cached_property
    def refusals(self) -> Refusals:
        """What each scheduler says of it."""
        key = (self.shape.key, self.without)
        if key not in self.said:
            self.said[key] = (self.shape, refusals(self.fusion, self.target, self.without))
        shape, known = self.said[key]
        names = self.shape.names(shape)
        return tuple((scheduler, renamed(reason, names)) for scheduler, reason in known)

    @property
    def can_be_scheduled(self) -> bool:
        return any(not reason for _, reason in self.refusals)

    def refusal(self) -> SchedulerRefusal:
        """An error that says why no scheduler takes it."""
        reasons = "; ".join(f"{name}: {reason}" for name, reason in self.refusals)
        lines = lines_of(self.fusion, own_lines(self.fusion))
        return SchedulerRefusal(
            f"no scheduler can compute {', '.join(self.outputs)} ({reasons})",
            remedy="split the program into several fusions, or schedule it by hand",
            line=next(iter(lines[self.outputs[0]]), None),
        )

    def taken_by(self, scheduler: str) -> bool:
        """Whether this scheduler takes it."""
        return any(name == scheduler and not reason for name, reason in self.refusals)

    @property
    def taker(self) -> str:
        """The first scheduler that takes it; empty where none does."""
        return next((name for name, reason in self.refusals if not reason), "")


@dataclass(frozen=True, slots=True)
class _Held:
    """What is in memory: the stored values, and the narrow forms in which some are."""

    stored: Collection[int]
    values: Mapping[Any, int]

    def __contains__(self, number: object) -> bool:
        return number in self.stored or self.values.get(number) in self.stored


@dataclass(frozen=True)
class Segments:
    """The segments of one graph that were looked at; what is asked again is not made again.

    Args:
        target: that is to run them.
        without: schedulers that are not to take any, each with the reason.
        empty: numbers of tensors, inputs too, that have no elements in the call.
        formats: by number of a tensor, how it is stored where that is not as the graph says.
        forms: by number of a tensor, that of its cast to the type in which it is stored.
        decided: what is otherwise than the structure says.
        made: parts to which tensors were added, whose numbers no other part is to give.
        without_columns: keys of parts that do not reduce rows and columns of the same values.
    """

    graph: Graph
    target: Target
    without: tuple[Unfit, ...] = ()
    empty: frozenset[int] = frozenset()
    formats: Mapping[int, MemoryFormat] = field(default_factory=dict)
    forms: Mapping[int, int] = field(default_factory=dict)
    decided: Decided = NOTHING
    said: Said = field(default_factory=dict)
    made: list[Fusion] = field(default_factory=list)
    without_columns: set[Label] = field(default_factory=set)
    _known: dict[tuple[tuple[int, ...], tuple[int, ...]], Segment] = field(default_factory=dict)

    @cached_property
    def labels(self) -> Labels:
        return Labels(self.graph, self.formats)

    @cached_property
    def values(self) -> Mapping[int, int]:
        """By number of a narrow form, that of the value that is stored in it."""
        return {form: number for number, form in self.forms.items()}

    def go_together(self, sinks: Collection[int], stored: Collection[int]) -> bool:
        """Whether all of the tensors have elements, or none; and all are made of what has none, or
        none: a loop over nothing stores nothing.
        """
        return not self.empty or len({self._emptiness(sink, stored) for sink in sinks}) < 2

    def _emptiness(self, sink: int, stored: Collection[int]) -> tuple[bool, bool]:
        met = self.graph.met(self.graph.slice([sink], stored))
        return sink in self.empty, not self.empty.isdisjoint(met)

    def inside(self, graph: Graph) -> Segments:
        """Segments of a graph that is made of a part of this one."""
        forms = {number: form for number, form in self.forms.items() if form in graph.maker}
        return replace(self, graph=graph, forms=forms, _known={})

    def of(self, sinks: Iterable[int], stored: Collection[int]) -> Segment:
        """The segment that computes the sinks of inputs and of what is stored."""
        asked = tuple(sinks)
        wanted = tuple(dict.fromkeys(self.forms.get(sink, sink) for sink in asked))
        positions = self.graph.slice((*asked, *wanted), _Held(stored, self.values))
        key = (wanted, positions)
        if key not in self._known:
            part = Part(self.graph, wanted, positions, self.formats, self.forms)
            shape = shape_of(part, self.labels)
            without = tuple(
                (u.scheduler, u.reason) for u in self.without if u.concerns(part, shape)
            )
            self._known[key] = Segment(part, self.target, without, self.said, shape)
        return self._known[key]
