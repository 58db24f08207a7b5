"""Bugs that shipped: each is found at the trip counts where it shows, and only there."""

from typing import Any

import pytest

from tests.sim.support.corpus import BUGS, Bug
from tests.sim.support.judge import judge, kinds_of

FOUND = [(bug, spec) for bug in BUGS if not bug.disputed for spec in bug.specs()]
NOT_SHOWN = [(bug, spec) for bug in BUGS for spec in bug.clean_specs()]
DISPUTED = [(bug, spec) for bug in BUGS if bug.disputed for spec in bug.specs()]


def label(value: Any) -> str:
    return value.name if isinstance(value, Bug) else ""


@pytest.mark.few(20)
@pytest.mark.parametrize(("bug", "spec"), FOUND, ids=label)
def test_found(bug: Bug, spec: dict[str, Any]) -> None:
    report = judge(bug.ptx(), spec)
    assert report.exit_code == 1
    assert kinds_of(report) & set(bug.kinds), str(report)


@pytest.mark.parametrize(("bug", "spec"), NOT_SHOWN, ids=label)
def test_not_found_where_it_does_not_show(bug: Bug, spec: dict[str, Any]) -> None:
    report = judge(bug.ptx(), spec)
    assert report.verdict == "clean", str(report)


@pytest.mark.parametrize(("bug", "spec"), DISPUTED, ids=label)
def test_disputed_one_is_no_bug(bug: Bug, spec: dict[str, Any]) -> None:
    report = judge(bug.ptx(), spec)
    assert report.verdict == "clean", str(report)
