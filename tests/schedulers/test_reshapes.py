"""What is computed between a reshape of a product and the one back needs none."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from warpsmith import DataType, FusionDefinition, knobs, ops
from warpsmith.engine.plan import prepare
from warpsmith.ir.exprs import Matmul, Move
from warpsmith.ir.fusion import Fusion
from warpsmith.schedulers.reshapes import cancel_reshapes

B, S, N, K = 3, 24, 40, 64
RNG = np.random.default_rng(3)
X, W, BIAS, DOWN = (
    RNG.integers(-2, 3, shape).astype(ml_dtypes.bfloat16)
    for shape in ((B * S, K), (2 * N, K), (2 * N,), (16, N))
)


def wide(x: Any, w: Any) -> Any:
    return ops.reshape(ops.linear(x, w), [B, S, 2 * N])


def back(y: Any, down: Any) -> Any:
    return ops.linear(ops.reshape(y, [B * S, N]), down)


def gated(x: Any, w: Any, bias: Any, down: Any) -> Any:
    a, b = ops.chunk(wide(x, w) + bias, 2, -1)
    return back(ops.relu(a) * b, down)


def two_of_one(x: Any, w: Any, bias: Any, down: Any) -> Any:
    """Both products reshape what they multiply for themselves, as two layers do."""
    y = ops.reshape(x, [B, S, K]) + 0
    a, b = (
        ops.reshape(ops.linear(ops.reshape(y, [B * S, K]), part), [B, S, N])
        for part in (ops.slice(w, [None, None], [N, None]), ops.slice(w, [N, None], [None, None]))
    )
    first, second = ops.slice(bias, [None], [N]), ops.slice(bias, [N], [None])
    return back(ops.relu(a + first) * (b + second), down)


def kept(x: Any, w: Any, bias: Any, down: Any) -> Any:
    """What is between is a result."""
    a, b = ops.chunk(wide(x, w) + bias, 2, -1)
    y = ops.relu(a) * b
    return back(y, down), y


def by_batch(x: Any, w: Any, bias: Any, down: Any) -> Any:
    """What is between depends on a dimension that there is only there."""
    a, b = ops.chunk(wide(x, w) + bias, 2, -1)
    counted = ops.cast(ops.iota(B, fusion=Fusion.of(x)), DataType.BFloat16)
    numbers = ops.reshape(counted, [B, 1, 1])
    return back(ops.relu(a) * b + 0 * numbers, down)


def defined(program: Any) -> FusionDefinition:
    with FusionDefinition() as fd:
        shapes = [list(tensor.shape) for tensor in (X, W, BIAS, DOWN)]
        made = program(*(fd.define_tensor(s, True, DataType.BFloat16) for s in shapes))
        for output in made if isinstance(made, tuple) else [made]:
            fd.add_output(output)
    return fd


@pytest.mark.parametrize("program", [gated, two_of_one])
def test_the_kernel_of_the_product_has_what_is_between(program: Any) -> None:
    h = X.astype(np.float64) @ W.astype(np.float64).T + BIAS.astype(np.float64)
    y = np.maximum(h[:, :N], 0) * h[:, N:]
    wanted = y.astype(ml_dtypes.bfloat16).astype(np.float64) @ DOWN.astype(np.float64).T
    fd = defined(program)
    with knobs.scope(device="sim"):
        (found,) = fd.execute([X, W, BIAS, DOWN])
    lines = [line.split() for line in fd.explain().splitlines()]
    schedulers = [line[1] for line in lines if line[:1] == ["scheduler"]]
    assert [name for name in schedulers if name != "pointwise"] == ["matmul", "matmul"]
    assert len(schedulers) == 2 + (program is two_of_one)
    error = np.abs(np.asarray(found, np.float64) - wanted).max() / np.abs(wanted).max()
    assert error < 2**-7


@pytest.mark.parametrize("program", [kept, by_batch])
def test_what_others_need_or_what_has_other_dimensions_stays(program: Any) -> None:
    fusion = defined(program).fusion
    draft = fusion.draft()
    cancel_reshapes(draft)
    assert [type(op) for op in draft.operations] == [type(op) for op in fusion.operations]


@pytest.mark.parametrize("shape", [(6, 2, 4), (6, 1, 4)])
def test_both_operands_are_reshapes_of_one_tensor(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1, -1, -1], True, DataType.Float)
        fd.add_output(fd.ops.einsum("abc,zbc->za", a, a))
    (found,) = fd.execute([x])
    np.testing.assert_allclose(found, np.einsum("abc,zbc->za", x, x), atol=1e-5)


def test_an_operand_is_a_reshape_of_the_other_one_in_its_own_shape() -> None:
    """Which only a call tells: one size is of the index, the other one of rows."""
    index, rows = np.array([2, 0, 1], np.int64), np.ones((3, 2), np.float32)
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1], True, DataType.Int)
        x = fd.define_tensor([-1, 2], True, DataType.Float)
        count = fd.ops.size(x, 0)
        hot = fd.ops.one_hot(a, count)
        fd.add_output(fd.ops.einsum("ab,az->bz", hot, fd.ops.reshape(hot, [count, count])))
        fd.add_output(fd.ops.sum(hot, [0]))
        fd.add_output(fd.ops.sum(x, [1]))
    found, sums, totals = fd.execute([index, rows])
    np.testing.assert_array_equal(found, np.eye(3, dtype=np.int64))
    np.testing.assert_array_equal(sums, [1, 1, 1])
    np.testing.assert_array_equal(totals, [2, 2, 2])


def test_a_transposed_operand_of_joined_batches_is_read_as_it_lies() -> None:
    """Keys of heads, whose batches and heads are one dimension for the product."""
    random = np.random.default_rng(4)
    q, k = (random.standard_normal((2, 3, 9, 8)).astype(np.float32) for _ in range(2))

    def scores(ops: Any, q: Any, k: Any) -> Any:
        turned = ops.set(ops.permute(k, [0, 1, 3, 2]))
        return ops.bmm(ops.reshape(q, [6, 9, 8]), ops.reshape(turned, [6, 8, 9]))

    with FusionDefinition() as fd:
        given = [fd.define_tensor([2, 3, 9, 8], True, DataType.Float) for _ in range(2)]
        fd.add_output(scores(fd.ops, *given))
    (product,) = (op for op in prepare(fd.fusion).operations if isinstance(op, Matmul))
    assert isinstance(product.b.definition, Move)
    assert product.b.definition.kind == "reshape"
    (found,) = fd.execute([q, k])
    wanted = (q @ k.swapaxes(-1, -2)).reshape(6, 9, 9)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_an_operand_that_others_read_too_stays_as_it_lies() -> None:
    """A step saves the transposed keys, and would store them twice."""
    with FusionDefinition() as fd:
        q, k = (fd.define_tensor([2, 3, 9, 8], True, DataType.Float) for _ in range(2))
        turned = fd.ops.reshape(fd.ops.set(fd.ops.permute(k, [0, 1, 3, 2])), [6, 8, 9])
        fd.add_output(fd.ops.bmm(fd.ops.reshape(q, [6, 9, 8]), turned))
        fd.add_output(fd.ops.set(turned))
    (product,) = (op for op in prepare(fd.fusion).operations if isinstance(op, Matmul))
    assert len(product.b.shape_axes) == 3
    assert str(product.b.shape_axes[-1].extent) == "9"
