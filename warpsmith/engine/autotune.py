"""Candidates of a scheduler that are timed on the user's device; the winners are kept on disk."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

from warpsmith.engine.emitted import cause, name_of
from warpsmith.engine.planned import PlannedSegment
from warpsmith.errors import SpillWarning
from warpsmith.knobs import Knobs
from warpsmith.runtime.cache import Entries
from warpsmith.schedulers.problem import Problem

MOST = 8
"""Candidates of a kernel that are timed, those that are predicted to be fastest."""

WARMUP_MS, MEASURED_MS = 3.0, 15.0
"""Of each candidate, all of a kernel in turn."""

Call = Callable[[], object]

Timer = Callable[[Mapping[str, Call]], Mapping[str, float]]
"""From calls by name to the time of each."""


def recall(segments: Sequence[PlannedSegment], problem: Problem, knobs: Knobs) -> None:
    """Let kernels take what won before, for such sizes on such a device.

    Asked before sizes of a call are agreed on for the kernels that decide these, then for all.
    """
    for planned, local, names in choices(segments, problem):
        kept = _entries(knobs).load(_name(planned, local))
        if kept is not None:
            name = json.loads(kept)["winner"]
            if name in names:
                planned.favour(local, name)


def measure(
    segments: Sequence[PlannedSegment],
    problem: Problem,
    knobs: Knobs,
    ready: Callable[[Sequence[PlannedSegment]], Call | None],
    timer: Timer,
) -> bool:
    """Time the candidates of each kernel that has several, and keep the winners; whether any was.

    Kernels behind one that decides sizes of theirs are left to the next call.

    Args:
        problem: of the whole call, as it was planned.
        ready: makes the call of such segments, or None where one has no kernel.
    """
    found = False
    for planned, local, names in choices(segments, problem):
        place = next(n for n, each in enumerate(segments) if each is planned)
        calls: dict[str, Call] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpillWarning)
            for name in names[:MOST]:
                tried = planned.with_favourite(local, name)
                call = ready([*segments[:place], tried, *segments[place + 1 :]])
                if call is not None:
                    calls[name] = call
        times = timer(calls) if len(calls) > 1 else dict.fromkeys(calls, 0.0)
        winner = min(times, key=lambda name: times[name], default=names[0])
        planned.favour(local, winner)
        body = {"winner": winner, "times": dict(times)}
        _entries(knobs).store(_name(planned, local), json.dumps(body).encode())
        found = True
        if planned.candidate is not None and planned.candidate.decides:
            break
    return found


def by_events(ordinal: int, calls: Mapping[str, Call]) -> Mapping[str, float]:
    """The median time of each call on a GPU, all in turn, with a cold L2."""
    import torch

    from warpsmith.testing import do_bench_interleaved

    with torch.cuda.device(ordinal):
        return do_bench_interleaved(calls, WARMUP_MS, MEASURED_MS)


def choices(
    segments: Sequence[PlannedSegment], problem: Problem
) -> Iterator[tuple[PlannedSegment, Problem, list[str]]]:
    """Kernels with several candidates, of which none was chosen for an earlier call, or for a
    kernel that is alike; the call as each sees it, and the names of these.
    """
    for planned in segments:
        local, candidate = planned.local(problem), planned.candidate
        if candidate is None or candidate.held is not None or planned.favourite(local) is not None:
            continue
        names = [name for name, _ in candidate.alternatives(local)]
        if len(names) > 1:
            yield planned, local, names


def _entries(knobs: Knobs) -> Entries:
    return Entries(knobs.cache_dir, "tuned", b"warpsmith tuned 1\n", knobs.cache_mib << 20)


def _name(planned: PlannedSegment, local: Problem) -> str:
    """By the program, the class of its sizes, the device, and versions of all that makes it."""
    decided = planned.candidate.decides if planned.candidate else ()
    given = sorted((name, value) for name, value in local.values.items() if name not in decided)
    sizes = tuple((name, *_class(value)) for name, value in given)
    lies = tuple(sorted(local.alignment.items()))
    return name_of(local.target, "autotune", cause(planned.alike or planned.segment), sizes, lies)


def _class(value: int) -> tuple[int, int]:
    """The size with its three leading bits, rounded up, and what of 128 divides it."""
    step = 1 << max(value.bit_length() - 3, 0)
    return -(-value // step) * step, math.gcd(value, 128)
