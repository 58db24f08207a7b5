"""`fuse`: what it traces, when it traces again, and what it refuses."""

import copy
import pickle
from functools import partial
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import warpsmith
from tests.support.against_torch import random
from warpsmith import ops
from warpsmith.errors import ArgumentError, DefinitionError
from warpsmith.frontends.fuse import Fused
from warpsmith.ir.dtypes import DataType


@warpsmith.fuse
def silu_mul(x: Any, y: Any) -> Any:
    """SiLU of x, times y."""
    return ops.silu(x) * y


@warpsmith.fuse
def rms_norm(
    x: Any, weight: Any = None, eps: float = 1e-6, *, axis: tuple[int, ...] = (-1,)
) -> Any:
    scale = ops.rsqrt(ops.mean(x * x, axis, keepdim=True) + eps)
    normal = x * scale
    return (normal if weight is None else normal * weight), scale


def test_a_function_keeps_its_name() -> None:
    assert isinstance(silu_mul, Fused)
    assert silu_mul.__name__ == "silu_mul"
    assert silu_mul.__doc__ == "SiLU of x, times y."


def test_copies_are_the_same_function() -> None:
    """As in models that have one, and are copied, also after its first call."""
    x = torch.ones(3)
    silu_mul(x, x)
    assert copy.deepcopy({"f": silu_mul})["f"] is copy.copy(silu_mul) is silu_mul
    assert pickle.loads(pickle.dumps(silu_mul)) is silu_mul


