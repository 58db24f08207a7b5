"""Slices, pads, joins and choices are PyTorch's, of every type and layout; bad ones are refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.against_torch import DTYPES, defined, random, results
from tests.support.rebuilding import rebuilt
from warpsmith import FusionDefinition, fuse, ops
from warpsmith.errors import ArgumentError, DefinitionError, SimulationError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const
from warpsmith.knobs import scope

F = torch.nn.functional
Case = tuple[Callable[..., Any], Callable[..., Any]]

BY_SIZES: dict[str, Case] = {
    "slice": (lambda x: x[1:-1, ::2, -3:9], lambda x: x[1:-1, ::2, -3:9]),
    "past the end": (lambda x: x[:, 2:1, -9:9], lambda x: x[:, 2:1, -9:9]),
    "numbers": (lambda x: x[..., None, -1], lambda x: x[..., None, -1]),
    "narrow": (lambda x: ops.narrow(x, 1, -3, 2), lambda x: x.narrow(1, -3, 2)),
    "split": (lambda x: ops.split(x, [1, 4], 1), lambda x: x.split([1, 4], 1)),
    "chunk": (lambda x: ops.chunk(x, 2, 1), lambda x: x.chunk(2, 1)),
    "pad": (lambda x: ops.pad(x, [1, 2, -1, 3], 2), lambda x: F.pad(x, [1, 2, -1, 3], value=2)),
    "cat": (lambda x: ops.cat([x, x[1:], x], 0), lambda x: torch.cat([x, x[1:], x], 0)),
    "cat last": (lambda x: ops.cat([x, x[..., 1:]], -1), lambda x: torch.cat([x, x[..., 1:]], -1)),
    "stack": (lambda x: ops.stack([x, x], -1), lambda x: torch.stack([x, x], -1)),
    "flip": (lambda x: ops.flip(x, [0, 2]), lambda x: x.flip([0, 2])),
    "roll": (lambda x: ops.roll(x, [7, -2], [2, 1]), lambda x: x.roll([7, -2], [2, 1])),
    "triu": (lambda x: ops.triu(x, -1), lambda x: x.triu(-1)),
    "tril": (lambda x: ops.tril(x, 1), lambda x: x.tril(1)),
}
BY_INDICES: dict[str, Case] = {
    "index_select": (
        lambda x, i: ops.index_select(x, i[0], 2),
        lambda x, i: x.index_select(2, i[0]),
    ),
    "gather": (
        lambda x, i: ops.gather(x, i[None], 0),
        lambda x, i: x.gather(0, i[None]),
    ),
    "take_along_axis": (
        lambda x, i: ops.take_along_axis(x, i[None], 1),
        lambda x, i: x.take_along_dim(i[None], 1),
    ),
    "repeated": (
        lambda x, i: ops.take_along_axis(x[0, 0][None], i, 1),
        lambda x, i: x[0, 0][None].take_along_dim(i, 1),
    ),
    "embedding": (lambda x, i: ops.embedding(i, x[0]), lambda x, i: F.embedding(i, x[0])),
    "brackets": (lambda x, i: x[:, i - 3, 1], lambda x, i: x[:, i - 3, 1]),
    "apart": (lambda x, i: x[i, :, i], lambda x, i: x[i, :, i]),
    "one_hot": (lambda x, i: ops.one_hot(i, 4), lambda x, i: F.one_hot(i, 4)),
}
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "permuted": lambda x: x.permute(2, 0, 1).contiguous().permute(1, 2, 0),
    "sliced": lambda x: F.pad(x, [3, 2])[..., 3:-2],
    "expanded": lambda x: x[:1].expand(3, -1, -1),
    "misaligned": lambda x: F.pad(x.flatten(), [1, 0])[1:].view(x.shape),
}


def given(dtype: DataType) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor, and indices that all its dimensions have."""
    return random((3, 5, 4), dtype), torch.randint(0, 3, (5, 4), generator=torch.manual_seed(1))


