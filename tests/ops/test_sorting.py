"""Orders and what is written by indices: PyTorch's, the same bits every time, on kernels too."""

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.against_torch import DTYPES, defined, random, results
from tests.support.rebuilding import rebuilt
from warpsmith import FusionDefinition, fuse, ops
from warpsmith.errors import ArgumentError, DefinitionError, PlanWarning, SimulationError
from warpsmith.ir.dtypes import DataType
from warpsmith.knobs import scope

EDGES = [float("nan"), 0.0, -0.0, float("inf"), -float("inf"), 1e-40, -1e-40, 3.0, float("nan")]
ROWS = torch.tensor([[*EDGES, 3.0], [2.0, -1.5, 2.0, -float("inf"), 7.0, 0.0, -7.0, 2.0, 1.0, 1.0]])


@pytest.mark.few(10)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_orders_are_those_of_torch(dtype: DataType, descending: bool) -> None:
    for x, dim in ((random((5, 7), dtype), 0), (random((2, 9), dtype, 1), -1)):
        got = results(lambda x, dim=dim: ops.sort(x, dim, descending), x)
        want = torch.sort(x, dim=dim, descending=descending, stable=True)
        assert torch.equal(got[0], want.values)
        assert torch.equal(got[1], want.indices)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_numbers_that_are_none_come_last_and_zeros_are_one(dtype: torch.dtype) -> None:
    x = ROWS.to(dtype)
    for descending in (False, True):
        (got,) = results(lambda x, d=descending: ops.argsort(x, -1, d), x)
        assert torch.equal(got, torch.argsort(x, dim=-1, descending=descending, stable=True))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [0, 1, 3, 10])
def test_the_largest_come_in_order(k: int, largest: bool) -> None:
    """Of equal ones the first: PyTorch's choice among them depends on the device."""
    order = torch.argsort(ROWS, dim=-1, descending=largest, stable=True)[:, :k]
    values, places = results(lambda x: ops.topk(x, k, -1, largest), ROWS)
    assert torch.equal(places, order)
    torch.testing.assert_close(values, ROWS.gather(1, order), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [DataType.Int16, DataType.Int8, DataType.UInt8])
def test_more_of_them_are_sorted(dtype: DataType) -> None:
    x = random((3, 40), dtype) * 31
    values, _ = results(lambda x: ops.topk(x, 20), x)
    assert torch.equal(values, x.topk(20).values)


@pytest.mark.parametrize("k", [6, 20])
def test_a_call_has_so_many(k: int) -> None:
    """Found one after the other, and by sorting."""
    few, found = torch.ones(3, 5), defined(lambda x: ops.topk(x, k)[1], torch.ones(3, k))
    assert (found.execute([torch.ones(3, k)])[0] == torch.arange(k)).all()
    for call in (lambda: fuse(lambda x: ops.topk(x, k)[1])(few), lambda: found.execute([few])):
        with pytest.raises(ArgumentError, match=rf"WS0318.*is 5, and must be {k} or more"):
            call()


def test_one_number_is_in_order() -> None:
    x = torch.tensor(2.5)
    for dim in (0, -1):
        found = results(lambda t, d=dim: ops.sort(t, d, True), x)
        assert [each.tolist() for each in found] == [2.5, 0]
        assert [each.dtype for each in found] == [each.dtype for each in torch.sort(x, dim)]


