"""Pools of images and their gradients, as kernels, against torch's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  # torch's own name for it

import warpsmith
from tests.programs import judge
from tests.torch_backend.graphs import compiled
from warpsmith import knobs
from warpsmith.schedulers.pointwise.heuristic import inner_run
from warpsmith.schedulers.reads import steps_of_reads
from warpsmith.torch_backend import chosen
from warpsmith.torch_backend.backend import backend

pytestmark = pytest.mark.usefixtures("fresh")

Pools = Callable[[Tensor], tuple[Tensor, ...]]


class Pooled(torch.nn.Module):  # type: ignore[misc]  # torch is not analysed
    """Pools of a parameter."""

    def __init__(self, pools: Pools, x: Tensor) -> None:
        super().__init__()
        self.pools, self.x = pools, torch.nn.Parameter(x.clone())

    def forward(self) -> tuple[Tensor, ...]:
        return self.pools(self.x)


def both_ways(pools: Pools, x: Tensor, device: str = "reference") -> None:
    """Results and their gradient are torch's, and no operation is."""
    ours, given = Pooled(pools, x), Pooled(pools, x)
    fast = torch.compile(ours, backend=backend, dynamic=False)
    with knobs.scope(device=device):
        made, wanted = fast(), given()
        for mine, theirs in zip(made, wanted, strict=True):
            assert mine.stride() == theirs.stride()
            torch.testing.assert_close(mine, theirs, equal_nan=True)
        for results in (made, wanted):
            pooled = [y for y in results if y.is_floating_point()]
            counted = [torch.arange(y.numel(), dtype=x.dtype).view(y.shape) % 7 for y in pooled]
            torch.autograd.backward(pooled, counted)
    torch.testing.assert_close(ours.x.grad, given.x.grad)
    graphs = warpsmith.report(ours).graphs
    assert len(graphs) == 2
    assert not any(graph.reasons for graph in graphs)


def of_rows(x: Tensor) -> tuple[Tensor, ...]:
    return (
        F.max_pool1d(x, 3, 2, 1),
        F.avg_pool1d(x, 4, 2, 1, True),
        F.avg_pool1d(x, 70),
        F.adaptive_avg_pool1d(x, 40),
    )


def of_images(x: Tensor) -> tuple[Tensor, ...]:
    return (
        *F.max_pool2d(x, (2, 3), 1, 1, (2, 1), True, True),
        F.avg_pool2d(x, 3, 2, 1, True, False),
        F.avg_pool2d(x, (2, 3), divisor_override=5),
        F.adaptive_avg_pool2d(x, (3, 4)),
        *F.adaptive_max_pool2d(x, (5, 3), True),
        F.lp_pool2d(x.exp(), 2, 3, 2),
    )


def of_volumes(x: Tensor) -> tuple[Tensor, ...]:
    return (
        F.max_pool3d(x, 2, 2, 0, 1, True),
        F.avg_pool3d(x, 3, 2, 1, False, False),
        F.adaptive_avg_pool3d(x, (2, 3, 4)),
    )


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("pools", "shape"),
    [(of_rows, (2, 3, 150)), (of_images, (3, 7, 8)), (of_volumes, (2, 2, 3, 5, 4))],
)
def test_pools_are_those_of_torch(pools: Pools, shape: tuple[int, ...]) -> None:
    both_ways(pools, torch.randn(shape))


@pytest.mark.parametrize("last", [False, True])
def test_the_first_largest_element_is_chosen_and_the_last_nan(last: bool) -> None:
    x = torch.randint(-1, 2, (2, 3, 9, 8)).to(torch.bfloat16)
    x[0, :, ::3] = float("nan")
    x[1, :, :6] = float("-inf")
    x = x.to(memory_format=torch.channels_last) if last else x
    both_ways(lambda t: F.max_pool2d(t, 3, 2, 1, return_indices=True), x)


def test_kernels_read_each_window_in_the_image() -> None:
    """Padding is not read, nor are windows before the first one and behind the last."""
    both_ways(lambda x: (F.max_pool2d(x.relu(), 3, 2, 1),), torch.randn(1, 2, 7, 8), "sim")


def test_what_is_saved_of_a_max_pool_are_bytes() -> None:
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    saved: list[Tensor] = []

    def keep(t: Tensor) -> Tensor:
        saved.append(t)
        return t

    fast = torch.compile(lambda x: F.max_pool2d((2 * x).exp(), 3, 2, 1), backend=backend)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        fast(x)
    assert {t.dtype for t in saved} == {torch.int8, torch.float32}
    assert max(t.numel() for t in saved if t.dtype is torch.float32) == x.numel()  # exp's


def test_torch_runs_pools_whose_images_a_call_says() -> None:
    fast = torch.compile(lambda x: F.max_pool2d(x, 2) + 1, backend=backend, dynamic=True)
    for size in (6, 9):
        x = torch.randn(2, 3, size, size)
        torch.testing.assert_close(fast(x), F.max_pool2d(x, 2) + 1)
    reasons = [reason for graph in warpsmith.report().graphs for _, reason in graph.reasons]
    assert "windows in dimensions whose sizes a call says" in reasons


