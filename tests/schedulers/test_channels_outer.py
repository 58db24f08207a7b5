"""Rows that lie in several pieces, as a channel of `[N, C, H, W]` does."""

import numpy as np
import pytest

from tests.support.launching import check_automatic, random_inputs
from tests.support.program import Program
from warpsmith.ir.dtypes import DataType
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows import applicability
from warpsmith.schedulers.rows import columns as rows_and_columns
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.select import refusals, select
from warpsmith.targets.hopper import H200

BF16, FLOAT = DataType.BFloat16, DataType.Float
OVER = [True, False, True, True]
LONG_PIECES = (("parts", "its pieces are long"),)
"""Who has rows in narrow pieces, which are tested in test_parts.py, and why not these."""


def batch_norm(dtype: DataType) -> Program:
    p = Program()
    x = p.cast(p.input(dtype, (None,) * 4), FLOAT)
    mean, m2, count = p.welford(x, [0, 2, 3])
    variance = p.op("div", m2, count)
    scale = p.op("mul", p.op("rsqrt", p.op("add", variance, 1e-5)), p.input(FLOAT, (None,)))
    normal = p.op("mul", p.op("sub", x, p.broadcast(mean, OVER)), p.broadcast(scale, OVER))
    p.output(p.cast(normal, dtype))
    return p.output(mean, variance)


def arrays_of(p: Program, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    names = [t.name for t in p.fusion.input_tensors]
    return random_inputs(p.fusion, dict(zip(names, (shape, shape[1:2]), strict=True)))


@pytest.mark.few(4)
@pytest.mark.parametrize("dtype", [BF16, FLOAT])
@pytest.mark.parametrize(
    "shape", [(1, 3, 2, 4), (3, 2, 3, 3), (4, 3, 4, 10), (5, 2, 8, 33)], ids=str
)
def test_one_kernel_and_right(shape: tuple[int, ...], dtype: DataType) -> None:
    p = batch_norm(dtype)
    terms = 64 * shape[0] * shape[2] * shape[3]
    candidate, _ = check_automatic(p.fusion, arrays_of(p, shape), terms=terms, without=LONG_PIECES)
    assert candidate.scheduler == "inner_persistent"


def test_two_kept_dimensions_between_pieces() -> None:
    p = Program()
    x = p.input(FLOAT, (None,) * 5)
    total = p.broadcast(p.reduce("sum", x, [0, 2, 4]), [True, False, True, False, True])
    p.output(p.op("sub", x, total))
    arrays = random_inputs(p.fusion, {"T0": (2, 3, 2, 2, 12)})
    candidate, _ = check_automatic(p.fusion, arrays, terms=48, without=LONG_PIECES)
    assert candidate.scheduler == "inner_persistent"


def test_a_place_in_pieces_takes_registers() -> None:
    """Rows of as many elements get fewer accesses a thread where they lie in pieces. Of 510
    channels, no vectors go across the ends of pieces.
    """

    def chosen(batch: int, side: int) -> RowParams:
        sizes = {"T0_size0": batch, "T0_size1": 510, "T0_size2": side, "T0_size3": side}
        fusion = batch_norm(BF16).fusion
        sizes |= {f"{tensor.name}_size0": 510 for tensor in fusion.input_tensors[1:]}
        params, _ = select(fusion, H200, refusals(fusion, H200, LONG_PIECES)).choose(
            Problem(values=sizes, alignment={}, target=H200)
        )
        assert isinstance(params, RowParams)
        return params

    assert chosen(64, 7).vector == 1
    assert chosen(64, 7).unroll <= 24
    assert chosen(256, 14).vector == 4


def test_rows_beside_sums_of_columns_lie_in_one_piece() -> None:
    """What loops over rows copies whole ones."""
    fusion = batch_norm(BF16).fusion
    assert not applicability.refusal(fusion)
    assert "reduces dimensions that are not rows" in applicability.whole_rows_refusal(fusion)
    assert rows_and_columns.refusal(fusion)
