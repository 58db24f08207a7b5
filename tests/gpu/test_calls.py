"""Calls as programs make them: graphs, streams, aliases, new sizes, errors in between."""

import numpy as np
import pytest
import torch

import warpsmith
from tests.gpu.support import fused
from warpsmith import DataType, FusionDefinition, ops


def test_a_graph_replays_pointwise_and_split_reductions():
    kernel = warpsmith.fuse(lambda t: (t * 2.0, ops.sum(t, [0])))
    x = torch.randn(20_000, 64, device="cuda")
    kernel(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        double, total = kernel(x)
    for _ in range(3):
        x.normal_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(double, x * 2)
        torch.testing.assert_close(total, x.double().sum(0).float(), rtol=1e-4, atol=1e-2)


def test_two_streams_at_once():
    kernel = warpsmith.fuse(lambda t: ops.sum(t))
    inputs = [torch.randn(2_000_000, device="cuda") for _ in range(2)]
    expected = [kernel(x).clone() for x in inputs]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(2)]
    results = []
    for _ in range(50):
        for x, stream in zip(inputs, streams, strict=True):
            with torch.cuda.stream(stream):
                results.append(kernel(x))
    torch.cuda.synchronize()
    assert all(torch.equal(r, expected[i % 2]) for i, r in enumerate(results))


def test_an_output_written_into_an_input():
    x = torch.randn(300, 500, device="cuda")
    before = x.clone()
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.mul(t, fd.define_scalar(3.0)), t)
    fd.execute([x])
    torch.cuda.synchronize()
    assert torch.equal(x, before * 3)


def test_scalars_change_from_call_to_call():
    with FusionDefinition() as fd:
        t = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.Float)
        s = fd.define_scalar(DataType.Double)
        fd.add_output(fd.ops.mul(t, s))
    x = torch.randn(1000, device="cuda")
    for value in (2.0, -3.5):
        (out,) = fd.execute([x, value])
        assert torch.equal(out, x * value)


def test_numpy_in_and_out():
    kernel = warpsmith.fuse(lambda a, b: ops.silu(a) * b)
    x, y = (np.random.default_rng(0).standard_normal((64, 96), np.float32) for _ in range(2))
    out = kernel(x, y)
    assert isinstance(out, np.ndarray)
    np.testing.assert_allclose(out, x / (1 + np.exp(-x.astype(np.float64))) * y, rtol=1e-5)


def test_an_error_leaves_the_next_call_working():
    kernel = warpsmith.fuse(lambda a, b: a + b)
    x = torch.randn(64, 96, device="cuda")
    with pytest.raises(warpsmith.errors.WarpsmithError):
        kernel(x, torch.randn(64, 95, device="cuda"))
    with pytest.raises(warpsmith.errors.WarpsmithError):
        kernel(x, x.cpu())
    assert torch.equal(kernel(x, x), x + x)


def test_many_random_programs():
    generator = torch.Generator(device="cuda").manual_seed(1)
    for rows, columns in ((31, 64), (128, 1000), (1000, 128)):
        x = torch.randn(rows, columns, device="cuda", generator=generator)
        (out,) = fused(lambda t: ops.relu(t) + ops.sum(ops.abs(t), [1], True) * 0.5, x)
        wide = x.double()
        expected = wide.relu() + wide.abs().sum(1, keepdim=True) * 0.5
        torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-4)


def test_a_manual_schedule():
    from warpsmith import MemoryType, ParallelType

    x = torch.randn(777, 1024, device="cuda")
    with FusionDefinition() as fd:
        t = fd.from_pytorch(x)
        fd.add_output(fd.ops.exp(t))
        loaded = t.cache_after()
        staged = loaded.cache_after()
        staged.set_memory_type(MemoryType.shared)
        out = fd.fusion.outputs[0].value
        register = out.cache_before()
        out.split(1, 4)
        out.split(1, 128)
        out.reorder({2: 2})
        for axis, kind in ((0, "grid_x"), (1, "grid_y"), (2, "block_x")):
            out.axis(axis).parallelize(getattr(ParallelType, kind))
        fd.sched.transform_like(out)
        fd.sched.parallelize_like(out)
        loaded.axis(-1).parallelize(ParallelType.vectorize)
        out.axis(-1).parallelize(ParallelType.vectorize)
        fd.sched.inline_most()
        del register
    (result,) = fd.manual_execute([x])
    torch.testing.assert_close(result, x.double().exp().float(), rtol=1e-6, atol=0)
