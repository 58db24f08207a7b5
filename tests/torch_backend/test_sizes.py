"""One compilation serves every batch and every length, at any of them what torch computes."""

import gc

import pytest
import torch
from torch import nn

import warpsmith
from tests.torch_backend.graphs import compiled
from warpsmith import fuse, knobs, ops
from warpsmith.engine.bind import bind
from warpsmith.engine.executable import Executable
from warpsmith.errors import ArgumentError, InternalError, TorchCompileWarning
from warpsmith.frontends.inputs import define_input
from warpsmith.frontends.outputs import add_output
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.torch_backend.backend import backend


class Heads(nn.Module):
    """What a block of a transformer does to shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(16)
        self.wide = nn.Linear(16, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        y = self.wide(self.norm(x)).view(batch, length, 4, 8).transpose(1, 2)
        turned = torch.cat([-y[..., 4:], y[..., :4]], -1)
        mask = torch.arange(length) <= torch.arange(length)[:, None]
        scores = (y @ turned.transpose(-1, -2) / length).masked_fill(~mask, float("-inf"))
        return (scores.softmax(-1) @ y).transpose(1, 2).reshape(batch, length * 32)


@pytest.mark.parametrize("dynamic", [True, None])
def test_what_does_not_compile_runs_in_torch_at_any_size(
    dynamic: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes that a fusion knows from its inputs' dimensions are found from these."""

    def broken(*_: object) -> None:
        raise InternalError("no kernel today")

    monkeypatch.setattr(Executable, "prepared", broken)
    torch._dynamo.reset()
    model = Heads()
    fast = torch.compile(model, backend=backend, dynamic=dynamic)
    given = [torch.randn(batch, length, 16) for batch, length in ((3, 5), (2, 7), (4, 6))]
    with torch.no_grad(), pytest.warns(TorchCompileWarning, match="WS0370.*no kernel today"):
        found = [fast(x) for x in given]
    torch.testing.assert_close(found, [model(x) for x in given])


def test_new_sizes_compile_nothing_anew() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, graphs = Heads(), []

    def counting(module: torch.fx.GraphModule, inputs: list[object]) -> object:
        graphs.append(module)
        return backend(module, inputs)

    fast = torch.compile(model, backend=counting, dynamic=True, fullgraph=True)
    for batch, length in ((2, 5), (3, 8), (2, 9), (7, 2)):
        x = torch.randn(batch, length, 16, requires_grad=True)
        found = torch.autograd.grad(fast(x).square().sum(), [x, *model.parameters()])
        expected = torch.autograd.grad(model(x).square().sum(), [x, *model.parameters()])
        torch.testing.assert_close(found, expected)
    assert len(graphs) == 1
    assert all(graph.share == 1 for graph in warpsmith.report(model).graphs)


def test_sizes_of_inputs_may_be_expressions_of_others() -> None:
    fusion = Fusion()
    x = define_input(fusion, [-1, 4], [True, True], DataType.Float)
    rows = x.shape_axes[0].extent
    y = define_input(fusion, [integers.mul(rows, 2), rows], [True, True], DataType.Float)
    add_output(fusion, ops.neg(x))
    add_output(fusion, ops.neg(y))
    bind(fusion, [torch.zeros(3, 4), torch.zeros(6, 3)])
    for wrong in ((7, 3), (6, 2)):
        with pytest.raises(ArgumentError, match="WS0306"):
            bind(fusion, [torch.zeros(3, 4), torch.zeros(wrong)])


def test_numbers_that_no_dimension_tells_are_arguments() -> None:
    def scaled(x: torch.Tensor, length: int) -> torch.Tensor:
        return torch.full((length, 2), 3.0) * x * length

    torch._dynamo.reset()
    fast = torch.compile(scaled, backend=backend, dynamic=True)
    for length in (3, 5):
        torch.testing.assert_close(fast(torch.ones(2), length), scaled(torch.ones(2), length))


