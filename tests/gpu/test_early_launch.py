"""Kernels that start while the one before them ends: right every time, in every setting."""

import pytest
import torch

import warpsmith
from bench import norm_backward
from bench.problem import outputs_of
from tests.engine.test_early_launch import across_blocks
from warpsmith import knobs, ops
from warpsmith.engine.executable import Executable
from warpsmith.ir.dtypes import DataType
from warpsmith.runtime.driver import check
from warpsmith.runtime.launch import LoadedKernel
from warpsmith.runtime.launch_kinds import LaunchKind
from warpsmith.testing import relative_error

PROBLEMS = (norm_backward.layer_norm_bwd, norm_backward.rms_norm_bwd)
SHAPES = ((3, 64), (133, 1000), (2048, 4096), (8192, 1024), (500, 16384))
LARGEST_ERROR = {"bfloat16": 2.0**-8, "float": 5e-6}
ROUNDS = 200


def poison(*sizes: int) -> None:
    """Fill blocks that the allocator hands out next with NaN, and give them back."""
    for size in sizes:
        torch.full((max(size, 1),), torch.nan, device="cuda")


def in_order(call, *inputs):
    """Results of the same program whose kernels start one after the other."""
    with knobs.scope(early_launch=False):
        return outputs_of(call(*inputs))


@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_new_data_every_time(make, shape, dtype):
    problem = make(*shape, dtype)
    call, plain = warpsmith.fuse(problem.fused), warpsmith.fuse(problem.fused)
    draws = [problem.draw() for _ in range(5)]
    wanted = [in_order(plain, *inputs) for inputs in draws]
    exact = outputs_of(problem.eager(*(x.double() for x in draws[0])))
    for got, want in zip(wanted[0], exact, strict=True):
        assert relative_error(got, want) < LARGEST_ERROR[dtype]
    wrong = []
    for round_ in range(ROUNDS):
        if round_ % 7 == 0:
            poison(264 * shape[1], 132 * shape[1], shape[0] * shape[1], shape[1])
        found = outputs_of(call(*draws[round_ % 5]))
        pairs = zip(found, wanted[round_ % 5], strict=True)
        wrong += [(a != b).any() for a, b in pairs]  # NaN is unequal, too
        del found
    assert not torch.stack(wrong).any()


@pytest.mark.parametrize("shape", SHAPES[1:4], ids=str)
def test_two_programs_that_reuse_each_others_temporaries(shape):
    """What one call let go of the next one gets, while kernels of the first still run."""
    first, second = (make(*shape, "bfloat16") for make in PROBLEMS)
    calls = [warpsmith.fuse(problem.fused) for problem in (first, second)]
    inputs = [problem.draw() for problem in (first, second)]
    wanted = [in_order(call, *x) for call, x in zip(calls, inputs, strict=True)]
    wrong = []
    for round_ in range(ROUNDS):
        for call, x, want in zip(calls, inputs, wanted, strict=True):
            found = outputs_of(call(*x))
            if round_ % 10 == 0:  # a check between calls would keep them apart
                wrong += [(a != b).any() for a, b in zip(found, want, strict=True)]
            del found
    assert not torch.stack(wrong).any()


def exponential_product(x, w):
    """The TMA unit reads what the first kernel wrote: a product computes one operand at most."""
    return ops.linear(ops.exp(x), ops.exp(w))


def centred_product(x, w):
    """The same, behind rows that are reduced."""
    wide = x.to(DataType.Float)
    return ops.linear((wide - ops.mean(wide, [-1], keepdim=True)).to(x.dtype), w)


