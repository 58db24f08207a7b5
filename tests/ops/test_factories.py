"""Tensors from scalars."""

from typing import Any

import pytest
import torch

from tests.support.against_torch import DTYPES, TORCH, check, defined, random
from warpsmith import ops
from warpsmith.errors import DefinitionError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Full, Iota


@pytest.mark.parametrize("dtype", DTYPES)
def test_full_like(dtype: DataType) -> None:
    x = random((3, 1), dtype)
    for value in (2, True, 1.0):
        check(lambda t, v=value: ops.full_like(t, v), lambda t, v=value: torch.full_like(t, v), x)
    check(ops.zeros_like, torch.zeros_like, x)
    check(ops.ones_like, torch.ones_like, x)


def test_full_of_sizes_and_scalars() -> None:
    def filled(t: Any, number: Any) -> Any:
        return ops.full([t.size(1), 1, 2], number, DataType.Float, fusion=t.fusion)

    x = random((3, 4), DataType.Int)
    check(filled, lambda t, n: torch.full((4, 1, 2), n), x, 2.5)


@pytest.mark.parametrize(("value", "dtype"), [(1, DataType.Int), (1.5, DataType.Float)])
def test_the_value_gives_the_type(value: float, dtype: DataType) -> None:
    fd = defined(lambda t: ops.full([2], value, fusion=t.fusion), torch.zeros(1))
    assert fd.fusion.outputs[0].value.dtype is dtype


@pytest.mark.parametrize("dtype", [DataType.Int, DataType.Int32, DataType.Float, DataType.Double])
def test_iota(dtype: DataType) -> None:
    check(
        lambda t: ops.iota(t.size(0), 3, -2, dtype, fusion=t.fusion),
        lambda t: (3 - 2 * torch.arange(t.shape[0])).to(TORCH[dtype]),
        torch.zeros(7),
    )
    check(
        lambda t, start: ops.iota(4, start, 1, dtype, fusion=t.fusion),
        lambda t, start: (start + torch.arange(4)).to(TORCH[dtype]),
        torch.zeros(7),
        9,
    )


def test_iota_of_one_element_can_be_broadcast() -> None:
    fd = defined(
        lambda t: ops.add(t, ops.iota(1, 5, 3, fusion=t.fusion)), random((4,), DataType.Int)
    )
    kinds = {type(operation) for operation in fd.fusion.operations}
    assert Full in kinds
    assert Iota not in kinds
    fd.validate([random((4,), DataType.Int)])


def test_errors() -> None:
    x = torch.zeros(2)
    with pytest.raises(DefinitionError, match="iota got dtype Half; use Int"):
        defined(lambda t: ops.iota(4, dtype=DataType.Half, fusion=t.fusion), x)
    with pytest.raises(DefinitionError, match="full got the tensor T0 where a scalar is needed"):
        defined(lambda t: ops.full([2], t, fusion=t.fusion), x)
    with pytest.raises(DefinitionError, match="full got -1 as an extent"):
        defined(lambda t: ops.full([-1], 0, fusion=t.fusion), x)
