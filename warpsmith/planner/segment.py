"""Segments: parts of a program that a scheduler each computes in one kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.schedulers.select import Refusals, refusals


@dataclass(frozen=True)
class Segment:
    """One kernel's share: a fusion whose inputs and outputs carry the whole's tensor names."""

    fusion: Fusion
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    without: Refusals = ()

    @cached_property
    def refusals(self) -> Refusals:
        """What each scheduler says of it."""
        return refusals(self.fusion, self.without)

    @property
    def can_be_scheduled(self) -> bool:
        return any(not reason for _, reason in self.refusals)

    def taken_by(self, scheduler: str) -> bool:
        """Whether this scheduler takes it."""
        return any(name == scheduler and not reason for name, reason in self.refusals)


def segment_of(fusion: Fusion, without: Refusals = ()) -> Segment:
    """All of a fusion as one segment."""
    inputs = tuple(tensor.name for tensor in fusion.input_tensors)
    return Segment(fusion, inputs, tuple(o.value.name for o in fusion.outputs), without)


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of one graph that were looked at; what is asked again is not made again.

    Args:
        without: schedulers that are not to take any, each with the reason.
        orders: by number of a tensor, the `stride_order` that it is stored in.
    """

    graph: Graph
    without: Refusals = ()
    orders: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    _known: dict[tuple[tuple[int, ...], tuple[int, ...]], Segment] = field(default_factory=dict)

    def of(self, sinks: Iterable[int], stored: Collection[int]) -> Segment:
        """The segment that computes the sinks of inputs and of what is stored."""
        wanted = tuple(sinks)
        return self.at(wanted, self.graph.slice(wanted, stored))

    def at(self, sinks: Sequence[int], positions: tuple[int, ...]) -> Segment:
        """The segment of these operations."""
        key = (tuple(sinks), positions)
        if key not in self._known:
            self._known[key] = segment_of(
                self.graph.part(sinks, positions, self.orders), self.without
            )
        return self._known[key]
