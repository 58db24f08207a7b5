"""The CUDA that the problems of all suites become: which kernels a change of the code alters.

`python -m bench.texts --write before.json`, then, after the change,
`python -m bench.texts --against before.json`: it lists the problems whose kernels differ, and with
`--show` how. Nothing is compiled, so it needs no GPU.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bench.problem import Problem
from bench.run import PROBLEMS
from tests.support.binaries import uncompiled
from warpsmith import fuse
from warpsmith.engine.executable import Executable
from warpsmith.errors import WarpsmithError
from warpsmith.runtime.arrays import NUMPY_DTYPES

Texts = dict[str, list[str]]
"""By problem, the CUDA of each of its kernels; of a refused one, what was said."""


def texts_of(problem: Problem) -> list[str]:
    """The CUDA of the kernels that the problem's sizes get, as they came."""
    pairs = zip(problem.shapes, problem.dtypes, strict=True)
    arrays = [np.empty(shape, NUMPY_DTYPES[dtype]) for shape, dtype in pairs]
    try:
        with uncompiled() as found:
            lowered = fuse(problem.fused).lower(*arrays)
            seeds = [1 for _ in lowered.fusion.input_scalars]
            Executable(lowered.fusion).plan_for([*arrays, *seeds])
    except WarpsmithError as refusal:
        return [f"refused: {refusal}"]
    return list(dict.fromkeys(found))


def all_problems(suites: Sequence[str], *, quick: bool) -> Iterator[Problem]:
    """The problems of some suites, each title once."""
    seen: set[str] = set()
    for suite in suites:
        for problem in PROBLEMS[suite](quick=quick):
            if problem.title not in seen:
                seen.add(problem.title)
                yield problem


def difference(before: Sequence[str], after: Sequence[str], *, show: bool) -> str:
    """How the kernels of a problem differ, in a line or in full; empty where they do not.

    Kernels of a call are made at once, in no order.
    """
    old, new = ("\n".join(sorted(texts)).splitlines() for texts in (before, after))
    if old == new:
        return ""
    lines = list(difflib.unified_diff(old, new, "before", "after", lineterm="", n=2))
    if show:
        return "\n".join(lines)
    count = sum(line[0] in "+-" and line[:3] not in ("+++", "---") for line in lines)
    return f"{len(before)} kernels, now {len(after)}; {count} lines differ"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", choices=[*PROBLEMS, []], help="all by default")
    parser.add_argument("--quick", action="store_true", help="fewer sizes")
    parser.add_argument("--write", type=Path, help="keep the texts in this file")
    parser.add_argument("--against", type=Path, help="compare with what was kept there")
    parser.add_argument("--show", action="store_true", help="print the differences whole")
    asked = parser.parse_args()
    if not (asked.write or asked.against):
        parser.error("say --write FILE before a change, and --against FILE behind it")
    known: Texts = json.loads(asked.against.read_text()) if asked.against else {}
    found: Texts = {}
    changed: list[str] = []
    for problem in all_problems(asked.suites or list(PROBLEMS), quick=asked.quick):
        texts = found[problem.title] = texts_of(problem)
        if problem.title in known:
            said = difference(known[problem.title], texts, show=asked.show)
            if said:
                changed.append(problem.title)
                print(f"{problem.title}: {said}", flush=True)
        _progress(f"{len(found)} problems, {len(changed)} changed")
    if asked.write:
        asked.write.write_text(json.dumps(found, indent=1))
    compared = len(found.keys() & known.keys())
    print(f"{len(found)} problems; of {compared} compared, {len(changed)} have other kernels")
    return 1 if changed else 0


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
