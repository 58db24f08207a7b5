"""Calls that fit no memory, no grid, no driver: what is said, and that others still work."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.fake_driver import NO_MEMORY, FakeDriver, bindings, install, no_kernels_loaded
from warpsmith import ops
from warpsmith.engine import executable, runners
from warpsmith.engine.executable import Executable
from warpsmith.engine.loaded import Loaded
from warpsmith.errors import DeviceError, WarpsmithError
from warpsmith.runtime import driver
from warpsmith.runtime.launch import check_grid
from warpsmith.targets.hopper import SM90A

torch = pytest.importorskip("torch")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A GPU of 1 MiB that computes nothing, for arrays of NumPy."""
    made = install(monkeypatch, FakeDriver(memory_bytes=1 << 20))
    monkeypatch.setattr(driver, "device_count", lambda: 1)
    no_kernels_loaded(monkeypatch)
    return made


def refused(call: Callable[[], object], code: str, *words: str) -> None:
    with pytest.raises(WarpsmithError) as raised:
        call()
    assert raised.value.code == code, raised.value
    for word in words:
        assert word in str(raised.value), raised.value
    assert raised.value.remedy


def ones(rows: int) -> Any:
    return np.ones((rows, 256), np.float32)


def test_an_array_that_the_device_has_no_room_for(fake: FakeDriver) -> None:
    double = warpsmith.fuse(lambda x: x * 2.0)
    for rows, name, more in ((2048, "T0", "never fit"), (768, "T1", "let go of tensors first")):
        double(ones(4))
        size = f"{name} takes {rows * 1024:,}"[:-3]  # and what keeps the alignment of the host
        words = (size, "bytes, and GPU 0 has ", "free of 1,048,576", more)
        refused(partial(double, ones(rows)), "WS0607", *words)
        assert fake.used_bytes == 0
    double(ones(4))
    assert len(fake.launches) == 3


def test_scratch_that_the_device_has_no_room_for(fake: FakeDriver) -> None:
    total = warpsmith.fuse(lambda x: ops.sum(x))
    total(ones(512))
    fake.memory_bytes = 512 * 1024 + 600
    refused(lambda: total(ones(512)), "WS0607", "T3_", "free of")
    fake.memory_bytes = 1 << 20
    total(ones(512))
    assert fake.used_bytes == 0


def test_code_that_the_device_has_no_room_for(fake: FakeDriver) -> None:
    fake.answers["cuModuleLoadData"] = (NO_MEMORY, None)
    triple = warpsmith.fuse(lambda x: x * 3.0)
    refused(lambda: triple(ones(4)), "WS0607", "the code of kernel `pointwise_", "GPU 0 has")
    del fake.answers["cuModuleLoadData"]
    triple(ones(4))
    assert len(fake.launches) == 1


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        ("CUDA_ERROR_NO_BINARY_FOR_GPU", "compiled for another family of GPUs"),
        ("CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "install one of release 580 or later"),
        ("CUDA_ERROR_INVALID_IMAGE", "install one of release 580 or later"),
        ("CUDA_ERROR_UNKNOWN", "nvidia-smi"),
    ],
)
def test_code_that_the_driver_does_not_take(fake: FakeDriver, status: str, remedy: str) -> None:
    fake.answers["cuModuleLoadData"] = (getattr(bindings.CUresult, status), None)
    four = warpsmith.fuse(lambda x: x * 4.0)
    refused(lambda: four(ones(4)), "WS0612", "GPU 0 does not take kernel", status, remedy)
    fake.answers.clear()
    four(ones(4))


@pytest.fixture
def on_torch(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """Tensors of PyTorch take the way of those on a GPU; their memory is the host's."""
    ready = runners.OnDevice.__init__

    def on_host(self: Any, *given: Any) -> None:
        ready(self, *given)
        self._device = torch.device("cpu")

    monkeypatch.setattr(runners.OnDevice, "__init__", on_host)
    monkeypatch.setattr(executable, "is_on_device", lambda binding: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 2000))
    return fake


