"""Each operation of the table means what PyTorch means, and every CUDA spelling compiles."""

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table import TABLE, PointwiseOp, Rule

UNARY = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh exp exp2 expm1 erf erfc erfinv erfcinv "
    "floor frac lgamma log log10 log1p log2 neg logical_not bitwise_not relu reciprocal round "
    "rsqrt sigmoid sign signbit silu sin sinh sqrt tan tanh trunc isfinite isinf isnan isneginf "
    "isposinf isreal float_rank double_rank"
)
BINARY = (
    "add atan2 div truediv fmod mul nextafter pow remainder sub minimum maximum mod eq ge gt le "
    "lt ne logical_and logical_or bitwise_and bitwise_or bitwise_xor bitwise_left_shift "
    "bitwise_right_shift logical_right_shift gcd"
)
ARITY = {
    **dict.fromkeys(UNARY.split(), 1),
    **dict.fromkeys(BINARY.split(), 2),
    **dict.fromkeys(("lerp", "where", "clamp", "threshold", "philox"), 3),
    **dict.fromkeys(("addcmul", "kept"), 4),
}

TORCH = {
    DataType.Double: torch.float64,
    DataType.Float: torch.float32,
    DataType.BFloat16: torch.bfloat16,
    DataType.Half: torch.float16,
    DataType.Int: torch.int64,
    DataType.Int32: torch.int32,
    DataType.Int16: torch.int16,
    DataType.Int8: torch.int8,
    DataType.UInt8: torch.uint8,
    DataType.Bool: torch.bool,
}


def _scalar(x: torch.Tensor) -> Any:
    return x.reshape(-1)[0].item()


# What PyTorch calls something else, or has in another shape.
PEERS: dict[str, Callable[..., Any]] = {
    "silu": torch.nn.functional.silu,
    "div": lambda a, b: a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc"),
    "truediv": torch.true_divide,
    "mod": lambda a, b: torch.fmod(a, b) if not a.is_floating_point() else None,
    "where": lambda c, a, b: torch.where(c, a, b),
    "threshold": lambda x, limit, value: torch.nn.functional.threshold(
        x, _scalar(limit), _scalar(value)
    ),
    "addcmul": lambda x, a, b, value: torch.addcmul(x, a, b, value=_scalar(value)),
}
# PyTorch has no such function; these have tests of their own.
WITHOUT_PEER = {"erfcinv", "logical_right_shift", "philox", "kept", "float_rank", "double_rank"}
WITH_PEER = sorted(set(TABLE) - WITHOUT_PEER)
INTEGER_DIVISIONS = {"div", "fmod", "remainder", "mod"}

# Deviations in what may be computed, each with its reason.
BEYOND_TORCH = {
    # Float, as sigmoid gives.
    ("silu", DataType.Int),
    ("silu", DataType.Int32),
    ("silu", DataType.Int16),
    ("silu", DataType.Int8),
    ("silu", DataType.UInt8),
    ("silu", DataType.Bool),
    # It has no kernel of 16-bit floats; the meaning is Float's, rounded.
    ("erfcx", DataType.Half),
    ("erfcx", DataType.BFloat16),
}
SHORT_OF_TORCH = {
    # The neighbour of a 16-bit float is not what Float's neighbour rounds to.
    ("nextafter", DataType.Half),
    ("nextafter", DataType.BFloat16),
    # C's remainder of integers only; PyTorch's fmod, its peer here, is `fmod`.
    ("mod", DataType.Bool),
}

# How large the terms of a sum are, whose rounding is what cancellation leaves over.
TERMS: dict[str, Callable[..., torch.Tensor]] = {
    "addcmul": lambda x, a, b, value: x.abs() + (value * a * b).abs(),
    "lerp": lambda start, end, weight: start.abs() + end.abs() + ((end - start) * weight).abs() * 2,
}

ULPS = {
    "lgamma": 64.0,  # PyTorch's own error; the meaning here is math.lgamma, in float64
    "erfinv": 32.0,  # likewise
}


def peer(name: str) -> Callable[..., Any]:
    """PyTorch's function of that meaning."""
    for known in (PEERS.get(name), getattr(torch, name, None), getattr(torch.special, name, None)):
        if known is not None:
            return known
    pytest.fail(
        f"neither torch nor torch.special has a function {name!r}: name its peer in PEERS, or list "
        "it in WITHOUT_PEER and give it a test of its own"
    )


