"""From a text and a spec to a report: reading, preparing, running under several schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from warpsmith.errors import SimulationError
from warpsmith.sim.entries import integer
from warpsmith.sim.library import library
from warpsmith.sim.ptx import read
from warpsmith.sim.report import Report
from warpsmith.sim.simulate import DEFAULT_BUDGET, DEFAULT_SCHEDULES, Expectation, simulate
from warpsmith.sim.spec import kernel_of, load_spec, prepare

_MOST_SCHEDULES = 10_000


def run(
    ptx: str | Path,
    spec: Mapping[str, Any] | Path,
    *,
    kernel: str | None = None,
    seed: int = 0,
    schedules: int = DEFAULT_SCHEDULES,
    arrays: Mapping[str, ArrayLike] | None = None,
    expect: Mapping[str, Expectation | ArrayLike] | None = None,
    budget: int = DEFAULT_BUDGET,
    trace: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Run a kernel on the CPU under several schedules, and judge it.

    Args:
        ptx: the text, or the path of a file of it.
        spec: the launch as docs/simulator.md says: grid, block, buffers, params; or its path.
        kernel: the entry to run; else the one that the spec names, else the only one.
        seed: of random contents and of random schedules.
        schedules: how many to run: round robin, producers first, consumers first, then random.
        arrays: contents of buffers by name, in place of the spec's; they are not changed.
        expect: what buffers must hold in the end, beside what the spec says. An array is compared
            with a relative tolerance of 1e-5; give an `Expectation` for another one.
        budget: warp instructions after which a schedule ends unjudged.
        trace: where to write a timeline of the first schedule, for ui.perfetto.dev.
        progress: called with what begins now: compiling the machine, or a schedule.

    Paths in a spec are relative to the spec's file; to the working directory for a mapping.

    Raises SimulationError for a text or spec that cannot be taken: it names the line or entry.
    """
    say = progress or (lambda what: None)
    integer(seed, "`seed`", 0, (1 << 63) - 1)
    integer(schedules, "`schedules`", 1, _MOST_SCHEDULES)
    integer(budget, "`budget`", 1, (1 << 63) - 1)
    say("reading")
    text = _text(ptx)
    folder = spec.parent if isinstance(spec, Path) else Path()
    described = load_spec(spec) if isinstance(spec, Path) else spec
    if not isinstance(described, Mapping):
        raise SimulationError("the spec must be a mapping or a Path", code="WS0801")
    program = read(text, kernel if kernel is not None else kernel_of(described))
    library(lambda: say("compiling the machine, once a version"))
    try:
        job = prepare(program, described, arrays=arrays, expected=expect, seed=seed, folder=folder)
        return simulate(
            job.launch,
            count=schedules,
            seed=seed,
            budget=budget,
            expected=job.expected,
            progress=lambda schedule: say(f"schedule {schedule}"),
            trace=trace,
        )
    except MemoryError:
        raise SimulationError(
            "this launch does not fit into memory",
            code="WS0802",
            remedy="give it smaller buffers or a smaller grid",
        ) from None


def _text(ptx: str | Path) -> str:
    if isinstance(ptx, str):
        if "\n" not in ptx.strip() and "{" not in ptx:
            raise SimulationError(
                f"{ptx[:80]!r} is no PTX text", code="WS0803", remedy="give a Path to name a file"
            )
        return ptx
    try:
        return ptx.read_text("utf-8")
    except OSError as failure:
        raise SimulationError(
            f"{ptx} cannot be read: {failure.strerror or failure}", code="WS0803"
        ) from None
    except UnicodeDecodeError as failure:
        raise SimulationError(
            f"{ptx} is not UTF-8: byte {failure.start}; PTX is text",
            code="WS0803",
            remedy="of a cubin, take the text by `cuobjdump -ptx`",
        ) from None
