"""Kernels that are forgotten: their launches end right, graphs keep theirs, memory comes back."""

import gc
from typing import Any

import pytest
import torch

import warpsmith
from warpsmith import knobs, ops
from warpsmith.errors import DeviceError


def shifted(number: float) -> Any:
    return warpsmith.fuse(lambda x: ops.tanh(x) + number)


def test_a_launch_outlives_its_kernel() -> None:
    """Many launches are waiting on a side stream when their kernel is forgotten and unloaded."""
    x = torch.randn(1 << 26, device="cuda")
    first, second = shifted(1.0), shifted(2.0)
    expected = x.tanh() + 1.0
    stream = torch.cuda.Stream()
    with knobs.scope(loaded_kernels=1):
        second(x[:1024])
        first(x[:1024])
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(500_000_000)
            results = [first(x) for _ in range(8)]
        second(x[:2048])
        shifted(3.0)(x[:2048])
    stream.synchronize()
    assert all(torch.allclose(result, expected, atol=1e-5) for result in results)


def test_a_graph_keeps_its_kernels() -> None:
    x = torch.randn(4096, device="cuda")
    kernel = shifted(4.0)
    kernel(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = kernel(x)
    with knobs.scope(loaded_kernels=1):
        for number in range(5, 9):
            shifted(float(number))(x)
        gc.collect()
    x.normal_()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(result, x.tanh() + 4.0)


def test_calls_around_one_that_has_no_room() -> None:
    outer = warpsmith.fuse(lambda x, y: x + y)
    small = torch.ones(8, 1, device="cuda"), torch.ones(1, 8, device="cuda")
    large = torch.ones(1 << 20, 1, device="cuda"), torch.ones(1, 1 << 18, device="cuda")
    for _ in range(2):
        assert outer(*small).sum().item() == 128
        with pytest.raises(DeviceError, match=r"WS0607.*takes 1,099,511,627,776 bytes.*free of"):
            outer(*large)
    assert outer(*small).sum().item() == 128


def test_device_memory_comes_to_rest() -> None:
    """Kernels by the hundred, of which four are kept."""
    x = torch.randn(4096, device="cuda")
    seen = []
    with knobs.scope(loaded_kernels=4, kept_kernels=4):
        for number in range(300):
            shifted(float(number) / 7)(x)
            if number % 100 == 99:
                torch.cuda.synchronize()
                gc.collect()
                seen.append(torch.cuda.mem_get_info()[0])
    assert seen[0] - seen[-1] <= 8 << 20
    assert warpsmith.cache_info()["loaded"].dropped > 200
