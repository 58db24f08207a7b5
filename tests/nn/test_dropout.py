"""Dropout, residual add and norm in one call: against torch with the same mask."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.support.gradients import assert_right, drawn, with_gradients
from warpsmith.errors import ArgumentError
from warpsmith.nn import functional
from warpsmith.ops.table import TABLE

torch_functional = torch.nn.functional
SEED = torch.tensor([123456789012345678])
SHAPE, ROW = (6, 5, 16), (16,)


pytestmark = pytest.mark.usefixtures("on_numpy")


def kept(shape: tuple[int, ...], p: float) -> torch.Tensor:
    """Where an element is not dropped."""
    places, least = np.arange(np.prod(shape)).reshape(shape), np.ceil(p * 2**24)
    return torch.from_numpy(TABLE["kept"].numpy(places, least, SEED.numpy(), np.int64(0)))


def ours(p: float, centered: bool) -> Any:
    if centered:
        return lambda x, r, w, b: functional.dropout_add_layer_norm(
            x, r, ROW, w, b, p, 1e-5, seed=SEED
        )
    return lambda x, r, w: functional.dropout_add_rms_norm(x, r, ROW, w, p, 1e-5, seed=SEED)


def theirs(p: float, centered: bool) -> Any:
    mask = kept(SHAPE, p)

    def composed(x: Any, residual: Any, *parameters: Any) -> Any:
        total = x * mask * (1 / (1 - p) if p < 1 else 0) + residual
        norm = torch_functional.layer_norm if centered else torch_functional.rms_norm
        return norm(total, ROW, *parameters, eps=1e-5), total

    return composed


@pytest.mark.parametrize("p", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("centered", [False, True], ids=["rms", "layer"])
def test_results_and_gradients(centered: bool, p: float) -> None:
    inputs = [drawn(s, torch.float32, k) for k, s in enumerate((SHAPE, SHAPE, ROW, ROW))]
    assert_right(ours(p, centered), theirs(p, centered), *inputs[: 3 + centered], ulps=16)


def test_types() -> None:
    x, residual = drawn(SHAPE, torch.bfloat16), drawn(SHAPE, torch.float32, 1)
    weight = drawn(ROW, torch.bfloat16, 2)
    found = with_gradients(ours(0.5, False), (x, residual, weight))
    kinds = [torch.bfloat16, torch.float32, torch.bfloat16, torch.float32, torch.bfloat16]
    assert [t.dtype for t in found] == kinds
    dropped = ~kept(SHAPE, 0.5)
    assert not found[2][dropped].any()
    assert torch.equal(found[1][dropped], residual[dropped])


@pytest.mark.parametrize("used", [0, 1])
def test_one_of_two_results_may_go_unused(used: int) -> None:
    inputs = [drawn(s, torch.float32, k) for k, s in enumerate((SHAPE, SHAPE, ROW))]
    gradients = []
    for function in (ours(0.5, False), theirs(0.5, False)):
        leaves = [t.clone().requires_grad_() for t in inputs]
        (function(*leaves)[used] ** 3).sum().backward()
        gradients.append([torch.zeros(ROW) if t.grad is None else t.grad for t in leaves])
    torch.testing.assert_close(*gradients, rtol=2.0**-19, atol=2.0**-14)  # terms of up to 2^7


def test_only_what_needs_a_gradient_gets_one() -> None:
    for wanted in ((True, False), (False, True)):
        x, residual = (
            drawn(SHAPE, torch.float32, k).requires_grad_(w) for k, w in enumerate(wanted)
        )
        y, total = functional.dropout_add_rms_norm(x, residual, ROW, dropout_p=0.5)
        (y.sum() + total.sum()).backward()
        assert [x.grad is not None, residual.grad is not None] == list(wanted)


def test_seeds_come_from_torch() -> None:
    x, residual = drawn(SHAPE, torch.float32), torch.zeros(SHAPE)
    totals = []
    for start in (1, 1, 2):
        torch.manual_seed(start)
        totals += [functional.dropout_add_rms_norm(x, residual, ROW)[1] for _ in range(2)]
    assert torch.equal(totals[0], totals[2])
    assert torch.equal(totals[1], totals[3])
    assert not torch.equal(totals[0], totals[1])
    assert not torch.equal(totals[0], totals[4])
    share = (totals[0] == 0).float().mean().item()
    assert 0.4 < share < 0.6


def test_nothing_is_dropped_in_evaluation() -> None:
    x, residual = drawn(SHAPE, torch.float32), drawn(SHAPE, torch.float32, 1)
    want = functional.add_rms_norm(x, residual, ROW)
    for options in ({"training": False}, {"dropout_p": 0.0}):
        found = functional.dropout_add_rms_norm(x, residual, ROW, **options)
        assert all(torch.equal(a, b) for a, b in zip(found, want, strict=True))


def test_compiled_and_checkpointed() -> None:
    inputs = [drawn(s, torch.float32, k) for k, s in enumerate((SHAPE, SHAPE, ROW))]
    function = ours(0.3, False)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    found, want = with_gradients(compiled, inputs), with_gradients(function, inputs)
    assert all(torch.equal(a, b) for a, b in zip(found, want, strict=True))

    def again(*given: Any) -> Any:
        def draws(x: Any, r: Any, w: Any) -> Any:
            return functional.dropout_add_rms_norm(x, r, ROW, w, 0.5)

        return torch.utils.checkpoint.checkpoint(draws, *given, use_reentrant=False)

    y, total, dx, dresidual, _ = with_gradients(again, inputs)
    dropped = total == inputs[1]
    assert 0.4 < dropped.float().mean().item() < 0.6
    assert torch.equal(dx == 0, dropped)
    assert torch.equal(dx[~dropped], 2 * dresidual[~dropped])
    assert y.shape == SHAPE


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dropout_p": 1.5}, "WS0364.*dropout_p 1.5"),
        ({"seed": torch.tensor([1.0])}, "WS0364.*seed of type torch.float32"),
        ({"seed": torch.tensor([1, 2])}, "WS0364.*shape .2,."),
    ],
)
def test_refused(options: dict[str, Any], words: str) -> None:
    x = torch.zeros(4, 16)
    with pytest.raises(ArgumentError, match=words):
        functional.dropout_add_rms_norm(x, x, ROW, **options)
