"""Cross entropy as an operation of a fusion."""

from typing import Any

import pytest
import torch

from tests.support.against_torch import check, defined, results
from warpsmith import fuse, knobs, ops
from warpsmith.errors import DefinitionError
from warpsmith.nn.loss_programs import LossForm, rows_with_gradient

FORM = LossForm("none", -100, 0.0, 0.0, "float")
X, TARGET = torch.randn(6, 9), torch.tensor([1, 8, -100, 0, 3, 3])


def test_loss_and_logsumexp_are_those_of_torch() -> None:
    loss, lse, total = results(lambda x, t: ops.cross_entropy(x, t), X, TARGET)
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(X, TARGET))
    torch.testing.assert_close(lse, torch.logsumexp(X, 1))
    assert total == 5


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_scalars_of_a_fusion_are_taken(reduction: str) -> None:
    check(
        lambda x, t, s: ops.cross_entropy(x, t, None, s, reduction=reduction)[0],
        lambda x, t, s: torch.nn.functional.cross_entropy(
            x, t, label_smoothing=s, reduction=reduction
        ),
        X,
        TARGET,
        0.25,
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, t: ops.cross_entropy(x, t, reduction="most"), "the reduction 'most'"),
        (lambda x, t: ops.cross_entropy(t, t), "of type Int and 1 dimensions"),
        (lambda x, t: ops.cross_entropy(x, ops.sum(t)), "of 0 dimensions"),
        (lambda x, t: ops.cross_entropy(x, t, x), "weight .* of 2 dimensions"),
        (lambda x, t: ops.cross_entropy_backward(x, x, t, x, x), "weight .* of 2 dimensions"),
    ],
)
def test_operands_that_do_not_fit_are_refused(call: Any, words: str) -> None:
    with pytest.raises(DefinitionError, match=f"WS0188.*{words}"):
        defined(call, X, TARGET)


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1, "z_loss": 1e-4}])
@pytest.mark.parametrize("shape", [(8192, 32000), (4096, 128256), (8192, 31999), (4096, 50257)])
@pytest.mark.few(2)
def test_logits_are_read_once_each_way(shape: tuple[int, int], options: dict[str, float]) -> None:
    """Forward, only numbers of rows cross memory; backward there is one kernel."""
    rows, _ = shape
    forward = fuse(lambda x, t: ops.cross_entropy(x, t, **options))
    backward = fuse(lambda g, x, t, lse: ops.cross_entropy_backward(g, x, t, lse, **options))
    x, target = torch.empty(shape, dtype=torch.bfloat16), torch.empty(rows, dtype=torch.int64)
    with knobs.scope(device="sim", target="h200"):
        said = forward.lower(x, target).compile().explain()
        grad, lse = torch.empty(()), torch.empty(rows)
        one = backward.lower(grad, x, target, lse).compile()
    cuts = [line for line in said.splitlines() if line.startswith("cut ")]
    assert cuts
    assert all(f"float[{rows}]" in line or f"float[{rows},1]" in line for line in cuts)
    assert said.count("kernel 0: T0 ->") == 1
    with knobs.scope(device="sim", target="h200"):
        both = rows_with_gradient.lower(x, target, None, grad, FORM).compile()
    for (kernel,) in (one.kernels, both.kernels):
        assert kernel.n_spills == 0
