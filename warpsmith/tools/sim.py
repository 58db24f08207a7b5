"""The command `sim`: runs a PTX file on the simulator and shows what it found."""

from __future__ import annotations

import contextvars
import itertools
import json
import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from warpsmith.errors import SimulationError, WarpsmithError
from warpsmith.sim.report import Finding, Report, Site
from warpsmith.values import dataclass

_SHOWN: Final = 3  # findings of one kind
_STOPPED: Final = 130  # exit status after Ctrl-C, as shells have it
_COLORS: Final = {"clean": "green", "findings": "red", "incomplete": "yellow"}
_BYTES: Final = {
    "global_read": "read from global memory",
    "global_written": "written to global memory",
    "shared_read": "read from shared memory",
    "shared_written": "written to shared memory",
    "copied_in": "copied in asynchronously",
    "copied_out": "copied out asynchronously",
    "peer": "through distributed shared memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line asks for; see its help."""

    ptx: Path
    spec: Path
    kernel: str | None
    seed: int
    schedules: int
    budget: int
    json: Path | None
    trace: Path | None


def run_sim(request: Request) -> int:
    """Simulate, print the report, write the files that are asked for. Gives the exit code.

    Raises SimulationError for what cannot be run; with `json` that is written there, too.
    """
    for path in (request.json, request.trace):
        if path is not None:
            _check_writable(path)
    try:
        report = _interruptible(lambda: _simulated(request))
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped")
        return _STOPPED
    except Exception as failure:
        mistake = failure if isinstance(failure, WarpsmithError) else _broken(failure)
        if request.json is not None:
            content = {"verdict": "incomplete", "findings": [], "error": mistake.message}
            _write_json(request.json, content)
        raise mistake from None
    if request.json is not None:
        _write_json(request.json, report.to_json())
    show(report, Console(highlight=False, soft_wrap=True))
    return report.exit_code


def _interruptible(work: Callable[[], Report]) -> Report:
    """Do it in a thread of its own: while the machine's C runs, Python hears no Ctrl-C."""
    done: queue.SimpleQueue[Report | BaseException] = queue.SimpleQueue()
    context = contextvars.copy_context()

    def body() -> None:
        try:
            done.put(context.run(work))
        except BaseException as failure:
            done.put(failure)

    threading.Thread(target=body, daemon=True).start()
    while True:
        try:
            result = done.get(timeout=0.2)
        except queue.Empty:
            continue
        if isinstance(result, BaseException):
            raise result
        return result


def _broken(failure: Exception) -> SimulationError:
    """What a user is told of a fault of ours."""
    return SimulationError(
        f"the simulator broke: {type(failure).__name__}: {failure}",
        code="WS0899",
        remedy="please report it, with the kernel and the spec",
    )


def _simulated(request: Request) -> Report:
    from warpsmith import sim

    begun = 0
    with Console(stderr=True).status("reading") as status:

        def say(what: str) -> None:
            nonlocal begun
            begun += what.startswith("schedule ")
            status.update(f"{what} ({begun} of {request.schedules})" if begun else what)

        return sim.run(
            request.ptx,
            request.spec,
            kernel=request.kernel,
            seed=request.seed,
            schedules=request.schedules,
            budget=request.budget,
            trace=request.trace,
            progress=say,
        )


def show(report: Report, console: Console) -> None:
    """Print a report: the verdict, a few findings of each kind, what was printed, counts."""
    count = len(report.schedules)
    head = Text(f"{report.kernel}: ")
    head.append(report.verdict, style=f"bold {_COLORS[report.verdict]}")
    head.append(f" under {count} schedule{'s' if count > 1 else ''}: {_few(report.schedules)}")
    console.print(head)
    for kind in dict.fromkeys(finding.kind for finding in report.findings):
        mine = [finding for finding in report.findings if finding.kind == kind]
        console.print()
        console.print(Text(kind, style="bold"))
        for line in itertools.chain.from_iterable(map(_lines, mine[:_SHOWN])):
            console.print(line)
        if len(mine) > _SHOWN:
            console.print(Text(f"  and {len(mine) - _SHOWN} more of this kind"))
    if report.printed:
        console.print()
        console.print(Text("the kernel printed", style="bold"))
        console.print(Text(report.printed.removesuffix("\n")))
    console.print()
    for words in _statistics(report.stats):
        console.print(Text(words, style="dim"))


def _lines(finding: Finding) -> Iterator[Text]:
    yield Text(f"  {finding.message}")
    yield from _side("at ", finding.site)
    if finding.other is not None:
        yield from _side("and", finding.other)
    facts = []
    if finding.buffer is not None:
        at = "" if finding.address is None else f", byte 0x{finding.address:x}"
        facts.append(f"buffer {finding.buffer}{at}")
    elif finding.address is not None:
        facts.append(f"shared address 0x{finding.address:x}")
    if finding.barrier is not None:
        phase = "" if finding.phase is None else f", phase {finding.phase}"
        facts.append(f"mbarrier 0x{finding.barrier:x}{phase}")
    if finding.count > 1:
        facts.append(f"{finding.count} times")
    if finding.schedule:
        facts.append(f"first in schedule {finding.schedule}")
    if facts:
        yield Text(f"    {'; '.join(facts)}", style="dim")


def _side(word: str, site: Site) -> Iterator[Text]:
    """Where and who, then what stands there."""
    place = site.place.replace(f"{Path.cwd()}{os.sep}", "")
    if place or site.who:
        yield Text(f"    {word} {', '.join(filter(None, (place, site.who)))}", style="cyan")
    if site.text:
        yield Text(f"        {site.text}", style="dim")


def _statistics(stats: Mapping[str, int]) -> Iterator[str]:
    yield (
        f"{stats['instructions']} warp instructions, {stats['cycles']} cycles of the timing model, "
        f"{stats['waits']} waits on mbarriers ({stats['blocked_waits']} had to wait), at most "
        f"{stats['max_in_flight']} copies in flight; all warps together waited for "
        f"{stats['wait_cycles']} cycles"
    )
    moved = [f"{stats[name]} {words}" for name, words in _BYTES.items() if stats[name]]
    if moved:
        yield f"bytes: {', '.join(moved)}"


def _few(names: Sequence[str]) -> str:
    shown = names if len(names) <= 6 else (*names[:4], "...", names[-1])
    return ", ".join(shown)


def _check_writable(path: Path) -> None:
    """Before a long run: a path that cannot become a file."""
    if path.is_dir():
        raise SimulationError(f"{path} is a directory", code="WS0804", remedy="name a file in it")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise SimulationError(
            f"{path} cannot be written: {path.parent} is no directory that can be written to",
            code="WS0804",
        )


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    try:
        path.write_text(json.dumps(content, indent=1) + "\n")
    except OSError as failure:
        raise SimulationError(
            f"{path} cannot be written: {failure.strerror or failure}", code="WS0804"
        ) from None
