"""What torch takes and the training doors do not, or neither does, gets a warpsmith error."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from warpsmith import knobs
from warpsmith.errors import ArgumentError
from warpsmith.nn import functional as f

X = torch.zeros(4, 8)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: f.layer_norm(X, (7,)),
            "WS0361.*normalized_shape .7,. for an input of shape .4, 8",
        ),
        (lambda: f.layer_norm(X, ()), "WS0361.*normalized_shape"),
        (lambda: f.rms_norm(X, (2, 4, 8)), "WS0361.*normalized_shape"),
        (lambda: f.rms_norm(X, (8,), X[0, :4]), "WS0361.*a weight of shape .4,."),
        (lambda: f.layer_norm(X, (8,), None, X), "WS0361.*a bias of shape .4, 8."),
        (lambda: f.add_rms_norm(X, X[:1], (8,)), "WS0361.*residual of shape .1, 8."),
        (lambda: f.softmax(X), "WS0361.*softmax got dim None"),
        (lambda: f.log_softmax(X, 2), "WS0361.*dim 2 for an input of 2 dimensions"),
        (lambda: f.layer_norm(X.int(), (8,)), "WS0360.*input of type torch.int32"),
        (lambda: f.add_layer_norm(X, X.int(), (8,)), "WS0360.*residual of type torch.int32"),
        (lambda: f.rms_norm(X, (8,), X[0].bool()), "WS0360.*weight of type torch.bool"),
        (lambda: f.layer_norm(X, (8,), X[0], X[0].int()), "WS0360.*bias of type torch.int32"),
        (lambda: f.softmax(X.to(torch.complex64), 1), "WS0360.*complex64"),
        (lambda: f.softmax(X, 1, dtype=torch.float8_e5m2), "WS0360.*float8"),
        (lambda: f.softmax(X.to_sparse(), 1), "WS0360.*input of layout torch.sparse_coo"),
        (lambda: f.rms_norm(X, (8,), X[0].numpy()), "WS0360"),
    ],
)
def test_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()


def test_tensors_from_a_transform_that_is_over() -> None:
    """They are wrapped, and have no memory; what they wrap counts."""
    kept: list[torch.Tensor] = []

    def leak(x: torch.Tensor) -> torch.Tensor:
        kept.append(x)
        return x.sum()

    torch.func.grad(leak)(torch.randn(2, 16))
    (x,) = kept
    weight = torch.ones(16, requires_grad=True)
    scale = torch.ones(2, 16, requires_grad=True)
    with knobs.scope(device="reference"):
        for result in (f.rms_norm(x, (16,), weight), f.swiglu(x, scale)):
            result.sum().backward()
    assert weight.grad is not None
    assert scale.grad is not None
