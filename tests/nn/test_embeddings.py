"""Sums of rows by words, against sums in float64."""

import pytest
import torch

from warpsmith import knobs
from warpsmith.nn import embeddings
from warpsmith.nn.embeddings import ADDED, CHUNK, PART, RUN, add_sums, summed

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


@pytest.mark.few(11)
@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize(
    "counts",
    [
        [0, 3, 0, 1, 0],
        [RUN, RUN + 1, 0, RUN - 1],
        [5, 7 * RUN, 1, 2 * RUN + 3],
        [PART, PART + 1, 3, 0, RUN + PART, RUN + PART + 1, 2, 2 * RUN - 1, PART - 1],
        [1] * 40,
        [CHUNK + 9, CHUNK + PART, CHUNK - 1, CHUNK, 3 * CHUNK + RUN + 1, CHUNK + RUN, 2],
        [0, 0, 1],
    ],
    ids=lambda counts: f"{len(counts)}-{max(counts)}",
)
def test_runs_of_any_length_are_summed(counts: list[int], dtype: torch.dtype) -> None:
    words = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    words = words[torch.randperm(len(words), generator=torch.Generator().manual_seed(0))]
    with knobs.scope(device="reference"):
        check(words, len(counts), -1, dtype)
        check(words, len(counts) + words.numel(), int(words[0]), dtype)  # by parts


def test_kernels_sum_rows_of_words_in_several_dimensions() -> None:
    draw = torch.Generator().manual_seed(0)
    check(torch.randint(3, (2, 60), generator=draw), 70_000, 1, torch.bfloat16)
    check(torch.randint(3, (2, 60), generator=draw), 5, 1, torch.bfloat16)


@pytest.mark.few(2)
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


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("width", [8, 5])  # copied as integers, and as they are
def test_sums_are_added_to_rows_that_have_a_word(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, width: int
) -> None:
    draw = torch.Generator().manual_seed(width)
    counts = torch.tensor([0, 3 * RUN + 1, 1, 0, RUN, 2])
    words = torch.repeat_interleave(torch.arange(6), counts)
    words = words[torch.randperm(len(words), generator=draw)].reshape(2, -1)
    dy, into = (torch.randn(n, width, generator=draw).to(dtype) for n in (words.numel(), 6))
    expected = into.double().index_add(0, words.reshape(-1), dy.double())
    expected[4] = into[4]  # of padding
    tolerance = 2 * RUN * torch.finfo(dtype).eps
    for few in (0, 1 << 20):  # by kernels, and by torch
        monkeypatch.setattr(embeddings, "FEW", few)
        with knobs.scope(device="reference"):
            whole = ADDED(into, dy.view(2, -1, width), words, 4)
            found = add_sums(given := into.clone(), dy.view(2, -1, width), words, 4)
        assert found is given
        assert torch.equal(found, whole)
        assert torch.equal(found[[0, 3, 4]], into[[0, 3, 4]])
        torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


def test_no_words_leave_zeros() -> None:
    found = summed(torch.zeros(0, 8), torch.zeros(0, dtype=torch.int64), 3, -1)
    assert found.shape == (3, 8)
    assert not found.any()
