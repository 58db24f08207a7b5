"""Kernels convert 8-bit floats and integers as PyTorch does, on the simulator, bit for bit."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support.against_torch import FLOAT8S, TORCH, random
from warpsmith import DataType, fuse, knobs, ops

FLOAT8, FLOAT, INT8 = DataType.Float8_e4m3fn, DataType.Float, DataType.Int8
BYTES = torch.arange(256, dtype=torch.uint8)


def ran(function: Callable[..., Any], *args: Any) -> torch.Tensor:
    """The function's result by the kernel that it becomes."""
    with knobs.scope(device="sim"):
        result: torch.Tensor = fuse(function)(*args)
    return result


def same(got: torch.Tensor, want: torch.Tensor) -> None:
    """One type and one value each; a NaN is a NaN."""
    assert got.dtype is want.dtype
    torch.testing.assert_close(got.double(), want.double(), rtol=0, atol=0, equal_nan=True)
    signs = ~want.double().isnan()
    assert torch.equal(got.double().signbit()[signs], want.double().signbit()[signs])


@pytest.mark.few(4)
@pytest.mark.parametrize("target", [FLOAT, DataType.Double, DataType.Half, DataType.Bool], ids=str)
@pytest.mark.parametrize("dtype", FLOAT8S, ids=str)
def test_every_float8_is_widened(dtype: DataType, target: DataType) -> None:
    x = BYTES.view(TORCH[dtype])
    same(ran(lambda t: ops.cast(t, target), x), x.to(TORCH[target]))


@pytest.mark.parametrize("target", FLOAT8S, ids=str)
@pytest.mark.parametrize("dtype", FLOAT8S, ids=str)
def test_every_float8_becomes_the_other(dtype: DataType, target: DataType) -> None:
    x = BYTES.view(TORCH[dtype])
    same(ran(lambda t: ops.cast(t, target), x), x.float().to(TORCH[target]))


def hard(dtype: DataType) -> torch.Tensor:
    """Floats that are, lie between or lie next to those of a type, or that it does not hold."""
    values = BYTES.view(TORCH[dtype]).float()
    finite = values[values.isfinite()].sort().values
    ties = (finite[1:] + finite[:-1]) / 2  # a float holds them exactly
    largest = finite[-1] * torch.tensor([1.03, 1.0357, 1.036, 1.0715, 2, 1e30])
    beyond = torch.tensor([float("inf"), float("nan"), 464.0, 61440.0, 1e-45, 2.0**-11, 2.0**-18])
    near = torch.cat([finite, ties, largest, beyond])
    beside = [torch.nextafter(near, torch.full_like(near, to)) for to in (torch.inf, -torch.inf)]
    found = torch.cat([near, *beside])
    return torch.cat([found, -found])


def rounded(x: torch.Tensor, dtype: DataType) -> torch.Tensor:
    """PyTorch's conversion. Beyond 448, e4m3's largest, PyTorch gave NaN before it gave that."""
    if dtype is DataType.Float8_e4m3fn and x.dtype.is_floating_point:
        x = x.clamp(-448, 448)
    return x.to(TORCH[dtype])


@pytest.mark.parametrize("dtype", FLOAT8S, ids=str)
def test_floats_are_rounded_to_even(dtype: DataType) -> None:
    x = hard(dtype)
    same(ran(lambda t: ops.cast(t, dtype), x), rounded(x, dtype))


@pytest.mark.parametrize("source", [DataType.Double, DataType.Half, DataType.BFloat16], ids=str)
@pytest.mark.parametrize("dtype", FLOAT8S, ids=str)
def test_other_floats_come_by_way_of_float(dtype: DataType, source: DataType) -> None:
    x = hard(dtype).to(TORCH[source])
    same(ran(lambda t: ops.cast(t, dtype), x), rounded(x, dtype))


@pytest.mark.parametrize("source", [DataType.Int, DataType.Int32, INT8, DataType.Bool], ids=str)
@pytest.mark.parametrize("dtype", FLOAT8S, ids=str)
def test_integers_become_float8(dtype: DataType, source: DataType) -> None:
    x = torch.arange(-600, 600).to(TORCH[source])
    same(ran(lambda t: ops.cast(t, dtype), x), x.to(TORCH[dtype]))


@pytest.mark.parametrize("dtype", [*FLOAT8S, DataType.UInt8, DataType.Int16], ids=str)
def test_vectors_of_few_bytes_are_one_access(dtype: DataType) -> None:
    x = torch.zeros(4096, dtype=TORCH[dtype])
    compiled = fuse(lambda t: ops.set(t)).lower(x).compile()
    assert re.search(r"ld\.global\.nc\S*\.v4\.b32", compiled.asm["ptx"])
    assert "st.global.v4.b32" in compiled.asm["ptx"]


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [*FLOAT8S, INT8], ids=str)
def test_rows_columns_and_squares(dtype: DataType) -> None:
    """Every scheduler takes bytes: rows that stay, reductions both ways, a transposed input."""
    x, y = random((33, 40), dtype), random((40, 33), dtype, 1)
    wide = x.to(torch.int32 if dtype is INT8 else torch.float32)

    same(ran(lambda t: ops.sum(t, [1], dtype=FLOAT), x), wide.float().sum(1))
    same(ran(lambda t: ops.max(t, [0]), x), wide.amax(0).to(x.dtype))
    moved = wide + y.to(wide.dtype).T
    same(ran(lambda a, b: ops.add(a, ops.transpose(b)), x, y), moved.to(x.dtype))

    def centred(t: Any) -> Any:
        u = ops.cast(t, FLOAT)
        return ops.cast(u - ops.max(u, [1], keepdim=True), dtype)

    same(ran(centred, x), (wide.float() - wide.float().amax(1, keepdim=True)).to(x.dtype))


@pytest.mark.parametrize("dtype", [DataType.Half, *FLOAT8S, INT8], ids=str)
def test_scalars_of_a_narrow_type_are_of_it(dtype: DataType) -> None:
    """They are computed in Float or Int32 as tensors are, and rounded or wrapped then."""
    number = 100 if dtype is INT8 else 1.07

    def filled(t: Any, number: Any) -> Any:
        narrow = ops.cast(number, dtype)
        return ops.full_like(t, ops.add(narrow, narrow), dtype=dtype)

    narrow = torch.tensor(number).to(TORCH[dtype])
    wide = narrow + narrow if dtype is INT8 else narrow.float() + narrow.float()
    same(ran(filled, torch.ones(3), number), wide.to(TORCH[dtype]).expand(3))
