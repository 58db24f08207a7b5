"""What `torch.compile` gave to warpsmith, what it did not, and why."""

from __future__ import annotations

import re
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from statistics import median
from typing import Any, Final

import torch
from torch.fx import Node

from warpsmith.callers import line_text
from warpsmith.engine.facts import prices_of
from warpsmith.errors import ArgumentError
from warpsmith.torch_backend.aten import name_of
from warpsmith.torch_backend.definition import is_scalar, tensors_of
from warpsmith.torch_backend.levels import Kind
from warpsmith.torch_backend.program import Program
from warpsmith.torch_backend.regions import Regions
from warpsmith.values import dataclass

ATTENTION = ("scaled_dot_product", "flash_attention", "efficient_attention", "flex_attention")
"""Parts of the names of operations that are torch's attention."""

_RUNS = 10


@dataclass(frozen=True, slots=True)
class Account:
    """What is known of a graph when it is compiled; operations as `GraphReport` counts them.

    Attributes:
        what: `inference`, `forward` or `backward`.
        programs: what runs each region; None for one that torch runs.
        operations: of each region, by name, how many.
    """

    what: str
    programs: tuple[Program | None, ...]
    operations: tuple[Counter[str], ...]
    taken: int
    attention: int
    left: int
    reasons: Counter[tuple[str, str]]
    places: Mapping[tuple[str, str], str]


def account_of(what: str, regions: Regions, programs: tuple[Program | None, ...]) -> Account:
    """What a report will say of a graph, and needs no graph to say."""
    pairs = zip(regions.members, programs, strict=True)
    missed = [node for members, program in pairs if program is None for node in members]
    reasons = {n: reason for n, reason in regions.reasons.items() if counts(n)}
    reasons |= dict.fromkeys(missed, "its region makes no fusion")
    attention = {node for node in reasons if is_attention(node)}
    left = [node for node in reasons if node not in attention]
    first = {(shown(node), reasons[node]): node for node in reversed(left)}
    taken = [n for n, kind in regions.kinds.items() if kind is Kind.taken and counts(n)]
    return Account(
        what=what,
        programs=programs,
        operations=tuple(Counter(map(shown, filter(counts, each))) for each in regions.members),
        taken=len(taken) - len(missed),
        attention=len(attention),
        left=len(left),
        reasons=Counter((shown(node), reasons[node]) for node in left),
        places={name: line_of(node) for name, node in first.items()},
    )


@dataclass(slots=True, eq=False)
class Start:
    """How graphs of one call of the backend came to be.

    Attributes:
        parameters: tensors of the model that they are of.
        from_disk: another process had compiled them.
        not_kept: why no other process will find them on disk; empty where one will, and where
            nobody asked for it.
    """

    parameters: tuple[weakref.ref[torch.Tensor], ...] = ()
    from_disk: bool = False
    not_kept: str = ""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Record:
    """A graph that was compiled. It lives as long as what runs it."""

    account: Account
    start: Start


_COMPILED: Final[weakref.WeakSet[Record]] = weakref.WeakSet()
"""All graphs that something can still run: `report` may be asked for any of them."""


