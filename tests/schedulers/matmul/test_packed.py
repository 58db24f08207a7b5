"""Products whose kernel unpacks its weights: right, clean and one kernel, or stored before."""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from tests.schedulers.matmul.test_prologues import (
    BF16,
    HALF,
    check,
    force,
    plan,
    refused,
    run,
    whole,
)
from warpsmith import DataType, knobs, ops
from warpsmith.kernel.nodes import For, If
from warpsmith.kernel.products import PackRegisters
from warpsmith.kernel.traversal import walk
from warpsmith.schedulers.matmul import heuristic
from warpsmith.schedulers.matmul.params import MatmulParams, dividing

Array = np.ndarray
GROUP = 128


def packed(n: int, k: int, seed: int = 1) -> tuple[Array, Array]:
    """Whole numbers from 0 to 15, `[n, k]`, and the same two in a byte, the first one below."""
    values = np.random.default_rng([seed, n, k]).integers(0, 16, (n, k))
    both = values[:, ::2] + 16 * values[:, 1::2]
    return values, both.astype(np.uint8).view(np.int8)


def signed(values: Array) -> Array:
    return values - 16 * (values > 7)


def spread(scale: Array, k: int) -> Array:
    """One for each of k, in float64."""
    return np.repeat(scale, GROUP, axis=1)[:, :k].astype(np.float64)


def grouped(tensor: Any, size: int) -> Any:
    return ops.repeat_interleave(tensor, GROUP, 1, output_size=size)


