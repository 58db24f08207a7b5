"""Launches with the watchdog on: what is raised, and that kernels with and without it are two."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.support.faulty_rings import numbers, ring
from warpsmith import knobs
from warpsmith.engine import watched
from warpsmith.engine.compiled import CompiledKernel
from warpsmith.engine.executable import Executable
from warpsmith.engine.watched import WatchedKernel, described, image_of, ready_to_launch
from warpsmith.errors import DeviceError, HangError
from warpsmith.kernel.waits import WaitSite
from warpsmith.runtime.watchdog import Record

FULL = WaitSite(0, "compute", "ring0", ("T2", "T3"), full=True, where="model.py:12")
EMPTY = WaitSite(1, "", "ring1", ("T4",), full=False, where="")
RECORD = Record(site=0, stage=1, parity=1, block=(3, 0, 0), thread=130, seconds=2.0004)


class FakeKernel:
    """A loaded kernel whose launches are counted."""

    def __init__(self, *_: object, **__: object) -> None:
        self.entry = "ws_kernel"
        self.launches = 0

    def launch(self, *_: object) -> None:
        self.launches += 1


class FakeWatchdog:
    """A record, and what waiting for the stream raises."""

    failure: DeviceError | None = None
    record: Record | None = None

    def __init__(self, kernel: object) -> None:
        self.waited: list[int] = []

    def wait(self, stream: int) -> None:
        self.waited.append(stream)
        if self.failure:
            raise self.failure


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeWatchdog]]:
    monkeypatch.setattr(watched, "LoadedKernel", FakeKernel)
    monkeypatch.setattr(watched, "Watchdog", FakeWatchdog)
    monkeypatch.setattr(FakeWatchdog, "failure", None)
    monkeypatch.setattr(FakeWatchdog, "record", None)
    return FakeWatchdog


def start(kernel: Any) -> None:
    kernel.launch((1, 1, 1), (64, 1, 1), 0, 7, None)


def compiled() -> CompiledKernel:
    (launch,) = Executable(ring().fusion, scheduled=True).plan_for([numbers()]).launches
    return launch.compiled


def test_the_words_name_everything() -> None:
    assert described("ws_kernel", [FULL, EMPTY], RECORD) == (
        "kernel ws_kernel, block (3, 0, 0), role compute, warp 4: waited 2 s for stage 1 of ring0 "
        "(T2, T3) to be filled (a phase of parity 1); asked for at model.py:12"
    )


def test_the_words_without_roles_and_lines() -> None:
    record = Record(site=1, stage=0, parity=0, block=(0, 1, 2), thread=31, seconds=0.25)
    assert described("k", [FULL, EMPTY], record) == (
        "kernel k, block (0, 1, 2), all warps, warp 0: waited 0.25 s for stage 0 of ring1 (T4) to "
        "be free again (a phase of parity 0)"
    )


def test_the_words_of_an_order() -> None:
    turn = replace(FULL, role="compute", ring="compute_main", buffers=(), where="")
    record = Record(site=0, stage=1, parity=0, block=(0, 0, 0), thread=160, seconds=2)
    assert described("k", [turn], record) == (
        "kernel k, block (0, 0, 0), role compute, warp 5: waited 2 s for the turn of group 1 in "
        "compute_main (a phase of parity 0)"
    )


def test_a_launch_is_waited_for(faked: type[FakeWatchdog]) -> None:
    loaded: Any = FakeKernel()
    kernel = WatchedKernel(loaded, [FULL])
    start(kernel)
    assert loaded.launches == 1
    assert kernel._watchdog.waited == [7]  # type: ignore[attr-defined]


def test_a_hang_is_raised_in_words(faked: type[FakeWatchdog]) -> None:
    faked.failure, faked.record = DeviceError("the CUDA driver answered ..."), RECORD
    loaded: Any = FakeKernel()
    with pytest.raises(HangError, match=r"WS0620.*stage 1 of ring0.*model\.py:12.*context is lost"):
        start(WatchedKernel(loaded, [FULL]))


def test_another_failure_stays_what_it_is(faked: type[FakeWatchdog]) -> None:
    faked.failure = DeviceError("the CUDA driver answered ...")
    loaded: Any = FakeKernel()
    with pytest.raises(DeviceError) as raised:
        start(WatchedKernel(loaded, [FULL]))
    assert raised.value is faked.failure


def test_only_kernels_with_watched_waits_are_waited_for(faked: type[FakeWatchdog]) -> None:
    assert isinstance(ready_to_launch(image_of(compiled()), 0), FakeKernel)
    with knobs.scope(watchdog=True):
        assert isinstance(ready_to_launch(image_of(compiled()), 0), WatchedKernel)


def test_one_fusion_has_a_kernel_with_and_one_without() -> None:
    executable = Executable(ring().fusion, scheduled=True)
    texts = []
    for changes in ({}, {"watchdog": True}, {"watchdog": True, "watchdog_seconds": 5}, {}):
        with knobs.scope(**changes):
            (launch,) = executable.plan_for([numbers()]).launches
            texts.append(launch.compiled.cuda)
    assert texts[0] == texts[3]
    assert len(set(texts)) == 3
    assert ["globaltimer" in text for text in texts] == [False, True, True, False]
    assert "5000000000ull" in texts[2]


def test_prepared_calls_are_kept_apart() -> None:
    executable = Executable(ring().fusion, scheduled=True)
    plain = executable.prepared([numbers()])
    with knobs.scope(watchdog=True):
        watching = executable.prepared([numbers()])
    assert plain is not watching
    assert executable.prepared([numbers()]) is plain
