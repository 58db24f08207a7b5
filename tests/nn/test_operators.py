"""What torch sees of the training doors: compiled, traced, differentiated in other ways."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tests.support.gradients import drawn, tuple_of, with_gradients
from warpsmith import knobs, nn
from warpsmith.errors import WarpsmithError
from warpsmith.nn import calls, functional, modes, operators
from warpsmith.nn.softmaxes import SOFTMAX

ROW = (16,)
SEED = torch.tensor([2**62 + 1])


pytestmark = pytest.mark.usefixtures("on_numpy", "compiled_anew")


def layer(x: Any, weight: Any, bias: Any) -> Any:
    return functional.layer_norm(x, ROW, weight, bias)


def added(x: Any, residual: Any, weight: Any) -> Any:
    return functional.add_rms_norm(x, residual, ROW, weight)


def twice(x: Any) -> Any:
    return functional.log_softmax(functional.softmax(x * 2, 0), 1)


CASES: list[tuple[Callable[..., Any], tuple[tuple[int, ...], ...], bool]] = [
    (layer, ((4, 3, 16), ROW, ROW), True),
    (added, ((4, 16), (4, 16), ROW), False),
    (twice, ((4, 16),), True),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("function", "shapes", "dynamic"), CASES)
def test_compiled_whole_is_the_same(
    function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...], dynamic: bool
) -> None:
    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (4, 7):
        inputs = [
            drawn((rows, *shape[1:]) if shape != ROW else ROW, torch.float32, k)
            for k, shape in enumerate(shapes)
        ]
        got, want = with_gradients(compiled, inputs), with_gradients(function, inputs)
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
        with torch.no_grad():
            got, want = tuple_of(compiled(*inputs)), tuple_of(function(*inputs))
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def test_the_sum_asks_for_a_gradient_where_one_of_its_terms_does() -> None:
    for learning in ((False, False, True), (True, False, False), (False, True, True)):
        given = [drawn(shape, torch.float32) for shape in ((4, 16), (4, 16), ROW)]
        for tensor, learns in zip(given, learning, strict=True):
            tensor.requires_grad_(learns)
        for function in (added, torch.compile(added, backend="aot_eager")):
            y, total = function(*given)
            assert y.requires_grad
            assert total.requires_grad == any(learning[:2])
            y.sum().backward()


def test_a_compiled_module_learns() -> None:
    torch.manual_seed(0)
    losses = []
    model = torch.nn.Sequential(
        nn.RMSNorm(16), torch.nn.Linear(16, 16), nn.LayerNorm(16), nn.Softmax(-1)
    )
    step = torch.compile(model, fullgraph=True, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x, goal = drawn((8, 16), torch.float32), torch.arange(8)
    for _ in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.nll_loss(step(x).log(), goal)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("operator", "others"),
    [
        (operators.norm, (None, True, True, None, 1, 1e-5, True, torch.float32, 0.0)),
        (operators.norm, (True, True, None, SEED, 1, 1e-5, False, torch.bfloat16, 0.3)),
        (SOFTMAX.operator, (1, True, torch.float32, torch.float32)),
    ],
    ids=["layer_norm", "dropout_add_rms_norm", "log_softmax"],
)
def test_operators_keep_the_rules_of_torch(operator: Any, others: tuple[Any, ...]) -> None:
    x = drawn((4, 16), torch.float32).requires_grad_()
    tensors = iter(
        [drawn((4, 16), torch.float32, 1), *(drawn(ROW, torch.float32, k) for k in (2, 3))]
    )
    first = next(tensors)
    given = []
    for place, value in enumerate(others):
        if value is True and operator is operators.norm and place < 3:
            value = (first if place == 0 else next(tensors)).requires_grad_()
        given.append(value)
    outcome = torch.library.opcheck(operator, (x, *given))
    assert set(outcome.values()) == {"SUCCESS"}


def test_gradients_are_operators_that_keep_the_rules() -> None:
    x, dy, weight = (drawn(s, torch.float32) for s in ((4, 16), (4, 16), ROW))
    mean, scale = torch.zeros(4, 1), torch.ones(4, 1)
    kinds = torch.float32, None, torch.float32, torch.bfloat16
    for given in (
        (dy, None, x, mean, scale, weight, None, 1, 0.0, None, True),
        (dy, x, x, None, scale, None, SEED, 1, 0.5, None, False),
        (dy, None, x, None, None, weight, None, 1, 0.0, 1e-5, True),
    ):
        outcome = torch.library.opcheck(operators.norm_gradient, (*given, *kinds))
        assert set(outcome.values()) == {"SUCCESS"}
    softmax = (dy, x, 0, True, torch.float32, torch.bfloat16)
    assert set(torch.library.opcheck(SOFTMAX.gradient_operator, softmax).values()) == {"SUCCESS"}


def test_tracers_see_operators() -> None:
    x, weight, bias = (drawn(s, torch.float32, k) for k, s in enumerate(((4, 16), ROW, ROW)))
    graph = make_fx(layer)(x, weight, bias)
    assert "warpsmith.norm" in graph.code
    assert torch.equal(graph(x, weight, bias), layer(x, weight, bias))
    shapes = layer(*(t.to("meta") for t in (x, weight, bias)))
    assert shapes.shape == x.shape


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_autocast_on_a_gpu_gives_the_types_of_torch(dtype: torch.dtype) -> None:
    """By shapes and types alone, so that no GPU is needed."""
    before = torch.is_autocast_enabled("cuda")
    torch.set_autocast_enabled("cuda", True)
    try:
        with FakeTensorMode():
            x = torch.empty(4, 16, device="cuda", dtype=dtype)
            for call in (
                lambda module: module.layer_norm(x, ROW),
                lambda module: module.rms_norm(x, ROW),
                lambda module: module.softmax(x, 1),
                lambda module: module.log_softmax(x, 0),
                lambda module: module.softmax(x, 1, dtype=torch.bfloat16),
            ):
                ours, theirs = (call(module) for module in (functional, torch.nn.functional))
                assert ours.dtype is theirs.dtype
            y, total = functional.add_rms_norm(x, x, ROW)
            assert (y.dtype, total.dtype) == (functional.rms_norm(x, ROW).dtype, dtype)
    finally:
        torch.set_autocast_enabled("cuda", before)


def test_autocast_leaves_alone_what_torch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch 2.11 computes no rms_norm in float32."""
    monkeypatch.setattr(modes, "_IN_FLOAT", frozenset({"layer_norm"}))
    before = torch.is_autocast_enabled("cuda")
    torch.set_autocast_enabled("cuda", True)
    try:
        with FakeTensorMode():
            x = torch.empty(4, 16, device="cuda", dtype=torch.bfloat16)
            assert functional.layer_norm(x, ROW).dtype is torch.float32
            assert functional.rms_norm(x, ROW).dtype is torch.bfloat16
    finally:
        torch.set_autocast_enabled("cuda", before)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "operators"])
