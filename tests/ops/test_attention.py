"""Attention and its gradients against PyTorch's."""

from typing import Any

import pytest
import torch

from tests.support.against_torch import results
from warpsmith import ops

FORMS = {
    "plain": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.3},
}


def _operands(dtype: torch.dtype, rows: int = 5) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = ((2, rows, 4), (2, 6, 4), (2, 6, 3))
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_results(form: str, static: bool) -> None:
    given, words = _operands(torch.float64), FORMS[form]
    found, total = results(lambda q, k, v: ops.attention(q, k, v, **words), *given, static=static)
    wanted = torch.nn.functional.scaled_dot_product_attention(*given, **words)
    torch.testing.assert_close(found, wanted)
    if form == "scaled":
        scores = given[0] @ given[1].mT * 0.3
        torch.testing.assert_close(total, torch.logsumexp(scores, -1))


def test_a_mask_and_a_bias() -> None:
    q, k, v = _operands(torch.float64)
    mask = torch.arange(30).reshape(5, 6) % 3 != 0
    mask[2] = False
    bias = torch.linspace(-1, 1, 30, dtype=torch.float64).reshape(5, 6)
    found, total = results(lambda *given: ops.attention(*given), q, k, v, bias, mask)
    scores = (q @ k.mT / 2 + bias).masked_fill(~mask, -torch.inf)
    wanted = torch.softmax(scores, -1).nan_to_num(0) @ v
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(total, torch.logsumexp(scores, -1))
    assert not found[:, 2].any()


@pytest.mark.parametrize("form", FORMS)
def test_gradients(form: str) -> None:
    words: dict[str, Any] = FORMS[form]
    given = [each.requires_grad_() for each in _operands(torch.float64)]
    made = torch.nn.functional.scaled_dot_product_attention(*given, **words)
    incoming = torch.linspace(-1, 1, made.numel(), dtype=made.dtype).reshape(made.shape)
    wanted = torch.autograd.grad(made, given, incoming)

    def function(q: Any, k: Any, v: Any, gradient: Any) -> Any:
        output, total = ops.attention(q, k, v, **words)
        return ops.attention_backward(gradient, q, k, v, output, total, **words)

    found = results(function, *(each.detach() for each in given), incoming)
    torch.testing.assert_close(found, list(wanted))


def test_what_is_dropped_is_dropped_backward_too() -> None:
    """By differences: the gradient of a sum of results, with the same numbers drawn."""
    q, k, v = _operands(torch.float64, rows=3)
    words: dict[str, Any] = {"dropped": 0.4, "drawn": (7, 1)}

    def forward(q: Any, k: Any, v: Any) -> Any:
        return ops.attention(q, k, v, **words)[0]

    def backward(q: Any, k: Any, v: Any, gradient: Any) -> Any:
        output, total = ops.attention(q, k, v, **words)
        return ops.attention_backward(gradient, q, k, v, output, total, **words)

    (made,) = results(forward, q, k, v)
    assert (made - torch.nn.functional.scaled_dot_product_attention(q, k, v)).abs().max() > 0.1
    found = results(backward, q, k, v, torch.ones_like(made))
    step = 1e-6
    for place, gradient in enumerate(found):
        moved = [each.clone() for each in (q, k, v)]
        moved[place][0, 1, 2] += step
        (more,) = results(forward, *moved)
        assert float((more - made).sum()) / step == pytest.approx(
            float(gradient[0, 1, 2]), abs=1e-4
        )


def test_options_that_a_call_passes() -> None:
    given = _operands(torch.float64)

    def function(q: Any, k: Any, v: Any, causal: Any, scale: Any, share: Any) -> Any:
        return ops.attention(q, k, v, is_causal=causal, scale=scale, dropped=share, drawn=(7, 1))[0]

    for causal in (True, False):
        (found,) = results(function, *given, causal, 0.25, 0.0)
        wanted = torch.nn.functional.scaled_dot_product_attention(
            *given, is_causal=causal, scale=0.25
        )
        torch.testing.assert_close(found, wanted)
    (some,) = results(function, *given, False, 0.25, 0.4)
    fixed = {"scale": 0.25, "dropped": 0.4, "drawn": (7, 1)}
    (same,) = results(lambda q, k, v: ops.attention(q, k, v, **fixed)[0], *given)
    torch.testing.assert_close(some, same)
    (none,) = results(function, *given, False, 0.25, 1.0)
    assert not none.any()


def test_types() -> None:
    given = _operands(torch.bfloat16)
    found, total = results(lambda q, k, v: ops.attention(q, k, v), *given)
    wanted = torch.nn.functional.scaled_dot_product_attention(*given)
    assert found.dtype is torch.bfloat16
    assert total.dtype is torch.float32
    torch.testing.assert_close(found, wanted, atol=2e-2, rtol=2e-2)
