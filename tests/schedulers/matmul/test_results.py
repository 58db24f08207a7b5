"""Products with every kind of result: staged and stored by TMA, or stored by the threads."""

from typing import Any

import numpy as np
import pytest

from tests.support.product_programs import close, run, values, wide
from warpsmith import DataType

M, N, K = 72, 88, 136


def operands(m: int = M, n: int = N, k: int = K) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`x [m, k]`, `weight [n, k]`, and the product of `x` and the transpose of `weight`."""
    x, weight = values((m, k), 1), values((n, k), 2)
    return x, weight, wide(x) @ wide(weight).T


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [DataType.Float, DataType.Double, DataType.BFloat16])
@pytest.mark.parametrize("n", [88, 87])
def test_casts(dtype: DataType, n: int) -> None:
    x, weight, wanted = operands(n=n)
    (result,) = run([x, weight], lambda ops, a, b: ops.cast(ops.linear(a, b), dtype))
    close(result, wanted, K)


def test_sums_in_float_are_not_rounded_first() -> None:
    x, weight, wanted = operands()
    (result,) = run([x, weight], lambda ops, a, b: ops.cast(ops.linear(a, b), DataType.Float))
    assert result.dtype == np.float32
    assert np.max(np.abs(result - wanted)) < 1e-3


def test_bools_and_integers() -> None:
    x, weight, wanted = operands(n=90)

    def body(ops: Any, a: Any, b: Any) -> Any:
        sums = ops.linear(a, b)
        return ops.gt(sums, 0.0), ops.cast(ops.mul(sums, 10.0), DataType.Int)

    positive, tens = run([x, weight], body)
    clear = np.abs(wanted) > 0.1
    np.testing.assert_array_equal(positive[clear], (wanted > 0)[clear])
    assert tens.dtype == np.int64
    assert np.max(np.abs(tens - np.trunc(wanted * 10))) <= 1


def test_bits_of_sums() -> None:
    """Of the sums themselves: ptxas refuses a kernel that copies them before they are awaited."""
    x, weight, wanted = operands()

    def body(ops: Any, a: Any, b: Any) -> Any:
        sums = ops.linear(a, b)
        return ops.abs(sums), ops.signbit(sums)

    size, negative = run([x, weight], body)
    close(size, np.abs(wanted), K)
    clear = np.abs(wanted) > 0.1
    np.testing.assert_array_equal(negative[clear], (wanted < 0)[clear])


def test_several_outputs_with_a_bias_a_residual_and_an_activation() -> None:
    x, weight, wanted = operands()
    bias, residual = values((N,), 3), values((M, N), 4)

    def body(ops: Any, a: Any, b: Any, c: Any, r: Any) -> Any:
        before = ops.linear(a, b, c)
        return before, ops.add(ops.relu(before), r), ops.cast(before, DataType.Float)

    before, after, floats = run([x, weight, bias, residual], body)
    wanted = wanted + wide(bias)
    close(before, wanted, K)
    close(floats, wanted, K)
    close(after, np.maximum(wanted, 0) + wide(residual), K)


def test_a_result_that_depends_on_no_product_has_a_kernel_of_its_own() -> None:
    x, weight, wanted = operands()
    residual = values((M, N), 5)

    def body(ops: Any, a: Any, b: Any, r: Any) -> Any:
        positive = ops.relu(r)
        return ops.add(ops.linear(a, b), positive), positive

    total, positive = run([x, weight, residual], body, ["pointwise", "matmul"])
    close(total, wanted + np.maximum(wide(residual), 0), K)
    np.testing.assert_array_equal(wide(positive), np.maximum(wide(residual), 0))


def test_one_value_for_each_row_and_a_scalar() -> None:
    x, weight, wanted = operands()
    row = values((M, 1), 6)
    (result,) = run(
        [x, weight, row], lambda ops, a, b, r: ops.mul(ops.add(ops.linear(a, b), r), 0.5)
    )
    close(result, (wanted + wide(row)) / 2, K)


@pytest.mark.parametrize("n", [88, 87])
def test_permuted_results(n: int) -> None:
    x, weight, wanted = operands(n=n)
    (result,) = run([x, weight], lambda ops, a, b: ops.permute(ops.linear(a, b), [1, 0]))
    close(result, wanted.T, K)


def test_results_in_another_memory_order() -> None:
    x, weight, wanted = operands()
    (result,) = run([x, weight], lambda ops, a, b: ops.stride_order(ops.linear(a, b), [0, 1]))
    close(result, wanted, K)
    assert result.strides[0] == result.itemsize


def test_an_operand_that_is_the_residual_too() -> None:
    x, weight, wanted = operands(n=K)
    (result,) = run([x, weight], lambda ops, a, b: ops.add(ops.linear(a, b), a))
    close(result, wanted + wide(x), K)


def test_residuals_whose_rows_are_padded_and_misaligned() -> None:
    x, weight, wanted = operands()
    wider = values((M, N + 3), 7)
    for residual in (wider[:, :N], wider[:, 1 : N + 1], values((N, M), 8).T):
        (result,) = run([x, weight, residual], lambda ops, a, b, r: ops.add(ops.linear(a, b), r))
        close(result, wanted + wide(residual), K)


def test_a_mask_of_places() -> None:
    """As causal attention has: what lies above the diagonal is replaced."""
    x, weight, wanted = operands()

    def body(ops: Any, a: Any, b: Any) -> Any:
        rows = ops.broadcast_in_dim(ops.iota(M, 0, 1, DataType.Int), [M, N], [0])
        columns = ops.broadcast_in_dim(ops.iota(N, 0, 1, DataType.Int), [M, N], [1])
        return ops.where(ops.ge(rows, columns), ops.linear(a, b), -1.0)

    (result,) = run([x, weight], body)
    close(result, np.where(np.tri(M, N, dtype=bool), wanted, -1.0), K)


def test_both_operands_are_added_too() -> None:
    x, weight = values((K, K), 9), values((K, K), 10)
    (result,) = run([x, weight], lambda ops, a, b: ops.add(ops.add(ops.linear(a, b), b), a))
    close(result, wide(x) @ wide(weight).T + wide(x) + wide(weight), K)
