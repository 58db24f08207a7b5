"""What all tests share: one build of the simulator, a heap that is at rest, and a limit of time."""

import contextlib
import gc
import hashlib
import re
import time
from collections import Counter
from collections.abc import Generator, Iterator
from unittest import mock

import pytest

from tests.support import binaries
from warpsmith import knobs
from warpsmith.engine import emission, proofs
from warpsmith.errors import SimulationError
from warpsmith.runtime import cache
from warpsmith.runtime.cache import CubinCache
from warpsmith.runtime.source import Binary, Source
from warpsmith.sim.library import library

MOST_CPU_S = 20.0
"""Of a test that `make test` runs: several times what any takes on a slow machine."""

gc.disable()  # nothing that is imported and collected becomes garbage: 2 s of each process


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the simulator before there are workers, each of which would compile it."""
    distributes = getattr(session.config.option, "numprocesses", None)
    if distributes and not hasattr(session.config, "workerinput"):
        with contextlib.suppress(SimulationError):  # tests that need it say so
            library()


def pytest_collection_finish() -> None:
    """Garbage is sought rarely, and never in what was imported and collected: 7 % of the time.

    In all that tests leave behind it is sought after ten million objects.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks slow what `few` leaves out of a test's cases."""
    cases: dict[tuple[pytest.Collector | None, str], list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and not item.get_closest_marker("slow"):
            cases.setdefault((item.parent, item.originalname), []).append(item)
    for found in cases.values():
        mark = found[0].get_closest_marker("few")
        if mark and len(found) > mark.args[0]:
            chosen = spread(found, *mark.args)
            for item in found:
                if item not in chosen:
                    item.add_marker("slow")


def spread(cases: list[pytest.Function], count: int) -> set[pytest.Function]:
    """So many cases, in which as many values of the test's parameters take part as can.

    Values are the parts of a case's name, and the words of each. Which cases are chosen follows
    from the names alone, so that it is the same ones in every run.
    """
    words = {
        case: sorted(
            {
                (place, word)
                for place, value in enumerate(case.callspec.id.split("-"))
                for word in (value, *re.split("[_ ]", value))
            }
        )
        for case in cases
    }
    left = sorted(cases, key=lambda case: hashlib.sha256(case.name.encode()).digest())
    met: Counter[tuple[int, str]] = Counter()
    chosen = set()
    for _ in range(count):
        case = min(left, key=lambda case: sorted(met[word] for word in words[case]))
        met.update(words[case])
        left.remove(case)
        chosen.add(case)
    return chosen


@pytest.fixture(autouse=True, scope="session")
def kept_kernels() -> Iterator[None]:
    """Where other processes look for kernels, none is kept that only pretends to be compiled.

    Memory is not given back after each of them, which the next would ask the system for again.
    """
    shared, store = knobs.Knobs().cache_dir, CubinCache.store

    def checked(self: CubinCache, source: Source, binary: Binary) -> None:
        assert binary.cubin or self.directory != shared, f"{source.entry} has no code"
        store(self, source, binary)

    with (
        mock.patch.object(CubinCache, "store", checked),
        mock.patch.object(cache, "give_back"),
        mock.patch.object(emission, "give_back"),
        mock.patch.object(proofs, "give_back"),
    ):
        yield


@pytest.fixture
def uncompiled() -> Iterator[list[str]]:
    """What is planned is printed, and NVRTC, which takes most of the time, is not asked."""
    with binaries.uncompiled() as texts:
        yield texts


@pytest.fixture
def on_numpy() -> Iterator[None]:
    """The NumPy reference runs all fusions."""
    with knobs.scope(device="reference"):
        yield


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> object:
    """A `StandIn`: a driver that notes what it is asked, in place of a GPU."""
    from tests.support.stand_in import stand_in

    return stand_in(monkeypatch)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fails a test of `make test` that takes more processor time than there is for it."""
    begin = time.process_time()
    result = yield
    spent = time.process_time() - begin
    left_out = item.path.parent.name == "gpu" or item.get_closest_marker("slow") is not None
    if spent > MOST_CPU_S and not left_out:
        pytest.fail(
            f"{spent:.0f} s of processor time; a test of `make test` has {MOST_CPU_S:.0f}: make it "
            "smaller, or mark it slow, so that `make test-all` runs it",
            pytrace=False,
        )
    return result
