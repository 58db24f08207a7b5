"""Skips tests where no GPU is, says at once what failed, and prints what they did as one table,
with the numbers that they recorded.
"""

import os
import sys

import pytest

from warpsmith.runtime.driver import device_count


def pytest_runtest_setup() -> None:
    """All tests of this folder run on a GPU."""
    if not device_count():
        pytest.skip("needs a GPU")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A run that is cut short has said why tests failed."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nFAILED {report.nodeid}\n{report.longreprtext[-2000:]}", file=sys.stderr)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One row a test: its outcome, its time, and each `record_property` as `name=value`."""
    rows = [("test", "outcome", "seconds", "recorded")]
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            if outcome == "passed" and report.when != "call":
                continue
            name = report.nodeid.removeprefix("tests/gpu/")
            recorded = "  ".join(f"{key}={value}" for key, value in report.user_properties)
            rows.append((name, outcome, f"{report.duration:.2f}", recorded))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    terminalreporter.section("GPU tests")
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        terminalreporter.write_line("  ".join(cells).rstrip())
