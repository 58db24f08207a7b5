"""Arrays of other libraries on the GPU: what comes in as CuPy's goes out as CuPy's."""

from typing import Any

import numpy as np
import pytest

from warpsmith import fuse, ops

cupy = pytest.importorskip("cupy")


@fuse
def centred(x: Any) -> Any:
    return x - ops.mean(x, [1], keepdim=True), ops.sum(x, [0])


@pytest.mark.parametrize("shape", [(300, 70), (1, 5), (4096, 1024)])
def test_cupy_in_and_out(shape: tuple[int, int]) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:  # whose work torch's stream waits for, and the other way round
        x = cupy.random.standard_normal(shape, dtype=cupy.float32) + 1
        rows, sums = centred(x)
        again = rows + 1
    stream.synchronize()
    assert isinstance(rows, cupy.ndarray)
    assert isinstance(sums, cupy.ndarray)
    values = cupy.asnumpy(x).astype(np.float64)
    want = values - values.mean(1, keepdims=True)
    np.testing.assert_allclose(cupy.asnumpy(rows), want, atol=1e-5)
    np.testing.assert_allclose(cupy.asnumpy(again), want + 1, atol=1e-5)
    np.testing.assert_allclose(cupy.asnumpy(sums), values.sum(0), rtol=1e-4, atol=1e-3)


def test_transposed_and_half() -> None:
    x = cupy.arange(12, dtype=cupy.float16).reshape(3, 4).T
    rows, _ = centred(x)
    assert (rows.dtype, rows.shape) == (cupy.float16, (4, 3))
    values = cupy.asnumpy(x).astype(np.float64)
    np.testing.assert_allclose(
        cupy.asnumpy(rows), values - values.mean(1, keepdims=True), atol=1e-2
    )
