"""Functions of torch tensors with their gradients, held against the same in float64."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

EPSILON = {torch.float64: 2.0**-52, torch.float32: 2.0**-23}
EPSILON |= {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
"""Unit of the last place at 1."""


def drawn(shape: Sequence[int], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Normal numbers."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float64).to(dtype)


def tuple_of(found: Any) -> tuple[torch.Tensor, ...]:
    return tuple(found) if isinstance(found, tuple | list) else (found,)


def with_gradients(
    function: Callable[..., Any], inputs: Sequence[torch.Tensor], wide: bool = False
) -> tuple[torch.Tensor, ...]:
    """Results of the function and gradients of its inputs for incoming gradients that are drawn.

    Args:
        wide: compute in float64 with the same inputs and incoming gradients.
    """
    leaves = [t.detach().to(torch.float64 if wide else t.dtype).requires_grad_() for t in inputs]
    results = tuple_of(function(*leaves))
    given = [drawn(r.shape, inputs[0].dtype, 7 + k).to(r) for k, r in enumerate(results)]
    gradients = torch.autograd.grad(results, leaves, given)
    return *(r.detach() for r in results), *gradients


def assert_right(
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    *inputs: torch.Tensor,
    ulps: float = 4.0,
    scale: float = 1e-3,
) -> None:
    """Results and gradients lie within some ulps of what `theirs` gives in float64.

    A result's ulp is that of its type at its largest element, or at `scale`, if that is larger:
    the size of terms that cancel.
    """
    found = with_gradients(ours, inputs)
    exact = with_gradients(theirs, inputs, wide=True)
    assert len(found) == len(exact)
    for got, want in zip(found, exact, strict=True):
        assert got.shape == want.shape
        allowed = ulps * EPSILON[got.dtype] * max(float(want.abs().max()), scale)
        assert float((got.double() - want).abs().max()) <= allowed
    for leaf, gradient in zip(inputs, found[-len(inputs) :], strict=True):
        assert gradient.dtype is leaf.dtype
