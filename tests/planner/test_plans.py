"""Programs around products: what is one kernel, and what is planned, compiled and copied once."""

import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from warpsmith import DataType, knobs, ops
from warpsmith.engine.plan import plan_prepared, prepare
from warpsmith.engine.planned import PlannedSegment
from warpsmith.errors import PlanWarning, ScheduleError
from warpsmith.ir.part import Part
from warpsmith.schedulers.candidate import Candidate
from warpsmith.targets.hopper import H200

BFLOAT = ml_dtypes.bfloat16


def drawn(*shape: int, dtype: Any = BFLOAT) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype(dtype)


def planned(function: Callable[..., Any], *arrays: np.ndarray) -> tuple[PlannedSegment, ...]:
    return plan_prepared(prepare(warpsmith.fuse(function).lower(*arrays).fusion), target=H200)


def schedulers(function: Callable[..., Any], *arrays: np.ndarray) -> list[str]:
    made = planned(function, *arrays)
    return [one.candidate.scheduler for one in made if one.candidate is not None]


def rms_norm(x: Any, weight: Any) -> Any:
    return x * ops.rsqrt(ops.mean(x * x, -1, keepdim=True) + 1e-6) * weight


def softmax(x: Any) -> Any:
    e = ops.exp(x - ops.max(x, -1, keepdim=True))
    return e / ops.sum(e, -1, keepdim=True)


def attention(q: Any, k: Any, v: Any) -> Any:
    return ops.matmul(softmax(ops.matmul(q, ops.permute(k, [0, 1, 3, 2])) * 0.25), v)


def test_both_products_of_a_pair_are_one_kernel() -> None:
    def swiglu(x: Any, w1: Any, w3: Any) -> Any:
        return ops.silu(ops.linear(x, w1)) * ops.linear(x, w3)

    assert schedulers(swiglu, drawn(40, 64), drawn(48, 64), drawn(48, 64)) == ["matmul"]


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "one row": (ops.linear, (drawn(1, 64), drawn(32, 64))),
    "float": (ops.linear, (drawn(40, 64, dtype=np.float32), drawn(24, 64, dtype=np.float32))),
    "double": (ops.linear, (drawn(5, 7, dtype=np.float64), drawn(3, 7, dtype=np.float64))),
    "batches": (ops.matmul, (drawn(3, 16, 32), drawn(3, 32, 24))),
    "shared batches": (ops.matmul, (drawn(3, 16, 32), drawn(32, 24))),
    "rows of 10": (ops.linear, (drawn(40, 10), drawn(24, 10))),
    "vectors": (ops.matmul, (drawn(40), drawn(40))),
    "nothing summed": (ops.matmul, (drawn(4, 0), drawn(0, 6))),
    "attention": (attention, (drawn(2, 3, 16, 8), drawn(2, 3, 16, 8), drawn(2, 3, 16, 8))),
    "then a sum": (lambda x, w: ops.sum(ops.linear(x, w), -1), (drawn(40, 64), drawn(48, 64))),
    "then a softmax": (lambda x, w: softmax(ops.linear(x, w)), (drawn(40, 64), drawn(48, 64))),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_ordinary_programs_run_and_are_right(name: str) -> None:
    program, arrays = PROGRAMS[name]
    with knobs.scope(device="sim"):
        result = warpsmith.fuse(program)(*arrays)
    exact = [a.astype(np.float64) for a in arrays]
    with knobs.scope(device="reference"):
        wanted = warpsmith.fuse(program)(*exact)
    wide = np.asarray(result, np.float64)
    eps = float(ml_dtypes.finfo(result.dtype).eps)
    peak = float(np.abs(wanted).max(initial=1.0))
    np.testing.assert_allclose(wide, wanted, atol=8 * eps * peak)


