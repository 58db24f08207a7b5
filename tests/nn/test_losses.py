"""Cross entropy and its gradient against torch in float64."""

from functools import partial
from typing import Any

import pytest
import torch

from tests.support.gradients import assert_right, drawn, with_gradients
from warpsmith import knobs, nn
from warpsmith.errors import ArgumentError, WarpsmithError
from warpsmith.nn import functional
from warpsmith.nn.loss_programs import LossForm, cross_entropy

theirs = torch.nn.functional.cross_entropy


pytestmark = pytest.mark.usefixtures("on_numpy", "compiled_anew")


def targets(shape: tuple[int, ...], seed: int = 0, ignored: int = -100) -> torch.Tensor:
    """Classes of logits of a shape, some of them to be ignored."""
    generator = torch.Generator().manual_seed(seed)
    rows = shape[:1] + shape[2:] if len(shape) > 1 else ()
    found = torch.randint(shape[min(1, len(shape) - 1)], rows, generator=generator)
    keep = torch.rand(rows, generator=generator) < 0.8
    return torch.where(keep, found, ignored) if rows else found


def wanted(
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    z_loss: float = 0.0,
    ignore_index: int = -100,
    reduction: str = "mean",
    **rest: Any,
) -> torch.Tensor:
    """The same of torch, with a term for the logsumexp."""
    weight = None if weight is None else weight.to(x.dtype)
    target = target.long()
    found = theirs(x, target, weight, ignore_index=ignore_index, reduction=reduction, **rest)
    if not z_loss:
        return found
    dim = min(1, x.ndim - 1)
    kept = target != ignore_index
    squares = torch.where(kept, torch.logsumexp(x, dim) ** 2, 0.0) * z_loss
    if reduction == "none":
        return found + squares
    if reduction == "sum":
        return found + squares.sum()
    own = torch.ones_like(kept, dtype=x.dtype) if weight is None else weight[target.clamp(min=0)]
    return found + squares.sum() / torch.where(kept, own, 0.0).sum()


def check(x: torch.Tensor, target: torch.Tensor, weight: Any = None, **rest: Any) -> None:
    assert_right(
        lambda x: functional.cross_entropy(x, target, weight, **rest),
        lambda x: wanted(x, target, weight, **rest),
        x,
        scale=0.05 if rest.get("reduction", "mean") == "mean" else 1.0,  # of terms that cancel
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.few(5)
def test_results_and_gradients(
    dtype: torch.dtype, reduction: str, smoothing: float, weighted: bool
) -> None:
    weight = torch.rand(13) if weighted else None
    rest = {"reduction": reduction, "label_smoothing": smoothing}
    check(drawn((6, 13), dtype), targets((6, 13)), weight, **rest)
    check(drawn((6, 13), dtype), targets((6, 13)).int(), weight, z_loss=0.01, **rest)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(9,), (1, 9), (4, 9, 1), (4, 9, 5), (2, 9, 3, 2), (5, 1)])
def test_shapes(shape: tuple[int, ...], reduction: str) -> None:
    rest = {"reduction": reduction, "label_smoothing": 0.1, "z_loss": 0.01}
    check(drawn(shape, torch.float32), targets(shape), **rest)


def test_layouts() -> None:
    wide = drawn((6, 40), torch.float32)
    for x in (wide[:, ::2], wide[:, 3:16], wide.T, wide[:1].expand(5, 40)):
        check(x, targets(tuple(x.shape)))
    last = drawn((4, 7, 12), torch.float32).transpose(1, 2)  # tokens of a language model
    check(last, targets(tuple(last.shape)))


def test_another_index_is_ignored() -> None:
    x, target = drawn((40, 9), torch.float32), targets((40, 9), ignored=3)
    check(x, target, ignore_index=3, label_smoothing=0.1)
    check(x, targets((40, 9), ignored=-1), ignore_index=-1)


