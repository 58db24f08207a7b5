"""Integers of 16 and 8 bits are computed by kernels as PyTorch computes them, over all their range.

One program has all the results, and is compiled once.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.ops.test_table import INTEGER_DIVISIONS, WITHOUT_PEER, comparable, peer
from tests.support.against_torch import DTYPES, TORCH, defined
from warpsmith import DataType, fuse, knobs, ops
from warpsmith.ops.table import TABLE, PointwiseOp, Rule

SMALL = tuple(dtype for dtype in DTYPES if dtype.is_small_int)
FLOAT = DataType.Float
COUNT = 260
NAMES = [
    name
    for name, op in TABLE.items()
    if op.supports(DataType.Int8) and name not in {*WITHOUT_PEER, "gcd"} and op.arity <= 2
    if op.rule is not Rule.FLOAT or name in ("truediv", "sqrt", "sigmoid")
]
"""Operations whose results are integers or bools, and some that are computed in Float."""


def ran(function: Callable[..., Any], *args: torch.Tensor) -> Any:
    """The function's results by the kernels that it becomes."""
    with knobs.scope(device="sim"):
        return defined(function, *args).execute(list(args))


def numbers(dtype: DataType, seed: int) -> torch.Tensor:
    """Numbers over a type's range: all of a byte's, in an order of their own."""
    lowest, highest = dtype.numbers[0], dtype.numbers[-1]
    ends = torch.tensor([lowest, highest, lowest + 1, 1])
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_byte:
        drawn = torch.randperm(256, generator=generator) + lowest
    else:
        drawn = torch.randint(lowest, highest + 1, (COUNT - 4,), generator=generator)
    return torch.cat([ends.roll(seed), drawn]).to(TORCH[dtype])


def same(got: torch.Tensor, want: torch.Tensor, of: object) -> None:
    assert got.dtype is want.dtype, of
    close = 0.0 if not want.is_floating_point() else 2e-5
    torch.testing.assert_close(
        got, want, rtol=close, atol=close, equal_nan=True, msg=lambda text: f"{of}: {text}"
    )


def second(op: PointwiseOp) -> str:
    """Which of a program's inputs an operation takes beside the first."""
    return "counts" if "shift" in op.name else "divisors" if op.name in INTEGER_DIVISIONS else "any"


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_operations(dtype: DataType) -> None:
    x, y = numbers(dtype, 1), numbers(dtype, 2)
    others = {"any": y, "counts": torch.where(y % 3 == 0, y, y % 18)}
    others["divisors"] = torch.where(comparable("div", x, y), y, 3)

    def program(function: Callable[[str], Any], x: Any, others: dict[str, Any]) -> Any:
        names = [(name, TABLE[name]) for name in NAMES]
        pairs = [(function(n), (x, others[second(op)])[: op.arity]) for n, op in names]
        return tuple(each(*args) for each, args in pairs)

    found = ran(
        lambda x, *y: program(
            lambda name: getattr(ops, name), x, dict(zip(others, y, strict=True))
        ),
        *(x, *others.values()),
    )
    for name, got, want in zip(NAMES, found, program(peer, x, others), strict=True):
        same(got, want, name)


CHAINS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: (x + y) * 3 - 100,
    lambda x, y: -x - y,
    lambda x, y: ~x ^ (y | 85) & 51,
    lambda x, y: (x << 3) + (y >> 2),
    lambda x, y: x * y * x,
    lambda x, y: x > y - x,
    lambda x, y: x + 0.5,
    lambda x, y: x // 7 + y % 5,
)


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_results_wrap_at_every_step(dtype: DataType) -> None:
    """As Python's operators, of which some are chains of operations here."""
    x, y = numbers(dtype, 3), numbers(dtype, 4)

    def program(x: Any, y: Any) -> Any:
        return (
            *(chain(x, y) for chain in CHAINS),
            *(ops.where(x > y, x, 3), ops.clamp(x, 5, 100), ops.addcmul(x, y, x, 2)),
            *(
                ops.lerp(ops.cast(x, FLOAT), ops.cast(y, FLOAT), 0.25),
                ops.logical_right_shift(x, 3),
            ),
            ops.gcd(x >> 1, y >> 1),
        )

    bits = x.long() % (1 << dtype.bits) >> 3
    wanted = (
        *(chain(x, y) for chain in CHAINS),
        *(torch.where(x > y, x, 3), x.clamp(5, 100), torch.addcmul(x, y, x, value=2)),
        *(torch.lerp(x.float(), y.float(), 0.25), bits.to(x.dtype)),
        torch.gcd(x >> 1, y >> 1),  # of the lowest numbers torch's have signs
    )
    for k, (found, want) in enumerate(zip(ran(program, x, y), wanted, strict=True)):
        same(found, want, k)


