"""The same PTX on the simulator and on the GPU: outputs are equal to rounding."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from tests.sim.support.catalog import NAMES, TRITON, TWINS, cases, read_ptx, read_spec
from tests.sim.support.tensor_boxes import BOXES, Box
from tests.support.launch_spec import launch_spec
from warpsmith import knobs, ops, sim

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
Record = Callable[[str, object], None]

# Approximate instructions, and sums whose order atomics decide, may differ in the last places.
PLACES = {np.dtype(np.float32): 2.0**-19, np.dtype(np.float16): 2.0**-9, BFLOAT16: 2.0**-7}


def assert_agree(simulated: np.ndarray, measured: np.ndarray, record: Record, name: str) -> None:
    """Equal bits, or floats within the last places of the largest value."""
    assert simulated.shape == measured.shape
    assert simulated.dtype == measured.dtype
    same = np.frombuffer(simulated.tobytes(), np.uint8) == np.frombuffer(
        measured.tobytes(), np.uint8
    )
    equal = same.reshape(-1, measured.itemsize).all(axis=1)
    record(f"{name} equal", f"{100 * float(np.mean(equal)):.2f}%")
    if measured.dtype not in PLACES:
        np.testing.assert_array_equal(simulated, measured, err_msg=name)
        return
    ours, theirs = simulated.astype(np.float64), measured.astype(np.float64)
    scale = float(np.nanmax(np.abs(theirs), initial=0.0, where=np.isfinite(theirs)))
    places = PLACES[measured.dtype]
    np.testing.assert_allclose(
        ours, theirs, rtol=places, atol=places * scale / 8, equal_nan=True, err_msg=name
    )


@pytest.mark.parametrize(("name", "trips"), list(cases((*NAMES, *TWINS, *TRITON))))
def test_kernels(name: str, trips: int | None, record_property: Record) -> None:
    spec, ptx = read_spec(name, trips), read_ptx(name)
    report = sim.run(ptx, spec, schedules=1)
    for output, measured in launch_spec(ptx, spec).items():
        assert_agree(report.arrays[output], measured, record_property, output)


@pytest.mark.parametrize("box", BOXES, ids=lambda box: box.name)
def test_boxes(box: Box, record_property: Record) -> None:
    report = sim.run(box.ptx(), box.spec(), schedules=1)
    for output, measured in launch_spec(box.ptx(), box.spec()).items():
        assert_agree(report.arrays[output], measured, record_property, output)


FUSED: dict[str, Callable[..., Any]] = {
    "gelu": lambda x, y: 0.5 * (x + y) * (1.0 + ops.erf((x + y) * 0.7071067811865476)),
    "silu_mul": lambda x, y: ops.silu(x) * y,
    "transcendental": lambda x, y: ops.sin(x) + ops.exp(y) * ops.tanh(x) - ops.log(ops.abs(y)),
    "rational": lambda x, y: x / (1.0 + ops.abs(y)) + ops.rsqrt(ops.abs(x) + 1.0),
    "power": lambda x, y: ops.pow(ops.abs(x) + 0.5, y) + ops.erf(x),
    "transposed": lambda x, y: ops.permute(x * y, [1, 0]),
    "row sums": lambda x, y: ops.sum(x * y, [1]),
    "column sums": lambda x, y: ops.sum(x * y, [0]),
    "all": lambda x, y: ops.max(x + y),
    "row variance": lambda x, y: ops.var_mean(x * y, [1]),
    "column variance": lambda x, y: ops.var_mean(x * y, [0]),
}


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BFLOAT16], ids=str)
@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("shape", [(64, 512), (37, 1003)], ids=str)
def test_fusions(name: str, dtype: Any, shape: tuple[int, int], record_property: Record) -> None:
    rng = np.random.default_rng(11)
    inputs = [rng.standard_normal(shape).astype(np.float32).astype(dtype) for _ in range(2)]
    results = {}
    for device in ("sim", "gpu"):
        with knobs.scope(device=device):
            got = warpsmith.fuse(FUSED[name])(*inputs)
        results[device] = got if isinstance(got, tuple) else (got,)
    for position, (ours, theirs) in enumerate(zip(*results.values(), strict=True)):
        assert_agree(np.asarray(ours), np.asarray(theirs), record_property, f"result {position}")