def test_torch_can_run_what_saves_bytes() -> None:
    """Where the region that a pool is part of cannot be compiled."""
    x, how = torch.randn(2, 3, 9, 8), ([3, 2], [2, 2], [1, 0], [1, 2], True)
    y, numbers = torch.ops.warpsmith.max_pool_in_windows(x, *how)
    want, places = torch.ops.aten.max_pool2d_with_indices(x, *how)
    dx = torch.ops.warpsmith.max_pool_in_windows_gradient(y, numbers, [9, 8], *how, True)
    torch.testing.assert_close(y, want)
    back = torch.ops.aten.max_pool2d_with_indices_backward(y, x, *how, places)
    torch.testing.assert_close(dx, back)
    assert dx.is_contiguous(memory_format=torch.channels_last)


def test_a_window_of_no_numbers_has_its_first_element(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's kernels for channels last give place 0, which may lie outside of the window."""
    x, how = torch.full((1, 2, 9, 8), -torch.inf), ([3, 2], [2, 2], [1, 0], [1, 2], True)
    want = chosen.max_pool_in_windows(x, *how)[1]
    y, places = torch.ops.aten.max_pool2d_with_indices(x, *how)
    monkeypatch.setitem(chosen._POOLS, 2, lambda *given: (y, torch.zeros_like(places)))
    assert chosen.max_pool_in_windows(x, *how)[1].equal(want)


def of_windows(x: Tensor) -> tuple[Tensor, ...]:
    return (
        F.unfold(x, (2, 3), 2, (1, 0), (2, 1)),
        F.fold(x.view(1, 12, -1), (7, 7), (2, 3), 1, 0, (1, 2)),
        x.unfold(-2, 4, 3).exp(),
    )


def test_unfolded_windows_are_those_of_torch() -> None:
    both_ways(of_windows, torch.randn(3, 8, 9))


def scaled(x: Tensor, scale: Tensor) -> tuple[Tensor, ...]:
    return ((x * scale).relu().tanh(),)


def centred(x: Tensor, scale: Tensor) -> tuple[Tensor, ...]:
    mean = x.mean((0, 2, 3), True)
    return ((x - mean) * scale).relu(), mean


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("before", "pool", "read"),
    [(scaled, (3, 2, 1), 2), (scaled, (3, 1, 1), 1), (centred, (3, 2, 1), 1), (centred, (2,), 3)],
)
def test_what_few_windows_have_is_computed_for_each(
    before: Callable[..., tuple[Tensor, ...]], pool: Any, read: int
) -> None:
    """But for what a kernel has that loads it for a sum."""

    def pooled(x: Tensor, scale: Tensor) -> list[Tensor]:
        y, *others = before(x, scale)
        return [F.max_pool2d(y, *pool), *others]

    values = torch.empty(8, 64, 112, 112), torch.empty(64, 1, 1)
    (program,) = compiled(pooled, *values, device="sim").programs
    assert program is not None
    with judge.uncompiled():
        call = program.executable_for(values).plan_for(values)
    assert len(call.segments[-1].segment.inputs) == read


@pytest.mark.parametrize("trained", [False, True])
def test_what_lies_between_norms_and_pools_has_channels_last(trained: bool) -> None:
    """And is read in vectors; gradients of pixels are stored in 16 bits before they are summed,
    since the kernel of a norm would read windows twice.
    """
    x, dy, numbers = (torch.empty(31, 64, n, n, dtype=torch.bfloat16) for n in (64, 32, 32))
    images = (dy, numbers.to(torch.int8), x) if trained else (x,)
    given = [image.to(memory_format=torch.channels_last) for image in images]

    def pooled(x: Tensor) -> list[Tensor]:
        return [F.max_pool2d(x - x.mean((0, 2, 3), True), 3, 2, 1)]

    def gradient(dy: Tensor, numbers: Tensor, x: Tensor) -> list[Tensor]:
        how = [64, 64], [3, 3], [2, 2], [1, 1], [1, 1], False, True
        dx = torch.ops.warpsmith.max_pool_in_windows_gradient(dy, numbers, *how)
        return [x * dx - (x * dx).mean((0, 2, 3), True)]

    (program,) = compiled(gradient if trained else pooled, *given, device="sim").programs
    assert program is not None
    with judge.uncompiled() as texts:
        call = program.executable_for(given).plan_for(given)
    taken = [p.candidate.scheduler for p in call.segments if p.candidate]
    assert sorted(taken) == ["outer_grid", "pointwise"]
    for number, planned in enumerate(call.segments):
        assert {t.dtype.size for t in planned.segment.writes} == {2}
        for name in planned.segment.inputs:
            assert f"= {name}[" not in texts[number]  # no element by itself


@pytest.mark.parametrize(("last", "found"), [(True, (2, True, False)), (False, (4, False, True))])
def test_bytes_between_elements_of_a_vector(last: bool, found: tuple[int, bool, bool]) -> None:
    """Of 16-bit channels side by side, and of every second element of a row, which a thread has one
    of: its vector would touch each line once more.
    """
    x = torch.empty(8, 64, 56, 56, dtype=torch.bfloat16)
    x = x.to(memory_format=torch.channels_last) if last else x
    (program,) = compiled(lambda x: [F.max_pool2d(x, 3, 2, 1)], x, device="sim").programs
    assert program is not None
    with judge.uncompiled():
        call = program.executable_for([x]).plan_for([x])
    (candidate,) = (p.candidate for p in call.segments)
    assert candidate is not None
    given = candidate.fusion, candidate.domains
    run = inner_run(*given, candidate.caches)
    assert [*steps_of_reads(*given, run, call.problem, 8)] == [found] * 9
    assert candidate.parameters(call.problem).vector == (8 if last else 1)