def test_a_result_that_the_allocator_has_no_room_for(
    on_torch: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = warpsmith.fuse(lambda x, y: x + y)
    column, row = torch.ones(64, 1), torch.ones(1, 64)
    outer(column, row)
    empty = torch.empty

    def full(*given: Any, **options: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, "empty", full)
    refused(
        lambda: outer(column, row),
        "WS0607",
        "T2, which the call makes, takes 16,384 bytes, and cpu has 1,000 free of 2,000",
        "it can never fit",
    )
    monkeypatch.setattr(torch, "empty", empty)
    outer(column, row)
    assert len(on_torch.launches) == 2


def three_layers(x: Any) -> Any:
    for _ in range(3):
        x = ops.linear(x, x)
        x = ops.exp(x - ops.max(x, [1], keepdim=True))
    return x


def test_what_passes_between_kernels_is_one_piece_of_memory(
    on_torch: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[dict[str, int]] = []
    monkeypatch.setattr(Loaded, "start", lambda self, where, *_: met.append(dict(where)))
    x = torch.ones(64, 64, dtype=torch.bfloat16)
    call = Executable(warpsmith.fuse(three_layers).lower(x).fusion).plan_for([x])
    made: list[Any] = []
    empty = torch.empty

    def noted(*given: Any, **options: Any) -> Any:
        made.append(empty(*given, **options))
        return made[-1]

    monkeypatch.setattr(torch, "empty", noted)
    warpsmith.fuse(three_layers)(x)
    (arena,) = (tensor for tensor in made if tensor.dtype is torch.uint8)
    assert arena.numel() == call.arena.size < sum(each.bytes for each in call.temporaries)
    assert len(met) == len(call.launches) > 3
    for name, offset in call.arena.offsets:
        assert {where[name] for where in met} == {arena.data_ptr() + offset}


def test_memory_between_kernels_that_the_device_has_no_room_for(fake: FakeDriver) -> None:
    twice = warpsmith.fuse(lambda x: ops.linear(ops.linear(x, x), x))
    ones_ = np.ones((384, 384), np.float32)
    fake.memory_bytes = int(2.5 * ones_.nbytes)
    refused(lambda: twice(ones_), "WS0607", "what passes between kernels takes 589,824 bytes")
    fake.memory_bytes = 1 << 25
    twice(ones_)
    assert fake.used_bytes == 0


def test_a_result_beyond_all_numbers(on_torch: FakeDriver) -> None:
    outer = warpsmith.fuse(lambda x, y: x + y)
    column = torch.ones(1, 1).expand(1 << 40, 1)
    row = torch.ones(1, 1).expand(1, 1 << 40)
    refused(lambda: outer(column, row), "WS0608", "blocks, and a device takes (2147483647, ")


def test_a_result_that_this_machine_has_no_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    outer = warpsmith.fuse(lambda x, y: x + y)
    small = np.ones((8, 1), np.float32), np.ones((1, 8), np.float32)
    large = tuple(np.broadcast_to(np.float32(1), shape) for shape in ((1 << 20, 1), (1, 1 << 18)))
    with warpsmith.knobs.scope(device="sim"):
        for _ in range(2):
            assert outer(*small).sum() == 128
            words = (f"T2 takes {1 << 40:,} bytes, and this machine has", "it can never fit")
            refused(lambda: outer(*large), "WS0607", *words)


@pytest.mark.parametrize("grid", [(1, 65536, 1), (1, 1, 1 << 20), (1 << 31, 1, 1)])
def test_a_grid_that_no_device_takes(grid: tuple[int, int, int]) -> None:
    refused(
        lambda: check_grid("k", grid, SM90A.limits),
        "WS0608",
        f"kernel `k` would need a grid of {grid}",
    )
    check_grid("k", (2**31 - 1, 65535, 65535), SM90A.limits)


def test_a_driver_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    driver.check_version(13000)
    refused(
        lambda: driver.check_version(12040),
        "WS0609",
        "the NVIDIA driver is for CUDA 12.4, and kernels are compiled by CUDA 13",
        "release 580",
    )

    def initialize() -> Any:
        driver.check_version(12080)

    monkeypatch.setattr(driver, "_initialize", initialize)
    driver._warn_once.cache_clear()
    double = warpsmith.fuse(lambda x: x * 2.0)
    with pytest.warns(RuntimeWarning, match=r"no GPU can be used: \[WS0609\].*CUDA 12.8"):
        assert double(ones(1)).sum() == 512  # on the simulator
    assert double(ones(2)).sum() == 1024
    with warpsmith.knobs.scope(device="gpu"):
        refused(lambda: double(ones(3)), "WS0601", "CUDA 12.8", "`sim`")
    assert double(ones(3)).sum() == 1536
    driver._warn_once.cache_clear()


def test_no_driver_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def initialize() -> Any:
        raise RuntimeError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(driver, "_initialize", initialize)
    double = warpsmith.fuse(lambda x: x * 2.0)
    for rows in (1, 2):
        assert double(ones(rows)).sum() == 512 * rows
        with warpsmith.knobs.scope(device="gpu"):
            words = ("there is no GPU: no CUDA driver: libcuda.so.1", "use `auto`, `sim`")
            refused(lambda: double(ones(1)), "WS0601", *words)


def test_a_driver_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = SimpleNamespace(cuDeviceGetCount=lambda: (0, 0))
    monkeypatch.setattr(driver, "_initialize", lambda: seen)
    with warpsmith.knobs.scope(device="gpu"), pytest.raises(DeviceError, match="sees 0 of them"):
        warpsmith.fuse(lambda x: x * 2.0)(ones(1))


def test_what_passes_between_kernels_may_be_empty(fake: FakeDriver) -> None:
    """Sums of 4096 rows of nothing, of which the second kernel reads means of columns: none."""
    fused = warpsmith.fuse(lambda x: ops.sum(x - ops.mean(x, [0], keepdim=True), [1]))
    assert fused(np.ones((4096, 0), np.float32)).shape == (4096,)
    assert len(fake.launches) >= 1
    assert fake.used_bytes == 0