def test_a_gradient_may_be_zero_or_nothing() -> None:
    x = drawn((3, 5), torch.float32).requires_grad_()
    ignored = torch.full((3,), -100)
    for reduction in ("mean", "sum", "none"):
        ours = functional.cross_entropy(x, ignored, reduction=reduction)
        loss = theirs(x, ignored, reduction=reduction)
        torch.testing.assert_close(ours, loss, equal_nan=True)  # a mean of nothing is NaN
        (dx,) = torch.autograd.grad(ours.sum(), x)
        (their_dx,) = torch.autograd.grad(loss.sum(), x)
        assert torch.equal(dx, their_dx)
        assert not dx.any()


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_no_rows(reduction: str) -> None:
    x = torch.zeros(0, 5, requires_grad=True)
    target = torch.zeros(0, dtype=torch.int64)
    ours = functional.cross_entropy(x, target, reduction=reduction)
    assert ours.shape == theirs(x, target, reduction=reduction).shape
    torch.testing.assert_close(ours, theirs(x, target, reduction=reduction), equal_nan=True)
    (dx,) = torch.autograd.grad(ours.sum(), x)
    assert dx.shape == x.shape


def test_infinite_logits() -> None:
    x = drawn((4, 6), torch.float32)
    x[0, 2], x[1, :5], x[2, 0] = -torch.inf, -torch.inf, torch.nan
    target = torch.tensor([1, 5, 3, 2])
    ours, theirs_ = (
        with_gradients(lambda x, f=f: f(x, target, reduction="none"), [x])
        for f in (functional.cross_entropy, theirs)
    )
    for got, want in zip(ours, theirs_, strict=True):
        torch.testing.assert_close(got, want, equal_nan=True)


def test_large_logits_do_not_overflow() -> None:
    check(drawn((5, 33), torch.float32) * 1e4, targets((5, 33)))


@pytest.mark.parametrize("bad", [7, -1, 2**40])
def test_a_target_that_is_no_class_is_refused(bad: int) -> None:
    """As by an assertion of the device in torch, on all devices."""
    x, target = torch.zeros(3, 7), torch.tensor([0, bad, 1])
    for device in ("reference", "sim"):
        with (
            knobs.scope(device=device),
            pytest.raises(WarpsmithError, match=r"WS0319|the kernel trapped"),
        ):
            functional.cross_entropy(x, target)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loss_and_gradient_in_one_pass(dtype: torch.dtype, reduction: str) -> None:
    x, target = drawn((6, 13), dtype), targets((6, 13))
    rest = {"reduction": reduction, "label_smoothing": 0.1, "z_loss": 0.01}
    for scale in (None, torch.tensor([3.0])):
        loss, dx = functional.cross_entropy_with_gradient(x, target, scale=scale, **rest)
        leaf = x.clone().requires_grad_()
        own = functional.cross_entropy(leaf, target, **rest)
        (own * (1.0 if scale is None else 3.0)).backward()
        tight = {"rtol": 1e-2, "atol": 1e-3} if dtype is torch.bfloat16 else {}
        torch.testing.assert_close(loss, own.detach(), **tight)
        torch.testing.assert_close(dx, leaf.grad, **tight)
    none = functional.cross_entropy_with_gradient(x[:0], target[:0], reduction=reduction)
    assert none[1].shape == (0, 13)


