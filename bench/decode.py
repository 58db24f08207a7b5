"""Products of few rows beside cuBLAS: `x[m, k] @ w[n, k].T`, which the bytes of `w` bound.

python -m bench.decode                 # the table, what the model chooses
python -m bench.decode --all 12 --m 8  # and the best predicted schedules of other kinds
python -m bench.decode --few-columns   # the mirrored products: w[n, k] @ x[m, k].T

Kernels are compiled in as many processes as there are cores, then each result is held against sums
in double, and all contenders of a row are timed in turn, the L2 flushed before each.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import ml_dtypes
import numpy as np

from bench.ceilings import read_passes
from bench.measure import in_processes
from bench.products import PEER, Row, Turns, Way, beyond, failures, forced, kinds, ways_of
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.engine.executable import Executable

ROWS = (1, 8, 16, 32, 64)
WEIGHTS = ((2560, 4096), (4096, 4096), (12288, 4096), (28672, 4096), (4096, 14336), (8192, 8192))
"""m, and n and k, of the table."""


@dataclass(frozen=True, slots=True)
class Case:
    """A product; `mirrored`: the weights come first, and the result has few columns."""

    m: int
    n: int
    k: int
    mirrored: bool = False

    @property
    def title(self) -> str:
        return f"{self.n:6} {self.k:6} {self.m:4}"

    def ordered(self, x: Any, weights: Any) -> tuple[Any, Any]:
        return (weights, x) if self.mirrored else (x, weights)

    @property
    def bytes(self) -> int:
        """Of both operands and the result."""
        return 2 * (self.n * self.k + self.m * self.k + self.m * self.n)


def executable() -> Executable:
    """`linear` of any sizes."""
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(2))
        fd.add_output(fd.ops.linear(a, b))
    return Executable(fd.fusion)


def planned(case: Case) -> None:
    """Compile what the case gets, for arrays that are never touched."""
    shapes = case.ordered((case.m, case.k), (case.n, case.k))
    executable().plan_for([np.empty(shape, ml_dtypes.bfloat16) for shape in shapes])


def compiled(case: Case, count: int, target: str) -> tuple[Case, list[Way]]:
    """The ways to time, of which each kernel is in the cache then."""
    with knobs.scope(device="sim", target=target):
        ways = kinds(ways_of(lambda: planned(case)), count)
        for params, _ in ways[1:]:
            with forced(params):
                planned(case)
    return case, ways


def measured(case: Case, ways: Sequence[Way], x: Any, weights: Any, rep_ms: float) -> list[Row]:
    """A row for each contender: what it is, microseconds and error, or what failed."""
    import torch

    given = list(case.ordered(x, weights))
    wanted = given[0].double() @ given[1].double().T
    turns = Turns(
        {"n": case.n, "k": case.k, "m": case.m}, partial(beyond, wanted=wanted, depth=case.k)
    )
    turns.add(PEER, lambda: lambda: torch.nn.functional.linear(*given))

    def ours() -> Callable[[], Any]:
        ready = executable().prepared(given)
        return lambda: ready(given)[0]

    if not ways:  # a product of one row is a reduction
        turns.add("chosen", ours)
    for number, (params, us) in enumerate(ways):
        with forced(params):
            facts = {"params": str(params), "predicted": us}
            turns.add("chosen" if number == 0 else f"other {number}", ours, **facts)
    return turns.timed(rep_ms, read_passes(case.bytes))


def text(case: Case, row: Row) -> str:
    """A row as text, with its share of the ceiling: passes that read as many bytes, and no more."""
    if "us" not in row:
        return f"{case.title}  {row['contender']:9} {row['failed']}"
    share = 100 * row["ceiling_us"] / row["us"]
    more = f" predicted {row['predicted']:6.1f}  {row['params']}" if "predicted" in row else ""
    return (
        f"{case.title}  {row['contender']:9} {row['us']:7.1f} us {row['ratio']:6.3f} "
        f"{share:4.0f} %{more}"
    )


def summary(rows: Sequence[Row]) -> int:
    """Print what the chosen come to, and what a better choice would; 1 where one is wrong."""
    wrong = failures(rows)
    chosen = [row for row in rows if row["contender"] == "chosen" and "us" in row]
    if chosen:
        ratios = [row["ratio"] for row in chosen]
        best = [
            max(
                other["ratio"]
                for other in rows
                if other["contender"] != PEER
                and "us" in other
                and all(other[at] == row[at] for at in ("m", "n", "k"))
            )
            for row in chosen
        ]
        for what, each in (("chosen", ratios), ("best of those timed", best)):
            mean = geometric_mean(each)
            print(f"{what}: geometric mean {mean:.3f} of cuBLAS, least {min(each):.3f}")
        limits = [row["cublas_us"] / row["ceiling_us"] for row in chosen]
        mean = geometric_mean(limits)
        print(f"reading alone: geometric mean {mean:.3f} of cuBLAS, least {min(limits):.3f}")
    print(f"{len(wrong)} failed or wrong")
    return 1 if wrong else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the table; 1 where something failed or was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--m", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--weights", nargs="+", default=[f"{n}x{k}" for n, k in WEIGHTS])
    parser.add_argument("--all", type=int, default=0, help="schedules of other kinds for each case")
    parser.add_argument("--few-columns", action="store_true")
    parser.add_argument("--rep-ms", type=float, default=20.0, help="of each contender of a case")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no case after that")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    import torch

    from warpsmith.runtime.of_device import target_of_device

    started = time.monotonic()
    target = target_of_device(0)
    weights = [tuple(map(int, size.split("x"))) for size in given.weights]
    cases = [Case(m, n, k, given.few_columns) for n, k in weights for m in given.m]
    made = in_processes(compiled, ((case, given.all, target.name) for case in cases))
    print(f"{sum(len(w) for _, w in made)} kernels in {time.monotonic() - started:.1f} s")
    print(f"clusters at once: {target.clusters}\n     n      k    m  of reading alone")
    rows: list[Row] = []
    for case, ways in made:
        if time.monotonic() - started > given.seconds:
            break
        x, w = (torch.randn(r, case.k, device="cuda").bfloat16() for r in (case.m, case.n))
        found = measured(case, ways, x, w, given.rep_ms)
        for row in sorted(found, key=lambda row: row.get("us", math.inf)):
            print(text(case, row), flush=True)
        rows += found
        if given.json is not None:
            given.json.write_text(json.dumps(rows, indent=1))
    return summary(rows)


if __name__ == "__main__":
    sys.exit(main())
