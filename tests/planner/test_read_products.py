"""Reads of what lies behind a product."""

from __future__ import annotations

from typing import Any

import torch

from tests.support.binaries import uncompiled
from warpsmith import DataType, fuse, ops
from warpsmith.engine.executable import Executable


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).bfloat16() / 4


def scaled_loss(a: Any, b: Any, scale: Any, place: Any) -> Any:
    scores = ops.cast(ops.matmul(a, ops.transpose(b)), DataType.Float) * scale
    logs = scores - ops.max(scores, [1], keepdim=True)
    logs = logs - ops.log(ops.sum(ops.exp(logs), [1], keepdim=True))
    return ops.take_along_axis(logs, place, 1)


def test_a_logarithm_of_a_row_is_read_of_the_product_behind_it() -> None:
    """What lies between is computed again for one element of a row, and not stored for all."""
    arrays = drawn(40, 64), drawn(48, 64), torch.tensor(3.0), torch.arange(40)[:, None]
    with uncompiled():
        call = Executable(fuse(scaled_loss).lower(*arrays).fusion).plan_for(arrays)
    written = [tensor for planned in call.segments for tensor in planned.segment.writes]
    large = [t for t in written if len(t.concrete_order()) == 2 and not t.is_output]
    assert [t.dtype for t in large] == [DataType.BFloat16]
    a, b, scale, place = arrays
    scores = scale * (a.float() @ b.float().T).bfloat16().float()
    found = fuse(scaled_loss)(*arrays)
    torch.testing.assert_close(found, scores.log_softmax(1).gather(1, place), rtol=1e-4, atol=1e-4)
