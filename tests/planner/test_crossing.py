"""What of a program crosses memory between kernels, in which type and shape, and how often."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import warpsmith
from tests.planner.test_plans import BFLOAT, drawn, planned, rms_norm, schedulers, softmax
from warpsmith import DataType, ops
from warpsmith.engine.plan import plan_prepared, prepare
from warpsmith.ir.exprs import Move
from warpsmith.ir.graph import Graph
from warpsmith.ops.evaluate import evaluate
from warpsmith.planner.decided import Decided
from warpsmith.planner.operands import Packing, packing
from warpsmith.planner.plan import cut
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200


def stored(function: Callable[..., Any], *arrays: np.ndarray) -> list[list[DataType]]:
    """Types of what each kernel writes."""
    made = planned(function, *arrays)
    return [[o.value.dtype for o in one.segment.fusion.outputs] for one in made]


def test_a_norm_behind_a_product_reads_it_rounded() -> None:
    def program(x: Any, w: Any, g: Any) -> Any:
        return rms_norm(ops.linear(x, w), g)

    arrays = drawn(40, 64), drawn(48, 64), drawn(48)
    assert schedulers(program, *arrays) == ["matmul", "inner_persistent"]
    assert stored(program, *arrays) == [[DataType.BFloat16], [DataType.BFloat16]]


def test_what_is_only_squared_for_a_sum_is_not_stored() -> None:
    def program(x: Any, w: Any) -> Any:
        y = ops.linear(x, w)
        return ops.max(y, -1), ops.sum(y * y, -1)

    first, second = planned(program, drawn(40, 64), drawn(48, 64))
    assert len(first.segment.outputs) == 1
    assert first.segment.outputs == second.segment.inputs


def test_what_is_padded_crosses_without_its_zeros() -> None:
    def program(x: Any, w: Any, v: Any) -> Any:
        y = ops.linear(x, w)
        return ops.sum(ops.pad(y, [0, 144]) * ops.linear(y, v), [-1])

    arrays = drawn(40, 64), drawn(48, 64), drawn(192, 48)
    assert schedulers(program, *arrays) == ["matmul", "matmul", "reduction"]


def test_a_residual_crosses_as_its_user_knows_it() -> None:
    def program(x: Any, w: Any, h: Any, g: Any) -> Any:
        y = h + ops.linear(x, w)
        return y, rms_norm(y, g)

    arrays = drawn(40, 64), drawn(64, 64), drawn(40, 64), drawn(64)
    assert schedulers(program, *arrays) == ["matmul", "inner_persistent"]
    assert stored(program, *arrays) == [[DataType.BFloat16], [DataType.BFloat16]]


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
