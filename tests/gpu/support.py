"""What the tests on the GPU share: runs a fused function and holds it against float64."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

import warpsmith
from bench.problem import Problem, outputs_of
from warpsmith.testing import relative_error

EPSILON = {torch.float64: 2.3e-16, torch.float32: 1.2e-7, torch.float16: 9.8e-4}
EPSILON[torch.bfloat16] = 7.9e-3


def fused(function: Callable[..., Any], *args: Any) -> list[torch.Tensor]:
    """Outputs of the fused function, run twice: both runs must agree bit for bit."""
    kernel = warpsmith.fuse(function)
    first, second = kernel(*args), kernel(*args)
    torch.cuda.synchronize()
    first = list(first) if isinstance(first, tuple) else [first]
    second = list(second) if isinstance(second, tuple) else [second]
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a.nan_to_num(), b.nan_to_num())
    return first


def assert_near(
    actual: torch.Tensor, expected: torch.Tensor, ulps: float = 4, terms: int = 1
) -> None:
    """Within some ulps of the result's type; `terms` were added up in float to get it."""
    assert actual.shape == expected.shape
    if not actual.dtype.is_floating_point:
        assert torch.equal(actual, expected.to(actual.dtype))
        return
    wide = expected.double()
    assert torch.equal(actual.isnan(), wide.isnan())
    compute = EPSILON[torch.float64 if actual.dtype is torch.float64 else torch.float32]
    scale = wide.abs().clamp_min(1e-6)
    if terms > 1:
        scale = scale.clamp_min(float(wide.nan_to_num().abs().max()) if wide.numel() else 1.0)
    allowed = ulps * (EPSILON[actual.dtype] + compute * terms**0.5) * scale
    if actual.dtype is torch.float16:
        allowed = allowed + 6e-8  # the distance of its subnormal numbers
    finite = wide.isfinite() & actual.double().isfinite()
    assert torch.equal(actual.double()[~finite].nan_to_num(), wide[~finite].nan_to_num())
    off = ((actual.double() - wide).abs() - allowed)[finite]
    assert off.numel() == 0 or float(off.max()) <= 0, float(off.max())


def right_and_the_same_again(
    problem: Problem, largest: Mapping[str, float], **options: Any
) -> None:
    """Hold a problem of `bench` against float64, by the norm of each result.

    Sums of what is drawn may nearly cancel: a float result may be as wrong as twice torch's own.

    Args:
        largest: relative errors below which a result is right, by type.
        options: of `fuse`.
    """
    inputs = problem.draw()
    call = warpsmith.fuse(problem.fused, **options)
    found = outputs_of(call(*inputs))
    again = outputs_of(call(*inputs))
    exact = outputs_of(problem.eager(*(x.double() for x in inputs)))
    theirs = outputs_of(problem.eager(*inputs))
    for got, want, twice, other in zip(found, exact, again, theirs, strict=True):
        most = 2 * relative_error(other, want) if problem.dtype == "float" else 0.0
        assert relative_error(got, want) < max(most, largest[problem.dtype])
        assert torch.equal(got, twice)


def the_same_bits_a_thousand_times(problem: Problem) -> None:
    """Launch a problem of `bench` again and again."""
    inputs = problem.draw()
    call = warpsmith.fuse(problem.fused)
    first = [t.clone() for t in outputs_of(call(*inputs))]
    for _ in range(1000):
        again = outputs_of(call(*inputs))
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
