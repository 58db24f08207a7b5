"""A long run: threads call random programs at random sizes, by every door; memory comes to rest.

`python -m bench.soak --minutes 30` on a GPU, or `--minutes 1 --device sim` anywhere. Every 10 s it
prints what the process holds, and what it takes of the device; where the driver does not list it,
what all take, and then nothing else may run there. After a sixth of the time, for the last quarter,
in the end, and once no program is kept any more, also what that consists of. It exits with 1 if a
result was wrong, or if memory still grows after the first sixth. The limits of caches are divided
by how much shorter than 30 minutes the run is, so that a short one reaches them, too: of 30
minutes, plans do after some 2,000 calls. A machine too slow for that in the first sixth may fail
for caches that fill. `--log FILE` takes each line as it is printed, of a run that nobody waits for.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np

import warpsmith
from bench.on_device import Share, watched
from bench.resident import MIB, Resident, resident_bytes, trim
from bench.soak_doors import DOORS, Case, opened
from bench.soak_programs import check
from warpsmith import knobs
from warpsmith.knobs import Knobs

Device = Literal["gpu", "sim", "reference"]

WHOLE_MINUTES = 30.0
POOL = 64
"""Programs that are called again and again, at other sizes."""

FRESH = 0.02
"""Share of calls that are of a program which nobody keeps."""

CHECKED = 0.1
"""Share of calls whose results are held against float64."""

LIMITS = ("kept_traces", "kept_plans", "kept_kernels", "loaded_kernels", "kept_maps")


@dataclass(slots=True)
class Seen:
    """What a run saw: bytes of the process, and those of the device that were `whose`, by second;
    and what was wrong.
    """

    seconds: list[float] = field(default_factory=list)
    process: list[int] = field(default_factory=list)
    device: list[int] = field(default_factory=list)
    whose: str = "the device"
    wrong: list[str] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    through: Counter[str] = field(default_factory=Counter)

    def problems(self, duration_s: float) -> list[str]:
        """What makes the run a failure, in words."""
        found = list(self.wrong)
        for name, bytes_ in (("the process", self.process), (self.whose, self.device)):
            growth = grown(self.seconds, bytes_, duration_s)
            if growth > 0:
                found.append(f"the memory of {name} grew by {growth / MIB:.0f} MiB too much")
        return found


def grown(seconds: Sequence[float], bytes_: Sequence[int], duration_s: float) -> float:
    """Bytes by which the last quarter holds more than the quarter behind the first sixth did, over
    what is let pass: 5 % and 32 MiB. Without samples in both there is nothing to say: 0.
    """
    start = duration_s / 6
    early = [b for s, b in zip(seconds, bytes_, strict=True) if start <= s < start + duration_s / 4]
    late = [b for s, b in zip(seconds, bytes_, strict=True) if s >= duration_s * 3 / 4]
    if not early or not late:
        return 0.0
    return median(late) - 1.05 * median(early) - 32 * MIB


def limits(minutes: float) -> dict[str, int]:
    """Knobs of a run that is so long."""
    share = min(minutes / WHOLE_MINUTES, 1.0)
    defaults: dict[str, Any] = {declared.name: declared.default for declared in fields(Knobs)}
    return {name: max(int(defaults[name] * share), 8) for name in LIMITS}


def soak(
    *,
    minutes: float,
    threads: int,
    device: Device,
    seed: int,
    say: Callable[[str], None],
    calls: int = sys.maxsize,
    doors: Sequence[str] = ("fuse",),
) -> Seen:
    """Run until `minutes` are over or so many `calls` are made. `say` gets a line each 10 s.

    Args:
        doors: of `soak_doors.DOORS`; what nobody keeps goes through `fuse`.
    """
    seen = Seen(calls=[0] * threads)
    share = _share(device)
    if share is not None:
        seen.whose = share.whose
        say(f"memory of the device is that of {share.whose}")
    known = [
        opened(doors[number % len(doors)], random.Random(f"{seed}/{number}"))
        for number in range(POOL)
    ]
    begin, over = time.monotonic(), threading.Event()
    chosen = limits(minutes)

    def work(number: int) -> None:
        random_ = random.Random(f"{seed} {number}")
        numbers = np.random.default_rng([seed, number])
        with knobs.scope(device=device, **chosen):
            while not over.is_set():
                case = random_.choice(known)
                if random_.random() < FRESH:
                    case = opened("fuse", random_)
                try:
                    _call(case, random_, numbers, device)
                except Exception as failure:
                    seen.wrong.append(f"{type(failure).__name__}: {failure}; {case}")
                    over.set()
                seen.calls[number] += 1
                seen.through[case.door] += 1
                if sum(seen.calls) >= calls:
                    over.set()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    told = 0
    moments = [(10 * minutes, "the first sixth is over"), (45 * minutes, "last quarter")]
    while not over.wait(1.0):
        passed = time.monotonic() - begin
        seen.seconds.append(passed)
        seen.process.append(resident_bytes())
        seen.device.append(_taken(share, seen.device))
        if passed >= 10 * (told + 1):
            told += 1
            say(_line(seen))
        if moments and passed >= moments[0][0]:
            say(f"{moments.pop(0)[1]}: {Resident.now()}")
        if passed >= 60 * minutes:
            over.set()
    for worker in workers:
        worker.join()
    say(f"the end: {Resident.now()}")
    return seen


def _call(
    case: Case,
    random_: random.Random,
    numbers: np.random.Generator,
    device: Device,
) -> None:
    """One call at random sizes; raises AssertionError for a result that is wrong."""
    most = 4096 if device == "gpu" else 48
    rows, columns = (
        max(random_.choice((random_.randint(1, most), 1 << random_.randint(0, 5))), case.least)
        for _ in range(2)
    )
    columns += case.least > 1 and rows == columns  # else torch compiles for squares, too
    shape = (1, columns) if case.program.one_row else (rows, columns)
    given = _numbers(numbers, ((rows, columns), shape), device, case.tensors)
    results = case.call(*given)
    if random_.random() < CHECKED:
        check(case.program, given, results)


def _numbers(
    numbers: np.random.Generator,
    shapes: Sequence[tuple[int, int]],
    device: Device,
    tensors: bool,
) -> list[Any]:
    """Arrays of normal numbers, made where they are used: copies would fill the C heap."""
    if device != "gpu":
        arrays = [numbers.standard_normal(shape, dtype=np.float32) for shape in shapes]
        if not tensors:
            return arrays
    import torch

    if device != "gpu":
        return [torch.from_numpy(array) for array in arrays]

    drawn_there = torch.Generator("cuda").manual_seed(int(numbers.integers(1 << 31)))
    return [torch.randn(shape, generator=drawn_there, device="cuda") for shape in shapes]


def _share(device: Device) -> Share | None:
    """Whose memory is judged on a GPU; the process has a context from here on."""
    if device != "gpu":
        return None
    import torch

    torch.zeros(1, device="cuda")
    return watched()


def _taken(share: Share | None, before: Sequence[int]) -> int:
    """Bytes of the device, but for what PyTorch keeps in store; as before where nobody says."""
    if share is None:
        return 0
    import torch

    found = share.bytes()
    if found is None:
        return before[-1] if before else 0
    return int(found - torch.cuda.memory_reserved() + torch.cuda.memory_allocated())


def _line(seen: Seen) -> str:
    kept = ", ".join(
        f"{name} {held.entries}" for name, held in warpsmith.cache_info().items() if held.made
    )
    return (
        f"{seen.seconds[-1]:6.0f} s  {sum(seen.calls):8d} calls  process "
        f"{seen.process[-1] / MIB:7.0f} MiB  device {seen.device[-1] / MIB:7.0f} MiB  {kept}"
    )


def main() -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(description="Random programs and sizes, for a long time.")
    parser.add_argument("--minutes", type=float, default=WHOLE_MINUTES)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--device", choices=("gpu", "sim", "reference"), default="gpu")
    parser.add_argument("--doors", nargs="+", choices=DOORS, default=DOORS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, help="a file that takes each line, too")
    given = parser.parse_args()
    with ExitStack() as open_:
        files = [sys.stdout]
        if given.log is not None:
            files.append(open_.enter_context(given.log.open("w")))

        def say(line: str) -> None:
            for file in files:
                print(line, file=file, flush=True)

        return _run(given, say)


def _run(given: argparse.Namespace, say: Callable[[str], None]) -> int:
    say(f"seed {given.seed}, {given.threads} threads, {given.minutes} minutes on {given.device}")
    say(f"limits {limits(given.minutes)}")
    seen = soak(
        minutes=given.minutes,
        threads=given.threads,
        device=given.device,
        seed=given.seed,
        say=say,
        doors=given.doors,
    )
    say(f"calls {dict(seen.through)}")
    gc.collect()
    say(f"no program: {Resident.now()}")
    trim()
    say(f"trimmed: {Resident.now()}")
    problems = seen.problems(60 * given.minutes)
    for problem in problems:
        say(f"WRONG: {problem}")
    say(f"{sum(seen.calls)} calls: {'failed' if problems else 'right, and memory at rest'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
