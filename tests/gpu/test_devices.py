"""Two GPUs in one process: calls run where their tensors are, whichever device is current."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import warpsmith
from tests.gpu.support import assert_near
from warpsmith import FusionDefinition, nn, ops
from warpsmith.engine.loaded import _KERNELS
from warpsmith.errors import WarpsmithError
from warpsmith.runtime.driver import device_properties
from warpsmith.runtime.of_device import target_of_device
from warpsmith.torch_backend.backend import backend

BOTH = (0, 1)


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    """The current device is what it was after each test."""
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    torch.manual_seed(5)
    with torch.cuda.device(0):
        yield
        for device in BOTH:
            torch.cuda.synchronize(device)
        assert torch.cuda.current_device() == 0


def normed(x: Any) -> Any:
    return x * ops.rsqrt(ops.mean(x * x, [-1], keepdim=True) + 1e-5)


def sums(x: Any) -> Any:
    """Of columns, by blocks that count each other's arrivals."""
    return ops.sum(x, [0])


def product(x: Any) -> Any:
    """Of rows that tensor maps load."""
    return ops.linear(x, x)


def meant(function: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
    wide = x.double()
    if function is normed:
        return wide * (wide.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    return wide.sum(0) if function is sums else wide @ wide.T


def check(function: Callable[..., Any], made: Any, x: torch.Tensor) -> None:
    before = torch.cuda.current_device()
    result = made(x)
    assert result.device == x.device
    assert torch.cuda.current_device() == before
    terms = {normed: 1, sums: len(x), product: x.shape[1]}[function]
    assert_near(result, meant(function, x), terms=terms)


def drawn(device: int, rows: int, columns: int = 256) -> torch.Tensor:
    return torch.randn(rows, columns, device=f"cuda:{device}", dtype=torch.bfloat16)


@pytest.mark.parametrize("function", [normed, sums, product])
@pytest.mark.parametrize("current", BOTH)
def test_one_function_on_both_in_turn(function: Callable[..., Any], current: int) -> None:
    """From the first call on; also where Python launches, and for sizes between those it knows."""
    made = warpsmith.fuse(function)
    with torch.cuda.device(current):
        for device in (1, 0, 1, 0):
            for rows in (384, 640, 4096):
                check(function, made, drawn(device, rows))
        for device in (1, 0):
            check(function, made.run, drawn(device, 512))
            check(function, made.run, drawn(device, 512))


def test_arrays_of_the_host_leave_the_current_device() -> None:
    x = np.random.default_rng(3).normal(size=(50, 70)).astype(np.float32)
    with torch.cuda.device(1):
        found = warpsmith.fuse(sums)(x)
        assert torch.cuda.current_device() == 1
    np.testing.assert_allclose(found, x.sum(0, dtype=np.float64), rtol=1e-4, atol=1e-4)


def test_threads_on_both_at_once() -> None:
    """Threads that never chose a device, each of which goes to and fro."""
    kernels = {function: warpsmith.fuse(function) for function in (normed, sums, product)}

    def work(number: int) -> None:
        draw = np.random.default_rng(number)
        for step in range(30):
            function = list(kernels)[int(draw.integers(3))]
            rows = 128 * int(draw.integers(1, 12))
            check(function, kernels[function], drawn((number + step) % 2, rows))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))


@pytest.mark.parametrize("inside", BOTH)
@pytest.mark.parametrize("function", [normed, sums, product])
def test_a_graph_of_the_other_device(function: Callable[..., Any], inside: int) -> None:
    made, x = warpsmith.fuse(function), drawn(1, 1024)
    with torch.cuda.device(inside):
        made(x)
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream(device=1)
    with torch.cuda.graph(graph, stream=stream), torch.cuda.device(inside):
        result = made(x)
    kept = [each[0] for each in _KERNELS.entries.values() if each[0].ordinal == 1]
    assert any(kernel.residence.captured for kernel in kept)
    for _ in range(3):
        x.normal_()
        with torch.cuda.device(1):
            graph.replay()
        torch.cuda.synchronize(1)
        assert_near(result, meant(function, x), terms=1024)


def gradients(run: Callable[..., torch.Tensor], *given: torch.Tensor) -> list[torch.Tensor]:
    leaves = [each.detach().clone().requires_grad_() for each in given]
    result = run(*leaves)
    result.square().mean().backward()
    return [result.detach(), *(each.grad for each in leaves if each.grad is not None)]


