"""Batches, and rows of several dimensions: tiles are numbered over what is not one dimension."""

import numpy as np
import pytest

from tests.support.product_programs import close, run, values, wide
from warpsmith import DataType, FusionDefinition, knobs

M, N, K = 72, 88, 136


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, M, K), (3, N, K)),
        ((3, M, K), (N, K)),
        ((M, K), (3, N, K)),
        ((3, M, K), (1, N, K)),
        ((1, M, K), (3, N, K)),
        ((1, M, K), (1, N, K)),
        ((2, 3, M, K), (2, 3, N, K)),
        ((2, 3, M, K), (3, N, K)),
        ((2, 1, M, K), (3, N, K)),
        ((2, 3, 2, M, K), (3, 1, N, K)),
    ],
)
@pytest.mark.parametrize("dtype", [DataType.BFloat16, DataType.Float])
def test_batches(a: tuple[int, ...], b: tuple[int, ...], dtype: DataType) -> None:
    left, right = values(a, 1), values(b, 2)

    def body(ops, x, y):  # type: ignore[no-untyped-def]
        return ops.cast(ops.matmul(x, ops.transpose(y)), dtype)

    (result,) = run([left, right], body)
    close(result, wide(left) @ wide(right).swapaxes(-1, -2), K)


@pytest.mark.few(2)
@pytest.mark.parametrize("shape", [(3, 50, K), (2, 3, 25, K), (70, 1, K), (1, 70, K)])
@pytest.mark.parametrize("dtype", [DataType.BFloat16, DataType.Float])
def test_rows_of_several_dimensions(shape: tuple[int, ...], dtype: DataType) -> None:
    x, weight, bias = values(shape, 3), values((N, K), 4), values((N,), 5)
    (result,) = run([x, weight, bias], lambda ops, a, b, c: ops.cast(ops.linear(a, b, c), dtype))
    close(result, wide(x) @ wide(weight).T + wide(bias), K)


def test_rows_that_are_apart_in_memory() -> None:
    """Every second sequence, and sequences that lie between each other: tiles of each batch."""
    weight = values((N, K), 7)
    every_second = values((6, 50, K), 6)[::2]
    between = values((50, 3, K), 6).transpose(1, 0, 2)
    for x in (every_second, between):
        (result,) = run([x, weight], lambda ops, a, b: ops.linear(a, b))
        close(result, wide(x) @ wide(weight).T, K)


def test_heads_of_attention() -> None:
    """`[b, s, h, d]` seen as `[b, h, s, d]`, scores of queries and keys; keys have fewer heads."""
    queries = values((2, 40, 4, 64), 8).transpose(0, 2, 1, 3)
    keys = values((2, 48, 1, 64), 9).transpose(0, 2, 1, 3)
    (scores,) = run(
        [queries, keys], lambda ops, q, k: ops.mul(ops.matmul(q, ops.transpose(k)), 0.125)
    )
    close(scores, wide(queries) @ wide(keys).swapaxes(-1, -2) / 8, 64)


@pytest.mark.parametrize("dtype", [DataType.BFloat16, DataType.Float])
def test_batches_that_become_fast_dimensions(dtype: DataType) -> None:
    """`[b, h, s, d]` to `[b, s, h, d]`, as attention returns what its heads computed."""
    a, b = values((2, 3, 40, K), 10), values((2, 3, 64, K), 11)

    def body(ops, x, y):  # type: ignore[no-untyped-def]
        made = ops.matmul(x, ops.transpose(y))
        return ops.permute(ops.cast(made, dtype), [0, 2, 1, 3])

    (result,) = run([a, b], body)
    close(result, (wide(a) @ wide(b).swapaxes(-1, -2)).transpose(0, 2, 1, 3), K)


def test_a_residual_and_a_bias_for_each_batch() -> None:
    a, b = values((3, M, K), 12), values((3, N, K), 13)
    residual, bias = values((3, M, N), 14), values((3, 1, N), 15)

    def body(ops, x, y, r, c):  # type: ignore[no-untyped-def]
        return ops.relu(ops.add(ops.add(ops.matmul(x, ops.transpose(y)), c), r))

    (result,) = run([a, b, residual, bias], body)
    wanted = wide(a) @ wide(b).swapaxes(-1, -2) + wide(bias) + wide(residual)
    close(result, np.maximum(wanted, 0), K)


@pytest.mark.parametrize("shape", [(0, M, K), (3, 0, K), (3, M, 0)])
def test_no_batches_rows_or_terms(shape: tuple[int, ...]) -> None:
    a, b = values(shape, 16), values((shape[0], N, shape[2]), 17)
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor([-1, -1, -1], True, DataType.BFloat16) for _ in range(2))
        fd.add_output(fd.ops.matmul(x, fd.ops.transpose(y)))
    with knobs.scope(device="sim"):
        (result,) = fd.execute([a, b])
    np.testing.assert_array_equal(wide(result), np.zeros((*shape[:2], N)))
