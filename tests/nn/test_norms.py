"""Norms with gradients: shapes, types, layouts and what is left out, against torch in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support.gradients import assert_right, drawn, with_gradients
from warpsmith.nn import calls, functional, operators

torch_functional = torch.nn.functional
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
EPS = 1e-5


pytestmark = pytest.mark.usefixtures("on_numpy")


@pytest.fixture(params=[calls.FEW, 0], ids=["computed again", "kept"], autouse=True)
def statistics(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what gradients have mean and deviation."""
    monkeypatch.setattr(calls, "FEW", request.param)


def layer(row: tuple[int, ...], module: Any = functional) -> Callable[..., Any]:
    return lambda x, weight=None, bias=None: module.layer_norm(x, row, weight, bias, EPS)


def rms(row: tuple[int, ...], module: Any = functional) -> Callable[..., Any]:
    return lambda x, weight=None: module.rms_norm(x, row, weight, EPS)


def added_layer(row: tuple[int, ...]) -> Callable[..., Any]:
    return lambda x, r, w, b: functional.add_layer_norm(x, r, row, w, b, EPS)


def added_rms(row: tuple[int, ...]) -> Callable[..., Any]:
    return lambda x, r, w: functional.add_rms_norm(x, r, row, w, EPS)


def torch_added(norm: Callable[..., Any], row: tuple[int, ...]) -> Callable[..., Any]:
    def composed(x: torch.Tensor, residual: torch.Tensor, *parameters: torch.Tensor) -> Any:
        return norm(row, torch_functional)(x + residual, *parameters), x + residual

    return composed


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_results_and_gradients(dtype: torch.dtype) -> None:
    x = drawn((5, 3, 16), dtype)
    weight, bias = drawn((16,), dtype, 2), drawn((16,), dtype, 3)
    row = (16,)
    assert_right(layer(row), layer(row, torch_functional), x, weight, bias)
    assert_right(rms(row), rms(row, torch_functional), x, weight)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_with_a_residual(dtype: torch.dtype) -> None:
    """Multiples of 1/8, so that the sum is exact in each type."""
    x, residual = ((drawn((5, 3, 16), torch.float32, k) * 8).round().to(dtype) / 8 for k in (0, 1))
    weight, bias = drawn((16,), dtype, 2), drawn((16,), dtype, 3)
    row = (16,)
    assert_right(added_layer(row), torch_added(layer, row), x, residual, weight, bias)
    assert_right(added_rms(row), torch_added(rms, row), x, residual, weight)


@pytest.mark.parametrize(
    ("shape", "row"),
    [((16,), (16,)), ((2, 3, 4, 5), (4, 5)), ((6, 4), (6, 4)), ((3, 1), (1,)), ((1, 7), (7,))],
)
def test_shapes(shape: tuple[int, ...], row: tuple[int, ...]) -> None:
    x, weight, bias = (drawn(s, torch.float32, k) for k, s in enumerate((shape, row, row)))
    assert_right(layer(row), layer(row, torch_functional), x, weight, bias, scale=1.0)
    assert_right(rms(row), rms(row, torch_functional), x, weight, scale=1.0)
    assert_right(layer(row), layer(row, torch_functional), x, scale=1.0)