@pytest.mark.few(88)
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*BY_SIZES, *BY_INDICES])
def test_meaning_is_that_of_torch(name: str, dtype: DataType, static: bool) -> None:
    x, indices = given(dtype)
    args = (x, indices) if name in BY_INDICES else (x,)
    ours, theirs = {**BY_SIZES, **BY_INDICES}[name]
    wanted = theirs(*args)
    found = results(ours, *args, static=static)
    for got, want in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert got.dtype is want.dtype
        torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.few(1)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_kernels_read_any_layout(layout: str) -> None:
    """All of one call: kernels, on the simulator where there is no GPU."""
    x, indices = LAYOUTS[layout](random((3, 5, 4), DataType.Float)), given(DataType.Float)[1]

    def both(pick: int) -> Callable[..., Any]:
        def every(x: Any, i: Any) -> tuple[Any, ...]:
            made = [case[pick](x) for case in BY_SIZES.values()]
            made += [case[pick](x, i) for case in BY_INDICES.values()]
            return tuple(t for each in made for t in (each if isinstance(each, tuple) else (each,)))

        return every

    with torch.no_grad():
        found, wanted = fuse(both(0))(x, indices), both(1)(x, indices)
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_one_element_of_a_dimension_is_read_along_all_of_it() -> None:
    """Where what is read is repeated, in what reads it and in reads of that."""
    x, i = random((4, 5), DataType.Float), given(DataType.Float)[1][:, :2]

    @fuse
    def f(x: Any, i: Any) -> tuple[Any, ...]:
        one = ops.narrow(x, 0, 2, 1)
        column = ops.reshape(ops.narrow(x, 1, 3, 1), [1, 2, 2])
        return (
            one + x,
            ops.narrow(x, 1, 3, 1) - x,
            ops.narrow(one + x, 0, 1, 2),
            ops.take_along_axis(one, i, 1),
            ops.take_along_axis(column, i[:, None], 2),
        )

    one, column = x[2:3], x[:, 3:4].reshape(1, 2, 2)
    found = f(x, i % 2)
    wanted = (
        one + x,
        x[:, 3:4] - x,
        (one + x)[1:3],
        one.take_along_dim(i % 2, 1),
        column.take_along_dim(i[:, None] % 2, 2),
    )
    for got, want in zip(found, wanted, strict=True):
        assert torch.equal(got, want)


def test_what_is_empty() -> None:
    x, y = torch.ones(4, 0), torch.ones(4, 3)
    none = torch.zeros(0, dtype=torch.int64)

    @fuse
    def f(x: Any, y: Any, i: Any) -> tuple[Any, ...]:
        return ops.cat([x, y], 1), y[:, 3:], ops.index_select(y, i, 1), ops.pad(x, [1, 1], 7)

    joined, *empty, padded = f(x, y, none)
    assert torch.equal(joined, y)
    assert [tuple(each.shape) for each in empty] == [(4, 0), (4, 0)]
    assert torch.equal(padded, torch.full((4, 2), 7.0))


def test_types_of_joined_tensors_are_promoted() -> None:
    x, y = random((2,), DataType.Int32), random((3,), DataType.BFloat16)
    (found,) = results(lambda x, y: ops.cat([x, y]), x, y)
    torch.testing.assert_close(found, torch.cat([x, y]))


def test_quotients_of_sizes_are_known_to_be_inside() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        half = fd.ops.size(x, 1) // 2
        low, high = x[:, :half], x[:, half : 2 * half]
        fd.add_output(low * high)
    assert low.shape_axes[1].extent == half
    assert high.shape_axes[1].extent == half


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: ops.slice(x, [0], [1]), "WS0170.*one of each"),
        (lambda x: x[::-1], "WS0170.*flip"),
        (lambda x: x[0.5:], "WS0171"),
        (lambda x: ops.split(x, [2, 2], 0), "WS0172.*parts of"),
        (lambda x: ops.chunk(x, 0), "WS0172"),
        (lambda x: x[3], "WS0173.*3 of dimension 0"),
        (lambda x: x[-4], "WS0173"),
        (lambda x: ops.pad(x, [1]), "WS0174"),
        (lambda x: ops.pad(x, [1.5, 0]), "WS0174.*width 1.5"),
        (lambda x: ops.cat([]), "WS0175.*no tensors"),
        (lambda x: ops.cat([x, x[0]]), "WS0175.*1 dimensions"),
        (lambda x: ops.cat([x, x[:, 1:]]), "WS0176.*dimension 1"),
        (lambda x: ops.roll(x, [1, 2], [0]), "WS0184"),
        (lambda x: ops.triu(x[0]), "WS0177"),
        (lambda x: ops.gather(x, x, 0), "WS0178.*cast them"),
        (lambda x: ops.gather(x[:2], ops.cast(x, DataType.Int), 1), "WS0180.*dimension 0"),
        (lambda x: x[0, 0, 0], "WS0181.*3 subscripts"),
        (lambda x: x["a"], "WS0181"),
        (lambda x: x[True], "WS0181"),
        (lambda x: ops.choose(x, [ops.cast(x, DataType.Int)], [0, 1], 0), "WS0182"),
        (lambda x: ops.index_select(x, ops.cast(x, DataType.Int), 0), "WS0183.*1 dimension"),
    ],
)
def test_refusals(function: Callable[..., Any], said: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([3, 5], True)
        with pytest.raises(DefinitionError, match=said):
            function(x)
        fd.add_output(x + 1)


@pytest.mark.parametrize(
    ("function", "shapes", "said"),
    [
        (lambda x: ops.narrow(x, 0, 2, 3), [(4,)], "WS0318.*4, and must be 5 or more"),
        (lambda x: ops.narrow(x, 0, -5, 3), [(4,)], "WS0318"),
        (lambda x: x[4], [(4,)], "WS0318.*4, and must be 5 or more"),
        (lambda x: x[-5], [(4,)], "WS0318"),
        (lambda x, y: ops.cat([x, y], 1), [(4, 2), (3, 2)], "WS0312.*cat reads"),
        (lambda x: ops.pad(x, [-3, -3]), [(4,)], "WS0318"),
    ],
)
def test_calls_check_sizes_that_only_they_know(
    function: Callable[..., Any], shapes: list[tuple[int, ...]], said: str
) -> None:
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    with pytest.raises(ArgumentError, match=said):
        fuse(function)(*arrays)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: ops.narrow(x, 0, -9, 2), "-4, and must be 0 or more: a slice begins there"),
        (lambda x: ops.narrow(x, 0, 3, 3), "5, and must be 6 or more: a slice ends there"),
        (lambda x: ops.narrow(x, 0, 3, -1), "-1, and must be 0 or more"),
        (lambda x: ops.split(x, [9, -4], 0)[0], "5, and must be 9 or more: a slice ends there"),
        (lambda x: ops.pad(x, [-3, -3]), "-1, and must be 0 or more"),
    ],
)
def test_calls_check_sizes_that_definitions_know(function: Callable[..., Any], said: str) -> None:
    """They were left out as if they held, and kernels read outside of tensors."""
    with FusionDefinition() as fd:
        fd.add_output(function(-fd.define_tensor([5], True)))
    with pytest.raises(ArgumentError, match=f"WS0318.*the definition is {said}"):
        fd.execute([np.ones(5, np.float32)])


