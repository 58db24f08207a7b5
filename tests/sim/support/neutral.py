"""Mutants that mean the same as their kernel, each with the reason, from neutral_mutants.json.

A mutant is named by its opcode, which one of that opcode it is in the text, and the operator:
`bar.sync #2 duplicated`. That survives edits elsewhere in the kernel.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from tests.sim.support.catalog import LOOPS, NAMES, TWINS, read_ptx, read_spec
from tests.sim.support.judge import SCHEDULES, judge
from tests.sim.support.mutations import Mutant, mutants
from warpsmith.sim.report import Report

MUTATED = (*NAMES, *TWINS)
BUDGET = 300_000  # warp instructions; the largest kernel here needs 130,000
_FILE = Path(__file__).with_name("neutral_mutants.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A mutant of a kernel; `neutral` is why it must be clean, empty where it must be found."""

    kernel: str
    name: str
    mutant: Mutant
    neutral: str


@cache
def _stored() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(_FILE.read_text())
    return stored


@cache
def stored_reasons(kernel: str) -> dict[str, str]:
    """The reason of each listed mutant of a kernel."""
    stored = _stored()
    listed = stored["kernels"].get(kernel, {})
    reasons = {
        name: stored["reasons"][reason] for reason, names in listed.items() for name in names
    }
    assert len(reasons) == sum(map(len, listed.values())), f"{kernel}: a mutant is listed twice"
    return reasons


def listed_kernels() -> set[str]:
    """The kernels that have listed mutants."""
    return set(_stored()["kernels"])


def named_mutants(text: str) -> Iterator[tuple[str, Mutant]]:
    """All mutants of a text with their names."""
    lines: dict[str, list[int]] = {}
    taken: dict[str, int] = {}
    for mutant in mutants(text):
        opcode = next(word for word in mutant.instruction.split() if not word.startswith("@"))
        opcode = opcode.rstrip(";")
        of_opcode = lines.setdefault(opcode, [])
        if mutant.line not in of_opcode:
            of_opcode.append(mutant.line)
        name = f"{opcode} #{of_opcode.index(mutant.line) + 1} {mutant.operator}"
        again = taken[name] = taken.get(name, 0) + 1
        yield name + (f" ({again})" if again > 1 else ""), mutant


def cases(kernel: str) -> Iterator[Case]:
    """All mutants of a kernel."""
    reasons = stored_reasons(kernel)
    for name, mutant in named_mutants(read_ptx(kernel)):
        neutral = mutant.neutral or reasons.get(name, "")
        yield Case(kernel=kernel, name=name, mutant=mutant, neutral=neutral)


def judge_case(case: Case, *, everywhere: bool) -> Report:
    """The report of a mutant: of the first spec at which there is a finding, else of the last.

    `everywhere` tries every trip count of the kernel, and not only that of its spec, and for what
    must be found more schedules than the first that shows it.
    """
    loop = LOOPS.get(case.kernel)
    counts = (None, *(loop.trips if loop and everywhere else ()))
    few = (1, SCHEDULES) if not case.neutral else (2,)
    for trips, schedules in product(counts, (SCHEDULES,) if everywhere else few):
        spec = read_spec(case.kernel, trips)
        report = judge(case.mutant.text, spec, case.kernel, count=schedules, budget=BUDGET)
        if report.verdict != "clean":
            break
    return report
