"""Norms and softmaxes with gradients on a GPU: against float64, beside torch's own kernels."""

import time

import pytest
import torch

from tests.support.gradients import tuple_of
from warpsmith import nn
from warpsmith.nn import functional
from warpsmith.testing import relative_error

peer = torch.nn.functional
SHAPES = (
    (8192, 4096),
    (2048, 8192),
    (4, 512, 5120),
    (1000, 1000),
    (33, 999),
    (1, 64),
    (3, 2, 24576),
)
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
FLOAT_ERROR = 2e-7
"""Errors up to this, relative to the norm of a result, are none worse than torch's smaller ones."""


def layer_norm(module):
    return lambda x, w, b: module.layer_norm(x, x.shape[-1:], w, b)


def rms_norm(module):
    return lambda x, w: module.rms_norm(x, x.shape[-1:], w, 1e-6)


def add_rms_norm(module):
    def composed(x, residual, w):
        total = x + residual
        return module.rms_norm(total, x.shape[-1:], w, 1e-6), total

    if module is functional:
        return lambda x, residual, w: functional.add_rms_norm(x, residual, x.shape[-1:], w, 1e-6)
    return composed


def softmax(module):
    return lambda x: module.softmax(x, -1)


def log_softmax(module):
    return lambda x: module.log_softmax(x, -1)


FULL = {"layer_norm": 1, "rms_norm": 1, "add_rms_norm": 2, "softmax": 1, "log_softmax": 1}
VECTORS = {"layer_norm": 2, "rms_norm": 1, "add_rms_norm": 1, "softmax": 0, "log_softmax": 0}
FUNCTIONS = (layer_norm, rms_norm, add_rms_norm, softmax, log_softmax)


def inputs_of(make, shape, dtype):
    torch.manual_seed(0)
    name = make.__name__
    full = [torch.randn(shape, device="cuda").to(dtype) for _ in range(FULL[name])]
    return [*full, *(torch.randn(shape[-1], device="cuda").to(dtype) for _ in range(VECTORS[name]))]


