"""What all tests share: one build of the simulator, a heap that is at rest, and a limit of time."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Generator

import pytest

from warpsmith.errors import SimulationError
from warpsmith.sim.library import library

MOST_CPU_S = 20.0
"""Of a test that `make test` runs: several times what any takes on a slow machine."""


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the simulator before there are workers, each of which would compile it."""
    distributes = getattr(session.config.option, "numprocesses", None)
    if distributes and not hasattr(session.config, "workerinput"):
        with contextlib.suppress(SimulationError):  # tests that need it say so
            library()


def pytest_collection_finish() -> None:
    """What was imported and collected stays: no collection of garbage walks it again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fails a test that is not marked slow and takes more processor time than there is for it."""
    begin = time.process_time()
    result = yield
    spent = time.process_time() - begin
    if spent > MOST_CPU_S and item.get_closest_marker("slow") is None:
        pytest.fail(
            f"{spent:.0f} s of processor time; a test of `make test` has {MOST_CPU_S:.0f}: make it "
            "smaller, or mark it slow, so that `make test-all` runs it",
            pytrace=False,
        )
    return result
