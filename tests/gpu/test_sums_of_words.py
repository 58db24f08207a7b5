"""Rows that are added at computed places, on the GPU: right, and the same bits every time."""

import pytest
import torch
from torch import Tensor, nn

from warpsmith.nn.embeddings import summed
from warpsmith.torch_backend.backend import backend

COUNT = 5000


def words_of(kind: str, rows: int) -> Tensor:
    draw = torch.Generator().manual_seed(0)
    if kind == "equal":
        return torch.full((COUNT,), rows // 2)
    if kind == "few":  # most of a few rows
        return (torch.rand(COUNT, generator=draw) ** 8 * rows).long()
    return torch.randint(rows, (COUNT,), generator=draw)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("rows", [300, 70_000])
@pytest.mark.parametrize("kind", ["any", "few", "equal"])
def test_sums_are_the_same_every_time(kind: str, rows: int, dtype: torch.dtype) -> None:
    words = words_of(kind, rows).cuda()
    dy = torch.randn(COUNT, 24, device="cuda").to(dtype)
    found = summed(dy, words, rows, 0)
    wide = dy.double().masked_fill((words == 0)[:, None], 0)
    expected = torch.zeros(rows, 24, device="cuda", dtype=torch.float64)
    expected = expected.index_add(0, words, wide)
    eps = torch.finfo(torch.float32 if dtype is torch.bfloat16 else dtype).eps
    magnitude = torch.zeros_like(expected).index_add(0, words, wide.abs())
    error = (found.double() - expected).abs() - torch.finfo(dtype).eps * expected.abs()
    assert (error <= 16 * eps * magnitude).all()
    assert all(torch.equal(summed(dy, words, rows, 0), found) for _ in range(3))


class Messages(nn.Module):
    """What nodes get along edges, and two embeddings beside."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.kinds = nn.Embedding(999, 16), nn.Embedding(7, 16, padding_idx=2)
        self.layer = nn.Linear(16, 16)

    def forward(self, word: Tensor, kind: Tensor, source: Tensor, target: Tensor) -> Tensor:
        x = self.words(word) + self.kinds(kind)
        for _ in range(2):
            x = torch.zeros_like(x).index_add(0, target, torch.tanh(self.layer(x[source]))) + x
        return x.square().mean()


def test_messages_have_gradients_of_the_same_bits() -> None:
    torch.manual_seed(0)
    draws = ((999, 400), (7, 400), (400, COUNT), (400, COUNT))
    given = [torch.randint(n, (count,), device="cuda") for n, count in draws]
    model = Messages().cuda()
    call = torch.compile(model, backend=backend, dynamic=False)

    def gradients(run: object, *inputs: Tensor) -> list[Tensor]:
        model.zero_grad()
        run(*inputs).backward()  # type: ignore[operator]
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    first, second = (gradients(call, *given) for _ in range(2))
    assert all(map(torch.equal, first, second))
    torch.testing.assert_close(first, gradients(model, *given), rtol=1e-4, atol=1e-7)