def values(dtype: DataType) -> torch.Tensor:
    """Random and special values."""
    kind = TORCH[dtype]
    generator = torch.Generator().manual_seed(7)
    if dtype is DataType.Bool:
        return torch.tensor([False, True])
    if dtype.is_int:
        info = torch.iinfo(kind)
        special = [0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 33, 63, 64, info.max, info.min, info.min + 1]
        random = torch.randint(-100, 100, (24,), generator=generator).tolist()
        return torch.tensor([*special, *random], dtype=kind)
    limits = torch.finfo(kind)
    special_floats = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5]
    special_floats += [-1.5, -2.5, 3.0, -3.0, limits.max, -limits.max, limits.tiny, limits.tiny / 2]
    random_floats = torch.randn(30, generator=generator, dtype=torch.float64) * 3
    small = torch.rand(20, generator=generator, dtype=torch.float64) * 2 - 1
    return torch.cat([torch.tensor(special_floats, dtype=torch.float64), random_floats, small]).to(
        kind
    )


def operands(op: PointwiseOp, dtype: DataType) -> list[list[torch.Tensor]]:
    """Sets of operands: every pair of values meets; the third and fourth come in turn."""
    base = values(dtype)
    if op.arity == 1:
        return [[base]]
    left, right = base.repeat_interleave(len(base)), base.repeat(len(base))
    if op.arity == 2:
        keep = comparable(op.name, left, right)
        left, right = left[keep], right[keep]
        return [[left, right]]
    if op.name == "where":
        return [[torch.tensor([True, False, True]).repeat(len(left))[: len(left)], left, right]]
    if op.name == "threshold":
        third = base[torch.arange(0, len(base), 5)]
        return [[base, a.expand(len(base)), b.expand(len(base))] for a in third for b in third]
    last = base.roll(11).repeat(len(base))
    if op.arity == 3:
        return [[left, right, last]]
    return [[left, right, last, value.expand(len(left))] for value in base[3:10]]


