"""Simulating a launch under several schedules, and judging it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from warpsmith.sim.isa import Op, Window
from warpsmith.sim.machine import (
    Launch,
    Order,
    Outcome,
    block_index,
    check_shared,
    check_together,
    run_once,
)
from warpsmith.sim.records import pack
from warpsmith.sim.report import KINDS, WRONG_OUTPUT, Finding, Report, Site
from warpsmith.sim.trace import write_trace
from warpsmith.values import dataclass

_NOWHERE: Final = (1 << 64) - 1
DEFAULT_SCHEDULES: Final = 4
DEFAULT_BUDGET: Final = 200_000_000
_FIXED = (Order.ROUND_ROBIN, Order.PRODUCER_FIRST, Order.CONSUMER_FIRST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What an output must be: |error| <= atol + rtol * |value|, and NaN where it is NaN."""

    values: NDArray[Any]
    rtol: float = 1e-5
    atol: float = 0.0

    def wrong(self, name: str, array: NDArray[Any]) -> str:
        """What is wrong with an output, in words; empty if nothing is."""
        got = array.astype(np.float64)
        want = np.asarray(self.values).astype(np.float64).reshape(got.shape)
        with np.errstate(invalid="ignore"):
            error = np.abs(got - want)
            wrong = ~(error <= self.atol + self.rtol * np.abs(want))
        wrong &= ~((got == want) | (np.isnan(got) & np.isnan(want)))
        if not wrong.any():
            return ""
        at = np.unravel_index(int(np.argmax(wrong)), got.shape)
        place = ", ".join(map(str, at))
        return (
            f"{name}[{place}] is {got[at]}, expected {want[at]} (rtol {self.rtol}, atol "
            f"{self.atol}); {int(wrong.sum())} of {wrong.size} elements are wrong"
        )


