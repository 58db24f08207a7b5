"""Every mutant of every kernel is found, or listed as neutral with the reason, and then clean.

`make test` runs a sample, `make test-all` all of them. `python -m tests.sim.support.kill_matrix`
prints the counts.
"""

from collections.abc import Iterator

import pytest

from tests.sim.support.catalog import read_ptx
from tests.sim.support.neutral import (
    MUTATED,
    Case,
    cases,
    judge_case,
    listed_kernels,
    named_mutants,
    stored_reasons,
)

PART = 20  # mutants a test, so that two workers end together
MOST = {"wgmma_ring": 1}  # of an operator in a sample; elsewhere three


def wrongs(chosen: list[Case], *, everywhere: bool) -> list[str]:
    """Mutants that are not judged as they should be."""
    wrong = []
    for case in chosen:
        report = judge_case(case, everywhere=everywhere)
        if report.verdict != ("clean" if case.neutral else "findings"):
            wanted = f"neutral: {case.neutral}" if case.neutral else "a finding is wanted"
            wrong.append(f"{case.name} ({case.mutant.description}); {wanted}; {report}")
    return wrong


def sample(kernel: str) -> Iterator[Case]:
    """Of each operator the first mutants that must be found, and the last neutral one."""
    found: dict[str, list[Case]] = {}
    neutral: dict[str, Case] = {}
    for case in cases(kernel):
        if case.neutral:
            neutral[case.mutant.operator] = case
        else:
            found.setdefault(case.mutant.operator, []).append(case)
    for chosen in found.values():
        yield from chosen[: MOST.get(kernel, 3)]
    yield from neutral.values()


@pytest.mark.few(7)
@pytest.mark.parametrize("kernel", MUTATED)
def test_sample(kernel: str) -> None:
    assert not wrongs(list(sample(kernel)), everywhere=False)


@pytest.mark.parametrize("kernel", MUTATED)
def test_listed_mutants_exist_and_need_their_reason(kernel: str) -> None:
    named = dict(named_mutants(read_ptx(kernel)))
    for name, reason in stored_reasons(kernel).items():
        assert name in named
        assert not named[name].neutral
        assert reason


def test_only_known_kernels_are_listed() -> None:
    assert listed_kernels() <= set(MUTATED)


PARTS = [(kernel, start) for kernel in MUTATED for start in range(0, 120, PART)]


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "start"), PARTS)
def test_all(kernel: str, start: int) -> None:
    every = list(cases(kernel))
    assert len(every) <= 120, "PARTS ends too early"
    assert not wrongs(every[start : start + PART], everywhere=True)