def test_layers_that_are_alike_are_planned_and_compiled_once() -> None:
    def layers(x: Any, *weights: Any) -> Any:
        for w in weights:
            x = x + ops.relu(ops.linear(x, w))
        return x

    def five(x: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
        return layers(x, a, b, c, d, e)

    arrays = drawn(40, 64), *(drawn(64, 64) + BFLOAT(n) for n in range(5))
    made = planned(five, *arrays)
    assert [one.candidate is made[1].candidate for one in made] == [False, True, True, True, False]
    compiled = warpsmith.fuse(five).lower(*arrays).compile()
    names = [kernel.name for kernel in compiled.kernels]
    assert len(names) == 5
    assert len(set(names)) == 3  # the first starts behind nobody, nobody behind the last
    assert compiled.verify(schedules=1).verdict == "clean"


def test_a_schedule_that_makes_no_kernel_gives_way_to_another() -> None:
    def fails(self: Candidate, params: Any, **options: Any) -> Any:
        if self.scheduler == "matmul":
            raise ScheduleError("it cannot be", code="WS0299", remedy="none")
        return scheduled(self, params, **options)

    scheduled = Candidate.scheduled
    x, w = drawn(40, 64), drawn(48, 64)
    with (
        mock.patch.object(Candidate, "scheduled", fails),
        pytest.warns(PlanWarning, match="matmul takes a part of the program, but .*it cannot be"),
    ):
        compiled = warpsmith.fuse(ops.linear).lower(x, w).compile()
    assert "scheduler   matmul_by_threads" in compiled.explain()


def test_what_is_empty_does_not_keep_what_is_not_from_being_written() -> None:
    def program(x: Any, y: Any) -> Any:
        return x + y, ops.sum(x, 0)

    arrays = np.zeros((0, 6), np.float32), np.zeros((0, 6), np.float32)
    with knobs.scope(device="sim"):
        total, sums = warpsmith.fuse(program)(*arrays)
    assert total.shape == (0, 6)
    np.testing.assert_array_equal(sums, np.zeros(6, np.float32))


def test_two_norms_backward_of_other_sizes_have_blocks_of_their_own() -> None:
    def backward(x: Any, dy: Any, g: Any) -> tuple[Any, Any]:
        scale = ops.rsqrt(ops.mean(x * x, -1, keepdim=True) + 1e-6)
        normal = x * scale
        part = ops.mean(dy * g * normal, -1, keepdim=True)
        return (dy * g - normal * part) * scale, ops.sum(dy * normal, 0)

    def program(x: Any, w: Any, dy: Any, g: Any, h: Any) -> Any:
        dx, dg = backward(x, dy, g)
        wide = ops.linear(dx, w)
        dz, dh = backward(wide, wide, h)
        return dg, dz, dh

    arrays = (drawn(24, 64), drawn(96, 64), drawn(24, 64), drawn(64), drawn(96))
    with knobs.scope(device="sim"):
        results = warpsmith.fuse(program)(*arrays)
    with knobs.scope(device="reference"):
        wanted = warpsmith.fuse(program)(*(a.astype(np.float64) for a in arrays))
    for got, want in zip(results, wanted, strict=True):
        peak = float(np.abs(want).max())
        assert math.isfinite(peak)
        np.testing.assert_allclose(got.astype(np.float64), want, atol=0.05 * peak)


def test_layers_that_are_alike_are_copied_once() -> None:
    def copied(layers: int) -> int:
        def stacked(x: Any, weight: Any, norm: Any) -> Any:
            for _ in range(layers):
                x = ops.matmul(rms_norm(x, norm), weight) + x
            return x

        with mock.patch.object(Part, "draft", autospec=True, side_effect=Part.draft) as draft:
            made = planned(stacked, drawn(64, 128), drawn(128, 128), drawn(128))
        assert len(made) == 2 * layers
        return int(draft.call_count)

    assert copied(8) == copied(4)


def test_halves_that_are_summed_with_each_other_are_no_loop_of_their_own() -> None:
    """Row `j` of the sums, and row `i` of what is summed, are parts of one dimension."""

    def turned(x: Any, turn: Any, cos: Any) -> Any:
        halves = ops.reshape(x, [ops.size(x, 0), 2, 1, ops.size(cos, 0) // 2])
        sums = ops.sum(halves * ops.reshape(turn, [1, 2, 2, 1]), [1])  # [n, j, k]
        return x * cos + ops.reshape(sums, [ops.size(x, 0), ops.size(cos, 0)])

    random = np.random.default_rng(0)
    x, turn, cos = (random.standard_normal(s).astype(np.float32) for s in ((6, 8), (2, 2), (8,)))
    with knobs.scope(device="sim"):
        found = warpsmith.fuse(turned)(x, turn, cos)
    sums = np.einsum("nik,ij->njk", x.reshape(6, 2, 4), turn).reshape(6, 8)
    np.testing.assert_allclose(found, x * cos + sums, rtol=1e-5, atol=1e-6)


def test_rows_and_columns_of_what_is_read_later_too_are_summed_together() -> None:
    """The gradient of a norm that a residual passes on: its 16 bits are read by the next one."""

    def backward(g: Any, w: Any, x: Any, rstd: Any, weight: Any, residual: Any) -> Any:
        dy = ops.cast(ops.reshape(ops.matmul(g, w), [2, 64, 128]), DataType.Float)
        wide = ops.cast(x, DataType.Float)
        columns = ops.cast(ops.sum(dy * wide * rstd, [0, 1]), DataType.BFloat16)
        rows = ops.sum(dy * weight * wide, [2], keepdim=True) * rstd
        total = ops.cast(dy * weight + rows * wide, DataType.BFloat16) + residual
        product = ops.matmul(ops.reshape(total, [128, 128]), w)
        return columns, ops.reshape(product, [2, 64, 128]) + total

    full, plain = drawn(2, 64, 128), drawn(128, 128)
    rstd = drawn(2, 64, 1, dtype=np.float32)
    arrays = plain, drawn(128, 128), full, rstd, drawn(128), drawn(2, 64, 128)
    assert schedulers(backward, *arrays)[:3] == ["matmul", "inner_outer", "reduction"]


def test_a_bias_is_summed_with_the_columns_of_a_norm() -> None:
    """Though the layer before flattens the rows, of whose columns it sums its own gradient."""

    def backward(g: Any, x: Any, rstd: Any, weight: Any) -> Any:
        normed = x * rstd
        scaled = g * weight
        dx = rstd * (scaled - normed * ops.mean(scaled * normed, -1, keepdim=True))
        rows = ops.reshape(ops.cast(dx, DataType.BFloat16), [-1, ops.size(g, -1)])
        return rows, ops.sum(rows, 0), ops.sum(g * normed, [0, 1])

    g, x = drawn(2, 24, 64), drawn(2, 24, 64)
    rstd, weight = np.abs(drawn(2, 24, 1, dtype=np.float32)), drawn(64)
    given = g, x, rstd, weight
    assert schedulers(backward, *given) == ["inner_outer", "reduction"]
    with warpsmith.knobs.scope(device="sim"):
        got = warpsmith.fuse(backward)(*given)
    with warpsmith.knobs.scope(device="reference"):
        want = warpsmith.fuse(backward)(*(a.astype(np.float64) for a in given))
    for ours, true in zip(got, want, strict=True):
        np.testing.assert_allclose(
            np.asarray(ours, np.float64), true, atol=0.02 * float(np.abs(true).max())
        )


def test_rows_and_columns_are_summed_together_where_others_read_the_rows_in_an_order() -> None:
    """The gradient of a norm, whose rows the experts of the layer before it read."""

    def backward(g: Any, x: Any, rstd: Any, weight: Any, order: Any, factor: Any) -> Any:
        normed, scaled = x * rstd, g * weight
        rows = rstd * (scaled - normed * ops.mean(scaled * normed, -1, keepdim=True))
        read = ops.index_select(ops.cast(rows, DataType.BFloat16), order, 0)
        return ops.sum(g * normed, [0]), ops.sum(read * factor, [1]), read + factor

    rstd, order = np.abs(drawn(48, 1, dtype=np.float32)), np.arange(96) // 2
    given = drawn(48, 64), drawn(48, 64), rstd, drawn(64), order, drawn(96, 64)
    assert schedulers(backward, *given) == ["inner_outer", "reduction", "reduction"]


def test_rows_and_columns_are_summed_together_where_the_rows_are_summed_over_batches() -> None:
    """The gradient of a norm of words and places, of which that of the places is a sum of rows."""

    def backward(g: Any, x: Any, rstd: Any, weight: Any) -> Any:
        normed, scaled = x * rstd, g * weight
        wide = rstd * (scaled - normed * ops.mean(scaled * normed, -1, keepdim=True))
        rows = ops.cast(wide, DataType.BFloat16)
        return rows, ops.sum(g * normed, [0, 1]), ops.sum(rows, [0])

    rstd = np.abs(drawn(2, 48, 1, dtype=np.float32))
    given = drawn(2, 48, 64), drawn(2, 48, 64), rstd, drawn(64)
    assert schedulers(backward, *given) == ["inner_outer", "reduction", "reduction"]
