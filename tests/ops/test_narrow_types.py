"""Float8 and Int8 have PyTorch's types and values; float8 is computed in Float where it refuses."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.against_torch import DTYPES, FLOAT8S, FLOATS, TORCH, check, random, results
from warpsmith import ops
from warpsmith.errors import DefinitionError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType, result_type
from warpsmith.ops.evaluate import evaluate
from warpsmith.ops.table import TABLE

FLOAT, INT8 = DataType.Float, DataType.Int8
ALL = (*DTYPES, *FLOAT8S)
PLACES = ("dimensioned", "zero_dim")


def torch_type(first: tuple[DataType, str], second: tuple[DataType, str]) -> torch.dtype | None:
    """PyTorch's type of two tensors together; None where it refuses them."""
    made = [
        torch.ones((2,) if place == "dimensioned" else (), dtype=TORCH[dtype])
        for dtype, place in (first, second)
    ]
    try:
        return torch.result_type(*made)
    except RuntimeError:
        return None


@pytest.mark.parametrize("a", ALL, ids=str)
def test_promotion(a: DataType) -> None:
    for b, place, other in itertools.product(ALL, PLACES, PLACES):
        groups: dict[str, list[DataType]] = {name: [] for name in PLACES}
        groups[place].append(a)
        groups[other].append(b)
        given = tuple(groups["dimensioned"]), tuple(groups["zero_dim"])
        expected = torch_type((a, place), (b, other))
        if expected is None:
            with pytest.raises(DefinitionError, match=r"WS0145.*have no common type; cast one"):
                result_type(*given)
        else:
            assert TORCH[result_type(*given)] is expected


@pytest.mark.parametrize("dtype", FLOAT8S, ids=str)
def test_numbers_do_not_promote(dtype: DataType) -> None:
    x = random((3, 4), dtype)
    for number in (True, 3, 2.5):
        (found,) = results(lambda t: ops.mul(t, number), x)  # noqa: B023  # called at once
        torch.testing.assert_close(found.float(), (x.float() * number).to(x.dtype).float())
        assert found.dtype is x.dtype


BY_TORCH: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] = (
    (lambda t: ops.mul(t, t), lambda t: t * t),
    (lambda t: ops.eq(t, t), lambda t: t == t),
    (lambda t: ops.abs(t), torch.abs),
    (lambda t: ops.isnan(t), torch.isnan),
    (lambda t: ops.where(ops.gt(t, 0), t, t), lambda t: torch.where(t.float() > 0, t, t)),
    (lambda t: ops.transpose(t), lambda t: t.T),
    (lambda t: ops.sum(t, [1], dtype=FLOAT), lambda t: t.sum(1, dtype=torch.float)),
    (lambda t: ops.full_like(t, 3), lambda t: torch.full_like(t, 3)),
)


