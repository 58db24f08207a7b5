"""Norms in both forms, with roles and without, for Blackwell (sm_100a), on the simulator."""

from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.schedulers.test_rows_across import softmax
from tests.support.norms_backward import Case, layer_norm_backward, rms_norm_backward
from warpsmith import knobs


@pytest.fixture
def blackwell() -> Any:
    with knobs.scope(device="sim", target="b200"):
        yield


@pytest.mark.few(1)
@pytest.mark.usefixtures("blackwell")
@pytest.mark.parametrize("shape", [(7, 1024), (8, 1027)])
@pytest.mark.parametrize("roles", [True, False])
@pytest.mark.parametrize(
    "program",
    [rms_norm_backward, pytest.param(layer_norm_backward, marks=pytest.mark.slow)],
)
def test_norms_backward(program: Any, roles: bool, shape: tuple[int, int]) -> None:
    case = Case(shape, "bfloat16")
    fused = warpsmith.fuse(program, warp_specialize=roles)
    inputs = case.inputs(program)
    kernel = fused.lower(*inputs).compile().kernels[0]
    assert ".target sm_100a" in kernel.binary.ptx
    for found, expected in zip(fused(*inputs), case.expected(program), strict=True):
        wide = np.asarray(found).astype(np.float64)
        np.testing.assert_allclose(wide, expected, case.relative, 1e-4)


@pytest.mark.few(1)
@pytest.mark.usefixtures("blackwell")
@pytest.mark.parametrize("roles", [True, False])
def test_softmax(roles: bool) -> None:
    x = np.random.default_rng(0).standard_normal((5, 2048)).astype(np.float32)
    fused = warpsmith.fuse(softmax, warp_specialize=roles)
    assert ".target sm_100a" in fused.lower(x).compile().kernels[0].binary.ptx
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(np.asarray(fused(x)), e / e.sum(1, keepdims=True), 1e-5, 1e-7)
