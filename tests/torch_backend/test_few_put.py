"""What is put at a few places of each row is chosen by the elements that are there."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from tests.torch_backend.graphs import compiled
from warpsmith.torch_backend import few_put
from warpsmith.torch_backend.decompositions import decompositions

PUT = torch.ops.aten.index_put.default, torch.ops.aten.scatter_add.default


def chosen(x: Tensor, at: Tensor, far: Tensor, y: Tensor) -> list[Tensor]:
    each, one = torch.arange(6), torch.tensor(2.0)
    return [
        torch.zeros(6, 9, 4).index_put((each, at), y, accumulate=True),
        x.index_put((each, at), y[:, 0], accumulate=True),
        x.index_put((each, at), y[:, 1]),
        torch.zeros(6, 9).index_put((each, at), one),
        torch.zeros(6, 9).scatter_add(1, far, y),
        torch.zeros(6, 9, 4).scatter_add(
            -2, far[:, :, None].expand(-1, -1, 4), y[:, :, None].mul(torch.arange(4)[None, None])
        ),
        torch.zeros(3, 4).scatter_add(0, far[:, :4] % 3, y),
    ]


def left(x: Tensor, at: Tensor, far: Tensor, y: Tensor) -> list[Tensor]:
    each = torch.arange(6)
    return [
        x.index_put((each.flip(0), at), y[:, 0], accumulate=True),
        torch.zeros(7, 9).index_put((each, at), y[:, 0], accumulate=True),
        x.index_put((each, at), y[:1, 0], accumulate=True),
        x.scatter_add(1, far, y),
        torch.zeros(6, 9).scatter_add(1, far[:5], y),
        torch.zeros(6, 9).scatter_add(1, far.repeat(1, 3), y.repeat(1, 3)),
        torch.zeros(6, 9, dtype=torch.int64).scatter_add(1, far, far),
    ]


@pytest.mark.parametrize(("program", "count"), [(chosen, 0), (left, 7)])
def test_elements_ask_whether_they_are_there(
    monkeypatch: pytest.MonkeyPatch, program: Any, count: int
) -> None:
    monkeypatch.setattr(few_put, "_DEVICE", "cpu")
    draw = torch.Generator().manual_seed(0)
    at, far = torch.randint(-9, 9, (6,), generator=draw), torch.randint(9, (6, 4), generator=draw)
    given = [torch.randn(6, 9, generator=draw), at, far, torch.randn(6, 4, generator=draw)]
    module = make_fx(program, dict(decompositions()), tracing_mode="fake")(*given)
    expected = module(*given)
    few_put.put_by_choice(module.graph)
    module.graph.lint()
    module.recompile()
    assert sum(node.target in PUT for node in module.graph.nodes) == count
    torch.testing.assert_close(module(*given), expected)


def test_what_is_chosen_is_of_the_kernel_that_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def gradient(p: Tensor, top: Tensor, slopes: Tensor) -> list[Tensor]:
        given = torch.zeros_like(p).scatter_add(1, top, slopes)
        return [p * (given - (p * given).sum(1, keepdim=True))]

    monkeypatch.setattr(few_put, "_DEVICE", "cpu")
    p, slopes = torch.randn(6, 9), torch.randn(6, 2)
    top = p.topk(2).indices
    module = make_fx(gradient, dict(decompositions()), tracing_mode="fake")(p, top, slopes)
    few_put.put_by_choice(module.graph)
    module.recompile()
    made = compiled(module, p, top, slopes)
    assert len(made.programs) == 1
    torch.testing.assert_close(list(made.run([p, top, slopes])), gradient(p, top, slopes))
