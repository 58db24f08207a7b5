"""Lengths of rows one after another: is any faster to compute than a shorter one?

`python -m bench.scan --problem layer_norm_bwd --count 400`

A shorter row moves fewer bytes, so one that takes longer than a longer one has a kernel that is not
the best. Kernels are compiled ahead, by many processes, and timed from short to long; what
takes more than a twentieth longer than a longer row is timed again, the two in turn. `bench.unseen`
holds results against float64; here they are only timed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from bench.measure import in_processes, without_gpu
from bench.problem import Problem, planned
from bench.row_shapes import plan
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


def _ready(make: Callable[..., Problem], rows: int, length: int, dtype: str) -> None:
    plan(make(rows, length, dtype))


def _call(make: Callable[..., Problem], rows: int, length: int, dtype: str) -> Callable[[], Any]:
    problem = make(rows, length, dtype)
    return planned(problem)(problem.draw())


def scan(
    make: Callable[..., Problem], rows: int, found: Sequence[int], dtype: str, jobs: int
) -> list[str]:
    """The lines of a report on these lengths, which are timed on this machine's GPU."""
    from warpsmith.testing import do_bench_interleaved

    start = time.monotonic()
    with without_gpu():
        in_processes(_ready, ((make, rows, length, dtype) for length in found), jobs)
    print(f"compiled after {time.monotonic() - start:.0f} s", flush=True)
    times = []
    for length in found:
        ms = do_bench_interleaved({"": _call(make, rows, length, dtype)}, 1, 3)[""]
        times.append((length, 1e3 * ms))
        if len(times) % 20 == 0:
            print(f"{len(times)} timed after {time.monotonic() - start:.0f} s", flush=True)
    lines = []
    for length, longer, ratio in slower(times):
        if ratio > BOUND:
            both = {str(n): _call(make, rows, n, dtype) for n in (length, longer)}
            again = do_bench_interleaved(both, 5, 20)
            short, long = (1e3 * again[str(n)] for n in (length, longer))
            if short > BOUND * long:
                lines.append(f"  {length} {short:.1f} us, {longer} {long:.1f}: {short / long:.3f}")
    return [
        f"{make.__name__} {dtype}, {rows} rows of {found[0]} to {found[-1]}: {len(lines)} of "
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
        lines = scan(PROBLEMS[name], asked.rows, found, asked.dtype, asked.jobs)
        print("\n".join(lines), flush=True)
        bad += len(lines) - 1
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