def comparable(name: str, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Which pairs PyTorch gives the right answer for on a CPU."""
    if name in INTEGER_DIVISIONS and not left.is_floating_point():
        return (right != 0) & (right != -1)  # 0 and the lowest integer by -1 trap
    if name in ("fmod", "remainder"):
        overflow = (left / right).isinf() & (right != 0) & left.isfinite()
        return ~overflow  # it divides first, and gives NaN
    if name == "gcd":
        lowest = torch.iinfo(left.dtype).min
        return (left != lowest) & (right != lowest)  # it gives negative divisors
    return torch.ones_like(left, dtype=torch.bool)


def tolerance(name: str, args: list[torch.Tensor], expected: torch.Tensor) -> torch.Tensor:
    """Largest allowed distance from PyTorch's float result, element by element."""
    limits = torch.finfo(expected.dtype)
    size = TERMS[name](*args) if name in TERMS else expected.abs()
    # PyTorch flushes what is subnormal in some functions of 16-bit floats, and it has other
    # roots of lgamma than the exact ones.
    least = limits.smallest_normal * (2 if limits.bits == 16 else 2 * limits.eps)
    near_root = ULPS.get(name, 0.0) * limits.eps
    return size.double() * ULPS.get(name, 8.0) * limits.eps + least + near_root


def computed(op: PointwiseOp, dtype: DataType, args: list[torch.Tensor]) -> np.ndarray:
    """The table's meaning, on arguments converted to the compute type."""
    kind = TORCH[op.compute_dtype(dtype)]
    arrays = [
        arg.numpy() if index < op.conditions else arg.to(kind).contiguous().numpy()
        for index, arg in enumerate(args)
    ]
    return op.numpy(*arrays)


def refused(name: str, args: list[torch.Tensor]) -> bool:
    try:
        return peer(name)(*args) is None
    except (RuntimeError, TypeError, NotImplementedError):
        return True


def differs(name: str, dtype: DataType) -> str:
    """What to do where PyTorch takes a type that the table does not take, or the other way."""
    said, where = "takes", "SHORT_OF_TORCH"
    if TABLE[name].supports(dtype):
        said, where = "refuses", "BEYOND_TORCH"
    return f"PyTorch {said} {name} of {dtype.name}: mend the entry's rule, or list it in {where}"


def test_the_table_holds_the_operations_of_nvfuser() -> None:
    assert {name: TABLE[name].arity for name in ARITY} == ARITY
    assert all(name == op.name for name, op in TABLE.items())


@pytest.mark.parametrize("name", WITH_PEER)
def test_types_are_those_of_torch(name: str) -> None:
    op = TABLE[name]
    for dtype in TORCH:
        args = [torch.ones(2).to(TORCH[dtype]) for _ in range(op.arity)]
        args[: op.conditions] = [torch.tensor([True, False])] * op.conditions
        expected = not refused(name, args)
        expected = expected or (name, dtype) in BEYOND_TORCH
        expected = expected and (name, dtype) not in SHORT_OF_TORCH
        assert op.supports(dtype) == expected, differs(name, dtype)
        if op.supports(dtype) and (name, dtype) not in BEYOND_TORCH:
            assert TORCH[op.result_dtype(dtype)] == peer(name)(*args).dtype


@pytest.mark.parametrize("name", WITH_PEER)
def test_meaning_is_that_of_torch(name: str) -> None:
    for dtype in TORCH:
        check_meaning(name, dtype)


def check_meaning(name: str, dtype: DataType) -> None:
    op = TABLE[name]
    if not op.supports(dtype) or (name, dtype) in BEYOND_TORCH:
        assert (name, dtype) in BEYOND_TORCH | SHORT_OF_TORCH or refused(
            name, [torch.ones(2).to(TORCH[dtype])] * op.arity
        )
        return
    for args in operands(op, dtype):
        assert not refused(name, args), differs(name, dtype)
        expected = peer(name)(*args)
        got = computed(op, dtype, args)
        assert (
            got.dtype
            == torch.empty(0, dtype=expected.dtype)
            .to(TORCH[op.result_dtype(dtype).compute])
            .numpy()
            .dtype
        )
        result = torch.from_numpy(got).to(expected.dtype)
        if not expected.dtype.is_floating_point:
            assert torch.equal(result, expected)
            continue
        allowed = tolerance(name, args, expected)
        distance = (result.double() - expected.double()).abs()
        same = (result == expected) | (result.isnan() & expected.isnan())
        wrong = ~(same | (distance <= allowed))
        if name in TERMS:
            wrong &= TERMS[name](*args).isfinite()  # else the order of the factors decides
        assert not wrong.any(), (
            f"{name} of {[float(arg[wrong][0]) for arg in args]} is {result[wrong][0]:.9g}, and "
            f"PyTorch says {expected[wrong][0]:.9g}; if it errs, ULPS allows for that"
        )


@pytest.mark.parametrize("name", sorted(INTEGER_DIVISIONS))
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_division_by_zero_gives_a_number_and_no_warning(name: str, kind: type) -> None:
    lowest = np.iinfo(kind).min
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = TABLE[name].numpy(
            np.array([5, -5, 0, lowest, lowest], kind), np.array([0, 0, 0, 0, -1], kind)
        )
    assert result.shape == (5,)
    assert result.dtype == kind
    assert result[4] == (lowest if name == "div" else 0)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_logical_right_shift_fills_with_zeros(kind: type) -> None:
    bits = 8 * np.dtype(kind).itemsize
    numbers = [0, 1, -1, 77, -77, np.iinfo(kind).min, np.iinfo(kind).max]
    counts = [0, 1, 5, bits - 1, bits, bits + 9, -1, -bits]
    pairs: np.ndarray = np.array(list(itertools.product(numbers, counts)), kind)
    expected = [
        (int(a) % 2**bits) >> int(b) if 0 <= b < bits else 0 for a, b in pairs.astype(object)
    ]
    got = TABLE["logical_right_shift"].numpy(pairs[:, 0], pairs[:, 1])
    assert [int(value) % 2**bits for value in got] == expected


def test_inverses_of_the_error_function_keep_all_digits() -> None:
    y = np.concatenate([np.logspace(-300, -0.4, 200), np.linspace(0.4, 1.6, 101)])
    root = TABLE["erfcinv"].numpy(y)
    # A relative error of the root becomes 2 * root^2 times as much of erfc.
    back = np.array([math.erfc(value) for value in root])
    bound = 8 * np.finfo(float).eps * np.maximum(2 * root * root, 1.0)
    assert np.all(np.abs(back - y) <= bound * y)
    near = np.array([1e-200, -1e-20, 1e-9, -0.01])
    assert TABLE["erfcinv"].numpy(1 - near)[3] == pytest.approx(TABLE["erfinv"].numpy(near)[3])
    assert TABLE["erfinv"].numpy(near)[:2] == pytest.approx(near[:2] * math.sqrt(math.pi) / 2)
    edges = TABLE["erfcinv"].numpy(np.array([0.0, 2.0, 1.0, -0.1, 2.1, math.nan]))
    assert edges[:3].tolist() == [math.inf, -math.inf, 0.0]
    assert np.isnan(edges[3:]).all()
    assert TABLE["erfcinv"].numpy(np.array([0.5], np.float32)).dtype == np.float32


def test_mismatched_rules_and_types_do_not_exist() -> None:
    floats = {DataType.Double, DataType.Float}
    exact = {DataType.Int, DataType.Int32, DataType.Bool}
    for op in TABLE.values():
        if op.rule is Rule.FLOAT:
            assert set(op.cuda.dtypes) == floats
        if op.rule is Rule.INTEGER:
            assert set(op.cuda.dtypes) <= exact
        if op.rule is Rule.LOGICAL:
            assert op.cuda.dtypes == (DataType.Bool,)
        if op.rule.draws:
            assert op.cuda.dtypes == (DataType.Int,)
        if op.rule in (Rule.COMPARE, Rule.CLASSIFY):
            assert set(op.cuda.dtypes) == floats | exact