def test_a_second_gradient_is_refused(compiled: bool) -> None:
    x, weight = (drawn(s, torch.float32).requires_grad_() for s in ((4, 16), ROW))
    for result in (
        operators.norm(x, None, weight, None, None, 1, 1e-5, True, torch.float32, 0.0)[0]
        if compiled
        else functional.layer_norm(x, ROW, weight),
        SOFTMAX.operator(x, 1, False, torch.float32, torch.float32)
        if compiled
        else functional.softmax(x, 1),
    ):
        (dx,) = torch.autograd.grad(result.square().sum(), x, create_graph=True)
        with pytest.raises(WarpsmithError, match="WS0363.*cannot be differentiated again"):
            dx.sum().backward()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_other_ways_to_differentiate_are_refused() -> None:
    x = drawn((4, 16), torch.float32)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        with pytest.raises(WarpsmithError, match="WS0362.*has a tangent"):
            functional.softmax(dual, 1)
        assert functional.softmax(x, 1).shape == x.shape
    for transform in (torch.func.grad, torch.func.vmap):
        with pytest.raises(WarpsmithError, match="WS0362.*transform of torch.func"):
            transform(lambda t: functional.rms_norm(t, ROW[-1:]).sum())(x)


def test_what_a_transform_left_behind_is_a_tensor_again() -> None:
    kept: list[torch.Tensor] = []
    torch.func.grad(lambda t: (kept.append(t), t.sum())[1])(drawn((4, 16), torch.float32))
    (left,) = kept
    weight = drawn(ROW, torch.float32).requires_grad_()
    y = functional.rms_norm(left, ROW, weight)
    y.sum().backward()
    assert weight.grad is not None
    torch.testing.assert_close(y, torch.nn.functional.rms_norm(left, ROW, weight))


def test_backward_runs_under_the_scope_of_its_forward_call() -> None:
    """Also in another thread, as autograd has for GPUs; each place leaves its own traces."""
    x = drawn((4, 16), torch.float32).requires_grad_()
    with knobs.scope(device="reference", rings="prefer"):
        results = functional.rms_norm(x, ROW), functional.softmax(x, 1)
    seen: list[knobs.Knobs | None] = []

    def watching(*_: Any) -> None:
        seen.append(knobs.scoped())

    def backward() -> None:
        for result in results:
            result.sum().backward()

    with pytest.MonkeyPatch.context() as patch:
        for name in ("norm_gradient", "softmax_gradient"):
            original = getattr(calls, name)
            patch.setattr(calls, name, lambda *a, f=original: (watching(), f(*a))[1])
        thread = threading.Thread(target=backward)
        thread.start()
        thread.join()
    assert [k is not None and (k.device, k.rings) for k in seen] == [("reference", "prefer")] * 2


def test_checkpoints_compute_again() -> None:
    x, weight, bias = (drawn(s, torch.float32, k) for k, s in enumerate(((4, 16), ROW, ROW)))

    def again(*given: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(layer, *given, use_reentrant=False)

    found, want = (with_gradients(f, (x, weight, bias)) for f in (again, layer))
    assert all(torch.equal(a, b) for a, b in zip(found, want, strict=True))


def test_inputs_changed_in_place_are_noticed() -> None:
    x = drawn((4, 16), torch.float32).requires_grad_()
    doubled = x * 2
    y = functional.rms_norm(doubled, ROW)
    doubled.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
