"""One row times weights of 8 or 4 bits: by tensor cores where calls fit, by definition or not."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from tests.schedulers.matmul.test_packed import packed, signed
from tests.schedulers.matmul.test_prologues import BF16, whole
from warpsmith import DataType, FusionDefinition, knobs, ops

Array = np.ndarray
N, K = 72, 256


def found(function: Callable[..., Any], *given: Array) -> tuple[Array, str]:
    """The result on the simulator, and which schedulers made its kernels; all are clean."""
    fused = warpsmith.fuse(function)
    with knobs.scope(device="sim"):
        result = np.asarray(fused(*given)).astype(np.float64)
        compiled = fused.lower(*given).compile()
    assert compiled.verify(schedules=2).verdict == "clean"
    lines = compiled.explain().splitlines()
    return result, " ".join(line.split()[1] for line in lines if line.startswith("  scheduler "))


def linear(x: Any, weight: Any, scale: Any) -> Any:
    wide = ops.cast(weight, DataType.Float) * scale
    return ops.linear(x, ops.cast(wide, BF16))


@pytest.mark.few(2)
@pytest.mark.parametrize("shape", [(1,), (1, 1), ()])
@pytest.mark.parametrize("kind", [np.int8, ml_dtypes.float8_e4m3fn, np.float32])
def test_a_row_by_definition(shape: tuple[int, ...], kind: Any) -> None:
    """Of weights of 32 bits, and for a vector, it is a sum."""
    x, weight, scale = whole(*shape, K), whole(N, K, dtype=kind), whole(N, 1, dtype=np.float32)
    result, by = found(linear, x, weight, scale)
    assert result.shape == (*shape, N)
    wanted = x.astype(np.float64) @ (weight.astype(np.float64) * scale).T
    np.testing.assert_allclose(result, wanted, rtol=2.0**-8, atol=2.0**-8)
    assert by == ("matmul" if shape and kind is not np.float32 else "reduction")


@pytest.mark.parametrize("m", [1, 2])
def test_a_row_of_one_call(m: int) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, BF16)
        weight = fd.define_tensor([-1, -1], True, DataType.Int8)
        wide: Any = fd.ops.cast(weight, BF16)
        fd.add_output(fd.ops.linear(x, wide))
    given = whole(m, K), whole(N, K, dtype=np.int8)
    with knobs.scope(device="sim"):
        (result,) = fd.execute(list(given))
    wanted = given[0].astype(np.float64) @ given[1].astype(np.float64).T
    np.testing.assert_allclose(np.asarray(result).astype(np.float64), wanted, rtol=2.0**-8)
    assert "scheduler   matmul\n" in fd.explain()


@pytest.mark.few(1)
@pytest.mark.parametrize(("k", "by"), [(K, "matmul"), (100, "reduction"), (40, "reduction")])
def test_lines_of_4_bits_that_no_box_brings_are_summed(k: int, by: str) -> None:
    x, (values, weight) = whole(1, k), packed(N, k)
    result, how = found(lambda x, w: ops.linear(x, ops.cast(ops.unpack_int4(w), BF16)), x, weight)
    wanted = x.astype(np.float64) @ signed(values).T
    np.testing.assert_allclose(result, wanted, rtol=2.0**-8, atol=2.0**-8)
    assert how == by


def test_what_is_around_the_product_has_the_row_too() -> None:
    x, weight, bias = whole(1, K), whole(N, K, dtype=np.int8), whole(1, N, seed=3)

    def program(x: Any, weight: Any, bias: Any) -> Any:
        y = ops.linear(ops.relu(x), ops.cast(weight, BF16))
        return ops.abs(y + bias) * 2.0

    result, by = found(program, x, weight, bias)
    wanted = np.maximum(x.astype(np.float64), 0) @ weight.astype(np.float64).T
    wanted = 2 * np.abs(wanted + bias.astype(np.float64))
    np.testing.assert_allclose(result, wanted, rtol=2.0**-6, atol=2.0**-6)
    assert "matmul" in by


def test_two_products_one_behind_the_other() -> None:
    x, first, second = (
        whole(1, K),
        whole(64, K, dtype=np.int8, most=1),
        whole(N, 64, seed=2, dtype=np.int8, most=1),
    )

    def program(x: Any, first: Any, second: Any) -> Any:
        return ops.linear(ops.linear(x, ops.cast(first, BF16)), ops.cast(second, BF16))

    result, by = found(program, x, first, second)
    inner = (x.astype(np.float64) @ first.T.astype(np.float64)).astype(ml_dtypes.bfloat16)
    wanted = inner.astype(np.float64) @ second.T.astype(np.float64)
    np.testing.assert_allclose(result, wanted, rtol=2.0**-7, atol=2.0**-7)
    assert by == "matmul matmul"


@pytest.mark.few(2)
@pytest.mark.parametrize("how", ["repeated", "squeezed", "made", "reshaped"])
def test_rows_that_are_not_rows_everywhere_are_summed(how: str) -> None:
    x, weight, other = whole(1, K), whole(N, K, dtype=np.int8), whole(5, N, seed=3)

    def program(x: Any, weight: Any, other: Any) -> Any:
        row = ops.broadcast(ops.sum(x, [0]), [True, False]) if how == "made" else x
        y = ops.linear(ops.cast(row, BF16), ops.cast(weight, BF16))
        if how == "repeated":
            return y + other
        if how == "squeezed":
            return ops.squeeze(y, [0])
        return ops.reshape(y, [1, 8, N // 8]) if how == "reshaped" else y

    result, by = found(program, x, weight, other)
    wanted = x.astype(np.float64) @ weight.astype(np.float64).T
    if how == "repeated":
        wanted = wanted + other.astype(np.float64)
    np.testing.assert_allclose(result.reshape(wanted.shape), wanted, rtol=2.0**-7, atol=2.0**-6)
    assert "matmul" not in by or how == "reshaped"


def test_calls_of_one_row_and_of_several_share_a_function() -> None:
    weight, scale = whole(N, K, dtype=np.int8), whole(N, 1, dtype=np.float32)
    fused = warpsmith.fuse(linear)
    for m in (1, 8, 1, 3):
        x = whole(m, K, seed=m)
        with knobs.scope(device="sim"):
            result = np.asarray(fused(x, weight, scale)).astype(np.float64)
        wanted = x.astype(np.float64) @ (weight.astype(np.float64) * scale).T
        np.testing.assert_allclose(result, wanted, rtol=2.0**-8, atol=2.0**-8)