def test_numbers_without_a_sign_take_negative_ones() -> None:
    x = numbers(DataType.UInt8, 5)
    found = ran(lambda x: (x + -1, ops.lt(x, -100), x * -3, x // -3), x)
    for got, want in zip(found, (x + -1, x < -100, x * -3, x // -3), strict=True):
        same(got, want, "")


@pytest.mark.parametrize("number", [-3, 300])
def test_tensors_without_dimensions_wrap_beside_others(number: int) -> None:
    x, one = numbers(DataType.UInt8, 5), torch.tensor(number)
    found = ran(lambda x, n: (x + n, ops.lt(x, n), ops.maximum(x, n), x // n), x, one)
    wanted = x + one, x < one, torch.maximum(x, one.byte()), x // one
    for got, want in zip(found, wanted, strict=True):
        same(got, want, number)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_casts_to_all_types_and_from_them(dtype: DataType) -> None:
    """From floats by way of Int32, beyond which a result is unspecified."""
    x = numbers(dtype, 6)
    wide = numbers(DataType.Int16, 7).long() * 3 - 7
    half = DataType.Half, DataType.BFloat16
    sources = [
        (wide.abs() % 2048 - 1000).to(TORCH[d]) if d in half else wide.to(TORCH[d]) for d in DTYPES
    ]
    sources += [torch.tensor([-300.7, -1.5, -0.5, 0.9, 255.9, 70000.2, -70000.8])]

    def program(x: Any, *sources: Any) -> Any:
        return (*(ops.cast(x, d) for d in DTYPES), *(ops.cast(s, dtype) for s in sources))

    wanted = [x.to(TORCH[d]) for d in DTYPES]
    wanted += [s.to(torch.int32).to(x.dtype) if s.dtype is not x.dtype else s for s in sources]
    for k, (found, want) in enumerate(zip(ran(program, x, *sources), wanted, strict=True)):
        assert found.dtype is want.dtype
        assert torch.equal(found, want), k


REDUCTIONS: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] = (
    (ops.sum, torch.sum),
    (ops.max, torch.amax),
    (ops.min, torch.amin),
    (ops.argmax, torch.argmax),
)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [DataType.Int16, DataType.UInt8], ids=str)
def test_reductions(dtype: DataType) -> None:
    """Sums are those of torch, in 64 bits, unless a type is asked for."""
    x = torch.stack([numbers(dtype, k)[:96] for k in range(5)])

    def program(x: Any) -> Any:
        return (
            *(ours(x, 1) for ours, _ in REDUCTIONS),
            ops.sum(x, [1], dtype=dtype),
        )

    wanted = (
        *(torchs(x, 1) for _, torchs in REDUCTIONS),
        x.sum(1, dtype=x.dtype),
    )
    for k, (found, want) in enumerate(zip(ran(program, x), wanted, strict=True)):
        same(found, want, k)


@pytest.mark.parametrize("dtype", [DataType.Int16, DataType.UInt8], ids=str)
def test_vectors_that_start_anywhere(dtype: DataType) -> None:
    """Of a length and a start that no vector has, and of such rows."""
    whole = torch.cat([numbers(dtype, k) for k in range(5)])
    twice = fuse(lambda x: x + x)
    with knobs.scope(device="sim"):
        for x in (whole[1:], whole[3:1000], whole[8:1032], whole[5:1205].view(4, 300)[:, 1:]):
            same(twice(x), x + x, x.shape)


class Normalized(torch.nn.Module):
    """An image of bytes in [0, 1], less a mean, over a deviation."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.std = (
            torch.nn.Parameter(torch.tensor(each), requires_grad=False)
            for each in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return ((image.float() / 255 - self.mean) / self.std).bfloat16()


def test_an_image_is_normalized() -> None:
    from warpsmith.torch_backend.report import report

    torch._dynamo.reset()
    image = torch.randint(0, 256, (2, 9, 13, 3), generator=torch.manual_seed(1)).byte()
    model = Normalized()
    compiled: Any = torch.compile(model, backend="warpsmith", options={"device": "sim"})
    wanted = ((image.double() / 255 - model.mean) / model.std).bfloat16()
    torch.testing.assert_close(compiled(image), wanted, rtol=2.0**-7, atol=0)
    (graph,) = report(model).graphs
    (region,) = graph.regions
    assert len(region.kernels) == 1
    assert not graph.reasons
