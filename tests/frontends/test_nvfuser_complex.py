"""Complex numbers by nvFuser's names, which kernels compute as pairs of reals, against PyTorch."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import mpmath
import pytest
import torch

from warpsmith import knobs
from warpsmith.frontends.nvfuser_direct import DataType, FusionDefinition
from warpsmith.frontends.nvfuser_direct.complex_ops import BINARY, BY_PART, OTHERS, UNARY

INF, NAN = math.inf, math.nan
PLAIN = [-3.0, -1.0, -0.25, -0.0, 0.0, 0.25, 1.0, 3.0]
TYPES = [torch.complex64, torch.complex128]
FUNCTIONS = (
    "abs acos acosh asin asinh atan atanh cos cosh exp exp2 expm1 isfinite isinf isnan isreal log "
    "log10 log1p log2 logical_not neg reciprocal rsqrt sigmoid silu sin sinh sqrt tan tanh"
)
ENDLESS = (
    "abs acos acosh asin asinh atan atanh cos cosh exp isfinite isinf isnan log neg sin sinh sqrt"
)
Made = Callable[..., Any]


def _numbers(parts: list[float], dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([complex(a, b) for a, b in itertools.product(parts, parts)], dtype=dtype)


def _run(made: Made, *inputs: Any, device: str = "reference") -> Any:
    with FusionDefinition() as fd:
        made_values = made(fd.ops, *map(fd.from_pytorch, inputs))
        several = isinstance(made_values, tuple)
        for value in made_values if several else (made_values,):
            fd.add_output(value)
    with knobs.scope(device=device):
        results = fd.execute(list(inputs))
    return tuple(results) if several else results[0]


@pytest.mark.few(25)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS.split())
def test_functions_of_one_number(name: str, dtype: torch.dtype) -> None:
    z = _numbers(PLAIN, dtype)
    if name in ("log", "log10", "log2", "reciprocal", "rsqrt"):
        z = z[z.abs() > 0]  # of 0 PyTorch has no one answer
    if name == "atanh":
        z = z[(z != 1) & (z != -1)]
    if name == "log1p":
        z = z[z != -1]
    if name == "atan":
        z = z[(z != 1j) & (z != -1j)]
    found = _run(lambda ops, x: getattr(ops, name)(x), z)
    peer = torch.nn.functional.silu if name == "silu" else getattr(torch, name)
    torch.testing.assert_close(found, peer(z))


@pytest.mark.parametrize("name", ["expm1", "log1p"])
def test_functions_close_to_zero(name: str) -> None:
    """All digits of both parts, also where the result is much smaller than its terms."""
    parts = [s * 10.0**e for e in (-30, -9, -4, -1) for s in (1, -1)]
    z = torch.cat([_numbers(parts, torch.complex128), torch.tensor([-1e-6 + 1.4e-3j])])
    found = _run(lambda ops, x: getattr(ops, name)(x), z)
    wanted = [complex(getattr(mpmath, name)(mpmath.mpc(each.item()))) for each in z]
    want = torch.tensor(wanted, dtype=torch.complex128)
    torch.testing.assert_close(found.imag, want.imag, rtol=1e-12, atol=0)
    torch.testing.assert_close(found.real, want.real, rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", ENDLESS.split())
def test_functions_of_what_is_not_finite(name: str) -> None:
    z = _numbers([INF, -INF, NAN], torch.complex128)
    found = _run(lambda ops, x: getattr(ops, name)(x), z)
    torch.testing.assert_close(found, getattr(torch, name)(z), equal_nan=True)


@pytest.mark.parametrize("name", ["acosh", "asin", "atan", "atanh", "log", "sqrt"])
def test_functions_close_to_their_branch_points(name: str) -> None:
    near = torch.tensor([-1.0, 1.0])[:, None] + torch.tensor([1e-3j, -1e-3j, 1e-3, -1e-3])
    z = torch.cat([near.flatten(), (near * 1j).flatten()])
    found = _run(lambda ops, x: getattr(ops, name)(x), z)
    wanted = getattr(torch, name)(z.to(torch.complex128)).to(torch.complex64)
    torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-5)


def test_every_function_has_a_case() -> None:
    assert set(FUNCTIONS.split()) | {"real", "imag"} == set(UNARY)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_arithmetic(dtype: torch.dtype) -> None:
    numbers = _numbers(PLAIN, dtype)
    a, b = numbers.repeat_interleave(len(numbers)), numbers.repeat(len(numbers))
    a, b = a[b != 0], b[b != 0]
    real = b.real.contiguous()

    def made(ops: Any, x: Any, y: Any, r: Any) -> Any:
        names = ("add", "sub", "mul", "div", "eq", "ne", "logical_and", "logical_or")
        both = [getattr(ops, name)(x, y) for name in names]
        return (*both, ops.mul(x, r), ops.sub(r, x), ops.mul(x, 2 - 1j), ops.truediv(1.0, y))

    found = _run(made, a, b, real)
    wanted = [a + b, a - b, a * b, a / b, a == b, a != b]
    wanted += [
        torch.logical_and(a, b),
        torch.logical_or(a, b),
        a * real,
        real - a,
        a * (2 - 1j),
        1 / b,
    ]
    torch.testing.assert_close(found, tuple(wanted))
    power = _run(lambda ops, x, y: ops.pow(x, y), a, b)
    some = a != 0
    torch.testing.assert_close(power[some], a[some] ** b[some], rtol=1e-4, atol=1e-5)
    assert (power[~some] == 0).all()


def test_quotients_of_large_numbers() -> None:
    a = torch.tensor([3e38 + 3e38j, 1e-38 + 1e-38j], dtype=torch.complex64)
    torch.testing.assert_close(_run(lambda ops, x: ops.div(x, x), a), torch.ones_like(a))


def _number(*shape: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(len(shape)))


WHERE = torch.tensor([2, 0, 1])
SHAPES: dict[str, tuple[Made, Made]] = {
    "broadcast": (lambda o, x: o.broadcast(x, [True, False, False]), lambda x: x[None]),
    "broadcast_in_dim": (lambda o, x: o.broadcast_in_dim(x, [2, 3, 4], [1, 2]), None),  # type: ignore[dict-item]
    "cat": (lambda o, x: o.cat([x, x], 1), lambda x: torch.cat([x, x], 1)),
    "cumsum": (lambda o, x: o.cumsum(x, 1), lambda x: x.cumsum(1)),
    "embedding_fwd": (
        lambda o, x: o.embedding_fwd(o.iota(3, 2, -1, DataType.Int), x),
        lambda x: x.flip(0),
    ),
    "expand": (
        lambda o, x: o.expand(o.broadcast(x, [True, False, False]), [2, 3, 4]),
        lambda x: x.expand(2, 3, 4),
    ),
    "pad": (
        lambda o, x: (o.pad(x, [1, 0, 0, 2]), o.pad(x, [1, 0], 2 + 1j)),
        lambda x: (
            torch.nn.functional.pad(x, [1, 0, 0, 2]),
            torch.nn.functional.pad(x.real, [1, 0], value=2)
            + 1j * torch.nn.functional.pad(x.imag, [1, 0], value=1),
        ),
    ),
    "permute": (lambda o, x: o.permute(x, [1, 0]), lambda x: x.T),
    "reshape": (lambda o, x: o.reshape(x, [2, 6]), lambda x: x.reshape(2, 6)),
    "segment_set": (lambda o, x: o.segment_set(x), lambda x: x),
    "select": (
        lambda o, x: o.select(x, 1, 0),
        lambda x: x[1],
    ),
    "set": (lambda o, x: o.set(x), lambda x: x),
    "slice": (lambda o, x: o.slice(x, [1, 1], [3, 4]), lambda x: x[1:3, 1:4]),
    "squeeze": (lambda o, x: o.squeeze(o.reshape(x, [3, 1, 4]), [1]), lambda x: x),
    "sum": (
        lambda o, x: (o.sum(x, [1]), o.sum(x, [0], dtype=DataType.ComplexDouble)),
        lambda x: (x.sum(1), x.to(torch.complex128).sum(0)),
    ),
    "triu": (lambda o, x: o.triu(x, 1), lambda x: x.triu(1)),
    "where": (
        lambda o, x: o.where(o.gt(o.real(x), 0.0), x, 2.0),
        lambda x: torch.where(x.real > 0, x, 2.0),
    ),
}
SHAPES["broadcast_in_dim"] = (SHAPES["broadcast_in_dim"][0], lambda x: x.expand(2, 3, 4))
INDEXED: dict[str, tuple[Made, Made]] = {
    "gather": (lambda o, x, i: o.gather(x, i, 0), lambda x, i: x.gather(0, i)),
    "index_select": (
        lambda o, x, i: o.index_select(x, o.select(i, 0, 1), 0),
        lambda x, i: x[i[:, 0]],
    ),
    "scatter": (lambda o, x, i: o.scatter(x, i, o.neg(x), 0), lambda x, i: x.scatter(0, i, -x)),
    "take_along_axis": (
        lambda o, x, i: o.take_along_axis(x, i, 0),
        lambda x, i: x.take_along_dim(i, 0),
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    x, (made, wanted) = _number(3, 4), SHAPES[name]
    torch.testing.assert_close(_run(made, x), wanted(x))


@pytest.mark.parametrize("name", INDEXED)
def test_shapes_by_indices(name: str) -> None:
    x, index, (made, wanted) = _number(3, 4), WHERE[:, None].repeat(1, 4), INDEXED[name]
    torch.testing.assert_close(_run(made, x, index), wanted(x, index))


def test_every_operation_on_parts_has_a_case() -> None:
    assert set(BY_PART) | {"pad"} == set(SHAPES) | set(INDEXED)
    assert set(OTHERS) == {"pad", *OTHER_CASES, "iota", "normal", "uniform"}
    assert set(BINARY) == {
        *("add", "sub", "mul", "div", "truediv", "eq", "ne", "pow"),
        *("logical_and", "logical_or"),
    }


OTHER_CASES: dict[str, tuple[Made, Made]] = {
    "addcmul": (lambda o, x: o.addcmul(x, x, x, 1j), lambda x: x + 1j * x * x),
    "cast": (
        lambda o, x: (o.cast(x, DataType.ComplexDouble), o.cast(x, DataType.Half)),
        lambda x: (x.to(torch.complex128), x.real.half()),
    ),
    "cumprod": (lambda o, x: o.cumprod(x, 1), lambda x: x.cumprod(1)),
    "full": (
        lambda o, x: o.full([2, 3], 1 - 2j, DataType.ComplexFloat),
        lambda x: torch.full([2, 3], 1 - 2j),
    ),
    "lerp": (lambda o, x: o.lerp(x, o.mul(x, 2j), x), lambda x: x + x * (2j * x - x)),
    "linear": (
        lambda o, x: (o.linear(x, x), o.linear(x, x, o.sum(x, [1]))),
        lambda x: (torch.nn.functional.linear(x, x), torch.nn.functional.linear(x, x, x.sum(1))),
    ),
    "prod": (
        lambda o, x: (o.prod(x, [1]), o.prod(x, dtype=DataType.ComplexDouble)),
        lambda x: (x.prod(1), x.to(torch.complex128).prod()),
    ),
    "stride_order": (lambda o, x: o.stride_order(x, [0, 1]), lambda x: x),
    "matmul": (lambda o, x: o.matmul(x, o.permute(x, [1, 0])), lambda x: x @ x.T),
    "var": (lambda o, x: o.var(x, [1]), lambda x: x.var(1)),
    "var_mean": (
        lambda o, x: o.var_mean(x, [1], correction=0),
        lambda x: torch.var_mean(x, 1, correction=0),
    ),
}


@pytest.mark.parametrize("name", OTHER_CASES)
def test_operations_with_a_rule_of_their_own(name: str) -> None:
    x, (made, wanted) = _number(3, 4), OTHER_CASES[name]
    torch.testing.assert_close(_run(made, x), wanted(x))


@pytest.mark.parametrize(
    "x",
    [
        _number(3, 4).T,
        _number(3, 1).expand(3, 4),
        _number(6, 8)[1::2, ::2],
        _number(3, 4).conj(),
        _number(),
        _number(0, 3),
        _number(2, 3, dtype=torch.complex128),
        _number(1, 5).requires_grad_(),
    ],
    ids=["permuted", "expanded", "sliced", "conj", "number", "empty", "double", "grad"],
)
def test_kernels_read_and_write_pairs(x: torch.Tensor) -> None:
    found = _run(lambda ops, z: ops.mul(z, z), x, device="sim")
    torch.testing.assert_close(found, (x * x).detach())


def test_the_text_defines_it_again() -> None:
    x = _number(3, 4).T
    with FusionDefinition() as fd:
        t0 = fd.from_pytorch(x)
        c0 = fd.define_scalar(DataType.ComplexDouble)
        t1 = fd.ops.mul(t0, fd.define_scalar(complex(1, -2)))
        fd.add_output(fd.ops.sum(fd.ops.add(t1, c0), dims=[0]))
    text = repr(fd)
    assert "dtype=DataType.ComplexFloat, is_cpu=False, stride_order=[0, 1])" in text
    assert "fd.define_scalar(None, dtype=DataType.ComplexDouble)" in text
    names: dict[str, Any] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(text, names)
    with FusionDefinition() as again:
        names["nvfuser_fusion"](again)
    assert repr(again) == text
    with knobs.scope(device="reference"):
        results = [each.execute([x, 3j])[0] for each in (fd, again)]
    for result in results:
        torch.testing.assert_close(result, (x * (1 - 2j) + 3j).sum(0))


def test_results_into_complex_inputs() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], contiguity=True, dtype=DataType.ComplexFloat)
        fd.add_output(fd.ops.neg(x), x)
        fd.add_output(fd.ops.imag(x))
    given = torch.tensor([1 + 2j, -3j])
    with knobs.scope(device="reference"):
        (imaginary,) = fd.execute([given])
    assert given.tolist() == [-1 - 2j, 3j]
    assert imaginary.tolist() == [2, -3]
    fd.validate([given])


@pytest.mark.parametrize(
    ("use", "error", "said"),
    [
        (lambda fd, x: fd.ops.erf(x), NotImplementedError, "WS0190.*ops.erf.*complex"),
        (lambda fd, x: x.split(0, 4), NotImplementedError, "WS0190.*split of complex"),
        (lambda fd, x: fd.add_output(x, fd.ops.neg(x)), RuntimeError, "is no input"),
        (lambda fd, x: fd.ops.pad(x, [1, 1], 2.0), RuntimeError, "must have the same dtype"),
        (lambda fd, x: fd.ops.iota(fd.define_scalar(2j)), RuntimeError, "length must be integer"),
        (
            lambda fd, x: fd.ops.iota(fd.define_scalar(2), fd.define_scalar(1j)),
            RuntimeError,
            "start dtype does not match",
        ),
        (
            lambda fd, x: fd.ops.uniform(0.0, 1.0, [2], dtype=DataType.ComplexFloat),
            RuntimeError,
            "Random distributions only create floating point types",
        ),
        (
            lambda fd, x: fd.ops.full([2], 1j, DataType.Float),
            RuntimeError,
            "full of Float got a complex value",
        ),
    ],
)
def test_what_complex_numbers_do_not_do(use: Made, error: type[Exception], said: str) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], dtype=DataType.ComplexFloat)
        with pytest.raises(error, match=said):
            use(fd, x)


def test_results_lie_as_they_are_asked_to() -> None:
    x = _number(3, 4)
    found = _run(lambda ops, x: ops.stride_order(x, [0, 1]), x)
    assert found.stride() == (1, 3)
