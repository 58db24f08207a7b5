"""Schedules whose loads run ahead: chosen where they pay, right wherever they are asked for."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from warpsmith import knobs, ops
from warpsmith.engine.executable import Executable
from warpsmith.errors import KnobError
from warpsmith.frontends.lowered import Compiled
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.elementwise import apply
from warpsmith.ops.table import TABLE
from warpsmith.runtime.arrays import NUMPY_DTYPES

BF16 = ml_dtypes.bfloat16


def compiled(function: Callable[..., Any], *inputs: np.ndarray, rings: str) -> Compiled:
    fused = warpsmith.fuse(function)
    return fused.lower(*inputs).compile(knobs.current().replace(rings=rings))


def ring_of(function: Callable[..., Any], *inputs: np.ndarray, rings: str) -> int:
    """Stages of the ring of the one kernel."""
    text = compiled(function, *inputs, rings=rings).explain()
    return int(text.split("ring=")[1].split()[0].rstrip(","))


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def agree(function: Callable[..., Any], *inputs: np.ndarray) -> None:
    """With rings preferred, the result is the one in float64, and the simulator finds nothing."""
    with knobs.scope(rings="prefer"):
        found = warpsmith.fuse(function)(*inputs)
    with knobs.scope(device="reference"):
        wanted = warpsmith.fuse(function)(*(x.astype(np.float64) for x in inputs))
    results = found if isinstance(found, tuple) else (found,)
    references = wanted if isinstance(wanted, tuple) else (wanted,)
    for result, reference in zip(results, references, strict=True):
        loose = result.dtype != np.float32
        error = np.abs(result.astype(np.float64) - reference).max()
        assert error <= (2e-2 if loose else 1e-5) * max(1.0, np.abs(reference).max())


def add3(x: Any, y: Any, z: Any) -> Any:
    return x + y + z


def gate(x: Any, y: Any) -> Any:
    return ops.silu(x) * y


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize("size", [8, 1000, 4096, 300_008])
def test_pointwise_programs(size: int, dtype: Any) -> None:
    inputs = [normal(size, dtype=dtype) for _ in range(3)]
    assert ring_of(add3, *inputs, rings="prefer") > 1
    agree(add3, *inputs)
    agree(gate, *inputs[:2])


def test_pointwise_programs_beside_inputs_that_the_unit_cannot_load() -> None:
    agree(lambda x, b: x * 2 + b, normal(37, 64), normal(64))
    agree(add3, normal(33, 5), normal(33, 5), normal(33, 5))


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize("shape", [(129, 256), (1000, 128), (3000, 384), (200, 64)])
def test_columns(shape: tuple[int, int], dtype: Any) -> None:
    x, y = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype)
    agree(lambda x: ops.sum(x, [0]), x)
    agree(lambda x, y: ops.sum(ops.exp(x) * y, [0]), x, y)
    agree(lambda x: ops.var_mean(x, [0]), x)


def test_columns_of_several_dimensions() -> None:
    agree(lambda x: ops.sum(x, [0, 1]), normal(3, 50, 128))
    agree(lambda x, y: ops.max(x + y, [0, 1]), normal(5, 70, 2, 64), normal(1, 70, 2, 64))


def test_a_ring_takes_columns_of_whole_tiles_only() -> None:
    def total(x: Any) -> Any:
        return ops.sum(x, [0])

    assert ring_of(total, normal(300, 128), rings="prefer") > 0
    assert ring_of(total, normal(300, 132), rings="prefer") == 0
    assert ring_of(total, normal(300, 128)[:, :64], rings="prefer") == 0
    assert ring_of(total, normal(300, 128), rings="never") == 0


def test_the_automatic_choice_is_the_measured_one() -> None:
    """docs/lessons/rings.md: threads that load for themselves, but for large tall columns."""

    def total(x: Any) -> Any:
        return ops.sum(x, [0])

    assert ring_of(add3, *(normal(64, 64) for _ in range(3)), rings="auto") == 0
    assert ring_of(total, np.empty((2048, 16384), np.float32), rings="auto") > 0
    assert ring_of(total, np.empty((1024, 16384), np.float32), rings="auto") == 0
    assert ring_of(total, np.empty((4096, 8192), np.float32), rings="auto") == 0
    assert ring_of(total, np.empty((16384, 16384), BF16), rings="auto") > 0
    assert ring_of(total, np.empty((8192, 16384), BF16), rings="auto") == 0


def test_other_words_are_refused() -> None:
    with pytest.raises(KnobError, match=r"rings='always'.*auto, prefer, never"):
        knobs.current().replace(rings="always")


def test_explain_says_why_not() -> None:
    def total(x: Any) -> Any:
        return ops.sum(x, [0])

    x = normal(300, 128)
    assert "no ring     the knob" in compiled(total, x, rings="never").explain()
    assert "columns are too few" in compiled(total, x, rings="auto").explain()
    assert "no ring" not in compiled(total, x, rings="prefer").explain()
    assert "as fast, or faster" in compiled(lambda x: x + 1, x, rings="auto").explain()


def test_each_scope_gets_what_it_asks_for() -> None:
    """A plan that was made in one scope is not the plan of another."""
    x = normal(4096)
    lowered = warpsmith.fuse(lambda x: x + 1).lower(x)
    executable = Executable(lowered.fusion)
    for rings, expected in (("never", "ring=0"), ("prefer", "ring=4"), ("never", "ring=4")):
        with knobs.scope(rings=rings):
            np.testing.assert_array_equal(executable.run([x])[0], x + 1)
            assert expected in executable.explain()  # of the last plan that was made


def test_variances_of_very_many_columns_have_no_ring() -> None:
    def variance(x: Any) -> Any:
        return ops.var_mean(x, [0])

    assert ring_of(variance, np.empty((2048, 16384), np.float32), rings="auto") > 0
    assert ring_of(variance, np.empty((2048, 32768), np.float32), rings="auto") == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [4, 1000])
@pytest.mark.parametrize("function", [ops.tanh, ops.atan, lambda x: ops.remainder(x, x), ops.log1p])
def test_functions_that_branch_read_nothing_behind_the_last_tile(
    function: Callable[..., Any], size: int
) -> None:
    x = abs(normal(size))
    assert ring_of(lambda x: function(x), x, rings="prefer") > 1
    agree(lambda x: function(x), x)


APPLIED: dict[int, Callable[..., Callable[..., Any]]] = {
    1: lambda name: lambda a: apply(name, a),
    2: lambda name: lambda a, b: apply(name, a, b),
    3: lambda name: lambda a, b, c: apply(name, a, b, c),
    4: lambda name: lambda a, b, c, d: apply(name, a, b, c, d),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [DataType.Float, DataType.Double, DataType.Int])
@pytest.mark.parametrize("name", TABLE)
def test_no_function_branches_by_what_nobody_wrote(name: str, dtype: DataType) -> None:
    """Of each that takes this type the simulator finds that, where `BRANCHING` does not name it."""
    op = TABLE[name]
    if not op.supports(dtype):
        return
    conditions = [np.ones(16, np.bool_)] * op.conditions
    ones = [np.ones(16, NUMPY_DTYPES[dtype.value]) for _ in range(op.arity - op.conditions)]
    with knobs.scope(device="sim", rings="prefer"):
        warpsmith.fuse(APPLIED[op.arity](name))(*conditions, *ones)