def remember(record: Record) -> Record:
    """Let reports know a graph."""
    _COMPILED.add(record)
    return record


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a region.

    Attributes:
        scheduler: that made it.
        predicted: microseconds, its launch among them.
    """

    scheduler: str
    predicted: float


@dataclass(frozen=True, slots=True)
class RegionReport:
    """A region, or several that are the same.

    Attributes:
        count: how many they are.
        operations: names, by torch, with how often each is there.
        kernels: of its last call; none before it was called, and none without a plan, as under
            `device="reference"`.
        failures: why calls ran in torch.
        peak: bytes that its last call held at most at one time, beside its arguments.
        measured: microseconds of a call on the GPU, where they were asked for.
    """

    count: int
    operations: Counter[str]
    kernels: tuple[Kernel, ...]
    failures: tuple[str, ...]
    peak: int | None = None
    measured: float | None = None

    def lines(self) -> Iterator[str]:
        times = f" x {self.count}" if self.count > 1 else ""
        names = ", ".join(f"{n} {name}" for name, n in self.operations.most_common(6))
        more = ", …" if len(self.operations) > 6 else ""
        yield f"  region{times}: {sum(self.operations.values())} operations ({names}{more})"
        for kernel in self.kernels:
            yield f"    kernel {kernel.scheduler}, predicted {kernel.predicted:.3g} µs"
        if self.peak is not None:
            yield f"    memory {self.peak / 2**20:.3g} MiB at most, beside its arguments"
        if self.measured is not None:
            yield f"    measured {self.measured:.3g} µs"
        yield from (f"    runs in torch: {failure}" for failure in self.failures)


@dataclass(frozen=True, slots=True)
class GraphReport:
    """What became of a graph.

    Operations are those that compute: views, constants and sizes count nowhere.

    Attributes:
        taken, attention, left: how many are fused, torch's attention, and torch's otherwise.
        reasons: why operations are left, by name, with how often.
        places: the user's line of the first of these, as `model.py:12`, where torch tells it.
        from_disk, not_kept: as `Start` says.
    """

    what: str
    taken: int
    attention: int
    left: int
    regions: tuple[RegionReport, ...]
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    places: Mapping[tuple[str, str], str] = field(default_factory=dict)
    from_disk: bool = False
    not_kept: str = ""

    @property
    def share(self) -> float:
        """Of the operations outside attention, those that are taken; 1 of none."""
        outside = self.taken + self.left
        return self.taken / outside if outside else 1.0

    def lines(self) -> Iterator[str]:
        yield (
            f"{self.what}: {self.taken} operations in {sum(r.count for r in self.regions)} regions "
            f"({len(self.regions)} different), {self.attention} of attention, {self.left} left "
            f"({self.share:.0%} taken outside attention)"
            + (", from disk" if self.from_disk else "")
        )
        if self.not_kept:
            yield f"  not kept on disk: {self.not_kept}"
        for region in self.regions:
            yield from region.lines()
        for (name, reason), count in self.reasons.most_common():
            place = self.places.get((name, reason))
            yield f"  left: {count} {name}: {reason}" + (f" ({place})" if place else "")


@dataclass(frozen=True, slots=True)
class Report:
    """Graphs that were compiled, in no order; `str` is a text for people."""

    graphs: tuple[GraphReport, ...]

    def __str__(self) -> str:
        if not self.graphs:
            return "nothing that runs was compiled for this yet: call it first"
        return "\n".join(line for graph in self.graphs for line in graph.lines())


def report(model: Any = None, *, measure: bool = False) -> Report:
    """What warpsmith took of a model that `torch.compile` compiled, and what not, and why.

    Args:
        model: a module, compiled or not; None for all that was compiled and still runs.
        measure: time each region on the GPU that it ran on, with random numbers.

    Raises:
        ArgumentError: WS0373 for what is no module.
    """
    records = sorted(_COMPILED, key=lambda record: _ORDER.index(record.account.what))
    if model is not None:
        if not isinstance(model, torch.nn.Module):
            raise ArgumentError(
                f"report got {model!r}; graphs are told apart by the parameters of their modules",
                code="WS0373",
                remedy="give the module, or nothing, for all that was compiled and still runs",
            )
        own = [*model.parameters(), *model.buffers()]
        records = [record for record in records if _is_of(record, own)]
    return Report(tuple(_graph(record, measure) for record in records))


_ORDER = ("inference", "forward", "backward")


def _is_of(record: Record, tensors: Sequence[torch.Tensor]) -> bool:
    alive = [tensor for ref in record.start.parameters if (tensor := ref()) is not None]
    return any(mine is theirs for mine in alive for theirs in tensors)


def _graph(record: Record, measure: bool) -> GraphReport:
    account = record.account
    return GraphReport(
        what=account.what,
        taken=account.taken,
        attention=account.attention,
        left=account.left,
        regions=tuple(_regions(account, measure)),
        reasons=account.reasons,
        places=account.places,
        from_disk=record.start.from_disk,
        not_kept=record.start.not_kept,
    )


def _regions(account: Account, measure: bool) -> Iterator[RegionReport]:
    counts_of = Counter(program for program in account.programs if program is not None)
    met: set[Program] = set()
    for operations, program in zip(account.operations, account.programs, strict=True):
        if program is None or program in met:
            continue
        met.add(program)
        yield RegionReport(
            count=counts_of[program],
            operations=operations,
            kernels=tuple(_kernels(program)),
            failures=tuple(program.failures),
            peak=program.last_peak,
            measured=_measured(program) if measure else None,
        )


def _kernels(program: Program) -> Iterator[Kernel]:
    call = program.last_plan
    if call is None:
        return
    for planned, price in zip(call.segments, prices_of(call), strict=True):
        if planned.candidate is not None and price is not None:
            yield Kernel(planned.candidate.scheduler, price.us)


def _measured(program: Program) -> float | None:
    """Microseconds of a call like the last one."""
    values = program.example() or ()
    device = next((v.device for v in values if isinstance(v, torch.Tensor) and v.is_cuda), None)
    if device is None:
        return None
    times: list[float] = []
    with torch.cuda.device(device):
        for _ in range(3 + _RUNS):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            program(list(values))
            end.record()
            end.synchronize()
            times.append(1000 * start.elapsed_time(end))
    return median(times[3:])


def counts(node: Node) -> bool:
    """Whether a node computes tensors: parts of others, views and numbers do not."""
    if node.op != "call_function" or not tensors_of(node) or is_scalar(node):
        return False
    target = node.target
    if not isinstance(target, torch._ops.OpOverload | torch._ops.HigherOrderOperator):
        return False
    return not (isinstance(target, torch._ops.OpOverload) and target.is_view)


def is_attention(node: Node) -> bool:
    return any(part in str(node.target) for part in ATTENTION)


def shown(node: Node) -> str:
    """The name of what a node calls."""
    return name_of(node.target) or str(node.target)


def line_of(node: Node) -> str:
    """The line of the user's Python that a node comes from; empty where torch does not tell it."""
    found = re.findall(r'File "(.*)", line (\d+)', node.stack_trace or "")
    return line_text((found[-1][0], int(found[-1][1]))) if found else ""


def parameters_of(nodes: Iterable[Node]) -> tuple[weakref.ref[torch.Tensor], ...]:
    """The tensors that live on beside a graph of dynamo's: parameters and buffers of the model."""
    found = []
    for node in nodes:
        given = getattr(node.meta.get("grapharg"), "example", None)
        if isinstance(given, torch.Tensor):
            found.append(weakref.ref(given))
    return tuple(found)
