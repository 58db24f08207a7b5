"""The NumPy meaning of a fusion, also of one that is scheduled."""

from typing import Any

import numpy as np
import pytest

from tests.support.against_torch import defined, random, results
from warpsmith import ops
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.evaluate import evaluate


def _variance_and_sum() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], dtype=DataType.Half)
        fd.add_output(ops.add(ops.var(x, [1], keepdim=True), ops.exp(x)))
        fd.add_output(ops.sum(x, [1]))
    return fd


def test_caches_and_rfactor_change_nothing() -> None:
    fd, x = _variance_and_sum(), random((4, 40), DataType.Half).numpy()
    before = evaluate(fd.fusion, [x])
    for operation in list(fd.fusion.operations):
        output = operation.outputs[0]
        if output.has_reduction:
            output.split(-1, 8)
            output.rfactor([-1])
    fd.fusion.input_tensors[0].cache_after()
    fd.fusion.outputs[1].value.cache_before()
    assert sum(tensor.has_root() for tensor in fd.fusion.tensors) == 4
    for old, new in zip(before, evaluate(fd.fusion, [x]), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("steps", [[[0]], [[1]], [[0, 3]], [[0], [1]], [[3], [0]], [[1, 3]]])
@pytest.mark.parametrize("name", ["sum", "var"])
def test_rfactor_of_whole_dimensions_changes_nothing(name: str, steps: list[list[int]]) -> None:
    """In one step or two; what a first step keeps whole the last one reduces."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1, -1, -1], dtype=DataType.Double)
        fd.add_output(getattr(ops, name)(x, [0, 1, 3]))
    given = random((3, 2, 5, 4), DataType.Double).numpy()
    (before,) = evaluate(fd.fusion, [given])
    first = next(tensor for tensor in fd.fusion.tensors if tensor.has_reduction)
    reduced = {axis: id(first.loop[axis]) for axis in (0, 1, 3)}
    for step in steps:
        loops = [id(axis) for axis in first.loop]
        places = [loops.index(reduced[axis]) for axis in step if reduced[axis] in loops]
        first.rfactor(places or [next(p for p, a in enumerate(first.loop) if a.is_reduction)])
    (after,) = evaluate(fd.fusion, [given])
    np.testing.assert_allclose(after, before, rtol=1e-14)


def test_precise_rounds_nothing() -> None:
    def program(x: Any) -> Any:
        return ops.cast(ops.mul(ops.cast(ops.add(x, 1e-9), DataType.Half), 3), DataType.Float)

    x = random((4,), DataType.Half)
    (found,) = results(program, x, precise=True)
    np.testing.assert_array_equal(found.numpy(), (x.double().numpy() + 1e-9) * 3)
    (found,) = results(program, x)
    np.testing.assert_array_equal(found.numpy(), x.float().numpy() * 3)


def test_results_are_arrays_of_their_own() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1])
        fd.add_output(x)
        fd.add_output(ops.full([3], 1.0, fusion=fd.fusion))
    given = np.zeros(3, np.float32)
    copy, full = evaluate(fd.fusion, [given])
    copy += 1
    full += 1
    assert not given.any()


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("dtype", [DataType.Float, DataType.Int32, DataType.Int])
def test_extremes_of_nothing_are_the_identity(op: str, dtype: DataType) -> None:
    fd = defined(lambda t: getattr(ops, op)(t, [1]), random((2, 3), dtype))
    empty = random((2, 0), dtype).numpy()
    (found,) = evaluate(fd.fusion, [empty])
    other = random((2, 1), dtype).numpy()
    both = np.maximum if op == "max" else np.minimum
    np.testing.assert_array_equal(both(found[:, None], other), other)
