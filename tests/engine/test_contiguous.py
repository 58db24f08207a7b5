"""Calls whose arrays lie contiguous get the kernels of a definition that says so."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from tests.programs.judge import plan_only
from warpsmith import ops
from warpsmith.engine.contiguous import contiguous_dimensions
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def defined(program: Any, *ranks: int, contiguity: bool | None = None) -> FusionDefinition:
    with FusionDefinition() as fd:
        given: dict[str, Any] = {} if contiguity is None else {"contiguity": contiguity}
        tensors = [
            fd.define_tensor([-1] * rank, dtype=DataType.BFloat16, **given) for rank in ranks
        ]
        fd.add_output(program(*tensors))
    return fd


def norm(x: Any, weight: Any) -> Any:
    return ops.cast(
        x * ops.rsqrt(ops.mean(x * x, [1], keepdim=True) + 1e-5) * weight, DataType.BFloat16
    )


def kernels(fd: FusionDefinition, *arrays: np.ndarray) -> list[str]:
    return [launch.compiled.name for launch in plan_only(fd, arrays).launches]


def test_contiguous_arrays_get_the_kernel_of_a_contiguous_definition() -> None:
    x, w = np.empty((64, 1024), BFLOAT16), np.empty(1024, BFLOAT16)
    open_, said = defined(norm, 2, 1), defined(norm, 2, 1, contiguity=True)
    assert kernels(open_, x, w) == kernels(said, x, w)
    apart = np.empty((64, 2048), BFLOAT16)[:, ::2]
    assert kernels(open_, apart, w) != kernels(said, x, w)


def test_operands_of_products_are_not_copied() -> None:
    def product(x: Any, w: Any) -> Any:
        return ops.linear(x, w)

    x, w = np.empty((256, 512), BFLOAT16), np.empty((128, 512), BFLOAT16)
    (name,) = kernels(defined(product, 2, 2), x, w)
    assert name.startswith("matmul_")
    assert "threads" not in name


def test_a_definition_serves_arrays_of_any_stride_in_turn() -> None:
    fd = defined(lambda x: x * 2 + 1, 2)
    rng = np.random.default_rng(11)
    x = rng.standard_normal((6, 32)).astype(BFLOAT16)
    views = (x, x[:, ::2], x[:, :16], x[:, :1], np.asfortranarray(x), x[:1], x[:0], x[:4])
    with warpsmith.knobs.scope(device="sim"):
        for view in views:
            (got,) = fd.execute([view])
            want = (view.astype(np.float64) * 2 + 1).astype(BFLOAT16)
            np.testing.assert_array_equal(np.asarray(got), want)
        explained = fd._ready(False).explain()
    assert "T0 contiguous in dimensions 0, 1" in explained
    assert "T0 contiguous in dimensions 1" in explained


@pytest.mark.parametrize(
    ("array", "dimensions"),
    [
        (np.empty((4, 6, 8), BFLOAT16), {0, 1, 2}),
        (np.empty((4, 6, 16), BFLOAT16)[:, :, :8], {0, 2}),
        (np.empty((4, 12, 8), BFLOAT16)[:, :6], {1, 2}),
        (np.empty((4, 6, 16), BFLOAT16)[:, :, ::2], {0, 1}),
        (np.empty((4, 6, 16), BFLOAT16)[:, :, :1], {0, 2}),
    ],
)
def test_only_dimensions_without_gaps_are_relied_on(
    array: np.ndarray, dimensions: set[int]
) -> None:
    fd = defined(lambda x: x + 1, 3)
    executable = fd._ready(False)
    values = {k: int(v) for k, v in executable.binder([array]).values.items()}
    found = contiguous_dimensions(executable.fusion, values)
    assert {dimension for _, dimension in found} == dimensions
