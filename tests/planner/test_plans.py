"""Programs around products: what is one kernel, what crosses memory, and in which form."""

import math
import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
import torch

import warpsmith
from warpsmith import DataType, knobs, ops
from warpsmith.engine.plan import plan_prepared, prepare
from warpsmith.engine.planned import PlannedSegment
from warpsmith.errors import PlanWarning, ScheduleError
from warpsmith.ir.exprs import Move
from warpsmith.ir.graph import Graph
from warpsmith.ir.part import Part
from warpsmith.ops.evaluate import evaluate
from warpsmith.planner.decided import Decided
from warpsmith.planner.operands import Packing, packing
from warpsmith.planner.plan import cut
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200

BFLOAT = ml_dtypes.bfloat16


def drawn(*shape: int, dtype: Any = BFLOAT) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype(dtype)


def planned(function: Callable[..., Any], *arrays: np.ndarray) -> tuple[PlannedSegment, ...]:
    return plan_prepared(prepare(warpsmith.fuse(function).lower(*arrays).fusion), target=H200)


def schedulers(function: Callable[..., Any], *arrays: np.ndarray) -> list[str]:
    made = planned(function, *arrays)
    return [one.candidate.scheduler for one in made if one.candidate is not None]


def stored(function: Callable[..., Any], *arrays: np.ndarray) -> list[list[DataType]]:
    """Types of what each kernel writes."""
    made = planned(function, *arrays)
    return [[o.value.dtype for o in one.segment.fusion.outputs] for one in made]


def rms_norm(x: Any, weight: Any) -> Any:
    return x * ops.rsqrt(ops.mean(x * x, -1, keepdim=True) + 1e-6) * weight


def softmax(x: Any) -> Any:
    e = ops.exp(x - ops.max(x, -1, keepdim=True))
    return e / ops.sum(e, -1, keepdim=True)


def attention(q: Any, k: Any, v: Any) -> Any:
    return ops.matmul(softmax(ops.matmul(q, ops.permute(k, [0, 1, 3, 2])) * 0.25), v)


def test_a_norm_behind_a_product_reads_it_rounded() -> None:
    def program(x: Any, w: Any, g: Any) -> Any:
        return rms_norm(ops.linear(x, w), g)

    arrays = drawn(40, 64), drawn(48, 64), drawn(48)
    assert schedulers(program, *arrays) == ["matmul", "inner_persistent"]
    assert stored(program, *arrays) == [[DataType.BFloat16], [DataType.BFloat16]]


def test_both_products_of_a_pair_are_one_kernel() -> None:
    def swiglu(x: Any, w1: Any, w3: Any) -> Any:
        return ops.silu(ops.linear(x, w1)) * ops.linear(x, w3)

    assert schedulers(swiglu, drawn(40, 64), drawn(48, 64), drawn(48, 64)) == ["matmul"]


def test_what_is_only_squared_for_a_sum_is_not_stored() -> None:
    def program(x: Any, w: Any) -> Any:
        y = ops.linear(x, w)
        return ops.max(y, -1), ops.sum(y * y, -1)

    first, second = planned(program, drawn(40, 64), drawn(48, 64))
    assert len(first.segment.outputs) == 1
    assert first.segment.outputs == second.segment.inputs


def test_a_residual_crosses_as_its_user_knows_it() -> None:
    def program(x: Any, w: Any, h: Any, g: Any) -> Any:
        y = h + ops.linear(x, w)
        return y, rms_norm(y, g)

    arrays = drawn(40, 64), drawn(64, 64), drawn(40, 64), drawn(64)
    assert schedulers(program, *arrays) == ["matmul", "inner_persistent"]
    assert stored(program, *arrays) == [[DataType.BFloat16], [DataType.BFloat16]]


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


def test_explain_shows_what_crosses_memory_and_why() -> None:
    arrays = drawn(40, 64), drawn(48, 64)
    program = warpsmith.fuse(lambda x, w: ops.sum(ops.linear(x, w), -1))
    text = program.lower(*arrays).compile().explain()
    found = re.search(r"cut (T\d+) bfloat16\[40,48\], from kernel 0 to 1: 3840 bytes", text)
    assert found
    assert "  not one     " in text
    assert "matmul: it has other operations than pointwise ones beside the product" in text


