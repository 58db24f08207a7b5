"""Random numbers and dropout on a GPU: the bits that NumPy gives, whatever the schedule."""

import numpy as np
import pytest
import torch

import warpsmith
from warpsmith import ops
from warpsmith.nn import functional
from warpsmith.ops.table import TABLE
from warpsmith.testing import do_bench, relative_error

SEED, P = 2**62 + 98765, 0.25
SHAPES = ((2048, 4096), (1000, 1030), (33, 999), (2, 131072), (3, 40, 512), (5,), (1, 1))


def places(shape):
    return np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)


def kept(shape, seed=SEED, offset=0):
    least = np.int64(P * 2**24)
    return TABLE["kept"].numpy(places(shape), least, np.int64(seed), np.int64(offset))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_dropout_has_the_bits_of_numpy(shape, dtype):
    x = torch.randn(shape, device="cuda").to(dtype)
    value, mask = warpsmith.fuse(lambda x, s: ops.dropout(x, P, rng_seed=s, rng_offset=3))(x, SEED)
    wanted = torch.from_numpy(kept(shape, offset=3)).cuda()
    assert torch.equal(mask, wanted)
    scaled = (x.float() * np.float32(1 / (1 - P))).to(dtype)
    assert torch.equal(value, torch.where(wanted, scaled, torch.zeros_like(scaled)))


def test_uniform_numbers_are_those_of_numpy():
    with warpsmith.FusionDefinition() as fd:
        seed = fd.define_scalar(warpsmith.DataType.Int)
        fd.add_output(fd.ops.uniform(0, 1, [1 << 20], rng_seed=seed, rng_offset=1))
        fd.add_output(fd.ops.normal(0, 1, [1 << 20], rng_seed=seed, rng_offset=2))
    uniform, normal = (torch.as_tensor(result) for result in fd.execute([SEED]))
    wanted = TABLE["philox"].numpy(places(1 << 20), np.int64(SEED), np.int64(1))
    assert np.array_equal(uniform.cpu().numpy(), wanted)
    assert abs(float(normal.mean())) < 0.005
    assert abs(float(normal.std()) - 1) < 0.005


def masked(x, residual, weight, mask):
    total = x * mask / (1 - P) + residual
    return torch.nn.functional.rms_norm(total, x.shape[-1:], weight, 1e-6), total


@pytest.mark.parametrize("specialize", ["auto", True, False], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", [*SHAPES[:5], (128, 65536)], ids=str)
def test_norms_forward_and_backward(shape, dtype, specialize):
    if specialize is True and shape[-1] not in (4096, 512):
        pytest.skip("short or ragged rows, and those that no block holds, have no roles")
    torch.manual_seed(0)
    x, residual = (torch.randn(shape, device="cuda").to(dtype) for _ in range(2))
    weight = torch.randn(shape[-1], device="cuda").to(dtype)
    seed = torch.tensor([SEED], device="cuda")
    mask = torch.from_numpy(kept(shape)).cuda()
    ours = [t.clone().requires_grad_() for t in (x, residual, weight)]
    with warpsmith.knobs.scope(warp_specialize=specialize):
        found = functional.dropout_add_rms_norm(*ours[:2], shape[-1:], ours[2], P, 1e-6, seed=seed)
    exact = [t.double().requires_grad_() for t in (x, residual, weight)]
    wanted = masked(*exact, mask)
    given = [torch.randn(shape, device="cuda").to(dtype) for _ in range(2)]
    found += torch.autograd.grad(found, ours, given)
    wanted += torch.autograd.grad(wanted, exact, [g.double() for g in given])
    limit = {torch.bfloat16: 2.0**-8, torch.float32: 5e-6}[dtype]
    for got, want in zip(found, wanted, strict=True):
        assert relative_error(got.detach(), want.detach()) < limit
    assert not found[2][~mask].any()


def test_a_replayed_graph_drops_anew():
    x, residual = torch.ones(256, 1024, device="cuda"), torch.zeros(256, 1024, device="cuda")

    def step():
        return functional.dropout_add_rms_norm(x, residual, (1024,), dropout_p=0.5)[1]

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = step()
    masks = []
    for _ in range(3):
        graph.replay()
        masks.append((total != 0).clone())
    assert all(0.45 < m.float().mean().item() < 0.55 for m in masks)
    assert not torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[1], masks[2])


def test_compiled_whole():
    torch._dynamo.reset()
    x, residual = (torch.randn(64, 4096, device="cuda", requires_grad=True) for _ in range(2))
    weight = torch.ones(4096, device="cuda", requires_grad=True)
    seed = torch.tensor([SEED], device="cuda")

    def step(x, residual, weight):
        y, total = functional.dropout_add_rms_norm(x, residual, (4096,), weight, P, seed=seed)
        return y.sum() + total.square().sum()

    results = []
    for function in (step, torch.compile(step, fullgraph=True)):
        results.append(torch.autograd.grad(function(x, residual, weight), (x, residual, weight)))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want)


def test_what_drawing_costs(record_property):
    """RMSNorm of a sum with and without dropout, forward and backward, in microseconds."""
    x, residual = (torch.randn(8192, 4096, device="cuda").bfloat16() for _ in range(2))
    weight = torch.ones(4096, device="cuda").bfloat16()
    leaves = [t.requires_grad_() for t in (x, residual, weight)]
    seed = torch.tensor([SEED], device="cuda")
    times = {}
    for name, options in (("none", {"training": False}), ("dropped", {"seed": seed})):

        def forward(options=options):
            return functional.dropout_add_rms_norm(
                *leaves[:2], (4096,), leaves[2], P, 1e-6, **options
            )

        made = forward()
        given = [torch.ones_like(t) for t in made]

        def backward(made=made, given=given):
            return torch.autograd.grad(made, leaves, given, retain_graph=True)

        for direction, call in (("forward", forward), ("backward", backward)):
            times[name, direction] = 1e3 * do_bench(call, return_mode="median")
            record_property(f"{name}_{direction}_us", f"{times[name, direction]:.1f}")
    for direction in ("forward", "backward"):
        assert times["dropped", direction] < 2 * times["none", direction]