@pytest.mark.parametrize("which", range(len(BY_TORCH)))
@pytest.mark.parametrize("dtype", FLOAT8S, ids=str)
def test_what_torch_computes(which: int, dtype: DataType) -> None:
    ours, peer = BY_TORCH[which]
    x = random((5, 4), dtype)

    def wide(function: Callable[..., Any], t: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = function(t)
        return found

    (found,) = results(ours, x)
    expected = wide(peer, x)
    assert found.dtype is expected.dtype
    assert torch.equal(found.float(), expected.float())


@pytest.mark.few(43)
@pytest.mark.parametrize("name", sorted(TABLE))
def test_float8_is_computed_in_float_and_rounded(name: str) -> None:
    """What PyTorch refuses for float8, too; but the neighbour of a float8 is none of Float's."""
    op = TABLE[name]
    for dtype in FLOAT8S:
        narrow = [random((20,), dtype, seed) for seed in range(op.arity)]
        narrow[: op.conditions] = [random((20,), DataType.Bool)] * op.conditions
        if not op.supports(dtype):
            assert not op.supports(FLOAT) or name == "nextafter"
            continue
        function = getattr(ops, "where" if name == "where" else name)
        wide = [x if x.dtype is torch.bool else x.float() for x in narrow]
        (found,), (expected,) = results(function, *narrow), results(function, *wide)
        wanted = TORCH[op.result_dtype(dtype)]
        assert found.dtype is wanted
        torch.testing.assert_close(
            found.float(), expected.to(wanted).float(), rtol=0, atol=0, equal_nan=True
        )


def test_reductions_are_rounded_once() -> None:
    for dtype in FLOAT8S:
        x = random((6, 40), dtype)
        for op, peer in ((ops.sum, torch.sum), (ops.mean, torch.mean), (ops.max, torch.amax)):
            (found,) = results(lambda t: op(t, [1]), x)  # noqa: B023  # called at once
            expected = peer(x.float(), 1).to(x.dtype)
            assert found.dtype is x.dtype
            assert torch.equal(found.float(), expected.float())


def test_results_between_operations_are_not_rounded() -> None:
    x = torch.full((3,), 1.125).to(torch.float8_e4m3fn)
    (kept,) = results(lambda t: t * t - 1.25, x)
    assert (kept.float() == 2.0**-6).all()
    (rounded,) = results(lambda t: ops.cast(t * t, DataType.Float8_e4m3fn) - 1.25, x)
    assert not rounded.float().any()


@pytest.mark.few(40)
@pytest.mark.parametrize("target", ALL, ids=str)
@pytest.mark.parametrize("source", ALL, ids=str)
def test_cast(source: DataType, target: DataType) -> None:
    check(lambda t: ops.cast(t, target), lambda t: t.to(TORCH[target]), random((3, 2), source))


@pytest.mark.parametrize("dtype", FLOAT8S, ids=str)
def test_casts_round_as_torch(dtype: DataType) -> None:
    bits = np.arange(2**32, step=2**14 + 1, dtype=np.uint64).astype(np.uint32)
    for source in FLOATS:
        x = torch.from_numpy(bits.view(np.float32)).to(TORCH[source])
        (found,) = results(lambda t: ops.cast(t, dtype), x)
        expected = x.to(TORCH[dtype])
        nan = expected.isnan()
        assert torch.equal(found.isnan(), nan)
        assert torch.equal(found.view(torch.uint8)[~nan], expected.view(torch.uint8)[~nan])


def test_a_precise_value_saturates_too() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], dtype=FLOAT)
        fd.add_output(ops.cast(x, DataType.Float8_e4m3fn))
    given = np.array([1.1, 1000.0, -np.inf, np.nan], np.float32)
    (found,) = evaluate(fd.fusion, [given], precise=True)
    np.testing.assert_array_equal(found, [np.float64(np.float32(1.1)), 448.0, -448.0, np.nan])


def test_int8_wraps() -> None:
    x = torch.arange(-128, 128).to(torch.int8)
    y = x.flip(0)
    check(lambda a, b: (a + b) * 3, lambda a, b: (a + b) * 3, x, y)
    check(lambda a, b: ops.div(a * b, 3), lambda a, b: torch.div(a * b, 3, rounding_mode="trunc"),
          x, y)  # fmt: skip
    check(lambda a: ops.sum(a, dtype=INT8), lambda a: a.sum(dtype=torch.int8), x)
    check(lambda a: ops.prod(a + 3, dtype=INT8), lambda a: (a + 3).prod(dtype=torch.int8), x)
    check(lambda a, n: ops.add(a, n), lambda a, n: torch.add(a, n), x, 300)
    check(lambda a, n: ops.lt(a, n), lambda a, n: torch.lt(a, n), x, 300)


@pytest.mark.parametrize("dtype", [INT8, DataType.Int32, DataType.Int], ids=str)
def test_floor_division_of_the_lowest(dtype: DataType) -> None:
    lowest = torch.iinfo(TORCH[dtype]).min
    x = torch.tensor([lowest, lowest, lowest + 1, -7, 7, 7], dtype=TORCH[dtype])
    y = torch.tensor([3, -3, 2, 2, -2, 2], dtype=TORCH[dtype])
    check(ops.floor_divide, lambda a, b: a // b, x, y)


def test_logical_right_shift_of_int8() -> None:
    x = torch.arange(-128, 128).to(torch.int8)
    for count in (-1, 0, 1, 3, 7, 8, 31, 32, 100):
        (found,) = results(lambda a: ops.logical_right_shift(a, count), x)  # noqa: B023
        kept = x.view(torch.uint8).int() >> count if 0 <= count < 8 else torch.zeros(256).int()
        assert torch.equal(found, kept.to(torch.int8))


def test_constants_must_fit_int8() -> None:
    with pytest.raises(DefinitionError, match="constant 300 is outside the range of Int8"):
        results(lambda t: t + 300, random((3,), INT8))


@pytest.mark.parametrize("dtype", [*FLOAT8S, INT8], ids=str)
def test_ranges_are_refused(dtype: DataType) -> None:
    with FusionDefinition() as fd, pytest.raises(DefinitionError, match="WS0118.*iota got dtype"):
        fd.ops.iota(4, dtype=dtype)
