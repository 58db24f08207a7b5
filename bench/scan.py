"""Lengths of rows one after another: is any faster to compute than a shorter one?

`python -m bench.scan --problem layer_norm_bwd --count 400`

A shorter row moves fewer bytes, so one that takes longer than a longer one has a kernel that is not
the best. Many processes compile, each times what it compiled, and one at a time is at the GPU. What
takes more than a twentieth longer than a longer row is timed again, the two in turn. `bench.unseen`
holds results against float64; here they are only timed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from multiprocessing import get_context

from bench.problem import Problem
from bench.row_shapes import ahead
from bench.unseen import COLUMNS, FAMILIES

PROBLEMS = {
    make.__name__: make
    for suite in ("norm_bwd", "norm_fwd", "softmax", "pointwise")
    for make in FAMILIES[suite]
}
BOUND = 1.05
"""Times the time of a longer row that a shorter one may take."""


def lengths(count: int, step: int, seed: int) -> list[int]:
    """So many, from short to long: one drawn from each of as many parts of the range."""
    source = random.Random(seed)
    least, most = COLUMNS
    part = (most - least) / count
    drawn = (least + (number + source.random()) * part for number in range(count))
    return sorted({step * max(1, round(length / step)) for length in drawn})


def slower(times: Sequence[tuple[int, float]]) -> list[tuple[int, int, float]]:
    """Lengths that take longer than a longer one, that one, and how many times as long."""
    found = []
    least, at = float("inf"), 0
    for length, us in reversed(times):
        if us > least:
            found.append((length, at, us / least))
        else:
            least, at = us, length
    return found[::-1]


def awake() -> None:
    """PyTorch is there and has the GPU: seconds that each process needs once, beside the others."""
    import torch

    if torch.cuda.is_available():
        torch.zeros(1, device="cuda")


def timed(
    make: Callable[[int], Problem],
    lengths: Sequence[int],
    ms: float,
    turn: AbstractContextManager[object],
) -> list[float]:
    """Microseconds of rows of these lengths, in a process of its own: compiled beside others,
    then timed in turn for so many milliseconds each, while no other process has its turn.
    """
    from warpsmith.testing import do_bench_interleaved

    problems = [make(length) for length in lengths]
    made = [ahead(problem)[0] for problem in problems]
    awake()
    with turn:
        calls = {}
        for number, (each, problem) in enumerate(zip(made, problems, strict=True)):
            inputs = problem.draw()
            calls[str(number)] = partial(each.prepared(inputs), inputs)
        return [1e3 * us for us in do_bench_interleaved(calls, ms / 4, ms).values()]


def scan(
    make: Callable[[int], Problem], found: Sequence[int], title: str, jobs: int = 0
) -> list[str]:
    """The lines of a report on these lengths, which are timed on this machine's GPU."""
    start = time.monotonic()
    context = get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(jobs or os.cpu_count(), context) as pool:
        turn = manager.Lock()
        first = [pool.submit(timed, make, (length,), 2, turn) for length in found]
        times = []
        for length, job in zip(found, first, strict=True):
            times.append((length, job.result()[0]))
            if len(times) % 20 == 0:
                print(f"{len(times)} timed after {time.monotonic() - start:.0f} s", flush=True)
        slow = [(a, b) for a, b, ratio in slower(times) if ratio > BOUND]
        again = [pool.submit(timed, make, pair, 20, turn) for pair in slow]
        pairs = zip(slow, (job.result() for job in again), strict=True)
        lines = [
            f"  {length} {short:.1f} us, {longer} {long:.1f}: {short / long:.3f}"
            for (length, longer), (short, long) in pairs
            if short > BOUND * long
        ]
    return [
        f"{title} of {found[0]} to {found[-1]}: {len(lines)} of "
        f"{len(found)} lengths take over {BOUND} x a longer one's time",
        *lines,
    ]


def main() -> int:
    """Scan the problems that are named; 1 where a length is slower than a longer one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", nargs="+", choices=PROBLEMS, default=["layer_norm_bwd"])
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--count", type=int, default=400, help="lengths")
    parser.add_argument("--step", type=int, default=8, help="lengths are multiples of it")
    parser.add_argument("--seed", type=int, default=1, help="says the lengths")
    parser.add_argument("--dtype", choices=("bfloat16", "float"), default="bfloat16")
    parser.add_argument("--jobs", type=int, default=0, help="processes; by default all cores")
    asked = parser.parse_args()
    found = lengths(asked.count, asked.step, asked.seed)
    bad = 0
    for name in asked.problem:
        make = partial(PROBLEMS[name], asked.rows, dtype=asked.dtype)
        lines = scan(make, found, f"{name} {asked.dtype}, {asked.rows} rows", asked.jobs)
        print("\n".join(lines), flush=True)
        bad += len(lines) - 1
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
