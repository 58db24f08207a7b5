"""Reads at computed places: what follows is fused, what is computed is stored first."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.lowering import lowered
from warpsmith import fuse, knobs, ops, verify
from warpsmith.errors import ScheduleError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.frontends.lowered import lower_call
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.dtypes import DataType

F = torch.nn.functional


def rms(x: Any) -> Any:
    return x * ops.rsqrt(ops.mean(x * x, [-1], keepdim=True) + 1e-5)


def torch_rms(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)


def rotated(x: Any, cos: Any, cat: Callable[..., Any]) -> Any:
    return x * cos + cat([-x[:, 16:], x[:, :16]], 1) * cos


X = torch.randn(24, 32, generator=torch.manual_seed(0))
CHOICE = torch.randint(0, 24, (9,), generator=torch.manual_seed(1))
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[torch.Tensor, ...], int]] = {
    "halves": (
        lambda x: ops.silu(x[:, :16]) * x[:, 16:],
        lambda x: F.silu(x[:, :16]) * x[:, 16:],
        (X,),
        1,
    ),
    "embedding and norm": (
        lambda i, x: rms(ops.embedding(i, x)),
        lambda i, x: torch_rms(F.embedding(i, x)),
        (CHOICE, X),
        1,
    ),
    "sum of rows": (
        lambda x: ops.sum(x[:, 3:29], [1]),
        lambda x: x[:, 3:29].sum(1),
        (X,),
        1,
    ),
    "sum of columns": (
        lambda i, x: ops.sum(x[i], [0]),
        lambda i, x: x[i].sum(0),
        (CHOICE, X),
        1,
    ),
    "scan": (lambda x: ops.cumsum(x[2:], 0), lambda x: x[2:].cumsum(0), (X,), 1),
    "indices computed": (lambda i, x: x[23 - i] + 1, lambda i, x: x[23 - i] + 1, (CHOICE, X), 1),
    "product of rows": (
        lambda i, x, y: ops.matmul(x[i], y),
        lambda i, x, y: x[i] @ y,
        (CHOICE, X, torch.ones(32, 8)),
        2,
    ),
    "behind a product": (
        lambda x, y: ops.matmul(x, y)[:, 1:] * 2,
        lambda x, y: (x @ y)[:, 1:] * 2,
        (X, torch.randn(32, 9, generator=torch.manual_seed(2))),
        2,
    ),
    "behind a norm": (
        lambda x: ops.flip(rms(x), [1]) + x,
        lambda x: torch_rms(x).flip(1) + x,
        (X,),
        2,
    ),
    "largest": (
        lambda x: ops.gather(x, ops.argmax(x, 1, keepdim=True), 1),
        lambda x: x.gather(1, x.argmax(1, keepdim=True)),
        (X,),
        1,
    ),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CASES)
def test_kernels(name: str) -> None:
    ours, theirs, arrays, kernels = CASES[name]
    f = fuse(ours)
    torch.testing.assert_close(f(*arrays), theirs(*arrays), rtol=1e-5, atol=1e-5)
    compiled = f.lower(*arrays).compile()
    assert compiled.verify().verdict == "clean"
    said = compiled.explain()
    assert said.startswith(f"{kernels} kernels") == (kernels > 1)


def test_a_copy_in_registers_is_not_read_elsewhere() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([16], True)
        fd.add_output(ops.exp(x[1:]))
        x.cache_after()
    with pytest.raises(ScheduleError, match="WS1030.*cache_after"):
        lowered(fd)


@pytest.mark.parametrize(
    ("part", "code"),
    [
        (lambda x: x[:, 3:], "WS1033.*adjacent, aligned"),
        (lambda x: ops.flip(x, [1]), "WS1033"),
        (lambda x: ops.pad(x, [2, 2]), "WS1032.*ends within a vector"),
        (lambda x: x[:, :-1], "WS1034.*cut short"),
        (lambda x: ops.gather(x, ops.cast(x, DataType.Int), 0), "WS1035.*chooses each"),
    ],
)
def test_vectors_that_no_read_can_take(part: Callable[[Any], Any], code: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([8, 32], True)
        y = part(x)
        z = ops.exp(y)
        fd.add_output(z)
        for tensor in (y, z):
            tensor.split(1, 4)
        y.axis(-1).parallelize(ParallelType.vectorize)
    with pytest.raises(ScheduleError, match=code):
        lowered(fd)


def test_vectors_are_read_into_registers() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([8, 32], True)
        y = x[:, 4:]
        fd.add_output(y)
        y.split(1, 4)
        y.axis(-1).parallelize(ParallelType.vectorize)
    with pytest.raises(ScheduleError, match="WS1031.*cache_before"):
        lowered(fd)


WIDE = torch.randn(24, 256, generator=torch.manual_seed(3))
IN_VECTORS: dict[str, tuple[Callable[..., Any], int]] = {
    "embedding": (lambda i, x: ops.embedding(i, x), 1),
    "embedding and norm": (lambda i, x: rms(ops.embedding(i, x)), 1),
    "columns of rows": (lambda i, x: ops.sum(x[i], [0]), 2),
    "sums of rows": (lambda i, x: ops.sum(x[i], [1]), 2),  # in full passes, and in the last one
    "largest of rows": (
        lambda i, x: ops.max(ops.reshape(ops.reshape(x, (4, 6, 256))[:, :-1], (20, 256)), [1]),
        2,
    ),
    "sums of what does not begin at a vector": (lambda i, x: ops.sum(x[:, 2:], [1]), 0),
    "halves": (lambda i, x: x[:, :128] * x[:, 128:], 2),
    "joined": (lambda i, x: ops.cat([x, x], 1), 2),
    "padded": (lambda i, x: ops.pad(x, [8, 8]), 1),
    "not a multiple": (lambda i, x: x[:, 2:] + 1, 0),
    "each by its own index": (
        lambda i, x: ops.gather(x, ops.cast(ops.isnan(x), DataType.Int), 0),
        1,  # of what the indices are made of
    ),
    "the other way": (lambda i, x: ops.flip(x, [1]), 0),
    "ends within a vector": (lambda i, x: ops.pad(x, [8, 10]), 0),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", IN_VECTORS)
def test_adjacent_elements_are_read_as_vectors(name: str) -> None:
    function, loads = IN_VECTORS[name]
    compiled = fuse(function).lower(CHOICE, WIDE).compile()
    assert compiled.verify().verdict == "clean"
    assert compiled.asm["cuda"].count("= ws_load<float, 4") == loads


ONE_OF_A_ROW = {
    "alone": lambda x, w: x * ops.narrow(w, 1, 1, 1),
    "computed": lambda x, w: x * ops.narrow(w * 2, 1, 1, 1),
    "read again": lambda x, w: ops.flip(x * ops.narrow(w * 2, 1, 2, 1), [1]),
    "a read of a read": lambda x, w: x * ops.flip(ops.narrow(w, 1, 1, 1), [0]),
    "padded": lambda x, w: x * ops.narrow(ops.pad(w, [3, 0]), 1, 4, 1),
}


@pytest.mark.parametrize("name", ONE_OF_A_ROW)
def test_a_part_of_one_element_has_none_beside_it(name: str) -> None:
    """Whatever it is repeated along."""
    x, w = torch.randn(8, 20), torch.randn(8, 4)
    f = fuse(ONE_OF_A_ROW[name])
    assert verify(f, [x, w]).verdict == "clean"


def test_other_sizes_of_a_trace_are_read_by_elements() -> None:
    f = fuse(lambda x, y: ops.cat([x, y], 1) + 1)
    for columns in (8, 6, 7, 12):
        x = torch.randn(4, columns)
        assert torch.equal(f(x, x), torch.cat([x, x], 1) + 1)
        assert torch.equal(f(x[:, 1:], x), torch.cat([x[:, 1:], x], 1) + 1)


@pytest.mark.parametrize("pads", [[0, 0, 0, 1], [0, 0, 2, 0], [0, 0, 0, 0, 1, 1]])
def test_rows_beside_those_that_are_padded_are_read_by_vectors(pads: list[int]) -> None:
    """Whether a row is inside is the same for all of a vector, whatever loop that is split from."""
    x = np.random.default_rng(0).standard_normal((2, 5, 32), dtype=np.float32)
    f = fuse(lambda x: ops.pad(ops.exp(x), pads))
    compiled = f.lower(x).compile()
    assert "vector=4" in compiled.explain()
    widths = [(0, 0)] * 3
    for k in range(0, len(pads), 2):
        widths[2 - k // 2] = (pads[k], pads[k + 1])
    np.testing.assert_allclose(f(x), np.pad(np.exp(x), widths), rtol=1e-6)
    assert compiled.verify().verdict == "clean"


@pytest.mark.filterwarnings("error::warpsmith.errors.PlanWarning")
def test_rows_that_are_padded_to_whole_vectors_are_stored_by_vectors() -> None:
    """Where a size and what it is padded by are a multiple together; not in the next call."""
    f = fuse(lambda x: rms(ops.pad(x, [0, 1])))
    for columns in (31, 32):
        x = np.random.default_rng(1).standard_normal((24, columns), dtype=np.float32)
        compiled = f.lower(x).compile()
        assert ("ws_store(T" in compiled.asm["cuda"]) is (columns == 31)
        wanted = torch_rms(F.pad(torch.from_numpy(x), [0, 1]))
        np.testing.assert_allclose(f(x), wanted, rtol=1e-5)


HEADS = torch.randn(4, 24, 64, generator=torch.manual_seed(4))


def side_by_side(x: Any) -> Any:
    """The heads of each row one behind the other, where each has rows of its own."""
    return ops.reshape(ops.permute(x, (1, 0, 2)), (24, 256))


def torch_side_by_side(x: torch.Tensor) -> torch.Tensor:
    return x.permute(1, 0, 2).reshape(24, 256)


COLUMNS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "joined": (
        lambda x, y: ops.cat([side_by_side(x), y], 1),
        lambda x, y: torch.cat([torch_side_by_side(x), y], 1),
    ),
    "merged": (lambda x, y: side_by_side(x) * y, lambda x, y: torch_side_by_side(x) * y),
    "halves": (
        lambda x, y: side_by_side(ops.cat([-x[..., 32:], x[..., :32]], -1)) + y,
        lambda x, y: torch_side_by_side(torch.cat([-x[..., 32:], x[..., :32]], -1)) + y,
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_that_lie_in_parts_are_read_in_vectors(name: str) -> None:
    function, by_torch = COLUMNS[name]
    with FusionDefinition() as fd:
        z = function(*(fd.define_tensor(list(t.shape), True) for t in (HEADS, WIDE)))
        fd.add_output(z)
        fd.add_output(ops.sum(z, [0]))
    compiled = lower_call(fd.fusion, [HEADS.numpy(), WIDE.numpy()]).compile()
    assert "T0[" not in compiled.asm["cuda"]
    assert compiled.verify().verdict == "clean"
    wanted = by_torch(HEADS, WIDE)
    torch.testing.assert_close(list(fd.execute([HEADS, WIDE])), [wanted, wanted.sum(0)])


def test_heads_of_no_whole_vectors_are_read_by_elements() -> None:
    """A vector of columns would end in the next head."""
    x = torch.randn(4, 24, 6, generator=torch.manual_seed(4))
    f = fuse(lambda x: ops.sum(ops.reshape(ops.permute(x, (1, 0, 2)), (24, 24)), [0]))
    compiled = f.lower(x).compile()
    assert "T0[" in compiled.asm["cuda"]
    torch.testing.assert_close(f(x), x.permute(1, 0, 2).reshape(24, 24).sum(0))


def test_a_column_of_parts_is_read_by_elements() -> None:
    """Its vectors are along the parts, of which a vector has two."""
    x = np.full((1, 1), 0.75, np.float32)

    def program(x: Any) -> Any:
        parts = ops.cat([x, x], 0)
        return ops.logsumexp(parts, [1]) / ops.min(parts, [0])

    with knobs.scope(device="sim"), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = np.asarray(fuse(program)(x))
    np.testing.assert_allclose(found, [1, 1], rtol=1e-6)
