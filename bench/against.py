"""Every suite in this tree and in another one, in one run: what a change does to the speed of all.

python -m bench.against ../before --json rows.json

Two processes, one a tree, have the GPU in turns and time the same problems: before, after, after,
before. Of each side the smaller time counts. Kernels are compiled ahead, by many processes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SUITES = (
    "pointwise,reduction,norm_fwd,norm_bwd,softmax,odd_rows,long_rows,short_rows,batch_norm,matmul,"
    "rings,roles"
)
SLOWER = 1.03
"""A row that takes so many times as long is listed."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Microseconds of one contender of a problem in both trees, as they were measured."""

    suite: str
    problem: str
    who: str
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Above 1 it is slower than before."""
        return min(self.after) / min(self.before)


class Tree:
    """A process that times the problems of one tree."""

    def __init__(self, root: Path, suites: str, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(root), "--suites", suites, *words],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},  # noqa: TID251
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def times(self, number: int) -> dict[str, float]:
        """Of each contender of a problem; raises RuntimeError with what went wrong."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        found: dict[str, Any] = self.answer()
        if "failed" in found:
            raise RuntimeError(found["failed"])
        return found

    def close(self) -> None:
        self._process.communicate()


def serve(suites: str, compiles: str | None) -> None:
    """The process of a tree: compiles a part of the problems, `0/8`, or times what it is asked."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else is printed
    from bench.peers import contenders
    from bench.run import PROBLEMS
    from warpsmith.testing import do_bench_interleaved

    problems = [each for suite in suites.split(",") for each in PROBLEMS[suite](quick=False)]

    def say(answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    def ready(number: int) -> dict[str, Any]:
        inputs = problems[number].draw()
        made = contenders(problems[number], "none")
        calls = {name: build(inputs) for name, build in made.items()}
        for call in calls.values():
            call()
        return calls

    if compiles is not None:
        first, step = map(int, compiles.split("/"))
        for number in range(first, len(problems), step):
            try:
                ready(number)
            except Exception as failure:  # who times it says so again
                print(f"{problems[number].title}: {failure}", file=sys.stderr)
        say("compiled")
        return
    say([(each.suite, each.title) for each in problems])
    kept: dict[int, dict[str, Any]] = {}  # the last one, which is mostly asked for again
    for number in map(int, sys.stdin):
        try:
            kept = kept if number in kept else {number: ready(number)}
            times = do_bench_interleaved(kept[number], 0.5, 6.0)
            say({name: 1e3 * ms for name, ms in times.items()})
        except Exception as failure:
            say({"failed": f"{type(failure).__name__}: {failure}"[:300]})


def compared(before: Path, suites: str, jobs: int, seconds: float) -> list[Timed]:
    """Rows of all problems that were begun in so many seconds."""
    started = time.monotonic()
    roots = {"before": before.resolve(), "after": Path(__file__).resolve().parent.parent}
    work = [
        Tree(root, suites, "--compile", f"{number}/{jobs}")
        for root in roots.values()
        for number in range(jobs)
    ]
    for each in work:
        each.answer()
    print(f"compiled after {time.monotonic() - started:.0f} s", flush=True)
    trees = {name: Tree(root, suites, "--serve") for name, root in roots.items()}
    titles = {name: tree.answer() for name, tree in trees.items()}
    found: list[Timed] = []
    for number, (suite, title) in enumerate(titles["after"]):
        if time.monotonic() - started > seconds:
            print(f"{len(titles['after']) - number} problems left out")
            break
        assert titles["before"][number] == [suite, title], "the trees have other problems"
        try:
            runs = [(name, trees[name].times(number)) for name in (*roots, *reversed(roots))]
        except RuntimeError as failure:
            print(f"{suite} {title}: {failure}", flush=True)
            continue
        for who in runs[0][1]:
            sides = [tuple(t[who] for name, t in runs if name == side) for side in roots]
            found.append(Timed(suite, title, who, sides[0], sides[1]))
    return found


def summary(rows: Sequence[Timed]) -> list[str]:
    """A line for each suite, and one for each row that is slower."""
    lines = []
    for suite in dict.fromkeys(row.suite for row in rows):
        own = [row.ratio for row in rows if row.suite == suite]
        mean = math.exp(sum(map(math.log, own)) / len(own))
        slower = sum(ratio > SLOWER for ratio in own)
        lines.append(f"{suite}: {len(own)} rows, {mean:.4f} of the time before, {slower} slower")
    lines += [
        f"  {row.ratio:.3f}  {row.problem} {row.who}: from {min(row.before):.1f} us"
        for row in sorted(rows, key=lambda row: -row.ratio)
        if row.ratio > SLOWER
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("before", type=Path, help="the other tree")
    parser.add_argument("--suites", default=SUITES)
    parser.add_argument("--jobs", type=int, default=8, help="processes of each tree that compile")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no problem after that"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve or given.compile:
        serve(given.suites, given.compile)
        return
    rows = compared(given.before, given.suites, given.jobs, given.seconds)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows]))
    print("\n".join(summary(rows)))


if __name__ == "__main__":
    main()
