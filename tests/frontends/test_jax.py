"""Arrays of JAX, where it is installed: what comes in as JAX's goes out as JAX's."""

from typing import Any

import numpy as np
import pytest

from warpsmith import ArgumentError, fuse, knobs, ops

jax = pytest.importorskip("jax")


@fuse
def centred(x: Any) -> Any:
    return x - ops.mean(x, [1], keepdim=True), ops.sum(x, [0])


@pytest.mark.parametrize("device", ["reference", "sim"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_jax_in_and_out(dtype: str, device: str) -> None:
    x = jax.random.normal(jax.random.key(0), (12, 40), dtype)
    for given in (x, x.T):
        with knobs.scope(device=device):
            rows, sums = centred(given)
        assert isinstance(rows, jax.Array)
        assert isinstance(sums, jax.Array)
        assert (rows.dtype, rows.shape, sums.shape) == (x.dtype, given.shape, given.shape[1:])
        values = np.asarray(given, np.float64)
        allowed = 1e-5 if dtype == "float32" else 4e-2
        want = values - values.mean(1, keepdims=True)
        np.testing.assert_allclose(np.asarray(rows, np.float64), want, atol=allowed)
        np.testing.assert_allclose(
            np.asarray(sums + 0, np.float64), values.sum(0), atol=2 * allowed
        )


def test_inputs_stay_as_they_are() -> None:
    x = jax.numpy.arange(6.0).reshape(2, 3)
    centred(x)
    np.testing.assert_array_equal(np.asarray(x), np.arange(6.0).reshape(2, 3))


def test_what_is_being_traced_by_jax_is_refused() -> None:
    with pytest.raises(ArgumentError, match="argument `x`"):
        jax.jit(centred)(jax.numpy.ones((2, 3)))
