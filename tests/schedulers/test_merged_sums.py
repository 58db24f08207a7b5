"""Sums over dimensions that a reshape merges, of what is made of several such."""

from typing import Any

import torch

import warpsmith
from tests.support.against_torch import defined
from warpsmith import knobs, ops


def overlap(x: Any, y: Any) -> Any:
    """Of masks: sums of each, and of their product, which flattened rows have."""
    p, q = ops.reshape(ops.sigmoid(x), [3, 40]), ops.reshape(y * y, [3, 40])
    return 2 * ops.sum(p * q, [1]) / (ops.sum(p, [1]) + ops.sum(q, [1]))


def flat_overlap(x: Any, y: Any) -> Any:
    """One of the masks lies flattened."""
    p = ops.reshape(ops.sigmoid(x), [3, 40])
    return 2 * ops.sum(p * y, [1]) / (ops.sum(p, [1]) + ops.sum(y, [1]))


def test_all_are_sums_of_the_same_rows() -> None:
    x, y = torch.randn(2, 3, 5, 8)
    assert len(warpsmith.fuse(overlap).lower(x, y).compile().kernels) == 1
    assert len(warpsmith.fuse(flat_overlap).lower(x, y.view(3, 40)).compile().kernels) == 1
    with knobs.scope(device="sim"):
        (found,) = defined(overlap, x, y, static=True).execute([x, y])
    p, q = x.double().sigmoid().flatten(1), y.double().square().flatten(1)
    torch.testing.assert_close(found.double(), 2 * (p * q).sum(1) / (p.sum(1) + q.sum(1)))


def test_what_others_need_too_stays_where_it_is() -> None:
    def kept(x: Any, y: Any) -> Any:
        p, q = ops.reshape(ops.sigmoid(x), [3, 40]), ops.reshape(y * y, [3, 40])
        return ops.sum(p * q, [1]), p * q

    x, y = torch.randn(2, 3, 5, 8)
    with knobs.scope(device="sim"):
        found, product = defined(kept, x, y, static=True).execute([x, y])
    torch.testing.assert_close(found, product.sum(1))
