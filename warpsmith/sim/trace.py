"""A timeline of one schedule, as the trace JSON that ui.perfetto.dev and chrome://tracing show.

A process a CTA and a track a warp: spans of instructions between waits, and the waits themselves,
named by what they wait for, and marks where a warp arrives at an mbarrier or finds a phase of it
over, waiting or not. Copies in flight and completed phases have tracks of their own. One
microsecond of the viewer is one cycle of the timing model: the machine's warps jump to the end of
a wait, so the picture tells what waits for what, not how fast an H200 is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

from warpsmith.errors import SimulationError
from warpsmith.sim.isa import Op
from warpsmith.sim.machine import Launch, Outcome, block_index
from warpsmith.sim.program import Instruction

_PHASES: Final = 1000  # tracks behind those of the warps
_COPIES: Final = 1001


class Event(IntEnum):
    """`event_kind` of native/machine/machine.h."""

    WAIT = 0
    STUCK = 1
    EXIT = 2
    COPY = 3
    PHASE = 4
    GENERATION = 5
    ARRIVAL = 6
    OVER = 7


def write_trace(path: Path, launch: Launch, outcome: Outcome, schedule: str) -> None:
    """Write the timeline of a traced outcome. Raises SimulationError when that fails."""
    content = {
        "traceEvents": list(trace_events(launch, outcome)),
        "displayTimeUnit": "ms",
        "otherData": {
            "kernel": launch.program.name,
            "schedule": schedule,
            "unit": "one microsecond is one cycle of the timing model",
            "events_lost": outcome.events_lost,
        },
    }
    aside = path.with_name(path.name + ".part")
    try:
        aside.write_text(json.dumps(content))
        os.replace(aside, path)
    except OSError as failure:
        raise SimulationError(
            f"the timeline {path} cannot be written: {failure.strerror or failure}", code="WS0804"
        ) from None


def trace_events(launch: Launch, outcome: Outcome) -> Iterator[dict[str, Any]]:
    """The entries of `traceEvents`."""
    rows = outcome.events
    end = int(rows["end"].max(initial=0)) + 1
    for cta in sorted({int(each) for each in rows["cta"]}):
        mine = rows[rows["cta"] == cta]
        block = ", ".join(map(str, block_index(launch, cta)))
        yield _named("process_name", cta, 0, f"CTA {cta} ({block})")
        for warp in sorted({int(each) for each in mine["warp"] if each >= 0}):
            yield _named("thread_name", cta, warp, f"warp {warp}")
            yield from _warp(launch, mine[mine["warp"] == warp], cta, warp, end)
        yield _named("thread_name", cta, _PHASES, "phases completed")
        yield from _phases(mine, cta)
        yield _named("thread_name", cta, _COPIES, "copies in flight")
        yield from _copies(launch, mine, cta)


def _warp(launch: Launch, rows: Any, cta: int, warp: int, end: int) -> Iterator[dict[str, Any]]:
    """Waits of a warp, spans of instructions between them, and what it does at mbarriers."""
    code = launch.program.instructions
    since, line = 0, code[0].place.line if code else 0
    for row in rows:
        kind = row["kind"]
        if kind in (Event.ARRIVAL, Event.OVER):
            yield _mark(launch, row, cta, warp)
        if kind not in (Event.WAIT, Event.STUCK, Event.EXIT):
            continue
        begin, until = int(row["begin"]), int(row["end"])
        here = code[row["pc"]] if 0 <= row["pc"] < len(code) else None
        if begin > since:
            last = here.place.line if here else line
            span = _span(cta, warp, since, begin, f"lines {line} to {last}", "run")
            yield span | {"args": {"from_line": line, "to_line": last}}
        if here is None or kind == Event.EXIT:
            continue
        never = kind == Event.STUCK
        until = end if never else until
        name = f"waits for {_awaited(here, row)}{', for ever' if never else ''}"
        wait = _span(cta, warp, begin, until, name, "wait")
        yield wait | {"args": {**_where(here), "instructions_before": int(row["executed"])}}
        since, line = until, here.place.line


def _mark(launch: Launch, row: Any, cta: int, warp: int) -> dict[str, Any]:
    """An arrival of a warp at an mbarrier, or that it knows of a phase."""
    address, phase = f"0x{int(row['barrier']):x}", int(row["phase"])
    barrier = f"mbarrier {address}"
    if row["kind"] == Event.ARRIVAL:
        owner = int(row["number"])
        where = "" if owner == cta else f" of CTA {owner}"
        name, category = f"arrives at {barrier}{where} phase {phase}", "arrival"
    elif phase < 0:
        name, category = f"finds {barrier} fresh", "over"
    else:
        name, category = f"finds {barrier} phase {phase} over", "over"
    return {
        "name": name,
        "cat": category,
        "ph": "i",
        "s": "t",
        "pid": cta,
        "tid": warp,
        "ts": int(row["end"]),
        "args": {
            **_where(launch.program.instructions[row["pc"]]),
            "mbarrier": address,
            "phase": phase,
        },
    }


def _awaited(instruction: Instruction, row: Any) -> str:
    barrier, phase = int(row["barrier"]), int(row["phase"])
    match instruction.op:
        case Op.MBARRIER_TRY_WAIT | Op.MBARRIER_TEST_WAIT if barrier >= 0:
            return f"mbarrier 0x{barrier:x} phase {phase}"
        case Op.BAR if barrier >= 0:
            return f"barrier {barrier} generation {phase}"
        case Op.CLUSTER_BARRIER:
            return "the cluster barrier"
        case Op.CP_ASYNC_WAIT:
            return "cp.async groups"
        case Op.BULK_WAIT:
            return "bulk groups"
        case Op.WGMMA_WAIT:
            return "wgmma groups"
        case Op.SETMAXNREG:
            return "registers"
    return f"line {instruction.place.line}"


def _phases(rows: Any, cta: int) -> Iterator[dict[str, Any]]:
    for row in rows:
        if row["kind"] == Event.PHASE:
            name = f"mbarrier 0x{int(row['barrier']):x} phase {int(row['phase'])}"
        elif row["kind"] == Event.GENERATION:
            name = f"barrier {int(row['barrier'])} generation {int(row['phase'])}"
        else:
            continue
        yield {
            "name": name,
            "cat": "phase",
            "ph": "i",
            "s": "t",
            "pid": cta,
            "tid": _PHASES,
            "ts": int(row["end"]),
            "args": {"instructions_before": int(row["executed"])},
        }


def _copies(launch: Launch, rows: Any, cta: int) -> Iterator[dict[str, Any]]:
    """Asynchronous slices: they overlap in any way."""
    for row in rows:
        if row["kind"] != Event.COPY:
            continue
        here = launch.program.instructions[row["pc"]]
        arguments = {
            **_where(here),
            "bytes": int(row["value"]),
            "warp": int(row["warp"]),
            "landed_after_instructions": int(row["executed"]),
        }
        if row["barrier"] >= 0:
            arguments["mbarrier"] = f"0x{int(row['barrier']):x}"
        name = here.text.split(" ")[0].split(".shared")[0].split(".global")[0]
        common = {"name": name, "cat": "copy", "id": int(row["number"]), "pid": cta, "tid": _COPIES}
        yield {**common, "ph": "b", "ts": int(row["begin"]), "args": arguments}
        yield {**common, "ph": "e", "ts": int(row["end"])}


def _where(instruction: Instruction) -> dict[str, Any]:
    place = instruction.place
    known = {"line": place.line, "text": instruction.text}
    return known | ({"source": f"{place.file}:{place.source_line}"} if place.source_line else {})


def _span(cta: int, warp: int, begin: int, end: int, name: str, category: str) -> dict[str, Any]:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "pid": cta,
        "tid": warp,
        "ts": begin,
        "dur": end - begin,
    }


def _named(what: str, cta: int, track: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": cta, "tid": track, "args": {"name": name}}
