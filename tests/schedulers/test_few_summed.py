"""Sums of a few elements that are computed, of repeated ones or for one use."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from warpsmith import FusionDefinition, knobs, ops

A, B = (np.random.default_rng(k).standard_normal((n, 3), np.float32) for k, n in ((0, 9), (1, 40)))


def apart(a: Any, b: Any) -> Any:
    return ops.broadcast(a, [False, True, False]) - ops.broadcast(b, [True, False, False])


def distances(a: Any, b: Any) -> Any:
    d = apart(a, b)
    return ops.sqrt(ops.sum(d * d, [-1]))


def largest(a: Any, b: Any) -> Any:
    return ops.max(ops.abs(apart(a, b)), [-1])


def unit(a: Any, b: Any) -> Any:
    """The differences are needed themselves."""
    d = apart(a, b)
    return d / ops.sum(d * d, [-1], keepdim=True)


def pull(a: Any, b: Any) -> Any:
    """Differences over powers of their lengths, summed: no pair is stored."""
    d = apart(a, b)
    r = ops.rsqrt(ops.sum(d * d, [-1], keepdim=True) + 0.1)
    return ops.sum(d * (r * r * r), [1])


def sizes(a: Any, b: Any) -> Any:
    """Nobody needs what is joined, nor a row's results for each of its elements."""
    return ops.prod(a * 2 + 1, [-1]) * ops.min(ops.abs(a), [-1]) - ops.sum(a * a, [-1])


def unit_rows(a: Any, b: Any) -> Any:
    return a / ops.sqrt(ops.sum(a * a, [-1], keepdim=True)) - ops.prod(a + 1, [-1], keepdim=True)


def of_one(a: Any, b: Any) -> Any:
    """All that is summed lies in memory."""
    return ops.sum(a * a, [-1]) + ops.sum(b, [0, 1])


CASES: dict[str, tuple[Callable[[Any, Any], Any], str, Callable[[], np.ndarray]]] = {
    "distances": (
        distances,
        "pointwise",
        lambda: np.sqrt(((A[:, None] - B) ** 2).sum(-1)),
    ),
    "largest": (largest, "pointwise", lambda: abs(A[:, None] - B).max(-1)),
    "unit": (
        unit,
        "pointwise",
        lambda: (A[:, None] - B) / ((A[:, None] - B) ** 2).sum(-1, keepdims=True),
    ),
    "pull": (
        pull,
        "reduction",
        lambda: (
            (A[:, None] - B) * (((A[:, None] - B) ** 2).sum(-1, keepdims=True) + 0.1) ** -1.5
        ).sum(1),
    ),
    "sizes": (
        sizes,
        "pointwise",
        lambda: (A * 2 + 1).prod(-1) * abs(A).min(-1) - (A * A).sum(-1),
    ),
    "unit rows": (
        unit_rows,
        "inner_persistent",
        lambda: A / np.sqrt((A * A).sum(-1, keepdims=True)) - (A + 1).prod(-1, keepdims=True),
    ),
    "of one": (of_one, "reduction", lambda: (A * A).sum(-1) + B.sum()),
}


@pytest.mark.parametrize("name", CASES)
def test_what_no_input_has_is_summed_without_a_reduction(name: str) -> None:
    program, scheduler, wanted = CASES[name]
    with knobs.scope(device="sim"):
        with FusionDefinition() as fd:
            a, b = (fd.define_tensor([-1, 3], True) for _ in range(2))
            fd.add_output(program(a, b))
        np.testing.assert_allclose(fd.execute([A, B])[0], wanted(), rtol=2e-5)
    assert f"scheduler   {scheduler}" in fd.explain()
    assert fd.explain().startswith("1 kernel") == (name != "of one")
