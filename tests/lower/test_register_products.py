"""Operand a of tensor cores in registers: computed there, or the sums of another product."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.launching import clean_result
from tests.support.lowering import lowered, unordered
from tests.support.meeting_runs import mutants
from tests.support.register_products import (
    KINDS,
    attention_excess,
    attention_operands,
    narrow_attention,
    relu_attention,
    scaled_operands,
    scaled_product,
    scaled_result,
    softmax_attention,
    softmax_excess,
)
from tests.support.simulating import reported
from warpsmith import DataType, FusionDefinition, ParallelType, knobs
from warpsmith.errors import InternalError, ScheduleError
from warpsmith.ir import integers
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.products import FenceProducts, MatrixRegisters, Multiply, PackRegisters
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.traversal import map_bodies, walk
from warpsmith.lower.passes.pack_operands import pack_operands

Arrays = tuple[np.ndarray, ...]


@pytest.mark.parametrize("dtype", KINDS)
def test_an_operand_that_threads_compute(dtype: DataType) -> None:
    fd, given = scaled_product(dtype=dtype, stages=2), scaled_operands(dtype)
    np.testing.assert_array_equal(clean_result(fd, given), scaled_result(*given))


@pytest.mark.parametrize("changes", [{}, {"stages": 3, "role": "load"}])
def test_tiles_of_the_other_operand_come_at_once_or_by_a_role(changes: dict[str, Any]) -> None:
    fd, given = scaled_product(depth=320, **changes), scaled_operands(depth=320)
    np.testing.assert_array_equal(clean_result(fd, given), scaled_result(*given))


@pytest.mark.parametrize(("dtype", "depth"), [(DataType.Float, 16), (DataType.BFloat16, 72)])
def test_an_operand_is_zero_past_its_end(dtype: DataType, depth: int) -> None:
    """Registers that nobody wrote were multiplied by zeros, and may have been NaNs."""
    fd = scaled_product(dtype=dtype, depth=depth, stages=2)
    given = scaled_operands(dtype, depth=depth)
    np.testing.assert_array_equal(clean_result(fd, given), scaled_result(*given))


def test_what_is_computed_past_the_last_key_is_left_out() -> None:
    """Scores past the last key are 0, and one over them infinite: 0 times that is no number."""
    random = np.random.default_rng(3)
    q, k, v = (random.integers(1, 3, (n, 64)).astype(ml_dtypes.bfloat16) for n in (100, 72, 72))
    with knobs.scope(device="sim"):
        (result,) = relu_attention(weigh="reciprocal").manual_execute([q, k, v])
    weights = 1 / (q.astype(np.float64) @ k.astype(np.float64).T)
    np.testing.assert_allclose(result, weights @ v.astype(np.float64), rtol=2.0**-7)


@pytest.mark.few(2)
@pytest.mark.parametrize("changes", [{}, {"role": "load", "groups": 2, "keys": 128}])
@pytest.mark.parametrize(("m", "n"), [(100, 200), (64, 8)])
def test_sums_of_a_product_are_an_operand_of_the_next(
    changes: dict[str, Any], m: int, n: int
) -> None:
    fd, given = relu_attention(**changes), attention_operands(m, n)
    result = clean_result(fd, given)
    assert attention_excess(result, *given) <= 0


def test_threads_that_share_rows_reduce_them() -> None:
    fd, given = softmax_attention(), attention_operands(100, 128)
    result = clean_result(fd, given)
    assert softmax_excess(result, *given) <= 0
    reduced = [s for s in walk(lowered(fd).body) if isinstance(s, Reduce)]
    assert [s.block_axes for s in reduced] == [(ParallelType.block_x,)] * 2
    assert all(s.scratch.size == integers.ONE for s in reduced), "shuffles need no shared memory"


def test_8_bit_sums_change_their_layout_on_their_way_to_the_next_product() -> None:
    random = np.random.default_rng(2)
    q, k = (random.integers(-1, 2, (n, 64)).astype(ml_dtypes.bfloat16) for n in (100, 208))
    v = random.integers(-2, 3, (64, 208)).astype(ml_dtypes.float8_e4m3fn)
    fd = narrow_attention()
    result = clean_result(fd, [q, k, v])
    weights = np.maximum(q.astype(np.float64) @ k.astype(np.float64).T, 0)
    weights = weights.astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
    np.testing.assert_array_equal(result, weights @ v.astype(np.float64).T)


# --- what orders registers ---------------------------------------------------------------------


def is_right(
    kernel: Kernel, given: Arrays, shape: tuple[int, int], wanted: Callable[[np.ndarray], bool]
) -> bool:
    """Whether the simulator finds nothing, and the result is what it should be."""
    *names, result = (each.name for each in kernel.parameters)
    memory = dict(zip(names, given, strict=True))
    sizes = {f"{name}_size0": len(array) for name, array in memory.items()}
    report = reported(kernel, sizes, memory, schedules=2)
    return report.verdict == "clean" and wanted(report.arrays[result].reshape(shape))


LONG = 64 * 65
"""So deep that the loop over tiles is none that is unrolled: registers are written again in it."""

CASES = {
    "computed": (
        partial(scaled_product, depth=LONG, columns=8),
        scaled_operands(m=64, depth=LONG, columns=8),
        (64, 8),
        lambda given: lambda found: np.array_equal(found, scaled_result(*given)),
    ),
    "sums": (
        relu_attention,
        attention_operands(64, 160),
        (64, 64),
        lambda given: lambda found: attention_excess(found, *given) <= 0,
    ),
}


def test_no_fence_and_no_wait_for_registers_may_be_left_out() -> None:
    make, given, shape, wanted = CASES["computed"]
    found = [m for m in mutants(lowered(make())) if "Products" in m.name]
    assert len(found) > 4
    assert not [m.name for m in found if is_right(m.kernel, given, shape, wanted(given))]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_nothing_planned_may_be_left_out(name: str) -> None:
    make, given, shape, wanted = CASES[name]
    kernel = lowered(make())
    assert is_right(kernel, given, shape, wanted(given))
    clean = [m.name for m in mutants(kernel) if is_right(m.kernel, given, shape, wanted(given))]
    assert not clean


def behind_the_fence(kernel: Kernel) -> Kernel:
    """The words of the operand are made between the fence and its products."""

    def moved(body: tuple[Any, ...]) -> tuple[Any, ...]:
        found = [map_bodies(each, moved) for each in body]
        for place, each in enumerate(found):
            if isinstance(each, PackRegisters):
                assert isinstance(found[place + 1], FenceProducts)
                found[place : place + 2] = [found[place + 1], each]
                return tuple(found)
        return tuple(found)

    return replace(kernel, body=moved(kernel.body))


def test_words_are_made_before_the_fence() -> None:
    make, given, shape, wanted = CASES["computed"]
    assert not is_right(behind_the_fence(lowered(make())), given, shape, wanted(given))


def test_the_order_of_registers_is_said() -> None:
    orders = [o for o in lowered(scaled_product()).orders if o.buffer == "T5_words"]
    said = {(o.hazard, o.second, o.carried, o.mechanism) for o in orders}
    assert said == {
        ("read after write", "block: wgmma reads registers (async)", "straight on", "wgmma fence"),
        (
            "write after read",
            "block: threads write (generic)",
            "the next i1",
            "product group, 0 may be open",
        ),
    }


# --- what is refused ---------------------------------------------------------------------------


def test_an_operand_that_lies_otherwise_is_refused() -> None:
    with pytest.raises(ScheduleError, match="WS1012") as refusal:
        lowered(scaled_product(swapped=True))
    assert "T5 is an operand of tensor cores in registers, and does not lie as they read it" in str(
        refusal.value
    )
    assert "call split_operand on T5" in refusal.value.remedy


def test_threads_of_a_row_that_are_no_neighbours_are_refused() -> None:
    with pytest.raises(ScheduleError, match="WS1006") as refusal:
        lowered(softmax_attention(swapped=True))
    assert "is computed by 32 threads along block_x" in str(refusal.value)
    assert "with quads the first two to block_y and block_x" in refusal.value.remedy


def test_loops_that_are_no_operand_are_refused() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([64, 24], True, DataType.Half)
        y: Any = fd.ops.relu(x)
        fd.add_output(y)
    with pytest.raises(ScheduleError, match=r"WS1002.* a multiple of 16 of the reduced dimension"):
        y.split_operand()
    y.split_operand(dtype=DataType.Float)
    assert [integers.constant(axis.extent) for axis in y.loop] == [128, 6, 2]


def test_operands_are_packed_behind_the_last_write_or_not_at_all() -> None:
    kernel, before = lowered(scaled_product()), unordered(scaled_product())
    made = [s for s in walk(before.body) if isinstance(s, Multiply)]
    assert all(isinstance(s.a, MatrixRegisters) and s.a.dtype is DataType.BFloat16 for s in made)
    (packed,) = [s for s in walk(kernel.body) if isinstance(s, PackRegisters)]
    assert {s.a.buffer for s in walk(kernel.body) if isinstance(s, Multiply)} == {packed.target}
    for body in (tuple(made), (*before.body, *before.body)):
        with pytest.raises(InternalError, match="T5 is an operand"):
            pack_operands(replace(before, body=body))