CHAINS = {
    "across blocks": (across_blocks, lambda: (torch.randn(40000, 64, device="cuda"),)),
    "exponential product": (
        exponential_product,
        lambda: tuple(torch.randn(1024, 1024, device="cuda").bfloat16() / 4 for _ in "xw"),
    ),
    "centred product": (
        centred_product,
        lambda: tuple(torch.randn(4096, 512, device="cuda").bfloat16() for _ in "xw"),
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains(name):
    function, draw = CHAINS[name]
    call = warpsmith.fuse(function)
    draws = [draw() for _ in range(4)]
    wanted = [in_order(call, *x) for x in draws]
    assert len(call.lower(*draws[0]).compile().kernels) > 1
    wrong = []
    for round_ in range(ROUNDS):
        found = outputs_of(call(*draws[round_ % 4]))
        wrong += [(a != b).any() for a, b in zip(found, wanted[round_ % 4], strict=True)]
        del found
    assert not torch.stack(wrong).any()


@pytest.mark.parametrize("name", CHAINS)
def test_behind_a_long_kernel_and_before_another(name):
    """The first kernel waits for the stream, and what comes behind waits for the last one."""
    function, draw = CHAINS[name]
    call = warpsmith.fuse(function)
    inputs = draw()
    wanted = in_order(call, *inputs)
    call(*inputs)
    sources = [torch.empty_like(x) for x in inputs]
    for _ in range(20):
        for source in sources:
            source.fill_(torch.nan)
        torch.cuda._sleep(300_000)
        for source, x in zip(sources, inputs, strict=True):
            source.copy_(x)
        found = outputs_of(call(*sources))
        copies = [x.clone() for x in found]
        for source, x in zip(sources, found, strict=False):
            source.fill_(torch.nan)
            x.fill_(torch.nan)
        assert all(torch.equal(a, b) for a, b in zip(copies, wanted, strict=True))


@pytest.mark.parametrize("shape", SHAPES[1:4], ids=str)
def test_on_a_side_stream(shape):
    problem = PROBLEMS[0](*shape, "bfloat16")
    call = warpsmith.fuse(problem.fused)
    draws = [problem.draw() for _ in range(3)]
    wanted = [in_order(call, *inputs) for inputs in draws]
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    wrong = []
    with torch.cuda.stream(stream):
        for round_ in range(ROUNDS):
            found = outputs_of(call(*draws[round_ % 3]))
            wrong += [(a != b).any() for a, b in zip(found, wanted[round_ % 3], strict=True)]
            del found
    stream.synchronize()
    assert not torch.stack(wrong).any()


@pytest.mark.parametrize(
    "name", [*CHAINS, *(f"{make.__name__} {shape}" for make in PROBLEMS for shape in SHAPES[1:4])]
)
def test_in_a_graph(name):
    """Captured twice in one graph, and replayed on new data."""
    if name in CHAINS:
        function, draw = CHAINS[name]
    else:
        make = next(make for make in PROBLEMS if name.startswith(make.__name__))
        problem = make(*next(shape for shape in SHAPES if str(shape) in name), "bfloat16")
        function, draw = problem.fused, problem.draw
    call = warpsmith.fuse(function)
    draws = [tuple(draw()) for _ in range(3)]
    wanted = [in_order(call, *inputs) for inputs in draws]
    static = tuple(torch.empty_like(x) for x in draws[0])
    call(*static)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first, second = outputs_of(call(*static)), outputs_of(call(*static))
    wrong = []
    for round_ in range(ROUNDS):
        for source, x in zip(static, draws[round_ % 3], strict=True):
            source.copy_(x)
        for output in (*first, *second):
            output.fill_(torch.nan)
        graph.replay()
        for found in (first, second):
            wrong += [(a != b).any() for a, b in zip(found, wanted[round_ % 3], strict=True)]
    assert not torch.stack(wrong).any()


def test_host_arrays():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(40000, 64, generator=rng)
    with knobs.scope(device="gpu"):
        found = warpsmith.fuse(across_blocks)(x.numpy())
    (wanted,) = in_order(warpsmith.fuse(across_blocks), x.cuda())
    assert torch.equal(torch.as_tensor(found), wanted.cpu())


def test_a_multiprocessor_takes_its_share_of_the_second_kernel_only():
    problem = norm_backward.layer_norm_bwd(8192, 2048, "bfloat16")
    inputs = problem.draw()
    fused = warpsmith.fuse(problem.fused).lower(*inputs)
    launch = Executable(fused.fusion).plan_for(inputs).launches[1]
    kernel = LoadedKernel(launch.compiled.binary, launch.compiled.name, 0, kind=LaunchKind.EARLY)
    kernel._allow_shared_bytes(launch.reserved_bytes)
    held = kernel._driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    assert check(held(kernel._function, threads, launch.shared_bytes)) > 1
    assert check(held(kernel._function, threads, launch.reserved_bytes)) == 1