def test_operands_that_tensor_cores_cannot_read_are_copied_where_that_pays() -> None:
    def program(a: Any, b: Any) -> Any:
        return ops.matmul(a, b, precision="tf32")

    arrays = [drawn(64, 64).astype(np.float32) for _ in range(2)]
    fusion = prepare(warpsmith.fuse(program).lower(*arrays).fusion)
    names = [f"T{t}_size{d}" for t in (0, 1) for d in (0, 1)]

    def chosen(size: int) -> Packing:
        values = dict.fromkeys(names, size)
        strides = {f"T{t}_stride0": size for t in (0, 1)} | {f"T{t}_stride1": 1 for t in (0, 1)}
        return packing(
            Graph.of(fusion), Problem(values=values | strides, alignment={}, target=H200)
        )

    assert chosen(32).copies == frozenset()
    (copy,) = chosen(2048).copies
    assert copy[1] == 1  # `b` lies with n, not k, the fastest, which 16 bits alone may
    assert {place for _, place in chosen(2046).copies} == {0, 1}  # rows at no multiples of 16 bytes
    (first, second) = plan_prepared(fusion, packing=chosen(2048), target=H200)
    assert [s.candidate.scheduler for s in (first, second) if s.candidate] == [
        "pointwise",
        "matmul",
    ]


@pytest.mark.parametrize("equation", ["mk,nk->mn", "mk,kn->mn", "km,nk->mn", "km,kn->mn"])
def test_operands_of_16_bits_are_read_as_they_lie(equation: str) -> None:
    shapes = ((2048, 2040) if "mk" in equation else (2040, 2048), (2040, 2040))
    arrays = [np.zeros(shape, BFLOAT) for shape in shapes]
    made = planned(lambda a, b: ops.einsum(equation, a, b), *arrays)
    assert [one.candidate.scheduler for one in made if one.candidate] == ["matmul"]


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


def test_an_operand_of_products_along_both_dimensions_is_stored_once() -> None:
    """As the gradients of a layer read what its results' gradient is computed of."""

    def gradients(dy: Any, y: Any, x: Any, w: Any) -> Any:
        inner = dy * (1 - y * y)
        return ops.matmul(ops.transpose(inner, 0, 1), x), ops.matmul(inner, w)

    arrays = drawn(256, 128), drawn(256, 128), drawn(256, 64), drawn(128, 64)
    made = planned(gradients, *arrays)
    assert [len(one.segment.writes) for one in made] == [1, 1, 1]
    assert made[0].segment.writes[0].memory_order() == (0, 1)


@pytest.mark.parametrize("dtype", [BFLOAT, np.float32])
def test_what_is_repeated_is_stored_and_nothing_else(dtype: Any) -> None:
    """Also where what is repeated is a wide form of it."""

    def body(x: Any, y: Any, weight: Any) -> Any:
        repeated = ops.repeat_interleave(ops.reshape(x, [-1, 64]), 3, 0)
        return rms_norm(repeated, weight) + y

    arrays = [drawn(*shape, dtype=dtype) for shape in ((4, 3, 64), (36, 64), (64,))]
    assert schedulers(body, *arrays) == ["pointwise", "inner_persistent"]


def test_what_is_computed_of_a_result_is_computed_again() -> None:
    """A gate that is saved is in memory already: what follows reads that."""

    def gated(x: Any, gate: Any, up: Any) -> Any:
        g = ops.matmul(x, gate)
        u = ops.matmul(ops.tanh(g), up)
        return g, u, ops.sigmoid(g) * ops.sum(u, [1], keepdim=True)

    writes = [
        len(one.segment.writes) for one in planned(gated, *(drawn(128, 128) for _ in range(3)))
    ]
    assert sum(writes) == 5, writes  # three results, an operand and a sum


def test_a_product_that_is_read_in_another_shape_is_stored_in_16_bits() -> None:
    def norm(x: Any, w: Any, y: Any, v: Any) -> Any:
        one, two = (ops.reshape(ops.matmul(a, b), [2, 64, 128]) for a, b in ((x, w), (y, v)))
        total = one + two
        return rms_norm(ops.cast(total, DataType.Float), 1.0)

    arrays = drawn(128, 64), drawn(64, 128), drawn(128, 64), drawn(64, 128)
    before = stored(norm, *arrays)[:-1]
    assert len(before) == 2
    assert all(types == [DataType.BFloat16] for types in before)


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


