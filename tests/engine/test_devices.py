"""Calls on several GPUs of one process go by the device of their tensors, whichever is current."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import warpsmith
from tests.programs import judge
from tests.support.binaries import UNCOMPILED
from tests.support.fake_driver import CONTEXT, FakeDriver, install
from tests.support.stand_in import StandIn, taken_by_c, told
from warpsmith import ops
from warpsmith.engine import executable, loaded, places
from warpsmith.errors import DeviceError, WarpsmithError
from warpsmith.frontends.nvfuser_direct import executors, place, random
from warpsmith.runtime import launch, launcher
from warpsmith.runtime.arguments import ArgumentBuffer
from warpsmith.runtime.launch import LoadedKernel
from warpsmith.runtime.memory import DeviceMemory
from warpsmith.runtime.stream import is_capturing
from warpsmith.runtime.tensor_words import UNKNOWN
from warpsmith.targets.hopper import H100, H200

torch = pytest.importorskip("torch")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return install(monkeypatch, FakeDriver())


def context(name: str) -> int:
    return told(name, ctypes.c_void_p).value or 0


def on(device: int) -> None:
    """Tensors are of this GPU from here on."""
    told("device_told", ctypes.c_int32).value = device


def test_a_kernel_is_loaded_where_its_tensors_are(
    gpu: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tensors of all devices are of one kind here, so what DLPack says of one is not kept.
    monkeypatch.setattr(launcher, "places_of_words", lambda torch: UNKNOWN)
    made = warpsmith.fuse(lambda x: ops.linear(x, x))
    x = torch.ones(256, 128, dtype=torch.bfloat16)
    with judge.uncompiled():
        for device in (0, 1):
            on(device)
            made(x)
    homes = gpu.driver.homes
    kernels = [entry[0] for entry in loaded._KERNELS.entries.values()]
    assert {k.ordinal: homes[k.residence.module] for k in kernels} == {0: CONTEXT, 1: CONTEXT + 1}
    assert gpu.driver.depth == 0, "the current device is what it was"
    for device in (1, 0, 1):
        on(device)
        assert taken_by_c(made, x)
        assert context("launched_in") == context("encoded_in") == CONTEXT + device
        assert context("context_told") == CONTEXT


def test_kernels_are_planned_for_the_gpu_that_runs_them(
    gpu: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a process of `torchrun`, which is not to make a context on the first GPU either."""
    known = [H200, replace(H100, sm_count=114)]
    asked: list[int] = []

    def target_of_device(ordinal: int) -> Any:
        asked.append(ordinal)
        return known[ordinal]

    monkeypatch.setattr(places, "target_of_device", target_of_device)
    monkeypatch.setattr(executable, "call_target", places.call_target)
    made = warpsmith.fuse(lambda x: ops.sum(x))
    for device in (1, 0):
        on(device)
        asked.clear()
        with judge.uncompiled():
            made(torch.ones(4096, 16))
        assert set(asked) <= {device}
        ((trace, _),) = made._traces.entries.values()
        plan = trace.executable.last_plan
        assert plan.problem.target is known[device]
        assert all(each.compiled.target is known[device] for each in plan.launches)


def test_tensors_on_two_gpus_are_told_apart(gpu: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    from warpsmith.engine import bind

    described, asked = bind.describe, iter((0, 1))
    monkeypatch.setattr(bind, "describe", lambda x: described(x)._replace(ordinal=next(asked)))
    with pytest.raises(
        WarpsmithError, match=r"argument 1 .* is on cuda:1, and argument 0 .*cuda:0"
    ):
        warpsmith.fuse(lambda x, y: x + y)(torch.ones(6, 4), torch.ones(6, 4))


def loaded_on(ordinal: int) -> LoadedKernel:
    return LoadedKernel(replace(UNCOMPILED, cubin=b"code"), "k", ordinal)


def start(kernel: LoadedKernel, stream: int, shared_bytes: int = 0) -> None:
    kernel.launch((1, 1, 1), (32, 1, 1), shared_bytes, stream, ArgumentBuffer("P"))


def test_python_launches_on_a_device_that_is_not_current(fake: FakeDriver) -> None:
    kernel = loaded_on(1)
    start(kernel, 7, shared_bytes=100_000)
    assert (fake.refused, len(fake.launches), fake.depth) == (1, 1, 0)


def test_a_capture_sees_no_refused_launch(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(launch, "is_capturing", lambda ordinal: asked.append(ordinal) or True)
    kernel = loaded_on(1)
    start(kernel, 7)
    assert (asked, fake.refused, len(fake.launches)) == ([1], 0, 1)
    assert kernel.residence.captured


def test_memory_is_of_its_device(fake: FakeDriver) -> None:
    with DeviceMemory(1) as memory:
        assert fake.stack[-1] == CONTEXT + 1
        memory.allocate(8, "x")
    assert fake.depth == 0
    with pytest.raises(DeviceError, match=r"WS0607.*GPU 1 has"), DeviceMemory(1) as memory:
        memory.allocate(fake.memory_bytes + 1, "x")
    assert fake.depth == 0


def test_whether_the_stream_of_a_device_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    current = [0]

    class Device:
        def __init__(self, ordinal: int) -> None:
            self.ordinal = ordinal

        def __enter__(self) -> None:
            current.append(self.ordinal)

        def __exit__(self, *raised: object) -> None:
            current.pop()

    bindings = SimpleNamespace(
        _cuda_getCurrentRawStream=None,
        _cuda_getDevice=lambda: current[-1],
        _cuda_isCurrentStreamCapturing=lambda: current[-1] == 1,
    )
    fake_torch: Any = SimpleNamespace(_C=bindings, cuda=SimpleNamespace(device=Device))
    monkeypatch.setitem(sys.modules, "torch", fake_torch)
    assert [is_capturing(ordinal) for ordinal in (0, 1)] == [False, True]
    assert current == [0]


def test_random_numbers_are_of_the_device_of_the_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    class Generator:
        def __init__(self, seed: int) -> None:
            self.seed, self.offset = seed, 0

        def initial_seed(self) -> int:
            return self.seed

        def get_offset(self) -> int:
            return self.offset

        def set_offset(self, offset: int) -> None:
            self.offset = offset

    generators = Generator(5), Generator(6)
    monkeypatch.setattr(random, "on_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "default_generators", generators)
    there = SimpleNamespace(is_cuda=True, get_device=lambda: 1)
    assert random.drawn(2, [3, torch.ones(2), there]) == (6, 0)
    assert random.drawn(1, [3]) == (5, 0)
    assert [each.offset for each in generators] == [4, 8]


def test_results_of_a_call_without_tensors_are_where_they_were_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(place, "driver", SimpleNamespace(device_count=lambda: 2))
    result = torch.ones(3)
    assert executors._as_torch(result, None) is result
    assert executors._as_torch(result, "meta").device.type == "meta"


def test_cuda_without_a_number_is_the_current_device(
    gpu: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    from warpsmith.frontends.argument_keys import check_device

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    for device in (1, 0):
        on(device)
        if device == 1:
            check_device([torch.ones(2)], "cuda")
        else:
            with pytest.raises(WarpsmithError, match="is on cuda:0, and execute got device cuda:1"):
                check_device([torch.ones(2)], torch.device("cuda"))
