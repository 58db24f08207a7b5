"""Products scheduled by hand: right on the simulator, or refused with what to change."""

from typing import Any

import numpy as np
import pytest

from tests.support.launching import clean_result
from tests.support.lowering import lowered
from tests.support.matmuls import check, operands
from tests.support.product_schedules import by_hand
from warpsmith import DataType, LoadStoreOpType, ParallelType, knobs
from warpsmith.errors import ScheduleError
from warpsmith.lower.pipeline import lower
from warpsmith.targets.blackwell import B200
from warpsmith.targets.hopper import H200


@pytest.mark.parametrize("columns", [8, 64, 256])
def test_results_of_a_hand_schedule(columns: int) -> None:
    """Fragments go to global memory as they are, where they are inside."""
    x, weight = operands(200, 72, 136, seed=1)
    with knobs.scope(device="sim"):
        (result,) = by_hand(columns=columns).manual_execute([x, weight])
    check(result, x, weight)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("turned", "columns", "width"), [("b", 128, 64), ("a", 64, 64), ("ab", 64, 32), ("b", 64, 16)]
)
def test_operands_along_m_and_n(turned: str, columns: int, width: int) -> None:
    """Pieces of rows of m or n, one for each element of k."""
    x, weight = operands(200, 72, 136, seed=1)
    given = [
        np.asfortranarray(t) if n in turned else t for n, t in zip("ab", (x, weight), strict=True)
    ]
    fd = by_hand(columns=columns, turned=turned, width=width)
    result = clean_result(fd, given)
    check(result, x, weight)


def test_a_warp_group_with_two_products_in_registers() -> None:
    x, weight = operands(200, 72, 136, seed=1)
    fd = by_hand({"groups"})
    result = clean_result(fd, [x, weight])
    check(result, x, weight)
    assert "compute: multiply, warps 4 to 7, 128 threads" in fd.explain()


@pytest.mark.parametrize("columns", [64, 256])
def test_blocks_of_one_tile_and_any_number_of_steps(columns: int) -> None:
    """Nothing but the wait for all asks whether the loop over k ran: ptxas serialized it."""
    fd = by_hand({"turns"}, columns=columns)
    for k in (136, 8, 0):
        x, weight = operands(200, 72, k, seed=1)
        with knobs.scope(device="sim"):
            (result,) = fd.manual_execute([x, weight])
        check(result, x, weight)


@pytest.mark.parametrize("changes", [{"part": 128}, {"whole": 2}])
def test_k_in_parts_of_whole_tiles(changes: dict[str, Any]) -> None:
    """Tiles that reached into the next part summed what is there twice: others are refused."""
    x, weight = operands(100, 72, 264, seed=1)
    fd = by_hand(**changes)
    result = clean_result(fd, [x, weight])
    check(result, x, weight)


def test_operands_along_m_of_wider_types_are_refused() -> None:
    fusion = by_hand(turned="a", dtype=DataType.Float, width=32).fusion
    with pytest.raises(ScheduleError, match="WS1004") as refusal:
        lowered(fusion)
    assert "does not lie in shared memory as tensor cores read it" in str(refusal.value)
    assert "walk 32 elements of the reduced dimension, and the next one the rows" in str(
        refusal.value.remedy
    )


@pytest.mark.parametrize(
    ("code", "words", "changes"),
    [
        ("WS1001", "T4 reads fragments of T2 that other threads hold", {"without": ["fragments"]}),
        ("WS1004", "is in shared memory without a swizzle", {"without": ["swizzle"]}),
        ("WS1006", "computed by 64 threads along block_x", {"threads": 64}),
        ("WS1014", "need not divide the parts of 96 into which", {"part": 96}),
        ("WS1007", "256 of a thread, which has 255", {"without": ["groups"], "columns": 256}),
    ],
)
def test_schedules_that_are_refused(code: str, words: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ScheduleError, match=code) as refusal:
        lowered(by_hand(**changes))
    assert words in str(refusal.value)
    assert refusal.value.remedy


def test_an_instruction_that_the_target_has_not_is_refused() -> None:
    words = r"WS1011.*wgmma of bfloat16 and bfloat16, and b200 \(sm_100a\) has no such instruction"
    with pytest.raises(ScheduleError, match=words):
        lower(by_hand().fusion, "k", DataType.Int32, target=B200)


def copied(dtype: DataType, alignment: int = 16, **changes: Any) -> None:
    fusion = by_hand(dtype=dtype, width=32, **changes).fusion
    loads = [t.name for t in fusion.computed if t.copied_by is LoadStoreOpType.tma]
    left = dict.fromkeys(loads, alignment) if alignment < 16 else None
    lower(fusion, "k", DataType.Int32, tma_alignment=left, target=H200)


def test_floats_that_nobody_rounds_are_refused() -> None:
    copied(DataType.Float)
    with pytest.raises(ScheduleError, match="WS1005") as refusal:
        copied(DataType.Float, alignment=8)
    assert "multiples of 8 bytes, and TMA takes 16: they leave floats as" in str(refusal.value)
    with pytest.raises(ScheduleError, match="threads write it: they leave floats") as refusal:
        copied(DataType.Float, copied="b", vector=4)
    assert "call T6.set_load_store_op(LoadStoreOpType.tma), which rounds" in refusal.value.remedy
    copied(DataType.BFloat16, alignment=8)


def test_operands_that_are_cut_short_are_refused() -> None:
    fusion = by_hand().fusion
    operand: Any = next(t for t in fusion.computed if t.copied_by is LoadStoreOpType.tma)
    for axis in (3, 4):
        operand.axis(axis).parallelize(ParallelType.serial)
    operand.set_load_store_op(LoadStoreOpType.bulk)
    with pytest.raises(ScheduleError, match="WS1005.*comes by bulk") as refusal:
        lowered(fusion)
    assert f"call {operand.name}.set_load_store_op(LoadStoreOpType.tma)" in refusal.value.remedy
