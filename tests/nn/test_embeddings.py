"""Sums of rows by words, against sums in float64."""

import pytest
import torch

from warpsmith import knobs
from warpsmith.nn import embeddings
from warpsmith.nn.embeddings import RUN, summed

KINDS = [torch.bfloat16, torch.float32, torch.float64]


def check(words: torch.Tensor, rows: int, padding: int, dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(words.numel())
    dy = torch.randn(*words.shape, 8, generator=draw).to(dtype)
    wide = dy.double().reshape(-1, 8)
    expected = torch.zeros(rows, 8, dtype=torch.float64).index_add_(0, words.reshape(-1), wide)
    if padding >= 0:
        expected[padding] = 0
    found = summed(dy, words, rows, padding)
    assert found.dtype is dtype
    eps = torch.finfo(torch.float32 if dtype is torch.bfloat16 else dtype).eps
    magnitude = torch.zeros(rows, 8).double().index_add_(0, words.reshape(-1), wide.abs())
    error = (found.double() - expected).abs() - torch.finfo(dtype).eps * expected.abs()
    assert (error <= 8 * eps * magnitude).all()


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize(
    "counts",
    [
        [0, 3, 0, 1, 0],
        [RUN, RUN + 1, 0, RUN - 1],
        [5, 7 * RUN, 1, 2 * RUN + 3],
        [1] * 40,
        [RUN * RUN + 9],
        [0, 0, 1],
    ],
    ids=lambda counts: f"{len(counts)}-{max(counts)}",
)
def test_runs_of_any_length_are_summed(counts: list[int], dtype: torch.dtype) -> None:
    words = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    words = words[torch.randperm(len(words), generator=torch.Generator().manual_seed(0))]
    with knobs.scope(device="reference"):
        for padding in (-1, words[0].item()):
            check(words, len(counts), int(padding), dtype)


def test_kernels_sum_rows_of_words_in_several_dimensions() -> None:
    draw = torch.Generator().manual_seed(0)
    check(torch.randint(3, (2, 60), generator=draw), 70_000, 1, torch.bfloat16)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_torch_sums_what_is_too_few_or_too_much(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(embeddings, "FEW", 2)
    monkeypatch.setattr(embeddings, "MOST", 4)
    ours = []
    monkeypatch.setattr(embeddings, "_sums", lambda rows, at: ours.append(at) or rows)
    monkeypatch.setattr(embeddings, "_rows", lambda *given: torch.ones(9, 8))
    found = embeddings.SUMMED(torch.ones(count, 8), torch.arange(count) + 1, 9, -1)
    assert bool(ours) == (count == 3)
    assert found[0].any() == (count == 3)


def test_no_words_leave_zeros() -> None:
    found = summed(torch.zeros(0, 8), torch.zeros(0, dtype=torch.int64), 3, -1)
    assert found.shape == (3, 8)
    assert not found.any()