def test_blocks_of_a_cluster_ask_once_whether_a_step_is_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four steps among three blocks: no element of the operand asks for itself."""

    def program(x: Any, weight: Any) -> Any:
        return ops.linear(x, ops.cast(ops.unpack_int4(weight), BF16))

    x, (values, weight) = whole(8, 256), packed(72, 256)
    chosen = heuristic.choose

    def three(*args: Any) -> MatmulParams:
        params = replace(chosen(*args), tile=(64, 32, 64), splits=3, blocks=6, stages=3)
        return replace(params, whole=dividing(params, 256, computed=True))

    monkeypatch.setattr(heuristic, "choose", three)
    check(run(program, x, weight), x, signed(values))
    with knobs.scope(device="sim"):
        (made,) = warpsmith.fuse(program).lower(x, weight).compile().kernels
    loops = [s for s in walk(made.kernel.body) if isinstance(s, For)]
    (step,) = [s for s in loops if any(isinstance(inner, PackRegisters) for inner in s.body)]
    nests = [s for s in walk(step.body) if isinstance(s, For) and s.unroll]
    assert nests
    assert not [s for s in walk(tuple(nests)) if isinstance(s, If)]


def test_what_divides_k() -> None:
    """The steps of all blocks of a cluster, or one."""
    params = MatmulParams(
        tile=(64, 32, 64), splits=5, stages=2, chunk=8, store_stages=1, group=1, blocks=5
    )
    of = {k: dividing(params, k, computed=True) for k in (14336, 320, 100, 0)}
    assert of == {14336: 64, 320: 320, 100: 1, 0: 1}
    assert dividing(params, 320, computed=False) == 1
    assert dividing(replace(params, scaled=4), 512, computed=False) == 256


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [(8, 72, 256), (20, 136, 384), (2, 64, 160), (33, 200, 96)])
def test_signed_weights_with_scales_of_groups(size: tuple[int, int, int]) -> None:
    """Of k that is no multiple of 128, too, nor of a tile."""
    m, n, k = size
    x, (values, weight) = whole(m, k), packed(n, k)
    scale = whole(n, -(-k // GROUP), dtype=np.float32, most=2)

    def program(x: Any, weight: Any, scale: Any) -> Any:
        wide = ops.cast(ops.unpack_int4(weight), DataType.Float) * grouped(scale, k)
        return ops.linear(x, ops.cast(wide, BF16))

    check(run(program, x, weight, scale), x, signed(values) * spread(scale, k))


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [(8, 72, 256), (20, 72, 224)])
def test_unsigned_weights_with_zeros_of_groups(size: tuple[int, int, int]) -> None:
    m, n, k = size
    x, (values, weight) = whole(m, k, dtype=np.float16), packed(n, k)
    scale = whole(n, -(-k // GROUP), dtype=np.float32, most=2)
    zero = packed(n, scale.shape[1], seed=2)[0].astype(np.int8)

    def program(x: Any, weight: Any, zero: Any, scale: Any) -> Any:
        whole_ones = ops.unpack_int4(weight, signed=False) - grouped(zero, k)
        wide = ops.cast(whole_ones, DataType.Float) * grouped(scale, k)
        return ops.linear(x, ops.cast(wide, HALF))

    result = run(program, x, weight, zero, scale)
    check(result, x, (values - spread(zero, k)) * spread(scale, k))


def test_what_users_write_of_shifts_and_weights_of_two_tensors() -> None:
    """Batches, other parts of a byte, and a mask of as many elements as there are weights."""
    x, (values, weight) = whole(2, 8, 128, dtype=np.float16), packed(80, 128)
    mask = whole(80, 128, dtype=np.int8, most=1)

    def program(x: Any, weight: Any, mask: Any) -> Any:
        place = ops.iota(2, dtype=DataType.Int32, fusion=weight.fusion)
        halves = (ops.broadcast(weight, [False, False, True]) >> (4 * (1 - place))) & 15
        chosen = ops.reshape(halves, [80, 128]) * mask
        return ops.linear(x, ops.cast(chosen, HALF))

    result = run(program, x, weight, mask)
    turned = values.reshape(80, 64, 2)[:, :, ::-1].reshape(80, 128)
    check(result.reshape(16, 80), x.reshape(16, 128), turned * mask)


def test_activations_that_are_packed() -> None:
    (values, given), weight = packed(72, 96), whole(40, 96)

    def program(given: Any, weight: Any) -> Any:
        return ops.linear(ops.cast(ops.unpack_int4(given), BF16), weight)

    check(run(program, given, weight), signed(values), weight)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "params",
    [
        {"cluster": (2, 1), "blocks": 4},
        {"tile": (64, 64, 64), "splits": 2, "blocks": 4, "chunk": 32},
        {"tile": (128, 64, 64), "blocks": 2, "stages": 2},
        {"tile": (64, 16, 128), "lines": 2, "blocks": 2, "stages": 2},
    ],
)
def test_every_form_of_schedule(monkeypatch: pytest.MonkeyPatch, params: dict[str, Any]) -> None:
    force(monkeypatch, params)
    (values, given), scale, weight = packed(200, 352), whole(200, 1), whole(72, 352)

    def program(given: Any, scale: Any, weight: Any) -> Any:
        return ops.linear(ops.cast(ops.unpack_int4(given), BF16) * scale, weight)

    wide = signed(values) * scale.astype(np.float64)
    check(run(program, given, scale, weight), wide, weight)


def test_weights_that_do_not_lie_along_k_are_stored_before() -> None:
    """What a thread has in a register are neighbours along k."""
    values, weight = packed(72, 64)

    def along(x: Any, weight: Any) -> Any:
        return ops.linear(x, ops.cast(ops.unpack_int4(weight), BF16))

    def across(x: Any, weight: Any) -> Any:
        return ops.matmul(x, ops.cast(ops.unpack_int4(weight), BF16))

    x, y = whole(16, 64), whole(16, 72)
    check(run(along, x, weight), x, signed(values))
    check(run(across, y, weight, kernels=2), y, signed(values).T)


def test_one_row() -> None:
    x, (values, weight) = whole(1, 128), packed(72, 128)
    scale = whole(72, 1, dtype=np.float32)

    def program(x: Any, weight: Any, scale: Any) -> Any:
        wide = ops.cast(ops.unpack_int4(weight), DataType.Float) * scale
        return ops.linear(x, ops.cast(wide, BF16))

    with knobs.scope(device="sim"):
        result = np.asarray(warpsmith.fuse(program)(x, weight, scale))
    check(result.astype(np.float64), x, signed(values) * scale.astype(np.float64))


@pytest.mark.usefixtures("uncompiled")
def test_many_rows_are_stored_before() -> None:
    def program(x: Any, weight: Any) -> Any:
        return ops.linear(x, ops.cast(ops.unpack_int4(weight), BF16))

    weight = np.zeros((4096, 2048), np.int8)
    few, many = (np.zeros((m, 4096), ml_dtypes.bfloat16) for m in (16, 8192))
    assert plan(program, few, weight).startswith("1 kernel\n")
    assert plan(program, many, weight).startswith("2 kernels\n")


def test_what_is_refused_in_words() -> None:
    def of(times: int) -> str:
        def made(x: Any, y: Any) -> Any:
            place = ops.iota(times, dtype=DataType.Float, fusion=y.fusion)
            parts = ops.cast(ops.broadcast(y, [False, False, True]) * place, HALF)
            rows = ops.reshape(parts, [64, times * 64])
            return ops.matmul(x, rows)

        return refused(made)

    across = of(2)
    assert across == "T1 is packed along other dimensions than the summed one"
    assert of(4).endswith("is computed of nothing as large")
