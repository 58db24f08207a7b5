"""What calls leave behind: plans, kernels, maps and modules on the device, all within limits."""

import gc
import random
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.fake_driver import FakeDriver, install, no_kernels_loaded
from tests.support.matmuls import linear, operands
from tests.support.threads import in_threads
from warpsmith import knobs, ops
from warpsmith.engine import counters as counting
from warpsmith.engine import executable, loaded, planned, runners
from warpsmith.engine.executable import Executable
from warpsmith.runtime import driver, tensor_maps, unload
from warpsmith.runtime.kept import WORKSPACES, cache_info
from warpsmith.runtime.recent import Recent


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """Calls on arrays of NumPy launch on a driver that computes nothing."""
    made = install(monkeypatch, FakeDriver())
    monkeypatch.setattr(driver, "device_count", lambda: 1)
    monkeypatch.setattr(tensor_maps.TiledMap, "encode", lambda self, address, ordinal: bytes(128))
    gc.collect()
    unload._LEFT.clear()
    no_kernels_loaded(monkeypatch)
    yield made
    loaded._KERNELS.entries.clear()
    gc.collect()
    unload._LEFT.clear()


def shifted(number: float) -> Any:
    return warpsmith.fuse(lambda x: x * 2.0 + number)


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def test_signatures_share_a_kernel_on_the_device(fake: FakeDriver) -> None:
    double = shifted(1.0)
    for rows in range(2, 20):
        double(ones(rows, 64))
    assert len(fake.loaded) == 1
    assert len(fake.launches) == 18


def test_a_kernel_that_was_forgotten_is_loaded_again(fake: FakeDriver) -> None:
    functions = [shifted(float(number)) for number in range(3)]
    with knobs.scope(loaded_kernels=2):
        for _ in range(2):
            for function in functions:
                function(ones(4, 64))
    assert len(fake.loaded) == 6
    assert len(fake.unloaded) >= 3
    assert fake.used_bytes == 0
    assert cache_info()["loaded"].entries == 2


def test_no_kernel_is_unloaded_under_a_launch(fake: FakeDriver) -> None:
    """`FakeDriver.cuLaunchKernel` asserts it; each thread launches what others let go of."""
    functions = [shifted(float(number)) for number in range(4)]

    def work(seed: int) -> None:
        drawn = random.Random(seed)
        with knobs.scope(loaded_kernels=1, kept_plans=4, device="gpu"):
            for _ in range(40):
                drawn.choice(functions)(ones(drawn.randrange(1, 4), 64))

    with knobs.scope(loaded_kernels=1, device="gpu"):
        for function in functions:
            function(ones(4, 64))
    in_threads(work, range(16))
    assert len(fake.loaded) > 40
    assert len(fake.loaded) - len(fake.unloaded) <= 1 + 2 * 16


def test_plans_traces_and_proofs_have_limits() -> None:
    double = warpsmith.fuse(lambda x, n=0: x * 2.0 + n)
    with knobs.scope(device="sim", kept_plans=4, kept_traces=2):
        for rows in range(1, 12):
            double(ones(rows, 64))
        for static in ((), None, ""):
            with pytest.raises(Exception):  # noqa: B017, PT011  # no tensor; the trace is what counts
                double(ones(1, 64), static)
        for layout in (ones(3, 4), ones(3, 1), ones(1, 3)):
            double(layout)
        info = cache_info()
    for name, limit in (("plans", 4), ("proofs", 4), ("traces", 2)):
        assert info[name].limit == limit
        assert info[name].entries <= limit
        assert info[name].dropped > 0
    assert double.traces == 4


def test_a_call_that_was_forgotten_is_planned_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    planned = Executable._plan

    def counted(self: Executable, *given: Any) -> Any:
        made.append(given)
        return planned(self, *given)

    monkeypatch.setattr(Executable, "_plan", counted)
    double = shifted(1.0)
    with knobs.scope(device="sim", kept_plans=2):
        for rows in (1, 1, 2, 3, 1):
            np.testing.assert_array_equal(double(ones(rows, 8)), 3 * ones(rows, 8))
    assert len(made) == 4


def test_compiled_kernels_have_a_limit() -> None:
    functions = [shifted(float(number)) for number in range(5)]
    with knobs.scope(device="sim", kept_kernels=2):
        for function in functions:
            function(ones(4, 64))
        held = cache_info()["kernels"]
        assert held.entries == held.limit == 2
        assert held.bytes is not None
        assert held.bytes > 1000
        # What is explained is the plan, whether its kernel is still kept or not.
        text = functions[0].explain(ones(4, 64))
    assert "there is nothing to compute" not in text


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Any]]:
    """Kernels that were compiled, those that nobody keeps any more as well."""
    made: list[weakref.ref[Any]] = []
    compile_ = planned.fewest_spills

    def noted(*given: Any) -> Any:
        compiled = compile_(*given)
        made.append(weakref.ref(compiled))
        return compiled

    monkeypatch.setattr(planned, "fewest_spills", noted)
    return made


