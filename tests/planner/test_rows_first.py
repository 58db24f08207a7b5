"""Sums of all that rows were normalized to: of each row first, where it is kept."""

from typing import Any

import numpy as np
import torch

import warpsmith
from tests.support.against_torch import defined
from tests.support.program import Program
from warpsmith import knobs, ops
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Reduction
from warpsmith.planner.rows_first import reduce_rows_first


def log_softmax(x: Any) -> Any:
    shifted = x - ops.max(x, [-1], keepdim=True)
    return shifted - ops.log(ops.sum(ops.exp(shifted), [-1], keepdim=True))


def divergence(x: Any, y: Any) -> Any:
    """One number of softmaxes of both."""
    found, wanted = log_softmax(x), log_softmax(y)
    return ops.sum(ops.exp(wanted) * (wanted - found), [0, 1])


def test_a_loss_of_softmaxes_reads_rows_once() -> None:
    x, y = torch.randn(2, 9, 300)
    lowered = warpsmith.fuse(divergence).lower(x, y).compile()
    assert [each.name.split("_")[0] for each in lowered.kernels] == ["inner", "reduction"]
    with knobs.scope(device="sim"):
        (found,) = defined(divergence, x, y).execute([x, y])
    wide = [each.double().log_softmax(-1) for each in (x, y)]
    exact = torch.nn.functional.kl_div(*wide, log_target=True, reduction="sum")
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def test_a_sum_of_what_such_a_sum_scales() -> None:
    """The first is cut, and the other one is asked after dimensions that it had."""

    def scaled(x: Any) -> Any:
        shares = x / ops.sum(x, [1], keepdim=True)
        return ops.sum(shares * ops.sum(shares * shares))

    x = torch.rand(5, 7)
    shares = x / x.sum(1, keepdim=True)
    with knobs.scope(device="sim"):
        (found,) = defined(scaled, x).execute([x])
    torch.testing.assert_close(found, (shares * (shares * shares).sum()).sum())


def test_what_was_not_reduced_before_is_reduced_at_once() -> None:
    def left(most: tuple[int, ...], total: tuple[int, ...]) -> int:
        p = Program()
        x = p.input(DataType.Float, (None, None, None))
        kept = p.broadcast(p.reduce("max", x, most), [dim in most for dim in range(3)])
        p.output(p.reduce("sum", p.op("sub", x, kept), total))
        reduce_rows_first(p.fusion)
        return sum(isinstance(op, Reduction) for op in p.fusion.operations)

    assert left((2,), (0, 1, 2)) == left((1, 2), (0, 1, 2)) == left((2,), (1, 2)) == 3
    assert left((2,), (0, 1)) == left((2,), (2,)) == left((1, 2), (1, 2)) == 2
