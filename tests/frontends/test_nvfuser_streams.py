"""Loops on streams: products in pieces, by PyTorch."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from warpsmith.errors import WarpsmithError
from warpsmith.frontends.nvfuser_direct import DataType, FusionDefinition, ParallelType


class Products(TorchDispatchMode):
    """Keeps the shapes of what PyTorch multiplies."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[torch.Size, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.bmm):
            self.seen.append(tuple(each.shape for each in args[:2]))
        return func(*args, **(kwargs or {}))


def _on_streams(tensor: Any, axis: int, count: int) -> None:
    tensor.outer_split(axis, count)
    tensor.axis(axis).parallelize(ParallelType.stream)


def _product(axis: int, count: int) -> FusionDefinition:
    """Of any two matrices, an axis of the result cut into so many pieces."""
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True) for _ in range(2))
        made = fd.ops.matmul(a, b)
        fd.add_output(made)
        _on_streams(made, axis, count)
    return fd


def test_columns_of_a_product() -> None:
    """Seven columns in three pieces: 3, 3 and 1, each written where it belongs."""
    left, right = torch.randn(5, 4), torch.randn(4, 7)
    with Products() as products:
        (found,) = _product(1, 3).execute([left, right], _enable_options=["host_ir_lowering"])
    torch.testing.assert_close(found, left @ right)
    assert products.seen == [((5, 4), (4, n)) for n in (3, 3, 1)]


def test_rows_of_two_products() -> None:
    """An input is cut, and all that has its rows with it; results of 16 bits are rounded once."""
    with FusionDefinition() as fd:
        a, b, c = (fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(3))
        between = fd.ops.linear(a, b)
        fd.add_output(fd.ops.matmul(between, c))
        fd.add_output(between)
        _on_streams(a, 0, 2)
    left, weight, right = (
        torch.randn(shape, dtype=torch.bfloat16) for shape in ((6, 4), (5, 4), (5, 3))
    )
    with Products() as products:
        last, first = fd.execute([left, weight, right])
    assert torch.equal(first, left @ weight.mT)
    assert torch.equal(last, first @ right)
    assert products.seen == [((3, 4), (4, 5)), ((3, 5), (5, 3))] * 2


def test_batches() -> None:
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1, -1], True) for _ in range(2))
        made = fd.ops.matmul(a, b)
        fd.add_output(made)
        made.split(0, 2)
        made.axis(0).parallelize(ParallelType.stream)
    left, right = torch.randn(5, 3, 4), torch.randn(5, 4, 2)
    with Products() as products:
        (found,) = fd.execute([left, right])
    torch.testing.assert_close(found, left @ right)
    assert [shapes[0][0] for shapes in products.seen] == [2, 2, 1]


def test_one_matrix_for_all_batches_is_taken_whole() -> None:
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([first, -1, -1], True) for first in (1, -1))
        made = fd.ops.matmul(a, b)
        fd.add_output(made)
        _on_streams(made, 0, 2)
    left, right = torch.randn(1, 5, 4), torch.randn(3, 4, 6)
    (found,) = fd.execute([left, right])
    torch.testing.assert_close(found, left @ right)


@pytest.mark.parametrize("kind", [DataType.Float, DataType.BFloat16])
@pytest.mark.parametrize("wanted", [DataType.Float, DataType.BFloat16, DataType.Half])
def test_casts_of_products(kind: DataType, wanted: DataType) -> None:
    types = {
        DataType.Float: torch.float32,
        DataType.BFloat16: torch.bfloat16,
        DataType.Half: torch.float16,
    }
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True, kind) for _ in range(2))
        made = fd.ops.matmul(a, b)
        fd.add_output(fd.ops.cast(made, wanted))
        _on_streams(made, 0, 2)
    left, right = (torch.randn(shape, dtype=types[kind]) for shape in ((5, 4), (4, 7)))
    (found,) = fd.execute([left, right])
    assert torch.equal(found, (left @ right).to(types[wanted]))


def test_a_product_that_is_written_into_an_operand() -> None:
    """Whose rows are all read before they change."""
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True) for _ in range(2))
        made = fd.ops.matmul(a, b)
        fd.add_output(made, b)
        _on_streams(made, 0, 2)
    left, right = torch.randn(4, 4), torch.randn(4, 4)
    wanted = left @ right
    fd.execute([left, right])
    torch.testing.assert_close(right, wanted)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3), (4, 3, 0)])
def test_products_of_nothing(shape: tuple[int, int, int], axis: int) -> None:
    """And another one beside them, which has elements."""
    with FusionDefinition() as fd:
        a, b, c, d = (fd.define_tensor([-1, -1], True) for _ in range(4))
        made = fd.ops.matmul(a, b)
        fd.add_output(made)
        fd.add_output(fd.ops.matmul(c, d))
        _on_streams(made, axis, 3)
    rows, terms, columns = shape
    given = torch.ones(rows, terms), torch.ones(terms, columns), torch.eye(2), torch.eye(2)
    found, beside = fd.execute(given)
    assert torch.equal(found, torch.zeros(rows, columns))
    assert torch.equal(beside, torch.eye(2))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([torch.ones(4, 5, dtype=torch.double), torch.ones(5, 4)], "Expected input 0.*dtype float"),
        ([torch.ones(4, 5), torch.ones(4, 4)], "WS0312"),
        ([torch.ones(4, 5)], "WS0301"),
        ([torch.ones(5), torch.ones(5, 4)], "WS0305"),
    ],
)
def test_what_was_not_defined_so(given: list[torch.Tensor], said: str) -> None:
    with pytest.raises(RuntimeError, match=said) as raised:
        _product(0, 2).execute(given)
    assert isinstance(raised.value, WarpsmithError)


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda fd, a, b: (fd.ops.matmul(a, b), a, 1), "sums over it"),
        (lambda fd, a, b: (fd.ops.neg(fd.ops.matmul(a, b)), a, 0), "is no product of matrices"),
        (lambda fd, a, b: (fd.ops.sum(a, [1]), a, 0), "is no product of matrices"),
    ],
)
def test_what_does_not_run_in_pieces(use: Any, said: str) -> None:
    with FusionDefinition() as fd:
        made, cut, axis = use(fd, *(fd.define_tensor([-1, -1], True) for _ in range(2)))
        fd.add_output(made)
        _on_streams(cut, axis, 2)
    with pytest.raises(NotImplementedError, match=f"WS0190.*stream.*{said}"):
        fd.execute([torch.ones(4, 4), torch.ones(4, 4)])


def test_which_loops_run_on_streams() -> None:
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True) for _ in range(2))
        with pytest.raises(NotImplementedError, match="is no outer part of a dimension"):
            a.axis(0).parallelize(ParallelType.stream)
        _on_streams(a, 0, 2)
        with pytest.raises(NotImplementedError, match="one loop of a fusion"):
            _on_streams(b, 1, 2)
