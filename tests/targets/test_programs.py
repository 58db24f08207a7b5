"""One program of each kind, made for each target, compiled for its family, on the simulator."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpsmith
from warpsmith import knobs, ops
from warpsmith.errors import KnobError
from warpsmith.targets.known import KNOWN, named

ARCHES = {target.name: target.family.arch for target in KNOWN[1:]}
"""By the names of all targets but the one that other tests are for."""

Wide = np.ndarray[Any, np.dtype[np.float64]]


def norm(x: Any, weight: Any) -> Any:
    return x * ops.rsqrt(ops.mean(x * x, [-1], keepdim=True) + 1e-5) * weight


def softmax(x: Any, weight: Any) -> Any:
    e = ops.exp(x - ops.max(x, [-1], keepdim=True))
    return e / ops.sum(e, [-1], keepdim=True)


def gate(x: Any, weight: Any) -> Any:
    return ops.relu(x) * weight + x


def product(x: Any, weight: Any) -> Any:
    return ops.relu(ops.linear(x, weight))


def norm_of(x: Wide, weight: Wide) -> Wide:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight


def softmax_of(x: Wide, weight: Wide) -> Wide:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


CASES = {
    "norm": (norm, norm_of, (7, 1024), (1024,), np.float32),
    "softmax": (softmax, softmax_of, (5, 2048), (1,), np.float32),
    "pointwise": (gate, lambda x, w: np.maximum(x, 0) * w + x, (33, 40), (40,), np.float32),
    "product": (product, lambda x, w: np.maximum(x @ w.T, 0), (70, 128), (96, 128), np.float16),
}


def inputs(case: str) -> tuple[Any, ...]:
    _, _, first, second, dtype = CASES[case]
    rng = np.random.default_rng(3)
    return tuple(rng.standard_normal(shape).astype(dtype) for shape in (first, second))


@pytest.mark.few(4)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("target", ARCHES)
def test_against_float64(target: str, case: str) -> None:
    program: Callable[..., Any] = CASES[case][0]
    x, weight = inputs(case)
    expected = CASES[case][1](x.astype(np.float64), weight.astype(np.float64))
    half = CASES[case][4] is np.float16
    with knobs.scope(device="sim", target=target):
        fused = warpsmith.fuse(program)
        found = np.asarray(fused(x, weight)).astype(np.float64)
        compiled = fused.lower(x, weight).compile()
    np.testing.assert_allclose(found, expected, 2e-3 if half else 2e-5, 2e-2 if half else 1e-6)
    assert all(f".target {ARCHES[target]}" in kernel.binary.ptx for kernel in compiled.kernels)
    assert all(kernel.target is named(target) for kernel in compiled.kernels)
    assert f"made for {target} ({ARCHES[target]})" in compiled.explain()


@pytest.mark.parametrize(("target", "wgmma"), [("h200", True), ("h100", True), ("b200", False)])
def test_tensor_cores_multiply_where_there_is_an_instruction(target: str, wgmma: bool) -> None:
    compiled = warpsmith.fuse(product).lower(*inputs("product")).compile(target=target)
    (kernel,) = compiled.kernels
    assert ("wgmma.mma_async" in kernel.binary.ptx) is wgmma
    assert ("mma.sync" in kernel.binary.ptx.replace("wgmma", "")) is not wgmma
    refused = "not matmul: b200 (sm_100a) has no product of tensor cores that is known"
    assert (refused in compiled.explain()) is not wgmma


def test_one_function_has_kernels_of_several_targets() -> None:
    fused, arrays = warpsmith.fuse(softmax), inputs("softmax")
    with knobs.scope(device="sim"):
        first = np.asarray(fused(*arrays))
        with knobs.scope(target="b200"):
            assert "made for b200" in fused.explain(*arrays)
            np.testing.assert_allclose(np.asarray(fused(*arrays)), first, 1e-6)
        assert "made for h200" in fused.explain(*arrays)


def test_timings_of_one_model_say_nothing_of_another() -> None:
    """A width at which norms were timed on an H200: there they correct the prediction."""
    x, weight = np.empty((8192, 4096), np.float16), np.empty((4096,), np.float16)
    lowered = warpsmith.fuse(norm).lower(x, weight)
    told = {
        target: re.search(r"waves (\S+) µs", lowered.compile(target=target).explain())
        for target in ("h200", "h100")
    }
    waves = {target: float(found[1]) for target, found in told.items() if found}
    assert waves["h100"] > 1.2 * waves["h200"]  # its memory moves 0.7 times as much


def test_a_name_that_no_target_has() -> None:
    lowered = warpsmith.fuse(softmax).lower(*inputs("softmax"))
    with pytest.raises(KnobError, match="target='h800' is not allowed"):
        lowered.compile(target="h800")
