"""Constants of the model of rows, fitted to what `bench.unseen` timed.

`python -m bench.unseen --seed 1 --minutes 4 --all 8 --json rows.json` and then
`python -m bench.fit_rows rows.json --tries 2000`

Half of the problems say the constants, the other half how good they are: by how much predictions
are off, and by which share what is predicted to be fastest is slower than the fastest that was
timed. Without `--tries` it says only that, of the constants as they are.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median, quantiles
from unittest import mock

from warpsmith.schedulers.rows import few, model
from warpsmith.schedulers.rows.model import predicted_us
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.predict import class_of
from warpsmith.schedulers.rows.work import Work
from warpsmith.targets.hopper import H100, H200
from warpsmith.targets.target import Target

FITTED = re.compile(r"[A-Z_]+_(US|SHARE|TIMES|LOSS|INSTRUCTIONS)|SHARPNESS|INSTRUCTIONS")
"""Names of constants; others are sizes from which on something counts."""

STEP = 0.15
"""Of the logarithm of a constant, from one try to the next, at first."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What was done, and what each shape took in microseconds."""

    name: str
    work: Work
    us: Mapping[RowParams, float]
    target: Target = H200

    @property
    def taken(self) -> RowParams:
        """What is chosen, for as many rows as the class of the count has."""
        rows = class_of(self.work.rows, self.target, beside=self.work.summed > 0)
        work = replace(self.work, rows=rows)
        return min(self.us, key=lambda shape: predicted_us(work, shape, self.target))

    @property
    def regret(self) -> float:
        return self.us[self.taken] / min(self.us.values()) - 1

    @property
    def errors(self) -> list[float]:
        """Logarithms of what was predicted over what was measured."""
        pairs = self.us.items()
        return [math.log(predicted_us(self.work, shape, self.target) / us) for shape, us in pairs]


def read(paths: Sequence[Path], target: Target) -> list[Problem]:
    """All problems of which more than one shape was timed."""
    found = []
    for row in (row for path in paths for row in json.loads(path.read_text())):
        us = {RowParams(**shape): row["us"][name] for name, shape in row["shapes"].items()}
        if row["work"] and len(us) > 1:
            work = Work(**{**row["work"], "rows": row["shape"][0]})
            found.append(Problem(f"{row['problem']} {row['dtype']}", work, us, target))
    return found


def cost(problems: Sequence[Problem]) -> float:
    """What is made small: errors, and the time lost by choosing."""
    off = fmean(fmean(min(0.5, abs(error)) for error in each.errors) for each in problems)
    lost = [min(0.5, each.regret) for each in problems]
    return off + fmean(lost) + 0.5 * math.sqrt(fmean(each**2 for each in lost))


def constants() -> dict[str, float]:
    known = {**vars(model), **vars(few)}
    return {name: float(value) for name, value in known.items() if FITTED.fullmatch(name)}


def with_constants(values: Mapping[str, float]) -> ExitStack:
    """The model has these while this lasts."""
    stack = ExitStack()
    for name, value in values.items():
        place = few if hasattr(few, name) else model
        stack.enter_context(mock.patch.object(place, name, value))
    return stack


def fitted(problems: Sequence[Problem], tries: int, seed: int) -> dict[str, float]:
    """The best constants of a random walk that takes what is better, a few of them at a time."""
    source, best, step = random.Random(seed), constants(), STEP
    least = cost(problems)
    for _ in range(tries):
        names = source.sample(sorted(best), 3)
        tried = {**best, **{n: best[n] * math.exp(source.gauss(0, step)) for n in names}}
        with with_constants(tried):
            found = cost(problems)
        step = max(0.02, step * (1.1 if found < least else 0.99))
        if found < least:
            least, best = found, tried
    return best


def report(problems: Sequence[Problem]) -> list[str]:
    """A line a program and type, and one of all."""
    groups: dict[str, list[Problem]] = {}
    for each in problems:
        groups.setdefault(each.name, []).append(each)
    lines = []
    for name, group in (*sorted(groups.items()), ("all", list(problems))):
        errors = sorted(abs(error) for each in group for error in each.errors)
        lost = sorted(each.regret for each in group)
        ninth = quantiles(errors, n=10)[-1] if len(errors) > 1 else errors[0]
        lines.append(
            f"{name}: {len(group)} problems; error median {median(errors):.1%}, ninth {ninth:.1%}; "
            f"lost mean {fmean(lost):.1%}, ninth {lost[9 * len(lost) // 10]:.1%}, "
            f"worst {lost[-1]:.1%}"
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path, nargs="+", help="files of `bench.unseen`")
    parser.add_argument("--target", default="h200", choices=("h100", "h200"), help="of the timings")
    parser.add_argument("--tries", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1, help="says the halves and the walk")
    asked = parser.parse_args()
    problems = read(asked.rows, {"h100": H100, "h200": H200}[asked.target])
    random.Random(asked.seed).shuffle(problems)
    half = len(problems) // 2 if asked.tries else 0
    best = fitted(problems[:half], asked.tries, asked.seed) if half else constants()
    print("\n".join(f"{name} = {value:.4g}" for name, value in best.items()))
    print("\n".join(report(problems[half:])), flush=True)
    with with_constants(best):
        print("fitted:", *report(problems[half:]), sep="\n") if half else None
    return 0


if __name__ == "__main__":
    sys.exit(main())
