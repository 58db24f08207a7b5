"""Kernels of a call at small sizes are the same kernels, and right."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import warpsmith
from warpsmith import knobs, ops
from warpsmith.engine.simulated import Memory
from warpsmith.engine.smaller import Smaller, arrays_of, cut, smaller
from warpsmith.frontends.lowered import Compiled


def scaled(x: Any, w: Any) -> Any:
    return ops.exp(x) * w


def softmax(x: Any) -> Any:
    e = ops.exp(x - ops.max(x, [1], keepdim=True))
    return e / ops.sum(e, [1], keepdim=True)


def product(x: Any, w: Any) -> Any:
    return ops.silu(ops.linear(x, w))


def sizes(compiled: Compiled, inputs: list[Any], most: float = 2e7) -> Iterator[Smaller]:
    binder = compiled._executable.binder
    return smaller(compiled._call, 0, binder, inputs, knobs.current(), most)


def made(function: Any, *shapes: tuple[int, ...]) -> tuple[Compiled, list[Any]]:
    given: list[Any] = [np.zeros(shape, np.float16) for shape in shapes]
    return warpsmith.fuse(function).lower(*given).compile(), given


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (scaled, ((8192, 4096), (4096,))),
        (softmax, ((8192, 4096),)),
        (product, ((8192, 512), (2048, 512))),
    ],
)
def test_the_simulator_runs_the_same_kernel_in_little_time(
    function: Any, shapes: tuple[tuple[int, ...], ...]
) -> None:
    compiled, given = made(function, *shapes)
    found = next(sizes(compiled, given, 4e6))
    assert found.launch.compiled is compiled.kernels[0]
    assert found.launch.params == compiled._call.launches[0].params
    memory = Memory()
    for name, array, defined in arrays_of(found):
        memory.add(name, array, defined=defined)
    _, outcome = memory.trace(found.launch, {}, 4_000_000)
    assert [bytes(each["message"]) for each in outcome.findings] == []
    assert 0 < outcome.statistics["instructions"] < 4_000_000


def test_a_kernel_of_rows_that_stay_whole_keeps_its_columns() -> None:
    compiled, given = made(softmax, (8192, 4096))
    found = list(sizes(compiled, given))
    shapes = {tuple(each.problem.values[f"T0_size{d}"] for d in (0, 1)) for each in found}
    assert {columns for _, columns in shapes} == {4096}
    assert max(rows for rows, _ in shapes) < 8192


def test_work_is_bounded() -> None:
    compiled, given = made(scaled, (8192, 4096), (4096,))
    few = [each.work for each in sizes(compiled, given, 1e6)]
    assert few
    assert max(few) <= 1e6 < max(each.work for each in sizes(compiled, given))
    assert list(sizes(compiled, given, 1.0)) == []


def test_equal_extents_stay_equal_and_strides_keep_their_order() -> None:
    x = np.zeros((2048, 2048), np.float16).T
    fused = warpsmith.fuse(lambda a, b: a + b)
    compiled = fused.lower(x, x).compile()
    found = next(sizes(compiled, [x, x], 2e5))
    values = found.problem.values
    first_shape, second_shape = ([values[f"{t}_size{d}"] for d in (0, 1)] for t in ("T0", "T1"))
    assert first_shape == second_shape
    assert first_shape != [2048, 2048]
    arrays = {name: array for name, array, _ in arrays_of(found)}
    first, second = arrays["T0"].strides
    assert first < second


def test_equal_extents_that_mean_different_things_are_cut_apart() -> None:
    def scores(q: Any, k: Any) -> Any:
        e = ops.exp(ops.matmul(q, ops.permute(k, [1, 0])))
        return e / ops.sum(e, [1], keepdim=True)

    compiled, given = made(scores, (4096, 64), (4096, 64))
    binder = compiled._executable.binder
    norm = smaller(compiled._call, 1, binder, given, knobs.current(), 2e7)
    values = next(norm).problem.values
    assert values["T0_size0"] < values["T1_size0"] == 4096  # rows of the whole width, but few


def test_numbers_among_the_arguments_stay() -> None:
    given: list[Any] = [np.zeros((4096, 512), np.float16), 3.0]
    compiled = warpsmith.fuse(lambda x, a: x * a).lower(*given).compile()
    found = next(sizes(compiled, given, 1e6))
    assert found.scalars["S0"] == 3.0


@pytest.mark.parametrize(("extent", "cap", "kept"), [
    (4096, 512, 512), (4097, 512, 449), (1000, 512, 488), (37, 16, 5), (9, 2, 1),
])  # fmt: skip
def test_cut_extents_leave_the_same_remainder(extent: int, cap: int, kept: int) -> None:
    assert cut(extent, cap) == kept
    assert (extent - kept) % min(cap, 64) == 0