def run(function, inputs, dtype=None):
    leaves = [t.detach().to(dtype or t.dtype).requires_grad_() for t in inputs]
    results = tuple_of(function(*leaves))
    torch.manual_seed(1)
    given = [torch.randn(r.shape, device="cuda").to(inputs[0].dtype).to(r.dtype) for r in results]
    return [*(r.detach() for r in results), *torch.autograd.grad(results, leaves, given)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("make", FUNCTIONS, ids=lambda make: make.__name__)
def test_errors_are_no_larger_than_torch_s(make, shape, dtype):
    inputs = inputs_of(make, shape, dtype)
    ours, again = run(make(functional), inputs), run(make(functional), inputs)
    theirs, exact = run(make(peer), inputs), run(make(peer), inputs, torch.float64)
    for got, twice, other, want in zip(ours, again, theirs, exact, strict=True):
        assert torch.equal(got, twice)
        assert got.dtype is other.dtype
        assert relative_error(got, want) <= 1.05 * relative_error(other, want) + FLOAT_ERROR


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("columns", [8, 64, 1024])
def test_sums_of_a_million_rows(columns, dtype, record_property):
    inputs = inputs_of(layer_norm, (1_000_000, columns), dtype)
    ours, theirs = run(layer_norm(functional), inputs), run(layer_norm(peer), inputs)
    exact = run(layer_norm(peer), inputs, torch.float64)
    for name, got, other, want in zip(("dW", "dB"), ours[2:], theirs[2:], exact[2:], strict=True):
        errors = relative_error(got, want), relative_error(other, want)
        record_property(name, f"{errors[0]:.2g} torch {errors[1]:.2g}")
        assert errors[0] <= 1.05 * errors[1] + FLOAT_ERROR


@pytest.mark.parametrize("make", FUNCTIONS, ids=lambda make: make.__name__)
def test_compiled_whole(make):
    torch._dynamo.reset()
    inputs = inputs_of(make, (512, 4096), torch.bfloat16)
    compiled = torch.compile(make(functional), fullgraph=True)
    for got, want in zip(run(compiled, inputs), run(make(functional), inputs), strict=True):
        assert torch.equal(got, want)


def test_a_model_trains_compiled_with_graphs():
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        nn.RMSNorm(256), torch.nn.Linear(256, 256), nn.LayerNorm(256), nn.LogSoftmax(-1)
    ).cuda()
    step = torch.compile(model, fullgraph=True, mode="reduce-overhead")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x, goal = torch.randn(64, 256, device="cuda"), torch.arange(64, device="cuda")
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = peer.nll_loss(step(x), goal)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("make", FUNCTIONS, ids=lambda make: make.__name__)
def test_a_graph_replays_forward_and_backward(make):
    inputs = inputs_of(make, (1024, 2048), torch.bfloat16)
    leaves = [t.requires_grad_() for t in inputs]

    def step():
        results = tuple_of(make(functional)(*leaves))
        return torch.autograd.grad(results, leaves, [torch.ones_like(r) for r in results])

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        for leaf in leaves:
            leaf.copy_(torch.randn_like(leaf))
    graph.replay()
    expected = step()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(captured, expected, strict=True))


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64], ids=str)
def test_autocast_gives_the_types_of_torch(dtype):
    x = torch.randn(64, 256, device="cuda").to(dtype)
    for make in (layer_norm, rms_norm, softmax, log_softmax):
        inputs = (x, *inputs_of(make, (1, 256), dtype)[1:])
        with torch.autocast("cuda", dtype=torch.bfloat16):
            ours, theirs = (run(make(module), inputs) for module in (functional, peer))
        assert [t.dtype for t in ours] == [t.dtype for t in theirs]
        for got, want in zip(ours, theirs, strict=True):
            torch.testing.assert_close(got, want)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert functional.softmax(x, -1, dtype=dtype).dtype is dtype


@pytest.mark.parametrize("shape", [(0, 64), (8, 0, 64)], ids=str)
def test_no_rows(shape):
    for make in (layer_norm, rms_norm, softmax):
        for got, want in zip(
            run(make(functional), inputs_of(make, shape, torch.float32)),
            run(make(peer), inputs_of(make, shape, torch.float32)),
            strict=True,
        ):
            assert torch.equal(got, want)


def test_layouts():
    x = torch.randn(16, 40, 3, 256, device="cuda", dtype=torch.bfloat16)
    for laid in (x.transpose(0, 1), x[..., 0, :], x[..., 1:255], x.permute(3, 0, 1, 2), x[:, ::2]):
        for make in (layer_norm, softmax):
            inputs = [laid, *inputs_of(make, (1, laid.shape[-1]), torch.bfloat16)[1:]]
            found, exact = run(make(functional), inputs), run(make(peer), inputs, torch.float64)
            for got, want in zip(found, exact, strict=True):
                assert relative_error(got, want) < 2.0**-8


def test_what_a_call_costs_the_host(record_property):
    """Forward alone, and forward with backward; many in a row on a small tensor."""
    x = torch.randn(16, 64, device="cuda", requires_grad=True)
    weight = torch.ones(64, device="cuda", requires_grad=True)
    given = torch.ones_like(x)

    def forward(module):
        with torch.no_grad():
            module.rms_norm(x, (64,), weight, 1e-6)

    def both(module):
        y = module.rms_norm(x, (64,), weight, 1e-6)
        torch.autograd.grad(y, (x, weight), given)

    for call in (forward, both):
        for name, module in (("warpsmith", functional), ("torch", peer)):
            best = float("inf")
            for _ in range(5):
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(500):
                    call(module)
                best = min(best, (time.perf_counter() - start) / 500)
            record_property(f"{name}_{call.__name__}_us", f"{1e6 * best:.1f}")
            assert best < 1e-3