def test_parts_as_long_as_a_number_of_the_call() -> None:
    """Two of them in one kernel, of which the remainder by that number is a sum of three."""

    def halves(x: torch.Tensor, length: int) -> torch.Tensor:
        x = x * x.sum()
        a, b = x[:, : 2 * length].split(length, 1)
        return torch.cat([a - b, a + b], 1)

    torch._dynamo.reset()
    fast, x = torch.compile(halves, backend=backend, dynamic=True), torch.randn(3, 17)
    with knobs.scope(device="sim"):
        for length in (8, 4):
            torch.testing.assert_close(fast(x, length), halves(x, length))


def test_numbers_of_sizes_may_lie_beyond_indices() -> None:
    """The square of 50,000 was one of 32 bits."""

    def spread(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sum() / (x.shape[0] * (x.shape[0] - 1)), x.amax() * (x.shape[0] * 100_000)

    torch._dynamo.reset()
    x = torch.ones(50_000, 1)
    with knobs.scope(device="sim"):
        found = torch.compile(spread, backend=backend, dynamic=True)(x)
    torch.testing.assert_close(found, spread(x))


def test_numbers_of_a_call_are_no_sizes() -> None:
    """What is made of them may be negative, and long."""

    def moved(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n + n // 3 - n % 3 + min(n, 4) * 2

    torch._dynamo.reset()
    fast, x = torch.compile(moved, backend=backend, dynamic=True), torch.arange(5)
    with knobs.scope(device="sim"):
        for number in (2**33 + 1, -7):
            torch.testing.assert_close(fast(x, number), moved(x, number))


def test_slices_behind_the_end_are_empty() -> None:
    """They begin there, whatever number of the call says so; so do those that are written."""

    def behind(x: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        y = x + 1
        y[n:9] *= 2
        y[:, n:9:2] *= 3
        return torch.cat([x * 2, x[n:9], x[n::2]]), y

    torch._dynamo.reset()
    fast, x = torch.compile(behind, backend=backend, dynamic=True), torch.randn(5, 3)
    with knobs.scope(device="sim"):
        for n in (8, 3, 5):
            torch.testing.assert_close(fast(x, n), behind(x, n))


def test_a_pad_asks_nothing_of_a_size_that_it_goes_beyond() -> None:
    @fuse
    def padded(x: object) -> object:
        return ops.pad(x, [0, 1], 7)  # type: ignore[arg-type]  # a tensor of the fusion

    with knobs.scope(device="reference"):
        torch.testing.assert_close(padded(torch.ones(2)), torch.tensor([1.0, 1.0, 7.0]))


def test_results_of_the_reference_lie_as_those_of_kernels_do() -> None:
    made = compiled(
        lambda x: [(x + 1).t().clone(memory_format=torch.contiguous_format)], torch.ones(2, 3)
    )
    assert made.run([torch.ones(2, 3)])[0].stride() == (2, 1)


def test_sizes_that_one_input_has_twice_are_one() -> None:
    """The gradient of a square's best, whose places are an input: it was torch's."""
    torch._dynamo.reset()
    gc.collect()  # graphs of other tests, which a report has in any order
    fast = torch.compile(lambda x: x.max(0).values, backend=backend, dynamic=True)
    for size in (4, 6):
        x = torch.randn(5, size, size, requires_grad=True)
        (found,) = torch.autograd.grad(fast(x).sum(), x)
        (wanted,) = torch.autograd.grad(x.max(0).values.sum(), x)
        torch.testing.assert_close(found, wanted)
    assert not any(graph.reasons for graph in warpsmith.report().graphs[-2:])


def test_places_that_numbers_of_a_call_count_from_the_end() -> None:
    """They are read, written and have gradients where torch has them."""

    def placed(x: torch.Tensor, n: int) -> tuple[torch.Tensor, ...]:
        y = x * 2
        y[n - 4] = 1
        y[:, n - 3 :] = 3
        return y, x * x.select(1, n - 3).sum(), x[n - 3 :] * 2

    torch._dynamo.reset()
    fast = torch.compile(placed, backend=backend, dynamic=True)
    with knobs.scope(device="sim"):
        for n in (2, 5):
            x = torch.randn(6, 7, requires_grad=True)
            found, wanted = fast(x, n), placed(x, n)
            torch.testing.assert_close(found, wanted)
            gradients = [
                torch.autograd.grad([t.sum() for t in each], x) for each in (found, wanted)
            ]
            torch.testing.assert_close(*gradients)
