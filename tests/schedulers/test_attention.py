"""Attention of a few rows of queries: right, clean, in one kernel; and what is left to others."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.lowering import lowered
from warpsmith import CarryRule, DataType, FusionDefinition, knobs, ops
from warpsmith.kernel.nodes import For, Synchronize
from warpsmith.kernel.products import MultiplyByWarp
from warpsmith.kernel.traversal import walk
from warpsmith.ops.attention_in_tiles import ONLINE, attention_in_tiles
from warpsmith.schedulers.attention.heuristic import AttentionParams
from warpsmith.schedulers.select import refusals, select
from warpsmith.targets.hopper import H200

Array = np.ndarray
KINDS = {DataType.BFloat16: ml_dtypes.bfloat16, DataType.Half: np.float16}


def defined(
    rows: int = 4,
    width: int = 128,
    *,
    mask: DataType | None = None,
    dtype: DataType = DataType.BFloat16,
    scale: float | None = None,
    batch: int = -1,
    lies: Any = True,
) -> FusionDefinition:
    """Query `[batch, heads, rows, width]`; keys, values and a mask of n keys."""
    with FusionDefinition() as fd:
        q = fd.define_tensor([batch, -1, rows, width], lies, dtype)
        k, v = (fd.define_tensor([batch, -1, -1, width], True, dtype) for _ in range(2))
        m = fd.define_tensor([batch, 1, 1, -1], True, mask) if mask else None
        fd.add_output(ops.cast(attention_in_tiles(q, k, v, m, scale=scale), dtype))
    return fd


def operands(
    batch: int, heads: int, keys: int, rows: int = 4, width: int = 128, **how: Any
) -> list[Array]:
    random = np.random.default_rng()
    shapes = (batch, heads, rows, width), *((batch, heads, keys, width),) * 2
    kind, mask = KINDS[how.get("dtype", DataType.BFloat16)], how.get("mask")
    made = [random.standard_normal(shape).astype(kind) for shape in shapes]
    if mask is DataType.Bool:  # whole tiles of the first are masked
        told = random.random((batch, 1, 1, keys)) < 0.4
        told[0, ..., keys // 3 :] = False
        told[..., 1] = True
        made.append(told)
    elif mask is not None:
        made.append(random.standard_normal((batch, 1, 1, keys)).astype(np.float32))
    return made


def attended(given: list[Array], scale: float | None = None) -> Array:
    q, k, v = (each.astype(np.float64) for each in given[:3])
    scores = q @ k.swapaxes(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    for mask in given[3:]:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    found: Array = weights @ v / weights.sum(-1, keepdims=True)
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("batch", "heads", "keys", "rows", "width", "how"),
    [
        (2, 2, 301, 4, 128, {}),
        (1, 3, 64, 8, 64, {}),
        (1, 1, 1400, 2, 256, {}),
        (2, 1, 333, 4, 128, {"mask": DataType.Bool}),
        (3, 1, 129, 3, 64, {"mask": DataType.Float, "dtype": DataType.Half}),
        (1, 2, 20, 4, 128, {"mask": DataType.Bool}),
    ],
)
def test_one_kernel_is_right_and_clean(
    batch: int, heads: int, keys: int, rows: int, width: int, how: dict[str, Any]
) -> None:
    fd, given = defined(rows, width, **how), operands(batch, heads, keys, rows, width, **how)
    with knobs.scope(device="sim"):
        (result,) = fd.execute(given)
    expected = attended(given)
    error = np.linalg.norm(result.astype(np.float64) - expected) / np.linalg.norm(expected)
    assert error < 5e-3
    told = fd.explain()
    assert told.startswith("1 kernel")
    assert "scheduler   attention" in told
    assert fd.verify(given, schedules=2).verdict == "clean"


def test_a_batch_that_is_one_and_a_scale() -> None:
    fd, given = defined(batch=1, scale=0.05), operands(1, 2, 200)
    with knobs.scope(device="sim"):
        (result,) = fd.execute(given)
    np.testing.assert_allclose(result.astype(np.float64), attended(given, 0.05), atol=5e-3)
    assert "scheduler   attention" in fd.explain()


def test_rows_whose_keys_are_all_masked_are_zeros() -> None:
    fd = defined(mask=DataType.Bool)
    given = operands(2, 1, 150, mask=DataType.Bool)
    given[3][0] = False
    with knobs.scope(device="sim"):
        (result,) = fd.execute(given)
    assert not result[0].any()
    expected = attended([each[1:] for each in given])
    np.testing.assert_allclose(result[1:].astype(np.float64), expected, atol=1e-2)


def test_threads_copy_what_the_tma_unit_cannot() -> None:
    """Keys whose addresses are no multiples of 16 bytes; what lies past their end is not read."""
    fd, (q, k, v) = defined(), operands(1, 1, 150)
    whole = np.full(k.size + 100, np.nan, k.dtype)
    moved = whole[1 : k.size + 1].reshape(k.shape)
    moved[:] = k
    with knobs.scope(device="sim"):
        (result,) = fd.execute([q, moved, v])
    np.testing.assert_allclose(result.astype(np.float64), attended([q, k, v]), atol=1e-2)
    assert "copied by the threads" in fd.explain()


def test_queries_that_do_not_lie_by_pairs_are_read_one_by_one() -> None:
    q, k, v = operands(1, 1, 150)
    moved = np.zeros(q.size + 1, q.dtype)[1:].reshape(q.shape)
    strided = np.zeros((*q.shape[:3], q.shape[3] + 1), q.dtype)[..., :-1]
    apart = np.zeros((*q.shape[:3], 2 * q.shape[3]), q.dtype)[..., ::2]
    ways = (moved, True), (strided, [True, True, False, True]), (apart, [True, True, True, False])
    for given, lies in ways:
        fd = defined(lies=lies)
        given[:] = q
        with knobs.scope(device="sim"):
            (result,) = fd.execute([given, k, v])
        np.testing.assert_allclose(result.astype(np.float64), attended([q, k, v]), atol=1e-2)
        assert "scheduler   attention" in fd.explain()


@pytest.mark.parametrize(("batch", "heads", "keys"), [(0, 2, 150), (2, 0, 150), (1, 2, 0)])
def test_no_heads_or_keys(batch: int, heads: int, keys: int) -> None:
    with knobs.scope(device="sim"):
        (result,) = defined().execute(operands(batch, heads, keys))
    assert result.shape == (batch, heads, 4, 128)
    assert not result.any()


@pytest.mark.few(2)
@pytest.mark.parametrize(("blocks", "stages"), [(1, 2), (3, 2), (5, 1)])
def test_a_block_meets_twice_for_each_tile(blocks: int, stages: int) -> None:
    params = AttentionParams(blocks=blocks, stages=stages)
    kernel = lowered(select(defined().fusion, H200).scheduled(params))
    loops = [s for s in walk(kernel.body) if isinstance(s, For) and not s.unroll]
    around = [s for s in loops if any(isinstance(t, MultiplyByWarp) for t in walk(s.body))]
    meets = [s for s in walk(around[0].body) if isinstance(s, Synchronize)]
    assert len(meets) == 2


def reason(fd: FusionDefinition) -> str:
    return dict(refusals(fd.fusion, H200))["attention"]


def test_refusals() -> None:
    assert reason(defined()) == ""
    assert "1 rows of queries" in reason(defined(1))
    assert "9 rows of queries" in reason(defined(9))
    assert "no multiples of 64" in reason(defined(width=96))
    with FusionDefinition() as fd:
        q = fd.define_tensor([2, 4, 128], True, DataType.BFloat16)
        k, v = (fd.define_tensor([2, -1, 128], True, DataType.BFloat16) for _ in range(2))
        fd.add_output(attention_in_tiles(ops.cast(ops.exp(q), DataType.BFloat16), k, v))
    assert "is computed, and not loaded" in reason(fd)
    for order, same, words in (([3, 2, 0, 1], False, "T1 do not lie"), (None, True, "not three")):
        with FusionDefinition() as fd:
            q = fd.define_tensor([2, 2, 4, 64], True, DataType.BFloat16)
            k, v = (
                fd.define_tensor([2, 2, -1, 64], True, DataType.BFloat16, stride_order=each)
                for each in (order, None)
            )
            fd.add_output(attention_in_tiles(q, k, k if same else v))
        assert words in reason(fd)
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 128], True)
        fd.add_output(ops.sum(x, [1]))
    assert "no attention" in reason(fd)
    twice = CarryRule(name="sum", identity={"value": 0.0}, join=lambda a, b: a.value + b.value + 0)
    numbers = (1.0, "no attention"), (None, "no attention")
    for number, words in numbers:  # states that are numbers, and a rule that is called a sum
        with FusionDefinition() as fd:
            x: Any = fd.define_tensor([-1, 4, 128], True)
            parts = [ops.max(x, [1]), number or ops.sum(x, [1]), ops.sum(x * x, [1])]
            total = ops.reduce(parts, ONLINE, [0])[2]
            more = ops.sum(ops.sin(x), [0, 1]) if number else 0.0  # five reductions either way
            fd.add_output(total + ops.reduce(ops.exp(x), twice, [0, 1]) + more)
        assert words in reason(fd)
    fd, _ = with_product()
    assert "no pointwise work beside attention" in reason(fd)


def with_product() -> tuple[FusionDefinition, list[Array]]:
    """What attention gives, as rows of a product; a dimension of one stands between."""
    with FusionDefinition() as fd:
        q = fd.define_tensor([2, 2, 4, 64], True, DataType.BFloat16)
        k, v = (fd.define_tensor([2, 2, 150, 64], True, DataType.BFloat16) for _ in range(2))
        w = fd.define_tensor([256, 512], True, DataType.BFloat16)
        y: Any = ops.cast(attention_in_tiles(q, k, v), DataType.BFloat16)
        turned: Any = ops.broadcast(ops.reshape(y, [2, 8, 64]), [False, False, True, False])
        rows: Any = ops.reshape(ops.transpose(turned, 1, 2), [2, 512])
        fd.add_output(ops.linear(rows, w))
    weights = np.random.default_rng().standard_normal((256, 512)).astype(ml_dtypes.bfloat16)
    return fd, [*operands(2, 2, 150, 4, 64), weights]


def test_a_product_reads_what_attention_stores() -> None:
    fd, given = with_product()
    with knobs.scope(device="sim"):
        (result,) = fd.execute(given)
    expected = attended(given[:3]).reshape(2, 512) @ given[3].astype(np.float64).T
    np.testing.assert_allclose(result.astype(np.float64), expected, atol=0.15)
    told = fd.explain()
    assert told.startswith("2 kernels")
    assert "scheduler   attention" in told


def test_other_programs_are_right_too() -> None:
    """One row a head, which reductions take."""
    fd, given = defined(1), operands(1, 2, 100, 1)
    with knobs.scope(device="sim"):
        (result,) = fd.execute(given)
    np.testing.assert_allclose(result.astype(np.float64), attended(given), atol=1e-2)
    assert "scheduler   attention" not in fd.explain()


def test_what_follows_and_sums_has_a_kernel_of_its_own() -> None:
    """As at one sequence, whose products are sums."""
    with FusionDefinition() as fd:
        q = fd.define_tensor([1, -1, 4, 64], True, DataType.BFloat16)
        k, v = (fd.define_tensor([1, -1, -1, 64], True, DataType.BFloat16) for _ in range(2))
        w = fd.define_tensor([-1, 8, 64], True)
        y: Any = ops.cast(attention_in_tiles(q, k, v), DataType.BFloat16)
        wide: Any = ops.reshape(ops.cast(y, DataType.Float), [1, 8, 64])
        fd.add_output(ops.sum(wide * w, [1, 2]))
    given, weights = operands(1, 2, 150, 4, 64), np.ones((3, 8, 64), np.float32)
    with knobs.scope(device="sim"):
        (result,) = fd.execute([*given, weights])
    np.testing.assert_allclose(result, attended(given).sum() * np.ones(3), atol=0.2)
    told = fd.explain()
    assert told.startswith("2 kernels")
    assert "scheduler   attention" in told
