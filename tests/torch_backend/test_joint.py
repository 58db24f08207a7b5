"""What is changed where forward and backward are one graph."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv1d, interpolate
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from warpsmith.torch_backend.backend import backend

pytestmark = pytest.mark.usefixtures("fresh")


class Ran(TorchDispatchMode):  # type: ignore[misc]  # torch is not analysed
    """Names of the operations that torch runs inside."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.__name__.partition(".")[0])
        return func(*args, **(kwargs or {}))


def gradients(program: Callable[..., Tensor], *inputs: Tensor) -> tuple[list[Tensor], list[str]]:
    """Those of all inputs that are real numbers, and what torch ran for them."""
    given = [x.detach().requires_grad_() if x.is_floating_point() else x for x in inputs]
    result = program(*given)
    with Ran() as ran:
        result.backward(torch.linspace(0, 1, result.numel(), dtype=result.dtype).view_as(result))
    return [x.grad for x in given if x.grad is not None], ran.names


def in_order(x: Tensor, keys: Tensor) -> Tensor:
    return x[torch.sort(keys)[1]].exp()


def and_back(x: Tensor, keys: Tensor) -> Tensor:
    order = torch.sort(keys)[1]
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(order.shape[0])
    return x[order].exp()[inverse].sin()


def and_back_by_a_sort(x: Tensor, keys: Tensor) -> Tensor:
    order = torch.argsort(keys)
    return x[order].exp()[torch.argsort(order)].sin()


def of_words(x: Tensor, keys: Tensor) -> Tensor:
    """Each row for two keys, as the two experts of a word read it."""
    return x[: len(keys) // 2][torch.sort(keys)[1] // 2].exp()


def chosen(x: Tensor, keys: Tensor) -> Tensor:
    return x[keys].exp()


def of_more_words(x: Tensor, keys: Tensor) -> Tensor:
    """The last rows are read by fewer than three keys."""
    return x[torch.sort(keys)[1] // 3].exp()


def at_places_of_one(x: Tensor, keys: Tensor) -> Tensor:
    """What is put at each place of an order is one number, so that no order is inverted."""
    order = torch.argsort(keys)
    return x[torch.zeros_like(order).index_put((order,), torch.arange(1))].exp()


def by_columns(x: Tensor, keys: Tensor) -> Tensor:
    """A sort of each column gives places of columns, each many times."""
    return x[torch.sort(keys.view(4, 2), 0)[1]].exp()


@pytest.mark.few(2)
@pytest.mark.parametrize("program", [in_order, and_back, and_back_by_a_sort, of_words])
def test_rows_that_a_sort_ordered_are_read_back(program: Callable[..., Tensor]) -> None:
    x, keys = torch.randn(8, 3), torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])
    found, ran = gradients(torch.compile(program, backend=backend), x, keys)
    expected, by_torch = gradients(program, x, keys)
    torch.testing.assert_close(found, expected)
    assert not any("index_put" in name for name in ran)
    assert any("index_put" in name for name in by_torch)


def test_a_falling_sort_of_an_order_is_not_its_inverse() -> None:
    def back_to_front(x: Tensor, keys: Tensor) -> Tensor:
        order = torch.argsort(keys)
        return x[order].exp()[torch.argsort(order, descending=True)].sin()

    x, keys = torch.randn(8, 3), torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])
    found, _ = gradients(torch.compile(back_to_front, backend=backend), x, keys)
    torch.testing.assert_close(found, gradients(back_to_front, x, keys)[0])