@pytest.mark.parametrize(
    "laid",
    [
        lambda x: x.transpose(0, 1),
        lambda x: x.transpose(1, 2),
        lambda x: x[:, ::2],
        lambda x: x[..., ::2],
        lambda x: x[..., 1:],
        lambda x: x[:1].expand(4, 6, 16),
        lambda x: x[..., :1].expand(4, 6, 16),
    ],
    ids=["rows", "columns", "gaps", "steps", "shifted", "repeated rows", "repeated columns"],
)
def test_layouts(laid: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = laid(drawn((4, 6, 16), torch.float32))
    row = (x.shape[-1],)
    weight = drawn((2 * row[0],), torch.float32, 1)[::2]
    given = drawn(x.shape[::-1], torch.float32, 2).permute(2, 1, 0)
    found, want = [], []
    for results, module in ((found, functional), (want, torch_functional)):
        leaf = x.detach().requires_grad_()
        y = layer(row, module)(leaf, weight)
        (dx,) = torch.autograd.grad(y, leaf, given)
        results += [y, dx]
    assert found[0].is_contiguous()
    torch.testing.assert_close(found, want)


def test_gradients_that_are_not_wanted_are_not_computed() -> None:
    x, weight, bias = (drawn(s, torch.float32, k) for k, s in enumerate(((4, 8), (8,), (8,))))
    for wanted in ((True, False, False), (False, True, False), (False, False, True)):
        leaves = [
            t.clone().requires_grad_(w) for t, w in zip((x, weight, bias), wanted, strict=True)
        ]
        functional.layer_norm(leaves[0], (8,), *leaves[1:]).sum().backward()
        assert [leaf.grad is not None for leaf in leaves] == list(wanted)
    assert not functional.layer_norm(x, (8,), weight, bias).requires_grad
    x.requires_grad_()
    with torch.no_grad():
        assert not functional.layer_norm(x, (8,), weight, bias).requires_grad


@pytest.mark.parametrize("used", [(True, False), (False, True), (True, True)], ids=str)
def test_one_of_two_results_may_go_unused(used: tuple[bool, bool]) -> None:
    x, residual, weight = (
        drawn((4, 8), torch.float32),
        drawn((4, 8), torch.float32, 1),
        drawn((8,), torch.float32, 2),
    )

    def loss(results: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return sum((r * r * r).sum() for r, u in zip(results, used, strict=True) if u)

    gradients = []
    for function in (added_rms((8,)), torch_added(rms, (8,))):
        leaves = [t.clone().requires_grad_() for t in (x, residual, weight)]
        loss(function(*leaves)).backward()
        gradients.append([leaf.grad for leaf in leaves])
    for got, want in zip(*gradients, strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("wanted", [(0, 0, 1), (1, 0, 0), (0, 1, 1)], ids=str)
def test_a_sum_needs_a_gradient_where_what_it_is_of_does(wanted: tuple[int, ...]) -> None:
    shapes = (4, 8), (4, 8), (8,)
    leaves = [
        drawn(s, torch.float32).requires_grad_(bool(w)) for s, w in zip(shapes, wanted, strict=True)
    ]
    expected = [y.requires_grad for y in torch_added(rms, (8,))(*leaves)]
    assert [y.requires_grad for y in added_rms((8,))(*leaves)] == expected
    x, residual, weight = leaves
    results = operators.norm(x, residual, weight, None, None, 1, 1e-5, False, torch.float32, 0.0)
    assert [y.requires_grad for y in results] == [*expected, False, False]


def test_a_residual_in_float_stays_so() -> None:
    x, residual = drawn((4, 8), torch.bfloat16), drawn((4, 8), torch.float32, 1)
    weight = drawn((8,), torch.float32, 2)
    y, total, dx, dresidual, dweight = with_gradients(added_rms((8,)), (x, residual, weight))
    kinds = [t.dtype for t in (y, total, dx, dresidual, dweight)]
    assert kinds == [torch.bfloat16, torch.float32, torch.bfloat16, torch.float32, torch.float32]
    assert torch.equal(total, x + residual)
    assert torch.equal(dx, dresidual.bfloat16())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_no_epsilon_is_the_one_of_torch(dtype: torch.dtype) -> None:
    x = drawn((4, 8), dtype) * 2.0**-12
    found, want = (m.rms_norm(x, (8,)) for m in (functional, torch_functional))
    torch.testing.assert_close(found, want)


def test_weights_of_other_types() -> None:
    x, weight = drawn((4, 8), torch.bfloat16), drawn((8,), torch.float32, 1)
    y, dx, dweight = with_gradients(layer((8,)), (x, weight))
    exact = with_gradients(layer((8,), torch_functional), (x, weight), wide=True)
    assert [t.dtype for t in (y, dx, dweight)] == [torch.bfloat16, torch.bfloat16, torch.float32]
    torch.testing.assert_close(dweight.double(), exact[2], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(0, 8), (3, 0, 8), (3, 0)], ids=str)
def test_tensors_of_no_elements(shape: tuple[int, ...]) -> None:
    x, row = torch.zeros(shape, requires_grad=True), shape[-1:]
    weight, bias = (torch.ones(row, requires_grad=True) for _ in range(2))
    y = functional.layer_norm(x, row, weight, bias)
    y.sum().backward()
    assert y.shape == x.grad.shape == shape
    assert not weight.grad.any()
    assert not bias.grad.any()
    a, b = functional.add_rms_norm(x, x, row)
    assert a.shape == b.shape == shape


def test_a_call_and_its_gradient_are_a_fusion_each() -> None:
    from warpsmith.nn import programs

    x, weight = (t.requires_grad_() for t in (drawn((4, 24), torch.float32), torch.ones(24)))
    before = programs.norm.traces, programs.norm_gradient.traces
    for rows in (4, 9, 2):
        y = functional.rms_norm(x[:1].expand(rows, 24).contiguous(), (24,), weight)
        y.sum().backward()
    assert programs.norm.traces <= before[0] + 1
    assert programs.norm_gradient.traces <= before[1] + 1
