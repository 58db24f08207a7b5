"""What the launcher in C keeps of calls: forgotten, used, of many signatures, and of threads."""

from __future__ import annotations

import ctypes
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.engine.test_launcher import fused, pair
from tests.programs import judge
from tests.support.stand_in import StandIn, taken_by_c, told
from warpsmith.engine import loaded
from warpsmith.runtime.launch import LoadedKernel

torch = pytest.importorskip("torch")


def test_what_is_forgotten_is_loaded_or_planned_again(gpu: StandIn) -> None:
    x, y = pair()
    made = fused(gpu, lambda x, y: x + y, x, y)
    loaded._KERNELS.entries.clear()
    gc.collect()
    before = len(gpu.driver.loaded)
    assert taken_by_c(made, x, y)
    assert len(gpu.driver.loaded) == before + 1
    made._known.entries.clear()
    (trace,) = [each[0] for each in made._traces.entries.values()]
    trace.executable._ready.entries.clear()
    assert not taken_by_c(made, x, y)
    with judge.uncompiled():
        made(x, y)
    assert taken_by_c(made, x, y)


def test_a_kernel_that_another_thread_loads_anew_is_not_launched_for_this_one(
    gpu: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call keeps the kernel that it launches; another one may be unloaded under the launch."""
    x, y = pair()
    made = fused(gpu, lambda x, y: x + y, x, y)
    loaded._KERNELS.entries.clear()
    gc.collect()
    is_loading, may_go_on = threading.Event(), threading.Event()
    ready, note, main = loaded.ready_to_launch, LoadedKernel.note, threading.current_thread()
    launched: dict[bool, int] = {}

    def made_ready(*given: Any, **named: Any) -> Any:
        kernel = ready(*given, **named)
        if threading.current_thread() is not main:
            is_loading.set()
            may_go_on.wait(10)
        return kernel

    def noted(self: LoadedKernel, stream: int) -> None:
        note(self, stream)
        if threading.current_thread() is main:
            loaded._KERNELS.entries.clear()  # as limits may
            may_go_on.set()
            other.join()

    def seen(function: int, *told: int) -> None:
        launched[threading.current_thread() is main] = function

    monkeypatch.setattr(loaded, "ready_to_launch", made_ready)
    monkeypatch.setattr(LoadedKernel, "note", noted)
    monkeypatch.setattr(gpu, "note", seen)
    other = threading.Thread(target=taken_by_c, args=(made, x, y))
    other.start()
    assert is_loading.wait(10)
    first = len(gpu.driver.loaded)
    assert taken_by_c(made, x, y)
    assert launched == {False: first, True: first + 1}


def test_caches_see_that_a_call_is_used(gpu: StandIn) -> None:
    x, y = pair()
    made = fused(gpu, lambda x, y: x + y, x, y)
    assert sum(not taken_by_c(made, x, y) for _ in range(4096)) == 4


def test_many_signatures_and_those_that_are_forgotten(gpu: StandIn) -> None:
    made = fused(gpu, lambda x: x * 2.0, torch.ones(90))
    given = [torch.ones(n) for n in range(2, 80)]
    with judge.uncompiled():
        for x in given:
            made(x)
    assert all(taken_by_c(made, x) for x in given)
    (trace,) = [each[0] for each in made._traces.entries.values()]
    kept = list(made._known.entries.items())[50:]
    for recent in (made._known, trace.executable._ready):
        for key in [k for k in recent.entries if k not in dict(kept)]:
            del recent.entries[key]
    del kept
    assert sum(taken_by_c(made, x) for x in given) <= 29
    with judge.uncompiled():
        for x in given:
            made(x)
    assert all(taken_by_c(made, x) for x in given)


def test_threads_share_a_function(gpu: StandIn) -> None:
    told("seen", ctypes.c_void_p).value = None
    x, y = pair()
    made = fused(gpu, lambda x, y, a: x + y * a, x, y, 2.0)
    others = [torch.ones(n, 4) for n in range(1, 9)]
    before = told("launches").value

    def work(k: int) -> None:
        for n in range(400):
            with judge.uncompiled():
                assert made(others[(n + k) % 8], others[(n + k) % 8], float(k)).shape[1] == 4

    with judge.uncompiled(), ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert told("launches").value > before + 1000
