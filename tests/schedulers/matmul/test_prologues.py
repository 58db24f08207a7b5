"""Products whose kernel computes an operand: right, clean and one kernel, or refused in words."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from tests.lower.test_register_products import LONG, is_right, lowered
from tests.support.meeting_runs import mutants
from tests.support.register_products import scaled_operands, scaled_product, scaled_result
from warpsmith import DataType, FusionDefinition, knobs, ops
from warpsmith.errors import PlanWarning
from warpsmith.kernel.nodes import For
from warpsmith.kernel.products import AwaitProducts, CommitProducts, PackRegisters
from warpsmith.kernel.traversal import walk
from warpsmith.schedulers.matmul import applicability, heuristic
from warpsmith.targets.hopper import H200

Array = np.ndarray
ALONE = {"splits": 1, "cluster": (1, 1), "whole": 1}
BF16, HALF = DataType.BFloat16, DataType.Half


def force(monkeypatch: pytest.MonkeyPatch, params: dict[str, Any]) -> None:
    """Give products these parameters; what is not said of them as `ALONE` has it, or as chosen."""
    chosen = heuristic.choose
    given = {**ALONE, **params}
    monkeypatch.setattr(heuristic, "choose", lambda *args: replace(chosen(*args), **given))


def whole(*shape: int, seed: int = 1, dtype: Any = ml_dtypes.bfloat16, most: int = 4) -> Array:
    """Whole numbers, so that few sums are rounded."""
    random = np.random.default_rng([seed, *shape])
    return random.integers(-most, most + 1, shape).astype(dtype)


def run(function: Callable[..., Any], *given: Array, kernels: int = 1) -> Array:
    """The result of a program on the simulator, which says that its kernels are clean."""
    fused = warpsmith.fuse(function)
    with knobs.scope(device="sim"):
        result = np.asarray(fused(*given))
        compiled = fused.lower(*given).compile()
        assert len(compiled.kernels) == kernels, compiled.explain()
        assert "scheduler   matmul\n" in compiled.explain()
        assert compiled.verify(schedules=2).verdict == "clean"
    return result.astype(np.float64)


def check(result: Array, a: Array, b: Array, *, rounded: float = 2.0**-8) -> None:
    """Hold a result against `a @ b.T` in float64, rounded once."""
    a, b = (each.astype(np.float64) for each in (a, b))
    np.testing.assert_allclose(result, a @ b.T, rtol=rounded, atol=rounded)


def dequantized(x: Any, weight: Any, scale: Any) -> Any:
    return ops.linear(x, ops.cast(ops.cast(weight, DataType.Float) * scale, BF16))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("size", "kind"),
    [
        ((16, 72, 208), np.int8),
        ((9, 64, 48), np.int8),
        ((40, 72, 128), ml_dtypes.float8_e4m3fn),
        ((24, 136, 72), ml_dtypes.bfloat16),
        ((24, 64, 100), np.float32),
    ],
)
def test_weights_of_any_type_with_a_scale_of_each_channel(
    size: tuple[int, int, int], kind: Any
) -> None:
    """8 bits are loaded by threads, 16 by `ldmatrix`, 32 in two pieces of a swizzle."""
    m, n, k = size
    x, scale = whole(m, k), whole(n, 1, dtype=np.float32, most=2)
    weight = whole(n, k, seed=2, dtype=kind)
    if k % 8:
        x = np.pad(x, ((0, 0), (0, 4)))[:, :k]  # rows of 208 bytes
    check(run(dequantized, x, weight, scale), x, weight * scale.astype(np.float64))


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", [np.int8, np.float16, np.float32])
def test_operands_of_32_bits_fill_a_register_each(kind: Any) -> None:
    """No neighbours along k lie in one register, and no vector fills two."""
    x, weight = whole(64, 48, dtype=kind), whole(24, 48, dtype=np.float32)
    scale, other = whole(64, 1, dtype=np.float32), whole(64, 48, seed=2, dtype=np.float32)

    def program(x: Any, weight: Any, scale: Any, other: Any) -> Any:
        chosen = ops.where(x > 0, x, other)
        return ops.linear(chosen * scale, weight, precision="tf32")

    check(run(program, x, weight, scale, other), np.where(x > 0, x, other) * scale, weight)


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [(200, 136, 80), (70, 40, 256)])
def test_activations_are_computed_where_rows_are(size: tuple[int, int, int]) -> None:
    m, n, k = size
    x, weight, scale = whole(m, k, dtype=np.int8), whole(n, k), whole(k, dtype=np.float32)

    def program(x: Any, weight: Any, scale: Any) -> Any:
        return ops.linear(ops.cast(ops.cast(x, DataType.Float) * scale, BF16), weight)

    check(run(program, x, weight, scale), x * scale.astype(np.float64), weight)


def test_what_is_past_the_end_of_k_stays_0() -> None:
    """exp(0) is 1, and 1 / 0 infinite."""
    x, weight = whole(72, 72, dtype=np.float16, most=2), whole(40, 72, dtype=np.float16)

    def program(x: Any, weight: Any) -> Any:
        return ops.linear(ops.cast(1 / ops.exp(ops.cast(x, DataType.Float) - 1), HALF), weight)

    a = np.exp(1 - x.astype(np.float64)).astype(np.float16).astype(np.float64)
    allowed = 2.0**-10 * np.abs(a) @ np.abs(weight.astype(np.float64)).T
    result = run(program, x, weight)
    assert (np.abs(result - a @ weight.astype(np.float64).T) <= allowed).all()


def test_an_operand_along_m_and_rows_of_two_dimensions() -> None:
    x, weight = whole(64, 80, dtype=np.int8), whole(64, 40)  # [k, m], [k, n]

    def turned(x: Any, weight: Any) -> Any:
        return ops.einsum("km,kn->mn", ops.cast(x, BF16), weight)

    check(run(turned, x, weight), x.T, weight.T)
    y, other = whole(2, 40, 64, dtype=np.int8), whole(24, 64)

    def rows(y: Any, other: Any) -> Any:
        return ops.linear(ops.cast(y, BF16), other)

    result = run(rows, y, other)
    check(result.reshape(80, 24), y.reshape(80, 64), other)


def test_batches_and_two_tensors_of_one_operand() -> None:
    x, gate, weight = whole(3, 72, 64), whole(3, 72, 64, seed=2), whole(3, 64, 40, seed=3)

    def program(x: Any, gate: Any, weight: Any) -> Any:
        return ops.matmul(x * gate, weight)

    result = run(program, x, gate, weight)
    a = (x * gate).astype(np.float64)
    np.testing.assert_allclose(result, a @ weight.astype(np.float64), rtol=2.0**-8, atol=2.0**-8)


def test_what_is_behind_a_product_reads_the_same_tensors() -> None:
    """A scale of rows is loaded for the operand, and for the result, and so is the input."""
    x, weight, scale = whole(72, 64, dtype=np.int8), whole(64, 64), whole(72, 1, dtype=np.float32)

    def program(x: Any, weight: Any, scale: Any) -> Any:
        wide = ops.cast(x, DataType.Float) * scale
        product = ops.linear(ops.cast(wide, BF16), weight, dtype=DataType.Float)
        return product * scale + ops.cast(x, DataType.Float)

    wide = x * scale.astype(np.float64)
    wanted = (wide @ weight.astype(np.float64).T) * scale + x
    np.testing.assert_allclose(run(program, x, weight, scale), wanted, rtol=2.0**-22)


def test_scales_of_groups_of_k_and_of_rows_that_a_norm_makes() -> None:
    """What is computed of scales before is a kernel of its own: repeated, they are memory."""
    n, k, group = 72, 256, 64
    x, weight = whole(16, k), whole(n, k, seed=2, dtype=np.int8)
    scale = whole(n, k // group, dtype=np.float32, most=2)

    def expanded(x: Any, weight: Any, scale: Any) -> Any:
        spread = ops.expand(ops.broadcast(scale, [False, False, True]), [n, k // group, group])
        return dequantized(x, weight, ops.reshape(spread, [n, k]))

    check(run(expanded, x, weight, scale), x, weight * np.repeat(scale, group, axis=1))

    def grouped(x: Any, weight: Any, scale: Any) -> Any:
        return dequantized(x, weight, ops.repeat_interleave(ops.abs(scale), group, 1))

    spread = np.repeat(np.abs(scale), group, axis=1)
    check(run(grouped, x, weight, scale, kernels=2), x, weight * spread)

    def normed(x: Any, weight: Any) -> Any:
        wide = ops.cast(x, DataType.Float)
        largest = ops.max(ops.abs(wide), [1], keepdim=True)
        return ops.linear(ops.cast(wide / largest, HALF), weight)

    y, other = whole(256, 64, dtype=np.float16), whole(8, 64, dtype=np.float16)
    y[:, 0] = 4
    wanted = (y.astype(np.float64) / 4) @ other.astype(np.float64).T
    np.testing.assert_array_equal(run(normed, y, other, kernels=2), wanted)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "params",
    [
        {"cluster": (2, 1), "blocks": 4},
        {"cluster": (1, 2), "blocks": 4},
        {"tile": (64, 64, 64), "splits": 2, "blocks": 4, "chunk": 32, "stages": 3},
        {"tile": (128, 64, 64), "blocks": 2, "stages": 2},
        {"tile": (192, 32, 64), "blocks": 2, "chunk": 32, "stages": 3},
    ],
)
def test_every_form_of_schedule(monkeypatch: pytest.MonkeyPatch, params: dict[str, Any]) -> None:
    force(monkeypatch, params)
    x, scale, weight = whole(200, 208, dtype=np.int8), whole(200, 1), whole(72, 208)

    def program(x: Any, scale: Any, weight: Any) -> Any:
        return ops.linear(ops.cast(x, BF16) * scale, weight)

    check(run(program, x, scale, weight), (x * scale).astype(np.float64), weight)


def test_no_wait_of_products_that_run_while_the_next_operand_is_computed_may_be_left_out() -> None:
    fd = scaled_product(depth=LONG, columns=8, stages=3, role="load")
    given = scaled_operands(m=64, depth=LONG, columns=8)
    kernel = lowered(fd)
    (loop,) = [s for s in walk(kernel.body) if isinstance(s, For) and _has(s.body, PackRegisters)]
    kinds = [type(statement) for statement in loop.body]
    assert kinds.index(AwaitProducts) < kinds.index(PackRegisters) < kinds.index(CommitProducts)
    assert AwaitProducts not in kinds[kinds.index(CommitProducts) :]
    (packed,) = [s for s in loop.body if isinstance(s, PackRegisters)]
    assert (packed.source.dtype, packed.dtype) == (DataType.Float, BF16)
    wanted = scaled_result(*given)
    found = [m for m in mutants(kernel) if "Products" in m.name]
    assert len(found) > 4

    def same(result: Array) -> bool:
        return np.array_equal(result, wanted)

    assert not [m.name for m in found if is_right(m.kernel, given, (64, 8), same)]


def _has(body: tuple[Any, ...], kind: type) -> bool:
    return any(isinstance(statement, kind) for statement in body)


def plan(function: Callable[..., Any], *given: Array) -> str:
    """How many kernels a program of these arguments is, and why."""
    with knobs.scope(device="sim"):
        return warpsmith.fuse(function).lower(*given).compile().explain()


@pytest.mark.usefixtures("uncompiled")
def test_what_does_not_pay_is_stored_before() -> None:
    """Of 2048 rows, eight tiles would compute each weight again; rows of 72 bytes are no boxes; of
    two operands one is computed; what is a result is stored anyway.
    """

    def cast(x: Any, weight: Any) -> Any:
        return ops.linear(x, ops.cast(weight, BF16))

    def both(x: Any, weight: Any) -> Any:
        return ops.linear(ops.cast(x, BF16), ops.cast(weight, BF16))

    def kept(x: Any, weight: Any) -> Any:
        wide = ops.cast(weight, BF16)
        return ops.linear(x, wide), wide

    weight = np.zeros((4096, 4096), np.int8)
    few, many = (np.zeros((m, 4096), ml_dtypes.bfloat16) for m in (16, 8192))
    assert plan(cast, few, weight).startswith("1 kernel\n")
    assert plan(cast, many, weight).startswith("2 kernels\n")
    assert plan(kept, few, weight).startswith("2 kernels\n")
    assert plan(both, few.astype(np.int8), weight).startswith("2 kernels\n")
    narrow = plan(cast, few[:, :72], np.zeros((64, 72), np.int8))
    assert narrow.startswith("2 kernels\n")


def refused(make: Callable[[Any, Any], Any]) -> str:
    with FusionDefinition() as fd:
        tensors = [fd.define_tensor([64, 64], True, DataType.Half) for _ in range(2)]
        fd.add_output(make(*tensors))
    return applicability.refusal(fd.fusion, H200)


def test_what_is_refused_in_words() -> None:
    assert refused(lambda x, y: ops.linear(ops.exp(x), y)) == ""
    two = "both operands of its product are computed, and one of them can be in registers"
    assert refused(lambda x, y: ops.linear(ops.exp(x), ops.exp(y))) == two
    summed = refused(lambda x, y: ops.linear(x, y / ops.sum(y, [1], keepdim=True)))
    assert summed == "T3, which an operand needs, is no pointwise work"
    moved = refused(lambda x, y: ops.linear(ops.permute(ops.exp(x), [1, 0]), y))
    assert moved.endswith("an operand of its product, is computed of nothing as large")
    beside = refused(lambda x, y: ops.linear(x * ops.permute(x, [1, 0]), y))
    assert beside == "T0, of which an operand is computed, has its dimensions moved"


@pytest.mark.parametrize("columns", [256, 128])
def test_products_that_are_serialized_as_launched_get_registers(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Of one step of k by definition, ptxas says so of 256 columns in 168 registers."""
    force(monkeypatch, {"tile": (128, columns, 64), "stages": 4})
    with FusionDefinition() as fd:
        x, weight = (fd.define_tensor([-1, 32], True, HALF) for _ in range(2))
        fd.add_output(ops.linear(ops.neg(x), weight))
    a, b = whole(8, 32, dtype=np.float16), whole(40, 32, dtype=np.float16)
    with knobs.scope(device="sim"):
        (result,) = fd.execute([a, b])
        assert ("role `compute` 240" in fd.explain()) == (columns == 256)
    check(result.astype(np.float64), -a, b)


def test_one_computed_tensor_as_both_operands_is_stored_once_and_read_as_both() -> None:
    """The product's copy of an operand was loaded through registers, which failed by WS0226."""
    x, y = whole(24, 64, dtype=np.float16), whole(24, 64, seed=2, dtype=np.float16)

    def gram(x: Any, y: Any) -> Any:
        scaled = x * y
        return ops.linear(scaled, scaled)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = run(gram, x, y, kernels=2)
    product = x.astype(np.float64) * y.astype(np.float64)
    check(result, product, product, rounded=2.0**-10)


@pytest.mark.usefixtures("uncompiled")
def test_a_tensor_that_an_operand_needs_twice_has_two_tiles_in_shared_memory() -> None:
    """Of narrow tiles with a part of k each, whose sums take most of the rest."""

    def body(x: Any) -> Any:
        scaled = x / (ops.abs(x) + 0.5)
        return ops.linear(ops.where(scaled > 0, 1.08, scaled), x)

    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        assert plan(body, np.empty((192, 3072), np.float16)).count("scheduler   matmul\n") == 1
