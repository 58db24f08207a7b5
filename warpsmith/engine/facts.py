"""What was chosen for a call, and why, as values: texts and pages show these and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

from warpsmith.engine.classes import launched
from warpsmith.engine.launches import CallPlan, Launch
from warpsmith.engine.planned import PlannedSegment
from warpsmith.engine.role_facts import RingRow, RoleRow, order_lines, ring_rows, role_rows
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.kernel import Kernel, layout_of
from warpsmith.kernel.reductions import waits_in_order
from warpsmith.planner.alike import renamed
from warpsmith.planner.cuts import Cut, cuts
from warpsmith.planner.stored import Stored, stored
from warpsmith.protocol.launched import launch_values
from warpsmith.runtime.launch import Extent
from warpsmith.schedulers.candidate import Refusals
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

Times = tuple[tuple[str, float], ...]
"""Microseconds by name."""

_V = TypeVar("_V")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFacts:
    """How one kernel is launched, and what it has.

    Attributes:
        shared_bytes, reserved_bytes: of a block: what it uses, and what it asks for.
        shared: buffers in shared memory, with the byte at which each starts and how many it has.
        in_order: blocks take numbers as they start, and wait for those with lower ones.
        together: all blocks run at once, and wait for each other.
        early: it starts while the kernel before it ends.
        registers, spills: of a thread, and bytes of it.
        roles, rings, orders: as `engine/role_facts.py` says; none where there is one agent.
        budgets: what was decided on the registers of roles, and why.
        shortened: iterations to which loops were cut in the proof; 0 where none were.
        left_to_threads: tensors that were to be copied by TMA and are not, each with the reason.
        needs: what the kernel relies on.
    """

    name: str
    grid: Extent
    block: Extent
    shared_bytes: int
    reserved_bytes: int
    shared: tuple[tuple[str, int, int], ...]
    cluster_blocks: int
    in_order: bool
    together: bool
    early: bool
    registers: int
    spills: int
    indices: str
    roles: tuple[RoleRow, ...]
    budgets: str
    rings: tuple[RingRow, ...]
    orders: tuple[str, ...]
    shortened: int
    left_to_threads: tuple[tuple[str, str], ...]
    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was chosen for one kernel, in the names of its program.

    Attributes:
        scheduler: empty where the schedule was laid by hand.
        refusals: why the other schedulers did not take it.
        parameters: by name.
        compared: strategies, with what each is predicted to take.
        words: the parameters of a product, as nvFuser prints them.
        advice: what keeps it from a faster path.
        no_ring: why loads do not run ahead; empty where they do.
        launch: None where there is nothing to compute.
    """

    scheduler: str = ""
    refusals: Refusals = ()
    parameters: tuple[tuple[str, str], ...] = ()
    compared: Times = ()
    words: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    no_ring: str = ""
    launch: LaunchFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFacts:
    """One kernel of a call: what it reads and writes, and what was chosen for it."""

    number: int
    reads: tuple[Stored, ...]
    writes: tuple[Stored, ...]
    choice: Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """A call.

    Attributes:
        cuts: what crosses memory between its kernels, as far as it was asked for.
        more_cuts: there are others.
    """

    target: Target
    kernels: tuple[KernelFacts, ...]
    cuts: tuple[Cut, ...]
    more_cuts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one kernel is predicted to take.

    Attributes:
        us: microseconds, its launch among them.
        bounds: those for which each resource is busy, the busiest first.
    """

    us: float
    bounds: Times


def facts_of(call: CallPlan, most_cuts: int) -> CallFacts:
    """What is known of a call, with the first `most_cuts` of its cuts."""
    found = tuple(cuts(call.segments, call.problem, most_cuts + 1))
    kernels = tuple(
        KernelFacts(
            number=number,
            reads=tuple(stored(tensor, call.problem) for tensor in planned.segment.reads),
            writes=tuple(stored(tensor, call.problem) for tensor in planned.segment.writes),
            choice=_renamed(_choice(planned, launch, planned.local(call.problem)), planned),
        )
        for number, (planned, launch) in enumerate(launched(call))
    )
    return CallFacts(
        target=call.problem.target,
        kernels=kernels,
        cuts=found[:most_cuts],
        more_cuts=len(found) > most_cuts,
    )


def prices_of(call: CallPlan) -> tuple[Price | None, ...]:
    """Of each kernel; None of one that somebody scheduled by hand, or that is not launched."""
    return tuple(
        None if launch is None else _price(planned, planned.local(call.problem))
        for planned, launch in launched(call)
    )


def _price(planned: PlannedSegment, problem: Problem) -> Price | None:
    candidate = planned.candidate
    if candidate is None:
        return None
    busiest = sorted(candidate.bounds(problem).items(), key=lambda bound: -bound[1])
    return Price(us=candidate.us(problem), bounds=tuple(busiest))


def _choice(planned: PlannedSegment, launch: Launch | None, problem: Problem) -> Choice:
    """In the names of the candidate, which others that are alike share."""
    candidate = planned.candidate
    told = Choice()
    if candidate is not None:
        told = replace(told, scheduler=candidate.scheduler, refusals=candidate.refusals)
    if launch is None:
        return told
    told = replace(told, launch=_launch(planned, launch, problem))
    params = launch.params
    if params is not None:
        chosen = tuple((f.name, str(getattr(params, f.name))) for f in fields(params))
        told = replace(told, parameters=chosen)
    if candidate is None:
        return told
    return replace(
        told,
        words=candidate.told(params),
        compared=candidate.predicted(problem),
        advice=candidate.advice(problem),
        no_ring=candidate.no_ring(problem),
    )


def _launch(planned: PlannedSegment, launch: Launch, problem: Problem) -> LaunchFacts:
    compiled = launch.compiled
    kernel = compiled.kernel
    values = {**problem.values, **dict(launch.values)}
    return LaunchFacts(
        name=compiled.name,
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        reserved_bytes=launch.reserved_bytes,
        shared=_shared(kernel, values),
        cluster_blocks=kernel.launch.cluster_blocks,
        in_order=bool(waits_in_order(kernel.body)),
        together=kernel.launch.together,
        early=launch.early,
        registers=compiled.n_regs,
        spills=compiled.n_spills,
        indices=kernel.index_type.value,
        roles=role_rows(kernel, values, compiled.n_regs),
        budgets=compiled.budgets,
        rings=ring_rows(kernel, values),
        orders=tuple(order_lines(kernel)),
        shortened=planned.shortened(compiled, values),
        left_to_threads=kernel.left_to_threads,
        needs=tuple(_needs(kernel)),
    )


def _shared(kernel: Kernel, values: dict[str, int]) -> tuple[tuple[str, int, int], ...]:
    known = launch_values(kernel, values, (0, 0, 0))
    return tuple(
        (place.buffer.name, int(evaluate(place.start, known)), int(evaluate(place.bytes, known)))
        for place in layout_of(kernel).places
    )


def _needs(kernel: Kernel) -> Iterator[str]:
    yield from (f"{expr!r} % {d} == 0" for expr, d in kernel.requirements if d > 1)
    yield from (f"{expr!r} <= {most}" for expr, most in kernel.limits)
    yield from (f"{expr!r} >= {least}" for expr, least in kernel.least)


def _renamed(value: _V, planned: PlannedSegment) -> _V:
    """A value with the program's names in all its texts."""
    changed: object = value
    if isinstance(value, str):
        changed = renamed(value, planned.names)
    elif isinstance(value, tuple):
        changed = tuple(_renamed(each, planned) for each in value)
    elif is_dataclass(value) and not isinstance(value, type):
        texts = {f.name: _renamed(getattr(value, f.name), planned) for f in fields(value)}
        changed = replace(value, **texts)
    return changed  # type: ignore[return-value]
