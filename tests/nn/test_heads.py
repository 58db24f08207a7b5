"""Gated units, rotations of heads and embeddings against torch in float64."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support.gradients import assert_right, drawn, with_gradients
from warpsmith import knobs
from warpsmith.errors import ArgumentError
from warpsmith.nn import embeddings, functional, head_programs
from warpsmith.nn.head_programs import GateForm, TurnForm

torch_functional = torch.nn.functional
TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


pytestmark = pytest.mark.usefixtures("on_numpy", "compiled_anew")


def turned(x: Any, cos: Any, sin: Any, interleaved: bool) -> Any:
    """Rotary positions as models write them."""
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    half = x.shape[-1] // 2
    if cos.shape[-1] == half:
        cos, sin = (
            t.repeat_interleave(2, -1) if interleaved else torch.cat([t, t], -1) for t in (cos, sin)
        )
    if interleaved:
        other = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    else:
        other = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos + other * sin


def angles(shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    angle = drawn(shape, torch.float32, 5)
    return angle.cos(), angle.sin()


@pytest.mark.parametrize("dtype", TYPES)
def test_gated_units(dtype: torch.dtype) -> None:
    inputs = drawn((3, 5, 16), dtype), drawn((3, 5, 16), dtype, 1)
    assert_right(functional.swiglu, lambda a, b: torch_functional.silu(a) * b, *inputs)
    for form in ("none", "tanh"):
        assert_right(
            lambda a, b, f=form: functional.geglu(a, b, f),
            lambda a, b, f=form: torch_functional.gelu(a, approximate=f) * b,
            *inputs,
        )
    halves = torch.cat(inputs, -1)
    assert_right(
        lambda x: functional.swiglu(*x.chunk(2, -1)),
        lambda x: torch_functional.silu(x[..., :16]) * x[..., 16:],
        halves,
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("size", [8, 4])
@pytest.mark.few(3)
def test_rotations(dtype: torch.dtype, interleaved: bool, size: int) -> None:
    x, weight = drawn((2, 5, 3, 8), dtype), drawn((8,), dtype, 1)
    for shape in ((5, 1, size), (2, 5, 1, size), (size,)):
        cos, sin = angles(shape)
        assert_right(
            lambda x, c=cos, s=sin: functional.rotary(x, c, s, interleaved),
            lambda x, c=cos, s=sin: turned(x, c, s, interleaved),
            x,
        )
        assert_right(
            lambda x, w, c=cos, s=sin: functional.rms_norm_rotary(x, w, c, s, 1e-5, interleaved),
            lambda x, w, c=cos, s=sin: turned(
                torch_functional.rms_norm(x, (8,), w, 1e-5), c, s, interleaved
            ),
            x,
            weight,
            ulps=8.0,
        )
    assert_right(
        lambda x: functional.rms_norm_rotary(x, None, cos, sin, 1e-5, interleaved),
        lambda x: turned(torch_functional.rms_norm(x, (8,), None, 1e-5), cos, sin, interleaved),
        x,
        ulps=8.0,
    )


def test_heads_may_lie_otherwise() -> None:
    x = drawn((2, 5, 3, 8), torch.float32).transpose(1, 2)
    cos, sin = angles((5, 8))
    assert_right(lambda x: functional.rotary(x, cos, sin), lambda x: turned(x, cos, sin, False), x)


@pytest.mark.parametrize("dtype", TYPES)
def test_embeddings(dtype: torch.dtype) -> None:
    index, weight = torch.tensor([[3, 0, 3], [1, 3, 6]]), drawn((7, 5), dtype)
    for padding in (None, 3, -1):
        assert_right(
            lambda w, p=padding: functional.embedding(index, w, p),
            lambda w, p=padding: torch_functional.embedding(index, w, p),
            weight,
        )
    assert_right(
        lambda w: functional.embedding(index.int(), w),
        lambda w: torch_functional.embedding(index, w),
        weight,
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("few", [3, 2])
def test_torch_sums_few_words_where_it_does_not_round_on_the_way(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, few: int
) -> None:
    monkeypatch.setattr(embeddings, "FEW", few)
    weight = drawn((4, 8), dtype).requires_grad_()
    y = functional.embedding(torch.tensor([1, 0, 1]), weight, 0)
    assert type(y.grad_fn).__name__ == (
        "EmbeddingBackward0" if few == 3 and weight.element_size() > 2 else "EmbeddingBackward"
    )
    y.sum().backward()
    assert weight.grad is not None
    assert weight.grad[:, 0].tolist() == [0, 2, 0, 0]


def test_nothing_to_compute() -> None:
    x, weight = torch.zeros(0, 4, requires_grad=True), torch.ones(4, requires_grad=True)
    cos, sin = angles((4,))
    for call in (
        lambda: functional.swiglu(x, x),
        lambda: functional.rotary(x, cos, sin),
        lambda: functional.rms_norm_rotary(x, weight, cos, sin),
        lambda: functional.embedding(torch.zeros(0, dtype=torch.int64), torch.ones(3, 4) * weight),
    ):
        found = call()
        assert found.shape == (0, 4)
        found.sum().backward()
    assert not weight.grad.any()


PER_ELEMENT, PER_PAIR = angles((8,)), angles((4,))
CALLS: list[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = [
    (functional.swiglu, ((4, 8), (4, 8))),
    (lambda x: functional.rotary(x, *PER_ELEMENT), ((4, 8),)),
    (lambda x, w: functional.rms_norm_rotary(x, w, *PER_PAIR), ((4, 8), (8,))),
    (lambda w: functional.embedding(torch.tensor([1, 0, 1]), w), ((4, 8),)),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("function", "shapes"), CALLS)
def test_compiled_whole_is_the_same(function: Any, shapes: Any) -> None:
    inputs = [drawn(shape, torch.float32, k) for k, shape in enumerate(shapes)]
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    got, want = with_gradients(compiled, inputs), with_gradients(function, inputs)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize(("function", "shapes"), CALLS)
def test_a_second_gradient_is_refused(
    monkeypatch: pytest.MonkeyPatch, function: Any, shapes: Any
) -> None:
    monkeypatch.setattr(embeddings, "FEW", 0)  # torch has a second gradient of few words
    leaves = [drawn(s, torch.float32, k).requires_grad_() for k, s in enumerate(shapes)]
    found = function(*leaves)
    first = torch.autograd.grad(found.square().sum(), leaves, create_graph=True)
    with pytest.raises(ArgumentError, match="WS0363"):
        sum(t.sum() for t in first).backward()


X = torch.zeros(2, 3, 8)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: f.swiglu(X, X[:1]), "WS0361.*gate of shape .2, 3, 8. and up of shape .1, 3, 8"),
        (lambda f: f.geglu(X, X.int()), "WS0360.*up of type torch.int32"),
        (lambda f: f.rotary(X, X[0, 0, :3], X[0, 0, :3]), "WS0361.*angles of shapes .3,."),
        (lambda f: f.rotary(X, X[0, :2], X[0, :2]), "WS0361.*angles of shapes .2, 8."),
        (lambda f: f.rotary(X, X[0], X[0, :1]), "WS0361.*angles"),
        (lambda f: f.rotary(X[..., :3], X[0, 0, :3], X[0, 0, :3]), "WS0361.*angles"),
        (lambda f: f.rotary(X, X[0].clone().requires_grad_(), X[0]), "WS0362.*angles"),
        (lambda f: f.rms_norm_rotary(X, X[0, 0, :4], X[0], X[0]), "WS0361.*weight of shape .4,."),
        (lambda f: f.embedding(X, X[0]), "WS0361.*indices of type torch.float32"),
        (lambda f: f.embedding(X[0].long(), X[0], 3), "WS0361.*padding_idx 3"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=f"(?s){words}"):
        call(functional)


def lowered(program: Any, *args: Any) -> Any:
    with knobs.scope(device="sim", target="h200"), warnings.catch_warnings():
        warnings.simplefilter("error")
        return program.lower(*args).compile()


@pytest.mark.parametrize("interleaved", [False, True])
def test_each_is_one_kernel(interleaved: bool) -> None:
    """And sums of a weight's gradient one more; a table of angles may be another."""

    def of(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.empty(*shape, dtype=dtype)

    gate = of(4096, 14336)
    assert (
        len(lowered(head_programs.gated, gate, gate.clone(), GateForm("silu", "float")).kernels)
        == 1
    )
    form = TurnForm(interleaved, False, "float", "bfloat16", "bfloat16", 1e-6)
    x, cos, scale = of(2, 4096, 32, 128), of(4096, 1, 128), of(2, 4096, 32, 1, dtype=torch.float32)
    forward = lowered(head_programs.norm_rotary, x, of(128), cos, cos.clone(), form)
    assert "scheduler   inner_persistent" in forward.explain()
    backward = lowered(
        head_programs.norm_rotary_gradient, x.clone(), x, of(128), cos, cos.clone(), scale, form
    )
    assert "scheduler   inner_outer" in backward.explain()
    assert [len(each.kernels) for each in (forward, backward)] == [1, 2]
    assert all(kernel.n_spills == 0 for each in (forward, backward) for kernel in each.kernels)


def test_kernels() -> None:
    """As the simulator runs them."""
    with knobs.scope(device="sim"):
        x, weight = drawn((2, 9, 3, 16), torch.bfloat16), drawn((16,), torch.bfloat16, 1)
        cos, sin = angles((9, 1, 16))
        assert_right(
            lambda x, w: functional.rms_norm_rotary(x, w, cos, sin, 1e-5),
            lambda x, w: turned(torch_functional.rms_norm(x, (16,), w, 1e-5), cos, sin, False),
            x,
            weight,
            ulps=8.0,
        )
        both = drawn((4, 24), torch.bfloat16), drawn((4, 24), torch.bfloat16, 1)
        assert_right(functional.swiglu, lambda a, b: torch_functional.silu(a) * b, *both)
