"""Scans of every size, type and layout in their own kernel, and what may stand beside them."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.launching import check_segments, random_inputs
from warpsmith import CarryRule, DataType, FusionDefinition, fuse, ops
from warpsmith.errors import ArgumentError
from warpsmith.ir.fusion import Fusion
from warpsmith.planner.plan import cut
from warpsmith.targets.hopper import H200

FLOAT = DataType.Float
SHAPES = [(1, 1), (3, 0), (0, 3), (1, 2), (5, 31), (2, 33), (3, 257), (2, 1031), (40, 5), (300, 33)]


def fusion(dim: int, dtype: DataType, defined: Callable[[Any, Any], Any], **layout: Any) -> Fusion:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], dtype=dtype, **layout)
        found = defined(fd, x)
        for result in found if isinstance(found, tuple) else (found,):
            fd.add_output(result)
    return fd.fusion


@pytest.mark.few(5)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_all_sizes(shape: tuple[int, int], dim: int) -> None:
    """Both directions, with and without the element."""
    for exclusive, reverse in ((False, False), (True, True)):
        made = fusion(
            dim,
            FLOAT,
            lambda fd, x, e=exclusive, r=reverse: fd.ops.cumsum(x, dim, exclusive=e, reverse=r),
        )
        assert check_segments(made, random_inputs(made, {"T0": shape}), terms=max(shape)) == 1


@pytest.mark.parametrize(
    "dtype",
    [DataType.Double, DataType.Half, DataType.Int, DataType.Int32, DataType.Bool],
    ids=lambda d: d.name,
)
def test_all_types(dtype: DataType) -> None:
    for dim, shape in ((1, (3, 200)), (0, (77, 40))):
        made = fusion(dim, dtype, lambda fd, x, d=dim: fd.ops.cumsum(x, d))
        check_segments(made, random_inputs(made, {"T0": shape}), terms=max(shape))


@pytest.mark.few(2)
@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
@pytest.mark.parametrize("contiguous", [True, False])
def test_all_layouts(order: list[int], contiguous: bool) -> None:
    layout = {"stride_order": order, "contiguity": [True, True] if contiguous else [False, False]}
    made = fusion(1, FLOAT, lambda fd, x: fd.ops.cumsum(x, 1), **layout)
    check_segments(made, random_inputs(made, {"T0": (37, 130)}), terms=130)


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[torch.Tensor], Any], torch.Tensor, int]] = {
    "largest so far": (
        lambda x: ops.cummax(x, 1),
        lambda x: tuple(torch.cummax(x, 1)),
        torch.tensor([[1.0, 3.0, 3.0, torch.nan, 2.0, torch.nan, 9.0] * 30]),
        1,
    ),
    "smallest so far": (
        lambda x: ops.cummin(x, 0),
        lambda x: tuple(torch.cummin(x, 0)),
        torch.randint(0, 9, (120, 37)).float(),
        1,
    ),
    "logarithms": (
        lambda x: ops.logcumsumexp(x, 1),
        lambda x: torch.logcumsumexp(x, 1),
        torch.linspace(-200, 200, 2 * 700).reshape(2, 700),
        1,
    ),
    "work around it": (
        lambda x: ops.tanh(ops.cumprod(1.0 + x * 0.01, 1)) * x,
        lambda x: torch.tanh(torch.cumprod(1.0 + x * 0.01, 1)) * x,
        torch.rand(3, 300),
        1,
    ),
    "a broadcast operand": (
        lambda x: (
            ops.cumsum(x * ops.cast(x > 0.5, FLOAT), 1)
            / ops.broadcast_in_dim(ops.iota(300, 1, fusion=x.fusion), [3, 300], [1])
        ),
        lambda x: torch.cumsum(x * (x > 0.5), 1) / torch.arange(1, 301),
        torch.rand(3, 300),
        1,
    ),
    "two of one pass": (
        lambda x: (ops.cumsum(x, 1), ops.cumsum(x * x, 1)),
        lambda x: (torch.cumsum(x, 1), torch.cumsum(x * x, 1)),
        torch.rand(3, 300),
        1,
    ),
    "one after the other": (
        lambda x: ops.sum(ops.cumsum(ops.cumsum(x, 0), 1), [1]),
        lambda x: x.cumsum(0).cumsum(1).sum(1),
        torch.randint(0, 5, (13, 17)).float(),
        3,
    ),
    "after a softmax": (
        lambda x: ops.cumsum(ops.exp(x - ops.logsumexp(x, [1], True)), 1),
        lambda x: torch.softmax(x, 1).cumsum(1),
        torch.rand(5, 90),
        2,
    ),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CASES)
def test_programs_are_planned_and_right(name: str) -> None:
    """Kernels are clean under all orders of warps, and PyTorch finds the same."""
    defined, peer, x, kernels = CASES[name]
    lowered = fuse(defined).lower(x)
    assert len(cut(lowered.fusion, target=H200)) == kernels
    assert lowered.compile().verify().verdict == "clean"
    wanted = peer(x)
    torch.testing.assert_close(fuse(defined)(x), wanted, equal_nan=True)


@pytest.mark.parametrize("reverse", [False, True])
def test_few_long_rows_are_shared_by_the_blocks_of_a_cluster(reverse: bool) -> None:
    x = torch.randint(-3, 4, (2, 9001), generator=torch.Generator().manual_seed(0)).float()
    compiled = fuse(lambda x: ops.cumsum(x, 1, reverse=reverse)).lower(x).compile()
    assert "8 blocks run at once" in compiled.explain()
    assert compiled.verify().verdict == "clean"


OVER_GRID: dict[str, tuple[Callable[[Any], Any], torch.Tensor]] = {
    "vectors": (lambda x: ops.cumsum(x, 0), torch.arange(20_000).float() % 7),
    "an odd length, from the end": (
        lambda x: ops.cumsum(x, 1, exclusive=True, reverse=True),
        torch.linspace(-1, 1, 2 * 20_001).reshape(2, 20_001),
    ),
    "columns": (lambda x: ops.cumsum(x, 0, reverse=True), torch.rand(1100, 37)),
    "halves": (lambda x: ops.cumsum(x, 1), torch.rand(1, 40_000).half()),
    "doubles": (lambda x: ops.cumprod(x, 1), torch.rand(1, 10_000).double() * 0.1 + 0.95),
    "extremes and places, beside sums": (
        lambda x: (*ops.cummax(x, 1), ops.cumsum(x, 1)),
        (torch.arange(10_010) * 7919 % 1009).reshape(1, 10_010),
    ),
    "logarithms": (lambda x: ops.logcumsumexp(x, 1), torch.linspace(-99, 99, 20_000)[None]),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", OVER_GRID)
def test_long_rows_are_shared_by_blocks_of_the_grid(name: str) -> None:
    """The simulator finds no race and no hang, and every element within rounding of float64."""
    defined, x = OVER_GRID[name]
    compiled = fuse(defined).lower(x).compile()
    explained = compiled.explain()
    assert "blocks take numbers as they start" in explained
    assert "grid=True" in explained
    assert "a block " in explained.split("predicted")[1].splitlines()[0]
    assert compiled.verify(schedules=3).verdict == "clean"


def test_a_row_of_a_rule_whose_order_matters_over_the_grid() -> None:
    """Bits are the same whoever starts first."""
    decay, push = torch.rand(1, 20_001), torch.rand(1, 20_001)
    scan = fuse(lambda a, b: ops.scan((a, b), LINEAR, 1)[1])
    compiled = scan.lower(decay, push).compile()
    assert "grid=True" in compiled.explain()
    assert compiled.verify(schedules=3).verdict == "clean"
    wanted, y = torch.empty(1, 20_001, dtype=torch.float64), 0.0
    for i, (a, b) in enumerate(zip(decay[0].double(), push[0].double(), strict=True)):
        y = y * a + b
        wanted[0, i] = y
    (first, second) = (scan(decay, push) for _ in range(2))
    torch.testing.assert_close(first.double(), wanted, rtol=1e-5, atol=1e-5)
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("shape", "dim", "who"),
    [
        ((1, 5_000_000), 1, "grid=True"),
        ((3, 100_003), 1, "grid=True"),
        ((100_003, 64), 0, "grid=True"),
        ((8192, 4096), 1, "blocks=1, grid=False"),
        ((64, 700), 1, "blocks=1, grid=False"),
        ((20_003, 4096), 1, "blocks=1, grid=False"),
    ],
)
def test_who_shares_a_row_follows_from_bytes_and_blocks(
    shape: tuple[int, int], dim: int, who: str
) -> None:
    explained = fuse(lambda x: ops.cumsum(x, dim)).lower(torch.empty(shape))
    assert who in explained.compile().explain()


def test_every_run_gives_the_same_bits() -> None:
    x = np.random.default_rng(0).normal(0, 1, (2, 3000)).astype(np.float32)
    scan = fuse(lambda x: ops.cumsum(x, 1))
    first, second = (scan(torch.from_numpy(x)) for _ in range(2))
    assert torch.equal(first, second)


LINEAR = CarryRule(
    name="linear",
    identity={"decay": 1.0, "push": 0.0},
    join=lambda a, b: (a.decay * b.decay, a.push * b.decay + b.push),
    commutative=False,
)


def test_sizes_that_do_not_fit_are_refused_at_the_call() -> None:
    """Of tensors that are an element together; and of extremes of nothing."""
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1, -1], True, FLOAT) for _ in range(2))
        for state in fd.ops.scan((x, y), LINEAR, 1):
            fd.add_output(state)
    a, b = np.ones((2, 40), np.float32), np.ones((2, 39), np.float32)
    assert [r.shape for r in fd.execute([a, a])] == [(2, 40), (2, 40)]
    with pytest.raises(ArgumentError, match="linear reads both"):
        fd.execute([a, b])
    with FusionDefinition() as empty:
        x = empty.define_tensor([-1, -1], True, FLOAT)
        empty.add_output(empty.ops.argmax(x, 1))
    with pytest.raises(ArgumentError, match="argmax of nothing has no value"):
        empty.execute([np.ones((2, 0), np.float32)])


@pytest.mark.parametrize("dim", [1, 2])
def test_warps_lie_along_what_most_bytes_have_fastest(dim: int) -> None:
    """A factor lies along the scanned dimension alone, which is not the fastest of the others."""
    factor = torch.empty(2, 300, 1) if dim == 1 else torch.empty(2, 1, 64)
    decayed = fuse(lambda x, factor: ops.cumsum(x * factor, dim))
    told = decayed.lower(torch.empty(2, 300, 64), factor).compile().explain()
    assert f"inner={dim == 2}" in told


def test_a_thread_asks_for_its_elements_before_it_stores_any() -> None:
    """Of two halves of one tensor, and of what lies beside the scan."""
    gated = fuse(lambda x, y, z: ops.cumsum(x, 1) * y + z[:, :, 64:] * z[:, :, :64])
    shapes = (2, 300, 64), (2, 300, 64), (2, 300, 128)
    text = gated.lower(*(torch.empty(*shape) for shape in shapes)).compile().asm["cuda"]
    loops = re.findall(r"for \([^\n]*\n((?:(?!for \().)*)", text[text.index("__global__") :], re.S)
    storing = [loop for loop in loops if re.search(r"T\d+\[.*\] = T\d+;", loop) and "if" in loop]
    assert storing
    assert not any(re.search(r"= T[12]\[", loop) for loop in storing)