def test_what_was_planned_last_keeps_no_kernel(
    fake: FakeDriver, made: list[weakref.ref[Any]]
) -> None:
    """Each of many functions kept the kernels of its last call, to explain them."""
    functions = [shifted(float(number)) for number in (11, 12, 13)]
    with knobs.scope(kept_kernels=1):
        for function in functions:
            function(ones(4, 64))
        gc.collect()
        assert [kernel() is not None for kernel in made] == [False, False, True]
        text = functions[0].explain(ones(4, 64))
    assert "class 1   planned 2 times, compiled 2 times" in text


def test_what_is_kept_of_launches_keeps_no_kernel(
    fake: FakeDriver, made: list[weakref.ref[Any]]
) -> None:
    """A launch of a size that was met before is worked out again where its kernel is forgotten."""
    double = shifted(7.0)
    columns = (64, 67)  # vectors of four, and none
    with knobs.scope(kept_kernels=1, kept_plans=256):
        for each in columns:
            double(ones(4, each))
        gc.collect()
        assert len(made) == len(columns)
        assert sum(kernel() is not None for kernel in made) == 1
        text = double.explain(ones(4, 64))
        assert len(made) == len(columns) + 1
    assert "class 2" in text


def test_kernels_of_a_call_are_kept_until_it_is_planned(fake: FakeDriver) -> None:
    x = ones(100_000, 64)
    both = warpsmith.fuse(lambda x: ops.sum((x - ops.sum(x, [0], keepdim=True)) * 2.0, [0]))
    before = cache_info()["kernels"].made
    with knobs.scope(kept_kernels=1):
        both(x)
    assert len(fake.launches) == cache_info()["kernels"].made - before == 2


def test_tensor_maps_have_a_limit(fake: FakeDriver) -> None:
    before = cache_info()["maps"]
    with knobs.scope(kept_maps=8), warpsmith.FusionDefinition() as fd:
        fd = linear()
        arrays = [operands(64, 64, 64, seed=seed) for seed in range(6)]
        for pair in arrays:
            fd.execute(pair)
        info = cache_info()["maps"]
    assert info.made > before.made
    assert info.entries <= 8


@pytest.fixture
def counters(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tensors of counters that calls of PyTorch's tensors make, on the faked device."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(executable, "place_of", lambda binding, knobs: 0)
    monkeypatch.setattr(executable, "is_on_device", lambda binding: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    made: list[Any] = []
    zeros = torch.zeros

    def counted(*given: Any, **options: Any) -> Any:
        made.append(zeros(*given, dtype=options["dtype"]))
        return made[-1]

    ready = runners.OnDevice.__init__

    def on_host(self: Any, *given: Any) -> None:
        ready(self, *given)
        self._device = torch.device("cpu")

    monkeypatch.setattr(torch, "zeros", counted)
    monkeypatch.setattr(runners.OnDevice, "__init__", on_host)
    monkeypatch.setattr(counting, "_COUNTERS", Recent(WORKSPACES))
    return made


def test_reductions_of_one_kernel_have_counters_of_their_own(counters: list[Any]) -> None:
    torch = pytest.importorskip("torch")
    both = warpsmith.fuse(lambda x: (ops.sum(x), ops.max(x)))
    (kernel,) = both.lower(torch.ones(1 << 18)).compile().kernels
    assert sum(b.name.endswith("_arrivals") for b in kernel.kernel.parameters) == 2
    both(torch.ones(1 << 18))
    assert len({made.data_ptr() for made in counters}) == 2


def test_a_graph_zeroes_all_its_counters_at_once(
    fake: FakeDriver, counters: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(counting, "is_capturing", lambda ordinal: True)
    both = warpsmith.fuse(lambda x: (ops.sum(x), ops.max(x)))
    for calls in (1, 2):
        both(torch.ones(1 << 18))
        assert [made.numel() for made in counters] == [2] * calls  # replays may overlap
    assert not counting._COUNTERS.entries


def test_pools_of_graphs_that_are_warmed_up_hold_no_counters(
    counters: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    zeros, threads = torch.zeros, []

    def noted(*given: Any, **options: Any) -> Any:
        threads.append(threading.current_thread())
        return zeros(*given, **options)

    monkeypatch.setattr(torch, "zeros", noted)
    warpsmith.fuse(lambda x: ops.sum(x))(torch.ones(1 << 18))
    assert threads
    assert threading.current_thread() not in threads


def test_counters_of_a_stream_are_shared(fake: FakeDriver, counters: list[Any]) -> None:
    torch, made = pytest.importorskip("torch"), counters
    total = warpsmith.fuse(lambda x: ops.sum(x))
    for elements in (1 << 18, (1 << 18) + 4, 1 << 18):
        total(torch.ones(elements))
    assert len(fake.launches) == 3
    assert len(made) == 1
    assert cache_info()["workspaces"].bytes == made[0].nbytes