def test_kernels_of_orders() -> None:
    x = ROWS.to(torch.bfloat16)
    f = fuse(lambda x: (*ops.sort(x), *ops.topk(x, 3)))
    want = torch.sort(x, dim=-1, stable=True)
    values, order, top, places = f(x)
    torch.testing.assert_close(values, want.values, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(order, want.indices)
    last = torch.argsort(x, dim=-1, descending=True, stable=True)[:, :3]
    assert torch.equal(places, last)
    torch.testing.assert_close(top, x.gather(1, last), rtol=0, atol=0, equal_nan=True)


def test_bits_are_sorted_by_kernels_that_are_alike() -> None:
    compiled = fuse(lambda x: ops.argsort(x)).lower(torch.zeros(4, 99, dtype=torch.int32)).compile()
    assert compiled.explain().startswith("33 kernels")
    names = re.findall(r"(\w+_[0-9a-f]{10})\(", compiled.asm["cuda"])
    assert len(names) == 33
    assert len(set(names)) == 5


INDEX = torch.tensor([[0, 3, 3], [2, 3, 1], [0, 0, 1], [2, 2, 2], [3, 0, 2], [0, 1, 1]])
SOURCE = torch.randn(6, 3, generator=torch.manual_seed(0))
TARGET = torch.randn(4, 3, generator=torch.manual_seed(1))
ROW = INDEX[:, 0].contiguous()
Writes = tuple[Callable[..., Any], Callable[..., Any], tuple[torch.Tensor, ...]]
WRITES: dict[str, Writes] = {
    "scatter": (
        lambda x, i, s: ops.scatter(x, i, s, 0),
        lambda x, i, s: x.scatter(0, i, s),
        (TARGET, INDEX, SOURCE),
    ),
    "scatter a number": (
        lambda x, i: ops.scatter(x, i, 2.5, 1),
        lambda x, i: x.scatter(1, i, 2.5),
        (TARGET.T.contiguous(), INDEX.T.contiguous()),
    ),
    "scatter_add": (
        lambda x, i, s: ops.scatter_add(x, i, s, 1),
        lambda x, i, s: x.scatter_add(1, i, s),
        (TARGET.T.contiguous(), INDEX.T.contiguous(), SOURCE.T.contiguous()),
    ),
    "index_add": (
        lambda x, i, s: ops.index_add(x, i, s, 0),
        lambda x, i, s: x.index_add(0, i, s),
        (TARGET, ROW, SOURCE),
    ),
    "index_copy": (
        lambda x, i, s: ops.index_copy(x, i, s, 0),
        lambda x, i, s: x.index_copy(0, i, s),
        (TARGET, ROW, SOURCE),
    ),
    "embedding_backward": (
        lambda s, i: ops.embedding_backward(s, i, 5, 2),
        lambda s, i: torch.ops.aten.embedding_dense_backward(s, i, 5, 2, False),
        (SOURCE.view(2, 3, 3), ROW.view(2, 3)),
    ),
    "no rows that are copied": (
        lambda x, i, s: ops.index_copy(x, i, s, 0),
        lambda x, i, s: x.index_copy(0, i, s),
        (TARGET, ROW[:0], SOURCE[:0]),
    ),
    "no indices": (
        lambda x, i, s: ops.index_add(x, i, s, 0),
        lambda x, i, s: x.index_add(0, i, s),
        (TARGET, ROW[:0], SOURCE[:0]),
    ),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("device", ["reference", "auto"])
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_what_is_written(name: str, static: bool, device: Any) -> None:
    ours, theirs, arrays = WRITES[name]
    with scope(device=device):
        (got,) = defined(ours, *arrays, static=static).execute(list(arrays))
    torch.testing.assert_close(got, theirs(*arrays), rtol=1e-6, atol=1e-6)


SUMMED = (DataType.Int8, DataType.UInt8, DataType.BFloat16, DataType.Int, DataType.Double)


@pytest.mark.parametrize("dtype", SUMMED)
def test_types_of_sums(dtype: DataType) -> None:
    x, s = random((4, 3), dtype), random((6, 3), dtype, 1)
    (got,) = results(lambda x, i, s: ops.index_add(x, i, s, 0), x, ROW, s)
    torch.testing.assert_close(got, x.index_add(0, ROW, s))


def test_sums_have_the_same_bits_every_time() -> None:
    """They are summed in an order that the indices alone say: kernels are, too, on the GPU."""
    values = torch.randn(300, 2, generator=torch.manual_seed(2)) * 1e3
    same = torch.zeros(300, dtype=torch.int64)
    f = fuse(lambda s, i: ops.embedding_backward(s, i, 2))
    first = f(values, same)
    assert torch.equal(first, f(values, same))
    torch.testing.assert_close(first[0], values.double().sum(0).float(), rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("wrong", [4, -1])
def test_an_index_that_no_place_has(wrong: int) -> None:
    index = ROW.clone()
    index[3] = wrong
    f = fuse(lambda x, i, s: ops.index_add(x, i, s, 0))
    with scope(device="reference"), pytest.raises(ArgumentError, match="WS0319"):
        f(TARGET, index, SOURCE)
    with scope(device="sim"), pytest.raises(SimulationError, match="trap"):
        f(TARGET, index, SOURCE)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x, i: ops.topk(x, 6), "WS0185.*5 elements"),
        (lambda x, i: ops.topk(x, -1), "WS0185"),
        (lambda x, i: ops.scatter_add(x > 0, i, 1, 0), "WS0186"),
        (lambda x, i: ops.index_add(x, i, x, 0), "WS0187.*indices of 1"),
        (lambda x, i: ops.scatter(x, i[0], x, 0), "WS0187.*indices of 2"),
        (lambda x, i: ops.scatter(x, x, x, 0), "WS0178"),
        (lambda x, i: ops.scatter(x, i[:, :1], x, 0), "WS0180.*dimension 1"),
    ],
)
def test_refusals(function: Callable[..., Any], said: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([3, 5], True)
        i = fd.define_tensor([3, 5], True, DataType.Int)
        with pytest.raises(DefinitionError, match=said):
            function(x, i)
        fd.add_output(x + i)


@pytest.mark.parametrize("name", ["scatter_add", "index_copy"])
def test_printed_programs_write_the_same(name: str) -> None:
    function, _, arrays = WRITES[name]
    first = defined(function, *arrays)
    second = rebuilt(repr(first))
    with scope(device="reference"):
        assert torch.equal(first.execute(list(arrays))[0], second.execute(list(arrays))[0])


def test_counts_in_rows_that_ascend() -> None:
    rows, wanted = np.array([[1, 2, 2, 5], [0, 0, 0, 9]]), np.array([[2, 0], [0, 10]])
    (got,) = defined(ops.count_up_to, *map(torch.from_numpy, (rows, wanted))).execute(
        [rows, wanted]
    )
    assert np.array_equal(got, [[3, 0], [3, 4]])


def test_what_is_written_to_one_element_is_one_by_definition() -> None:
    """So that it is expanded, as what it was written to is."""
    x, index, src = torch.zeros(1), torch.tensor([0, 0]), torch.tensor([2.0, 3.0])
    with FusionDefinition() as fd:
        given = fd.define_tensor([1], True), *map(fd.from_pytorch, (index, src))
        fd.add_output(ops.expand(ops.index_add(*given, 0), [4]))
    (got,) = fd.execute([x, index, src])
    assert got.tolist() == [5.0] * 4


def test_products_in_16_bits_are_added_where_indices_say() -> None:
    """They are read at other places as they lie in memory: no kernel widened them before."""

    def added(x: Any, weight: Any, index: Any) -> Any:
        return ops.index_add(ops.cast(x, DataType.BFloat16), index, ops.linear(x, weight), 0)

    x, weight = random((6, 8), DataType.BFloat16), random((8, 8), DataType.BFloat16, 1)
    index = torch.tensor([0, 5, 5, 2, 5, 0])
    want = x.double().index_add(0, index, x.double() @ weight.double().T)
    with scope(device="sim"):
        got = fuse(added)(x, weight, index)
    torch.testing.assert_close(got.double(), want, rtol=2**-7, atol=2**-6)


def test_a_sum_beside_what_is_written() -> None:
    """Reads of the sum's kernel come early, and so does what tells their places, and others more:
    else one loop waited for another, and that one for it.
    """

    def both(x: Any, index: Any, src: Any) -> Any:
        written = ops.scatter(x, index, src, 0)
        return ops.sum(x, [0], keepdim=True), written

    x, index, src = random((8,), DataType.Float), torch.tensor([3, 3]), random((2,), DataType.Float)
    with scope(device="sim"), warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        total, got = fuse(both)(x, index, src)
    torch.testing.assert_close(total, x.sum(0, keepdim=True))
    torch.testing.assert_close(got, x.index_copy(0, index[:1], src[1:]))