@pytest.mark.few(2)
@pytest.mark.parametrize("columns", [257, 2048, 4100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kernels(dtype: torch.dtype, columns: int) -> None:
    """As the simulator runs them, in one pass and apart."""
    x, target = drawn((5, columns), dtype) * 3, targets((5, columns))
    rest = {"label_smoothing": 0.1, "z_loss": 0.01}
    with knobs.scope(device="sim"):
        check(x, target, **rest)
        loss, dx = functional.cross_entropy_with_gradient(x, target, **rest)
    leaf = x.double().requires_grad_()
    exact = wanted(leaf, target, **rest)
    exact.backward()
    torch.testing.assert_close(loss.double(), exact.detach(), rtol=8e-3, atol=1e-5)
    torch.testing.assert_close(dx.double(), leaf.grad, rtol=8e-3, atol=1e-6)


def test_what_rows_are_counted_by_is_no_kernel_of_its_own() -> None:
    """One for each row's largest logit and sum, and one for the losses and what they are over."""
    x, target = torch.empty(64, 2048, dtype=torch.bfloat16), torch.zeros(64, dtype=torch.int64)
    with knobs.scope(device="sim", target="h200"):
        made = cross_entropy.lower(x, target, None, LossForm("mean", -100, 0.0, 0.0, "bfloat16"))
        assert len(made.compile().kernels) == 2


def test_module_has_torchs_arguments() -> None:
    x, target, weight = drawn((6, 5), torch.float32), targets((6, 5), ignored=2), torch.rand(5)
    given = {"weight": weight, "reduction": "sum", "label_smoothing": 0.2, "ignore_index": 2}
    ours, peer = nn.CrossEntropyLoss(**given), torch.nn.CrossEntropyLoss(**given)
    torch.testing.assert_close(ours(x, target), peer(x, target))
    assert ours.state_dict().keys() == peer.state_dict().keys()
    assert nn.CrossEntropyLoss(z_loss=0.5)(x, target) > nn.CrossEntropyLoss()(x, target)
    with pytest.warns(UserWarning, match="size_average"):
        legacy = functional.cross_entropy(x, target, ignore_index=2, size_average=False)
    torch.testing.assert_close(legacy, theirs(x, target, ignore_index=2, reduction="sum"))


def test_compiled_whole_is_the_same() -> None:
    weight = torch.rand(9)
    for reduction in ("mean", "none"):
        function = partial(
            functional.cross_entropy, weight=weight, reduction=reduction, label_smoothing=0.1
        )
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        for shape in ((4, 9), (4, 9, 3)):
            x, target = drawn(shape, torch.float32), targets(shape)
            ours = with_gradients(lambda x, t=target, f=compiled: f(x, t), [x])
            plain = with_gradients(lambda x, t=target, f=function: f(x, t), [x])
            assert all(torch.equal(a, b) for a, b in zip(ours, plain, strict=True))


def test_a_second_gradient_is_refused() -> None:
    x = drawn((3, 5), torch.float32).requires_grad_()
    loss = functional.cross_entropy(x, targets((3, 5)))
    (dx,) = torch.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(ArgumentError, match="WS0363"):
        dx.sum().backward()


X, T = torch.zeros(4, 7), torch.zeros(4, dtype=torch.int64)
REFUSED = [
    (lambda f: f(X.int(), T), "WS0360.*input of type torch.int32"),
    (lambda f: f(X, X), "WS0360.*target of type torch.float32.*probabilities"),
    (lambda f: f(X, T[:3]), "WS0361.*target of shape .3,. for an input of shape .4, 7"),
    (lambda f: f(X[:, :0], T), "WS0361.*input of shape .4, 0"),
    (lambda f: f(X[0, 0], T[0]), "WS0361.*input of shape"),
    (lambda f: f(X, T, X[:, 0]), "WS0361.*weight of shape .4,. for 7 classes"),
    (lambda f: f(X, T, T[:1].expand(7)), "WS0360.*weight of type torch.int64"),
    (lambda f: f(X, T, reduction="most"), "WS0365.*reduction 'most'"),
    (lambda f: f(X, T, label_smoothing=1.5), "WS0365.*label_smoothing 1.5"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_what_is_no_loss_is_refused(call: Any, words: str) -> None:
    for door in (functional.cross_entropy, functional.cross_entropy_with_gradient):
        with pytest.raises(ArgumentError, match=f"(?s){words}"):
            call(door)


def test_one_gradient_has_one_scale() -> None:
    door = functional.cross_entropy_with_gradient
    for rest in (
        {"reduction": "none"},
        {"scale": torch.ones(2)},
        {"scale": torch.ones((), dtype=torch.int32)},
    ):
        with pytest.raises(ArgumentError, match="WS0365"):
            door(X, T, **rest)