@pytest.mark.parametrize("current", BOTH)
def test_modules_with_gradients(current: int) -> None:
    x = torch.randn(96, 512, device="cuda:1")
    weight, bias = torch.randn(512, device="cuda:1"), torch.randn(512, device="cuda:1")
    labels = torch.randint(512, (96,), device="cuda:1")
    functional, torchs = nn.functional, torch.nn.functional
    pairs: list[tuple[Callable[..., Any], Callable[..., Any], tuple[torch.Tensor, ...]]] = [
        (
            lambda x, w: functional.rms_norm(x, (512,), w),
            lambda x, w: torchs.rms_norm(x, (512,), w),
            (x, weight),
        ),
        (
            lambda x, w, b: functional.layer_norm(x, (512,), w, b),
            lambda x, w, b: torchs.layer_norm(x, (512,), w, b),
            (x, weight, bias),
        ),
        (lambda x: functional.softmax(x, -1), lambda x: torchs.softmax(x, -1), (x,)),
        (
            lambda x: functional.cross_entropy(x, labels),
            lambda x: cross_entropy(x, labels),
            (x,),
        ),
    ]
    with torch.cuda.device(current):
        for ours, theirs, given in pairs:
            for _ in range(2):  # by Python, then in C
                found, wanted = gradients(ours, *given), gradients(theirs, *given)
                assert {each.device.index for each in found} == {1}
                for one, other in zip(found, wanted, strict=True):
                    torch.testing.assert_close(one, other, rtol=2e-4, atol=2e-5)


class Net(torch.nn.Module):
    def __init__(self, *devices: int) -> None:
        super().__init__()
        first, last = (f"cuda:{device}" for device in devices)
        self.first = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU()).to(first)
        self.last = torch.nn.Sequential(torch.nn.LayerNorm(256), torch.nn.Linear(256, 32)).to(last)
        self.between = last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).to(self.between))


@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
@pytest.mark.parametrize("devices", [(1, 1), (0, 1), (1, 0)])
@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_compiled_models(devices: tuple[int, int], mode: str | None) -> None:
    """Also one whose layers are on both."""
    torch._dynamo.reset()
    model = Net(*devices)
    fast = torch.compile(model, backend=backend, mode=mode)
    for rows in (40, 72, 40, 40):
        x = torch.randn(rows, 64, device=f"cuda:{devices[0]}")
        found = []
        for each in (fast, model):
            model.zero_grad()
            result = each(x)
            result.square().sum().backward()
            found.append([result.detach().clone(), *(p.grad.clone() for p in model.parameters())])
        assert found[0][0].device.index == devices[1]
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)


def test_tensors_of_both_in_one_call() -> None:
    x, y = torch.randn(64, 64, device="cuda:0"), torch.randn(64, 64, device="cuda:1")
    with pytest.raises(WarpsmithError, match=r"argument 1 .*cuda:1, and argument 0 .*cuda:0"):
        warpsmith.fuse(lambda x, y: x + y)(x, y)
    with pytest.raises(WarpsmithError, match=r"cuda:1.*cuda:0"):
        nn.functional.rms_norm(x, (64,), y[0])
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: (x + 1) * y, backend=backend)
    with pytest.raises(Exception, match="two different devices"):
        compiled(x, y)
    torch.testing.assert_close(compiled(x, y.to(x.device)), (x + 1) * y.to(x.device))


def test_random_numbers_are_of_the_device() -> None:
    with warpsmith.install_as_nvfuser():
        from nvfuser_direct import DataType
        from nvfuser_direct import FusionDefinition as Theirs

        with Theirs() as fd:
            t = fd.define_tensor([-1, -1], dtype=DataType.Float)
            low, high = fd.define_scalar(0.0), fd.define_scalar(1.0)
            fd.add_output(fd.ops.add(t, fd.ops.uniform(low, high, [32, 32], dtype=DataType.Float)))
        found = []
        for _ in range(2):
            torch.cuda.manual_seed_all(7)
            torch.rand(3, device="cuda:0")  # what the other device draws counts for nothing
            found.append(fd.execute([torch.zeros(32, 32, device="cuda:1")])[0])
    assert found[0].device.index == 1
    assert torch.equal(*found)


def test_both_are_described() -> None:
    for device in BOTH:
        target = target_of_device(device)
        assert device_properties(device).name in target.devices
        assert target.sm_count == torch.cuda.get_device_properties(device).multi_processor_count


def test_a_definition_on_both() -> None:
    with FusionDefinition() as fd:
        t = fd.define_tensor([-1, -1], True)
        fd.add_output(fd.ops.mul(t, 3.0), t)
    for device in (1, 0, 1):
        x = torch.randn(30, 50, device=f"cuda:{device}")
        before = x.clone()
        fd.execute([x])
        assert torch.equal(x, before * 3)