def test_what_only_a_later_norm_reads_is_computed_there() -> None:
    """Two gradients whose sum no product's kernel computes are added in the norm that reads it."""

    def gradients(a: Any, b: Any, c: Any, wa: Any, wb: Any, wc: Any) -> Any:
        both = ops.linear(a, wa) + ops.linear(b, wb)
        return rms_norm(both + ops.linear(c, wc), 1.0)

    given = [drawn(64, 64) for _ in range(6)]
    fusion = prepare(warpsmith.fuse(gradients).lower(*given).fusion)
    segments = cut(fusion, decided=Decided(apart=frozenset(range(100))), target=H200)
    kinds = [segment.taken_by("matmul") for segment in segments]
    assert kinds == [True] * 3 + [False] * len(kinds[3:])
    assert len(segments[3].inputs) == 3  # the results of the products, and no sum of two


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


def _with_residual(x: Any, weight: Any, w: Any) -> Any:
    """A norm that a product reads as rows, and what is added behind that as it was."""
    total = ops.cast(rms_norm(ops.cast(x, DataType.Float), weight), DataType.BFloat16)
    product = ops.matmul(ops.reshape(total, [32, 64]), w)
    shifted = ops.reshape(product, [2, 16, 64]) + total
    return softmax(ops.cast(shifted, DataType.Float))


def test_what_products_read_as_rows_is_stored_as_rows_alone() -> None:
    arrays = drawn(2, 16, 64), drawn(64), drawn(64, 64)
    made = planned(_with_residual, *arrays)
    assert [len(one.segment.writes) for one in made] == [1, 1, 1]
    (rows,) = made[0].segment.writes
    assert rows.rank == 2
    prepared = prepare(warpsmith.fuse(_with_residual).lower(*arrays).fusion)
    (found,) = evaluate(prepared, arrays)
    x, weight, w = (torch.from_numpy(a.astype(np.float64)) for a in arrays)
    total = torch.nn.functional.rms_norm(x, [64], weight, 1e-6)
    wanted = torch.softmax(total + (total.view(32, 64) @ w).view(2, 16, 64), -1)
    np.testing.assert_allclose(found, wanted, atol=0.05)


def test_what_is_read_before_the_product_too_is_stored_once_for_each_shape() -> None:
    """Nothing tells then that no kernel has both shapes."""

    def both(x: Any, weight: Any, w: Any) -> Any:
        total = ops.cast(rms_norm(ops.cast(x, DataType.Float), weight), DataType.BFloat16)
        return ops.matmul(ops.reshape(total, [32, 64]), w), ops.sum(total, [0])

    prepared = prepare(
        warpsmith.fuse(both).lower(drawn(2, 16, 64), drawn(64), drawn(64, 64)).fusion
    )
    moves = [op for op in prepared.operations if isinstance(op, Move) and op.kind == "reshape"]
    assert len(moves) == 1


def turned_and_centred(x: Any, w: Any) -> tuple[Any, ...]:
    turned = ops.permute(x, [0, 2, 1])
    centred = turned - ops.max(turned, [0, 2], keepdim=True)
    total = ops.logsumexp(x, [0, 1, 2], keepdim=True)
    return ops.bmm(centred, w, dtype=DataType.Double), total, turned


def mean_beside_a_product(x: Any, y: Any, mask: Any) -> tuple[Any, ...]:
    mean = ops.mean(y, [0], keepdim=True)
    return mask, mean, ops.maximum(ops.einsum("ab,bz->az", x, y), mean)


FLOATS, BFLOATS = (np.ones((2,) * rank, kind) for rank, kind in ((3, np.float32), (2, BFLOAT)))


@pytest.mark.parametrize(
    ("program", "arrays"),
    [
        (turned_and_centred, [FLOATS, FLOATS]),
        (mean_beside_a_product, [BFLOATS, BFLOATS, np.ones((2, 2), bool)]),
    ],
)
def test_what_a_kernel_reads_was_written_before(
    program: Callable[..., Any], arrays: list[np.ndarray]
) -> None:
    """Results are in memory, but not before their own kernels wrote them."""
    segments = [each.segment for each in planned(program, *arrays)]
    made = {name for segment in segments for name in segment.outputs}
    written: set[str] = set()
    for segment in segments:
        assert written >= made.intersection(segment.inputs)
        written.update(segment.outputs)


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
