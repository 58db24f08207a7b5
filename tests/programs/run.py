"""Random programs in numbers: `python -m tests.programs.run --count 1000 --seed 0 --plan-only`.

Prints progress and failures as they come, then a table: how many were planned or run, refused
(grouped by message), wrong, crashed and hung. The failing programs, made smaller, go to a file as
Python that can be run.
"""

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.programs import pool
from tests.programs.generate import FULL, SIMULATED, WIDE, enlarged, generate
from tests.programs.judge import Mode, Verdict, judged
from tests.programs.program import Program
from tests.programs.shrink import shrunk

_SHOWN = 150
_AGAIN = 3  # times that a program of which too little is known is drawn again
_DRAWN = 10_000_000  # between the seeds of one program and of those that take its place
_FIRST = 60.0  # seconds on top of the first limit, for a process to import PyTorch


@dataclass(frozen=True, slots=True)
class Judged:
    seed: int
    verdict: Verdict


def program_of(seed: int, mode: Mode) -> Program:
    """The program of a seed; where it is planned, or has a GPU, every other one is large."""
    budget = SIMULATED if mode == "sim" else WIDE if mode == "gpu" and seed % 2 else FULL
    program = generate(seed, budget)
    return enlarged(program) if mode == "plan" and seed % 2 else program


def judge(seed: int, mode: Mode) -> Judged:
    """The verdict on the program of a seed, or on the next of which enough is known."""
    for turn in range(_AGAIN + 1):
        drawn = seed + turn * _DRAWN
        verdict = judged(program_of(drawn, mode), mode)
        if verdict.kind != "skipped":
            break
    return Judged(drawn, verdict)


def results(seeds: range, mode: Mode, jobs: int, seconds: float) -> Iterator[Judged]:
    """Verdicts as they come in, from so many processes."""
    function = partial(judge, mode=mode)
    if jobs == 0:  # in this process, for a debugger
        yield from map(function, seeds)
        return
    limits = {"seconds": seconds, "first": _FIRST}
    each = pool.each(function, seeds, jobs=jobs, spoils=_spoils, **limits)
    for seed, found in each:
        if isinstance(found, pool.Lost):
            kind = "hung" if found.hung else "crashed"
            found = Judged(seed, Verdict(kind, "LOST", found.reason))
        yield found


def _spoils(found: Judged) -> bool:
    """Whether a kernel broke the process's context, in which all other programs would fail too."""
    return found.verdict.kind == "crashed" and "CUDA error" in found.verdict.message


def smaller(seed: int, mode: Mode) -> Program:
    """The program of a seed made smaller; refusals are only planned again."""
    program = program_of(seed, mode)
    first = judged(program, mode)
    if first.kind in ("passed", "skipped"):  # it failed under load alone
        return program
    trial: Mode = "plan" if first.kind == "refused" else mode

    def fails(candidate: Program) -> bool:
        found = judged(candidate, trial)
        if first.kind == "refused":
            return found.group == first.group
        return (found.kind, found.code) == (first.kind, first.code)

    return shrunk(program, fails)


def table(found: list[Judged]) -> str:
    """The summary in words."""
    kinds = Counter(each.verdict.kind for each in found)
    left = [each.verdict.left_out for each in found if each.verdict.kind == "passed"]
    seconds = sorted(each.verdict.seconds for each in found)
    lines = [
        "  ".join(f"{kind} {kinds[kind]}" for kind in sorted(kinds)) + f"  of {len(found)}",
        f"left out of comparison: {100 * sum(left) / max(len(left), 1):.2f} % of elements",
        f"seconds a program: median {seconds[len(seconds) // 2]:.2f}, longest {seconds[-1]:.2f}",
        "",
    ]
    groups = Counter(each.verdict.group for each in found if each.verdict.kind != "passed")
    for group, count in groups.most_common():
        some = [each for each in found if each.verdict.group == group]
        kind, code, _ = group
        seeds = ", ".join(str(each.seed) for each in some[:5])
        lines.append(f"{count:6} {kind} {code} (seeds {seeds})")
        lines.append(f"       {some[0].verdict.message[:600]}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("sim", "reference", "gpu"), default="sim")
    parser.add_argument("--plan-only", action="store_true")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which it ends")
    parser.add_argument("--jobs", type=int, default=1, help="processes; 0: in this one")
    parser.add_argument("--seconds", type=float, default=60.0, help="most for one program")
    parser.add_argument("--failures", type=Path, default=Path("failing_programs.txt"))
    parser.add_argument("--shrink", type=int, default=2, help="programs of each kind of failure")
    given = parser.parse_args()
    mode: Mode = "plan" if given.plan_only else given.device
    seeds = range(given.seed, given.seed + given.count)
    print(f"seeds {seeds.start} to {seeds.stop - 1}, {mode}", flush=True)
    found: list[Judged] = []
    began = time.monotonic()
    for each in results(seeds, mode, given.jobs, given.seconds):
        found.append(each)
        if each.verdict.kind != "passed":
            kind, code, what = each.verdict.group
            print(f"seed {each.seed}: {kind} {code} {what[:200]}", flush=True)
        if len(found) % _SHOWN == 0:
            bad = sum(other.verdict.kind != "passed" for other in found)
            spent = time.monotonic() - began
            print(f"{len(found)} done, {bad} not passed, {spent:.0f} s", flush=True)
        if time.monotonic() - began > 60 * given.minutes:
            break
    print(table(found), flush=True)
    _write(found, mode, given.failures, given.shrink)
    return 0 if all(each.verdict.kind == "passed" for each in found) else 1


def _write(found: list[Judged], mode: Mode, path: Path, most: int) -> None:
    """The shortest programs of each kind of failure that shrinking found."""
    kinds: Counter[tuple[str, str, str]] = Counter()
    texts = []
    for each in sorted(found, key=lambda each: each.verdict.kind == "refused"):
        verdict = each.verdict
        if verdict.kind in ("passed", "skipped"):
            continue
        kinds[verdict.group] += 1
        if kinds[verdict.group] > most:
            continue
        lost = verdict.code == "LOST"
        program = program_of(each.seed, mode) if lost else smaller(each.seed, mode)
        after = verdict if lost else judged(program, mode)
        message = replace(after, message=after.message or verdict.message).message
        heading = f"# seed {each.seed}: {verdict.kind} {verdict.code}\n"
        note = "".join(f"# {line}\n" for line in message.split("\n")[:6])
        texts.append(heading + note + program.text())
        path.write_text("\n\n".join(texts))
    if texts:
        print(f"failing programs: {path}")


if __name__ == "__main__":
    sys.exit(main())