class Judge(Protocol):
    """Says of an output buffer, as a run left it, what is wrong with it; empty if nothing is."""

    def wrong(self, name: str, array: NDArray[Any], /) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One way of running a launch."""

    order: Order
    seed: int

    def __str__(self) -> str:
        name = self.order.name.lower().replace("_", "-")
        return f"{name} {self.seed}" if self.order is Order.RANDOM else name


def schedules(count: int, seed: int = 0) -> Iterator[Schedule]:
    """Round robin, producers first, consumers first, then seeded random orders."""
    for position in range(count):
        fixed = position < len(_FIXED)
        yield Schedule(order=_FIXED[position] if fixed else Order.RANDOM, seed=seed + position)


def simulate(
    launch: Launch,
    *,
    count: int = DEFAULT_SCHEDULES,
    seed: int = 0,
    budget: int = DEFAULT_BUDGET,
    expected: Mapping[str, Judge] | None = None,
    progress: Callable[[Schedule], None] | None = None,
    trace: Path | None = None,
) -> Report:
    """Run `launch` under `count` schedules and gather what they show.

    Args:
        budget: warp instructions after which a run ends unjudged.
        expected: by output buffer, checked after every schedule.
        progress: called before each schedule.
        trace: where to write a timeline of the first schedule.

    The input arrays are not changed. Raises SimulationError when a CTA takes more shared memory
    than there is, the machine cannot be built, or the timeline cannot be written.
    """
    check_shared(launch)
    check_together(launch)
    packed = pack(launch.program)
    names = tuple(buffer.name for buffer in launch.buffers)
    found: dict[tuple[object, ...], Finding] = {
        (each.kind, each.site.line, None): each for each in _ignored_register_budgets(launch)
    }
    first: Outcome | None = None
    ran = []
    for schedule in schedules(count, seed):
        if progress:
            progress(schedule)
        outcome = run_once(
            launch,
            packed,
            order=schedule.order,
            seed=schedule.seed,
            budget=budget,
            traced=trace is not None and first is None,
        )
        if trace is not None and first is None:
            write_trace(trace, launch, outcome, str(schedule))
        first = first or outcome
        ran.append(str(schedule))
        findings = [_finding(launch, names, row) for row in outcome.findings]
        ended = not any(each.kind in ("deadlock", "trap", "budget") for each in findings)
        if ended:
            findings += _wrong_outputs(outcome, expected or {})
        for each in findings:
            key = (each.kind, each.site.line, each.buffer if each.kind == WRONG_OUTPUT else None)
            found.setdefault(key, replace(each, schedule=str(schedule)))
    assert first is not None, "at least one schedule"
    return Report(
        kernel=launch.program.name,
        findings=tuple(found.values()),
        schedules=tuple(ran),
        stats=first.statistics,
        arrays=first.arrays,
        printed=first.printed,
    )


def _finding(launch: Launch, names: tuple[str, ...], row: Any) -> Finding:
    kind = KINDS[row["kind"]]
    has_other = row["other_pc"] >= 0
    buffer, address = _located(names, int(row["buffer"]), int(row["address"]))
    return Finding(
        kind=kind,
        message=bytes(row["message"]).decode(errors="replace"),
        site=_site(launch, row["pc"], row["cta"], row["warp"], row["lane"]),
        other=_site(launch, row["other_pc"], row["other_cta"], row["other_warp"], row["other_lane"])
        if has_other
        else None,
        buffer=buffer,
        address=address,
        barrier=_known(row["barrier"]),
        phase=_known(row["phase"]),
        count=int(row["count"]),
    )


def _located(names: tuple[str, ...], position: int, address: int) -> tuple[str | None, int | None]:
    """A buffer's name and an offset in it, or None and an offset in shared memory."""
    if position >= len(names):  # an address behind them all
        return None, None
    if position >= 0:
        return names[position], address if address < Window.LOCAL else None
    if address == _NOWHERE:
        return None, None
    window, offset = address >> 32, address & 0xFFFF_FFFF
    number = window - (Window.BUFFERS >> 32) - 1
    if 0 <= number < len(names):
        return names[number], offset
    shared = window == Window.SHARED >> 32 or Window.SHARED_START <= address < 1 << 24
    return None, offset & 0xFF_FFFF if shared else None


def _ignored_register_budgets(launch: Launch) -> Iterator[Finding]:
    """`setmaxnreg` counts only when ptxas knows the registers at entry; else it says C7508."""
    program = launch.program
    known = program.max_registers or (program.bound and program.min_blocks)
    for pc, instruction in enumerate(program.instructions):
        if instruction.op is Op.SETMAXNREG and not known:
            yield Finding(
                kind="setmaxnreg",
                message="ptxas ignores setmaxnreg (C7508): the kernel has neither .maxnreg nor "
                ".maxntid with .minnctapersm, so its registers at entry are not known",
                site=_site(launch, pc, -1, -1, -1),
            )
            return


def _known(value: Any) -> int | None:
    return int(value) if value >= 0 else None


def _site(launch: Launch, pc: Any, cta: Any, warp: Any, lane: Any) -> Site:
    instructions = launch.program.instructions
    instruction = instructions[pc] if 0 <= pc < len(instructions) else None
    block = block_index(launch, int(cta)) if cta >= 0 else None
    if instruction is None:
        return Site(cta=_known(cta), block=block, warp=_known(warp), lane=_known(lane))
    place = instruction.place
    return Site(
        line=place.line,
        text=instruction.text,
        source=f"{place.file}:{place.source_line}" if place.source_line else None,
        caller=place.caller or None,
        cta=_known(cta),
        block=block,
        warp=_known(warp),
        lane=_known(lane),
    )


def _wrong_outputs(outcome: Outcome, expected: Mapping[str, Judge]) -> Iterator[Finding]:
    for name, judge in expected.items():
        if message := judge.wrong(name, outcome.arrays[name]):
            yield Finding(kind=WRONG_OUTPUT, message=message, site=Site(), buffer=name)