def test_indices_are_no_longer_than_what_they_keep() -> None:
    f = fuse(lambda x, i: ops.gather(x, i, 0))
    with pytest.raises(ArgumentError, match="WS0318.*gather reads T0 along it"):
        f(np.ones((4, 3), np.float32), np.zeros((2, 5), np.int64))


@pytest.mark.parametrize("wrong", [[0, 4], [-5, 0]])
def test_an_index_that_no_element_has_is_never_read(wrong: list[int]) -> None:
    x, indices = np.ones((4, 3), np.float32), np.array(wrong)
    f = fuse(lambda x, i: x[i])
    with scope(device="reference"), pytest.raises(ArgumentError, match="WS0319.*of 4 elements"):
        f(x, indices)
    with scope(device="sim"), pytest.raises(SimulationError, match="trap"):
        f(x, indices)


def test_printed_programs_read_the_same() -> None:
    x, _ = given(DataType.Float)
    for function, _ in BY_SIZES.values():
        first = defined(function, x)
        second = rebuilt(repr(first))
        assert repr(second).count("\n") == repr(first).count("\n")
        with scope(device="reference"):
            for a, b in zip(first.execute([x]), second.execute([x]), strict=True):
                assert torch.equal(a, b)


def test_a_constant_extent_is_known() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([3, -1], True)
        rows = list(x)
        assert len(rows) == 3
        assert ops.slice(x, [1, 0], [9, 1]).shape_axes[0].extent == Const(2)
        fd.add_output(rows[0] + rows[2])


def test_rows_of_an_embedding_are_scaled_to_a_norm() -> None:
    weight = torch.randn(6, 4, dtype=torch.float64) * torch.tensor([0.1, 1, 2, 3, 4, 5])[:, None]
    index = torch.tensor([[0, 3], [5, 3]])
    for power in (None, 1.0):
        (found,) = results(
            lambda i, w, p=power: ops.embedding_fwd(i, w, max_norm=2.0, norm_type=p), index, weight
        )
        wanted = F.embedding(index, weight.clone(), max_norm=2.0, norm_type=power or 2.0)
        torch.testing.assert_close(found, wanted)
        assert torch.equal(found[0, 0], weight[0])


def test_sizes_may_be_computed_from_numbers() -> None:
    """Of floats, too, which the host would have cut before they are multiplied."""
    x = torch.randn(2, 3)
    with FusionDefinition() as fd:
        tensor = fd.from_pytorch(x)
        factor = fd.define_scalar(2.5, dtype=DataType.Float)
        five = ops.cast(ops.mul(factor, fd.define_scalar(2)), DataType.Int)
        fd.add_output(ops.pad(tensor, [five, 1]))
        fd.add_output(ops.full([five, ops.sub(five, 1)], 1.0, fusion=fd.fusion))
        fd.add_output(ops.slice(tensor, [0, 0], [ops.sub(five, 4), five]))
    padded, full, sliced = fd.execute([x])
    assert torch.equal(padded, F.pad(x, (5, 1)))
    assert full.shape == (5, 4)
    assert torch.equal(sliced, x[:1, :5])
