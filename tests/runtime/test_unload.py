"""Kernels that nobody launches any more: when they are unloaded, and when not."""

import gc
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.support.binaries import UNCOMPILED
from tests.support.fake_driver import CAPTURING, FREE, FakeDriver, bindings, install
from warpsmith.runtime import launch, unload, watchdog
from warpsmith.runtime.arguments import ArgumentBuffer
from warpsmith.runtime.launch import LoadedKernel
from warpsmith.runtime.watchdog import Watchdog

BINARY = replace(UNCOMPILED, cubin=b"code")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    gc.collect()
    unload._LEFT.clear()
    yield install(monkeypatch, FakeDriver())
    gc.collect()
    unload._LEFT.clear()


def load() -> LoadedKernel:
    return LoadedKernel(BINARY, "k", 0)


def start(kernel: LoadedKernel, stream: int = 0) -> None:
    kernel.launch((1, 1, 1), (32, 1, 1), 0, stream, ArgumentBuffer("P"))


def test_it_is_unloaded_when_the_next_one_is_loaded(fake: FakeDriver) -> None:
    kernel = load()
    start(kernel)
    del kernel
    assert (fake.loaded, fake.unloaded) == ([1], [])
    kept = load()
    assert (fake.loaded, fake.unloaded) == ([1, 2], [1])
    load()
    assert fake.unloaded == [1]
    assert kept.residence.module == 2
    assert fake.depth == 0


def test_all_streams_that_it_was_launched_on_are_waited_for(fake: FakeDriver) -> None:
    kernel = load()
    for stream in (7, 9, 7):
        start(kernel, stream)
    del kernel
    load()
    assert sorted(fake.waited) == [0, 7, 9]
    assert fake.unloaded == [1]


def test_one_that_a_graph_may_launch_stays(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = load()
    start(kernel, 7)
    monkeypatch.setattr(launch, "is_capturing", lambda ordinal: True)
    start(kernel, 7)
    monkeypatch.setattr(launch, "is_capturing", lambda ordinal: False)
    start(kernel, 7)
    del kernel
    load()
    assert fake.unloaded == []


def test_a_stream_that_is_captured_is_not_waited_for(fake: FakeDriver) -> None:
    kernel = load()
    start(kernel, 7)
    del kernel
    fake.capture[7] = CAPTURING
    load()
    assert fake.unloaded == []
    del fake.capture[7]
    load()
    assert sorted(fake.unloaded) == [1, 2]
    assert fake.depth == 0


def test_a_stream_that_is_gone_keeps_nothing(fake: FakeDriver) -> None:
    kernel = load()
    start(kernel, 7)
    del kernel
    fake.answers["cuStreamIsCapturing"] = (bindings.CUresult.CUDA_ERROR_INVALID_HANDLE, FREE)
    load()
    assert fake.unloaded == [1]


def test_the_record_of_the_watchdog_goes_with_it(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "initialized", lambda: fake)
    kernel = load()
    Watchdog(kernel)
    assert len(fake.pinned) == 1
    del kernel
    load()
    assert fake.unloaded == [1]
    assert not fake.pinned


def test_a_kernel_that_cannot_be_made_ready_is_unloaded(fake: FakeDriver) -> None:
    fake.answers["cuModuleGetFunction"] = (bindings.CUresult.CUDA_ERROR_NOT_FOUND, None)
    with pytest.raises(Exception, match="CUDA_ERROR_NOT_FOUND"):
        load()
    del fake.answers["cuModuleGetFunction"]
    gc.collect()
    load()
    assert fake.unloaded == [1]