def shared(x: Tensor, keys: Tensor) -> Tensor:
    """Two rows of an order for each row, as many as there are."""
    return x.view(-1, 3)[torch.sort(torch.cat([keys, -keys]))[1] // 2].exp()


@pytest.mark.parametrize("program", [in_order, shared])
def test_an_order_of_any_length_is_read_back(program: Callable[..., Tensor]) -> None:
    fast = torch.compile(program, backend=backend, dynamic=True)
    for length in (8, 12):
        x, keys = torch.randn(length, 3), torch.randint(0, 9, (length,))
        found, _ = gradients(fast, x, keys)
        torch.testing.assert_close(found, gradients(program, x, keys)[0])


@pytest.mark.few(2)
@pytest.mark.parametrize("program", [chosen, of_more_words, by_columns, at_places_of_one])
def test_rows_that_are_read_more_than_once_are_added_up(program: Callable[..., Tensor]) -> None:
    x, keys = torch.randn(8, 3), torch.tensor([3, 1, 4, 1, 5, 5, 2, 6])
    found, ran = gradients(torch.compile(program, backend=backend), x, keys)
    torch.testing.assert_close(found, gradients(program, x, keys)[0])
    assert any("index_put" in name for name in ran)


def masked(x: Tensor, keys: Tensor, weight: Tensor) -> Tensor:
    """What torch computes, twice behind one mask, as that of words serves all their products."""
    mask = (keys > 2)[:, None, None]
    left, right = torch.where(mask, 0, conv1d(x, weight)).split([4, 4], 1)
    return torch.where(mask, 0, conv1d(left.sigmoid() * right, weight)).sin()


def scaled(x: Tensor, keys: Tensor, weight: Tensor) -> Tensor:
    """The same of factors, each of a channel, too."""
    factor, channels = keys.to(x.dtype)[:, None, None], weight.sum((1, 2))[:, None]
    left, right = ((conv1d(x, weight) * factor) * channels).chunk(2, 1)
    return (conv1d(left.sigmoid() * right, weight) * factor * channels).sin()


def whole(x: Tensor, keys: Tensor, weight: Tensor) -> Tensor:
    """What is masked is read as a whole, and leaves."""
    return torch.where((keys > 2)[:, None, None], 0, conv1d(x, weight))


@pytest.mark.few(2)
@pytest.mark.parametrize(("program", "kept"), [(masked, True), (scaled, True), (whole, False)])
def test_what_torch_gave_is_saved_and_not_what_follows(
    program: Callable[..., Tensor], kept: bool
) -> None:
    x, keys = torch.randn(4, 4, 64).double(), torch.tensor([3, 1, 4, 1])
    weight = torch.randn(8, 4, 1).double()
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        found, _ = gradients(torch.compile(program, backend=backend), x, keys, weight)
    torch.testing.assert_close(found, gradients(program, x, keys, weight)[0])
    given = conv1d(x, weight)
    assert any(torch.equal(each, given) for each in saved) == kept


def test_rows_of_words_are_read_again_and_not_saved() -> None:
    words, weight = torch.randint(9, (3, 5)), torch.randn(9, 4)

    def normed(weight: Tensor) -> Tensor:
        return torch.nn.functional.rms_norm(torch.nn.functional.embedding(words, weight), (4,))

    fast = torch.compile(normed, backend=backend)
    result = fast(weight.requires_grad_())
    assert (3, 5, 4) not in {tuple(saved.shape) for saved in result.grad_fn.saved_tensors}
    expected, _ = gradients(normed, weight)
    found, _ = gradients(fast, weight)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_which_elements_are_the_largest_is_not_found_again(dtype: torch.dtype) -> None:
    """Of others than forward saw the largest of, none would be."""

    def largest(x: Tensor) -> Tensor:
        return (x * 1.1).sin().amax(0)

    x = torch.linspace(-1, 1, 35, dtype=torch.float64).reshape(5, 7).to(dtype)
    fast = torch.compile(largest, backend=backend)
    saved = fast(x.requires_grad_()).grad_fn.saved_tensors
    assert [each.shape for each in saved if each.dtype is torch.bool] == [(5, 7)]
    found, wanted = (gradients(each, x)[0][0] for each in (fast, largest))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9 if dtype is torch.float64 else 0.1)


def test_what_a_model_says_of_checkpoints_holds() -> None:
    words, weight = torch.randint(9, (3, 5)), torch.randn(9, 4)

    def layer(x: Tensor) -> Tensor:
        return torch.nn.functional.rms_norm(x.sin(), (4,))

    def program(weight: Tensor) -> Tensor:
        x = torch.nn.functional.embedding(words, weight)
        return checkpoint(layer, x, use_reentrant=False).exp()

    fast = torch.compile(program, backend=backend)
    result = fast(weight.requires_grad_())
    assert (3, 5, 4) in {tuple(saved.shape) for saved in result.grad_fn.saved_tensors}
    torch.testing.assert_close(gradients(fast, weight)[0], gradients(program, weight)[0])


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("mode", "scale", "added"), [("nearest", 2, 0), ("nearest", 1.5, 1), ("bilinear", 2, 4)]
)
def test_gradients_of_enlarged_images_are_not_sorted(mode: str, scale: float, added: int) -> None:
    def enlarged(x: Tensor) -> Tensor:
        return interpolate(x, scale_factor=scale, mode=mode)

    x = torch.randn(2, 3, 4, 6)
    found, ran = gradients(torch.compile(enlarged, backend=backend), x)
    torch.testing.assert_close(found, gradients(enlarged, x)[0])
    assert (ran.count("index_add"), "index_put" in ran) == (added, False)


def test_where_no_order_may_differ_other_pixels_are_sorted() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        half = torch.compile(lambda x: interpolate(x, scale_factor=1.5), backend=backend)
        _, ran = gradients(half, torch.randn(2, 3, 4, 6))
    finally:
        torch.use_deterministic_algorithms(False)
    assert "index_add" not in ran


@pytest.mark.few(2)
@pytest.mark.parametrize("shape", [(), (1,), (3, 1)])
def test_values_that_are_repeated_along_places_are_added_by_torch(shape: tuple[int, ...]) -> None:
    def counted(x: Tensor) -> Tensor:
        places = torch.arange(3)[:, None], torch.arange(2)
        return torch.zeros(5, 4).index_put(places, x.exp(), accumulate=True) * x.sum()

    x = torch.randn(shape)
    found, _ = gradients(torch.compile(counted, backend=backend), x)
    torch.testing.assert_close(found, gradients(counted, x)[0])
