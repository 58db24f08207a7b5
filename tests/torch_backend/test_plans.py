"""Kernels that regions of models get at sizes of models."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  # torch's own name for it

from tests.programs import judge
from tests.torch_backend.graphs import compiled
from warpsmith import knobs
from warpsmith.engine.launches import CallPlan
from warpsmith.torch_backend.backend import backend


def normed(x: Tensor, scale: Tensor) -> Tensor:
    wide = x.float()
    return (wide * (wide.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * scale).bfloat16()


def one_word(
    x: Tensor,
    attended: Tensor,
    out: Tensor,
    first: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    norm: Tensor,
    head: Tensor,
) -> list[Tensor]:
    """What is behind the attention of one word of one sequence."""
    x = x + F.linear(attended, out)
    y = normed(x, first)
    x = x + F.linear(F.silu(F.linear(y, gate)) * F.linear(y, up), down)
    return [F.linear(normed(x, norm), head)]


def planned(function: Callable[..., list[Tensor]], *given: Tensor) -> CallPlan:
    """The kernels of a function that is one region, for tensors that nobody reads."""
    (program,) = compiled(function, *given, device="sim").programs
    assert program is not None
    fakes = [node.meta["val"] for node in program.inputs]
    values = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype) for t in fakes]
    with judge.uncompiled():
        return program.executable_for(values).plan_for(values)


def test_rows_are_normalized_once_and_not_once_a_column() -> None:
    word, row, wide = (1, 1, 4096), (4096,), (14336, 4096)
    shapes = (word, word, (4096, 4096), row, wide, wide, wide[::-1], row, (32000, 4096))
    given = [torch.empty(shape, dtype=torch.bfloat16) for shape in shapes]  # never touched
    call = planned(one_word, *given)
    assert len(call.segments[-1].segment.inputs) == 2
    assert len(call.segments) == 7  # both products of the gated unit are one of them


def test_what_a_product_wrote_is_turned_before_it_is_normed() -> None:
    """A mixer's tokens, which are kept: rows of the norm are columns of the product."""

    def mixed(x: Tensor, y: Tensor, weight: Tensor, scale: Tensor) -> list[Tensor]:
        tokens = F.linear(y, weight)
        return [normed(x + tokens.transpose(1, 2), scale), tokens]

    shapes = (107, 196, 512), (107, 512, 384), (196, 384), (512,)
    given = [torch.empty(shape, dtype=torch.bfloat16) for shape in shapes]  # never touched
    segments = planned(mixed, *given).segments
    chosen = [each.candidate.scheduler for each in segments if each.candidate]
    assert chosen[-3:] == ["matmul", "pointwise", "inner_persistent"]


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("shape", [(3, 72, 200), (2, 67, 131)])
def test_rows_of_parts_are_read_turned(shape: tuple[int, int, int]) -> None:
    """`[a * c, b]` to `[a, b, c]`, on the simulator."""
    a, b, c = shape
    x, rows = torch.randn(shape), torch.randn(a * c, b)

    def turned(x: Tensor, rows: Tensor) -> Tensor:
        return x + rows.view(a, c, b).transpose(1, 2)

    with knobs.scope(device="sim"):
        found = torch.compile(turned, backend=backend)(x, rows)
    assert torch.equal(found, turned(x, rows))


HEADS = [torch.empty(2, 3, 1681, 64, dtype=torch.bfloat16) for _ in range(2)]


def test_products_of_heads_read_views_of_their_operands() -> None:
    """What torch's matmul expands has its shape already."""
    scores = planned(lambda q, k: [torch.matmul(q, k.transpose(-1, -2))], *HEADS)
    states = planned(lambda k, v: [torch.matmul(k.transpose(-1, -2), v)], *HEADS)
    assert [
        [s.candidate.scheduler for s in call.segments if s.candidate] for call in (scores, states)
    ] == [
        ["matmul"],
        ["matmul"],
    ]


def test_a_computed_operand_is_stored_as_it_is_computed() -> None:
    """Its rows have an odd number of elements where the summed dimension is the fastest."""
    call = planned(lambda k, v: [torch.einsum("bhsd,bhse->bhde", F.elu(k) + 1, v)], *HEADS)
    assert [s.candidate.scheduler for s in call.segments if s.candidate] == ["pointwise", "matmul"]


def test_softmax_of_columns_is_not_stored_across() -> None:
    """Each element would be a part of a sector of its own."""
    x = torch.empty(11, 390, 241, dtype=torch.bfloat16)
    call = planned(lambda x: [torch.softmax(x.transpose(1, 2), -1)], x)
    assert [s.candidate.scheduler for s in call.segments if s.candidate] == [
        "outer_persistent",
        "pointwise",
    ]


@pytest.mark.few(2)
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("exponent", [-2, -1.5, 1.5, 4])
def test_powers_by_halves_are_products_and_roots(exponent: float) -> None:
    x = torch.tensor([0.0, -0.0, 1e-3, 0.7, 3.0, 2e5, torch.inf, -2.0])
    (segment,) = planned(lambda x: [x.pow(exponent)], x).segments
    assert segment.candidate is not None
    assert not any(getattr(op, "op", "") == "pow" for op in segment.candidate.fusion.operations)
    fast = torch.compile(lambda x: x.pow(exponent), backend=backend)
    wanted = x.double().pow(exponent).float()
    torch.testing.assert_close(fast(x), wanted, rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.usefixtures("fresh")
def test_a_sum_of_few_elements_of_windows_reads_what_is_padded() -> None:
    def summed(x: Tensor) -> Tensor:
        return F.silu(F.pad(x, (3, 0)).unfold(-1, 4, 1).sum(-1))

    x = torch.randn(5, 33, dtype=torch.bfloat16)
    (segment,) = planned(lambda x: [summed(x)], x).segments
    assert segment.candidate is not None
    assert segment.candidate.scheduler == "pointwise"
    wanted = summed(x.double())
    found = torch.compile(summed, backend=backend)(x)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-2, atol=1e-2)


def test_a_product_of_a_vector_is_computed_once() -> None:
    """Its length divides it."""

    def unit(a: Tensor, v: Tensor) -> list[Tensor]:
        u = a @ v
        return [u / u.norm()]

    segments = planned(unit, torch.empty(2480, 2480), torch.empty(2480)).segments
    assert [len(each.segment.inputs) for each in segments] == [2, 1]