def test_a_partial_function_is_named_in_errors() -> None:
    scaled = warpsmith.fuse(partial(lambda by, x: x * by, 2))
    assert torch.equal(scaled(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(ArgumentError, match=r"WS0301.*functools.partial.*its parameters are \(x\)"):
        scaled()


def test_results_are_what_the_function_returns() -> None:
    x, y = random((4, 6), DataType.BFloat16), random((6,), DataType.BFloat16)
    wanted = torch.nn.functional.silu(x.float()) * y.float()
    torch.testing.assert_close(silu_mul(x, y), wanted.bfloat16())
    normal, scale = rms_norm(random((4, 6), DataType.Float))
    assert (normal.shape, scale.shape) == ((4, 6), (4, 1))
    (only,) = warpsmith.fuse(lambda t: [t + 1])(x)
    assert torch.equal(only, x + 1)


def test_sizes_and_numbers_do_not_trace_again() -> None:
    fused = warpsmith.fuse(lambda x, y, a: x * y + a)
    for rows, a in ((3, 1.0), (5, 2.5), (8, -1.0)):
        x, y = random((rows, 4), DataType.Float), random((4,), DataType.Float)
        torch.testing.assert_close(fused(x, y, a), x * y + a)
    assert fused.traces == 1


@pytest.mark.parametrize(
    "other",
    [
        (torch.zeros(4, 8, dtype=torch.float64), 1.0),  # type
        (torch.zeros(2, 4, 8), 1.0),  # rank
        (torch.zeros(8, 4).T, 1.0),  # order in memory
        (torch.zeros(4, 16)[:, ::2], 1.0),  # gaps
        (torch.zeros(4, 9)[:, 1:], 1.0),  # gaps between rows, and alignment
        (torch.zeros(33)[1:].reshape(4, 8), 1.0),  # alignment
        (torch.zeros(4, 8), 1),  # a number's type
        (torch.zeros(4, 8), True),
    ],
)
def test_what_traces_again(other: tuple[torch.Tensor, float]) -> None:
    fused = warpsmith.fuse(lambda x, a: x * a)
    fused(torch.zeros(4, 8), 1.0)
    for _ in range(2):
        x, a = other
        torch.testing.assert_close(fused(x, a), x * a)
    assert fused.traces == 2


@pytest.mark.parametrize("shape", [(1, 8), (4, 1), (1, 1), (0, 8), (4, 0), (1, 0)])
def test_extents_of_0_and_1_are_sizes_like_others(shape: tuple[int, int]) -> None:
    fused = warpsmith.fuse(lambda x, y: (x * y, ops.sum(x, [1])))
    fused(torch.zeros(4, 8), torch.zeros(4, 8))
    x, y = random(shape, DataType.Float), random(shape, DataType.Float, 1)
    product, total = fused(x, y)
    assert torch.equal(product, x * y)
    assert torch.equal(total, x.sum(1))
    assert fused.traces == 1


def test_strides_that_mean_nothing_do_not_trace_again() -> None:
    fused = warpsmith.fuse(lambda x: x + 1)
    fused(torch.zeros(4, 8))
    for shape, strides in (((1, 8), (1, 1)), ((1, 8), (3, 1)), ((4, 1), (1, 7)), ((0, 8), (0, 5))):
        x = torch.arange(8.0).as_strided(shape, strides)
        assert torch.equal(fused(x), x + 1)
    assert fused.traces == 1
    apart = torch.zeros(4, 8)[:, :1]
    assert torch.equal(fused(apart), apart + 1)
    assert fused.traces == 2, "its rows lie apart"


def test_an_extent_of_1_traces_again_only_where_it_is_repeated() -> None:
    fused = warpsmith.fuse(lambda x, y: x - y)
    shapes = (
        (((4, 8), (4, 8)), 1),
        (((1, 8), (1, 8)), 1),
        (((1, 8), (4, 8)), 2),  # x is repeated along the rows
        (((1, 5), (1, 5)), 2),
        (((1, 8), (0, 8)), 2),
        (((4, 1), (4, 8)), 3),  # along the columns
        (((1, 1), (1, 8)), 3),
        (((4, 8), (1, 8)), 4),
        (((4, 8), (4, 8)), 4),
    )
    for (a, b), traces in shapes:
        x, y = random(a, DataType.Float), random(b, DataType.Float, 1)
        assert torch.equal(fused(x, y), x - y), (a, b)
        assert fused.traces == traces, (a, b)


def test_a_trace_of_repeated_extents_serves_no_others() -> None:
    fused = warpsmith.fuse(lambda x, y: x - y)
    for rows, traces in ((1, 1), (4, 2), (1, 2), (0, 2), (7, 2)):
        x, y = random((rows, 8), DataType.Float), random((8,), DataType.Float, 1)
        assert torch.equal(fused(x, y), x - y)
        assert fused.traces == traces


def test_the_first_empty_call_decides_no_layout() -> None:
    fused = warpsmith.fuse(lambda x: x * 2)
    for shape in ((4, 0), (4, 8), (3, 5)):
        x = random(shape, DataType.Float)
        assert torch.equal(fused(x), x * 2)
    assert fused.traces == 1


def test_an_empty_call_decides_no_layout_of_others() -> None:
    """That of the trace which served it was taken for that of rows, which then were refused."""
    for first in (torch.ones(8, 2).t(), torch.ones(2, 16)[:, ::2], torch.ones(8).expand(2, 8)):
        fused = warpsmith.fuse(lambda x: x * 2)
        for x in (first, torch.ones(0, 8), torch.ones(2, 8), first):
            assert torch.equal(fused(x), x * 2)
        assert fused.traces == 2


def test_static_arguments_trace_again() -> None:
    x = random((4, 6), DataType.Float)

    @warpsmith.fuse
    def reduced(x: Any, how: str, dims: tuple[int, ...] | None = None) -> Any:
        return getattr(ops, how)(x, dims)

    assert torch.equal(reduced(x, "max"), x.max())
    assert torch.equal(reduced(x, "min"), x.min())
    assert torch.equal(reduced(x, "min", (0,)), x.amin(0))
    assert torch.equal(reduced(x, "min", dims=(0,)), x.amin(0))
    assert reduced.traces == 3


def test_equal_static_values_of_other_types_are_other_programs() -> None:
    fused = warpsmith.fuse(lambda x, limits: ops.clamp(x, *limits))
    x = random((4,), DataType.Int)
    assert fused(x, (0, 2)).dtype == torch.int64
    assert fused(x, (0.0, 2.0)).dtype == torch.float32


def test_defaults_and_keywords() -> None:
    x, weight = random((4, 6), DataType.Float), random((6,), DataType.Float)

    def expected(eps: float, axis: int) -> torch.Tensor:
        return x * torch.rsqrt((x * x).mean(axis, keepdim=True) + eps)

    for _ in range(2):
        torch.testing.assert_close(rms_norm(x)[0], expected(1e-6, -1))
        torch.testing.assert_close(rms_norm(x, eps=2.0)[0], expected(2.0, -1))
        torch.testing.assert_close(rms_norm(eps=2.0, x=x)[0], expected(2.0, -1))
        torch.testing.assert_close(rms_norm(x, axis=(0,))[0], expected(1e-6, 0))
        torch.testing.assert_close(rms_norm(x, weight, 3.0)[0], expected(3.0, -1) * weight)
        torch.testing.assert_close(
            rms_norm(x, axis=(0,), weight=weight)[0], expected(1e-6, 0) * weight
        )


def test_numbers_that_are_left_to_defaults_are_static() -> None:
    """They may be what no number of a call may be; a call that passes one has another trace."""

    def body(x: Any, dim: int = 1, shift: float = 2.0) -> Any:
        return ops.sum(x, [dim]) + shift if isinstance(shift, float) else ops.sum(x * shift, [dim])

    fused, x = warpsmith.fuse(body), random((4, 6), DataType.Float)
    for _ in range(2):
        torch.testing.assert_close(fused(x), x.sum(1) + 2)
    assert fused.traces == 1
    for number in (3.0, 4.0):
        torch.testing.assert_close(fused(x, shift=number), (x * number).sum(1))
    assert fused.traces == 2
    with pytest.raises(DefinitionError, match="WS0115.*no numbers that a call passes"):
        fused(x, 1)


def test_integer_arguments_may_be_sizes() -> None:
    fused = warpsmith.fuse(lambda x, n: ops.reshape(x, [n, -1]))
    x = random((12,), DataType.Int)
    for n in (3, 4, 6):
        assert torch.equal(fused(x, n), x.reshape(n, -1))
    assert fused.traces == 1


def test_comparisons_and_inputs_as_results() -> None:
    x, y = random((4, 3), DataType.Int), random((3,), DataType.Int, 1)
    same, copy = warpsmith.fuse(lambda a, b: (a == b, a))(x, y)
    assert torch.equal(same, x == y)
    assert torch.equal(copy, x)
    assert copy.data_ptr() != x.data_ptr()


def test_numpy_and_foreign_arrays() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    fused = warpsmith.fuse(lambda t, a: t * a)
    np.testing.assert_array_equal(fused(x, np.float64(2)), x * 2)
    np.testing.assert_array_equal(fused(_Foreign(x), 2.0), x * 2)
    assert fused.traces == 1


class _Foreign:
    """An array of another library, known by DLPack alone."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class _OfLibrary(_Foreign):
    """One whose library can be asked for arrays, as JAX and CuPy."""

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        return self._array

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._array.dtype

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(asarray=_OfLibrary)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_results_of_another_librarys_arrays_are_of_that_library(dtype: Any) -> None:
    x = np.arange(6).astype(dtype).reshape(2, 3)
    twice = warpsmith.fuse(lambda a, b: (a + b, a - b))
    total, rest = twice(_OfLibrary(x), _OfLibrary(x))
    assert isinstance(total, _OfLibrary)
    assert isinstance(rest, _OfLibrary)
    np.testing.assert_array_equal(np.asarray(total), x + x)
    assert isinstance(twice(_OfLibrary(x), x)[0], np.ndarray)
    assert isinstance(
        twice(_Foreign(x.astype(np.float32)), _Foreign(x.astype(np.float32)))[0], np.ndarray
    )


def test_nothing_is_remembered_of_a_failed_trace() -> None:
    calls = []

    @warpsmith.fuse
    def moody(x: Any) -> Any:
        calls.append(x)
        return x + 1 if len(calls) > 1 else 3

    with pytest.raises(
        DefinitionError, match="moody returned a value of type int; return a tensor"
    ):
        moody(torch.zeros(2))
    assert torch.equal(moody(torch.zeros(2)), torch.ones(2))


def test_errors() -> None:
    x = torch.zeros(3)
    with pytest.raises(ArgumentError, match="silu_mul: missing a required argument: 'y'"):
        silu_mul(x)
    with pytest.raises(ArgumentError, match=r"dimension 0 of argument 0 \(T0\) is 3"):
        silu_mul(x, torch.zeros(4))
    with pytest.raises(ArgumentError, match="argument `y` has type list, which is neither"):
        silu_mul(x, [x])
    with pytest.raises(ArgumentError, match="argument `y`: dtype torch.uint16 is not supported"):
        silu_mul(x, x.to(torch.uint16))
    with pytest.raises(ArgumentError, match="argument `y`: a tensor of layout torch.sparse_coo"):
        silu_mul(x, x.to_sparse())
    with pytest.raises(ArgumentError, match=r"argument 1 \(T1\) starts at address 0x.* of the 4 "):
        silu_mul(x, torch.frombuffer(bytearray(13), dtype=torch.float32, offset=1))
    with pytest.raises(ArgumentError, match="got arguments for its parameter \\*rest"):
        warpsmith.fuse(lambda x, *rest: x + 1)(x, x)
    with pytest.raises(TypeError, match="use `where`"):
        warpsmith.fuse(lambda x: x if x.sum() > 0 else -x)(x)
    with pytest.raises(DefinitionError, match="the fusion has no output"):
        warpsmith.fuse(lambda x: ())(x)
    assert torch.equal(silu_mul(x, x), x)  # goes on working


def test_lower_and_explain() -> None:
    x, y = random((4, 6), DataType.BFloat16), random((6,), DataType.BFloat16)
    compiled = silu_mul.lower(x, y).compile()
    assert "__global__" in compiled.asm["cuda"]
    assert "pointwise" in silu_mul.explain(x, y)


def test_a_tensor_that_requires_a_gradient_is_refused() -> None:
    torch = pytest.importorskip("torch")
    kernel = warpsmith.fuse(lambda t: t * 2.0)
    x = torch.ones(8, requires_grad=True)
    with pytest.raises(ArgumentError, match=r"argument 0 requires a gradient.*no_grad"):
        kernel(x)
    with torch.no_grad():
        assert torch.equal(kernel(x), torch.full((8,), 2.0))


def test_the_largest_of_nothing_is_refused() -> None:
    kernel = warpsmith.fuse(lambda t: ops.max(t, [0]))
    with pytest.raises(ArgumentError, match="must not be: max of nothing has no value"):
        kernel(np.ones((0, 4), np.float32))
