"""Group norms written by hand: rows that a view merges of channels, heights and widths."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F  # noqa: N812  # torch's own name for it

from tests.support.binaries import uncompiled
from tests.torch_backend.graphs import compiled
from warpsmith.torch_backend.backend import backend
from warpsmith.torch_backend.decompositions import decompositions
from warpsmith.torch_backend.parted import keep_parts

Program = Callable[[Tensor, Tensor, Tensor], list[Tensor]]


def by_hand(x: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
    y = x.view(x.shape[0], 4, -1).float()
    y = (y - y.mean(2, keepdim=True)) * torch.rsqrt(y.var(2, keepdim=True, unbiased=False) + 1)
    return [y.to(x.dtype).view(x.shape) * w[:, None, None] + b[:, None, None]]


def by_rows(x: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
    """What is left besides is of rows as they were."""
    rows = x.view(x.shape[0], 4, -1)
    y = F.layer_norm(rows, rows.shape[-1:])
    return [y.view(x.shape) * w[:, None, None], y.sum(1), rows.amax(2, keepdim=True)]


def without_channels(x: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
    y = x.view(x.shape[0], 4, -1)
    return [(y - y.mean(2, keepdim=True)).view(x.shape) * 2]


def without_rows(x: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
    return [(x.view(x.shape[0], 4, -1) * 2).view(x.shape) * w[:, None, None]]


def of_columns(x: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
    y = x.view(x.shape[0], 4, -1)
    return [(y - y.mean(1, keepdim=True)).view(x.shape) * w[:, None, None]]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("program", "parted"),
    [
        (by_hand, True),
        (by_rows, True),
        (without_channels, False),
        (without_rows, False),
        (of_columns, False),
    ],
)
def test_rows_that_meet_channels_are_kept_in_parts(program: Program, parted: bool) -> None:
    inputs = torch.randn(2, 8, 3, 5), torch.randn(8), torch.randn(8)
    table = dict(decompositions())
    module = make_fx(program, decomposition_table=table, tracing_mode="fake")(*inputs)
    keep_parts(module.graph)
    module.graph.lint()
    module.recompile()
    views = [node.meta["val"].shape for node in module.graph.nodes if "view" in node.name]
    assert ((2, 4, 2, 3, 5) in views) == parted
    torch.testing.assert_close(module(*inputs), program(*inputs))


def test_gradients_of_such_are_right() -> None:
    inputs = [t.requires_grad_() for t in (torch.randn(2, 8, 3, 5), torch.randn(8), torch.randn(8))]
    fast = torch.compile(by_hand, backend=backend)
    found, wanted = (
        torch.autograd.grad(f(*inputs)[0].sin().sum(), inputs) for f in (fast, by_hand)
    )
    torch.testing.assert_close(found, wanted)


def test_their_vectors_are_stored_whole() -> None:
    """And each reads one number of its channel."""
    given = torch.empty(2, 64, 36, 36, dtype=torch.bfloat16), *[torch.empty(64).bfloat16()] * 2
    (program,) = compiled(by_hand, *given, device="sim").programs
    assert program is not None
    values = [torch.empty(node.meta["val"].shape, dtype=torch.bfloat16) for node in program.inputs]
    with uncompiled() as found:
        program.executable_for(values).plan_for(values)
    (text,) = found
    assert "ws_store(" in text[text.index('extern "C"') :]
