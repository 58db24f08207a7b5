"""Products that warps compute by `mma.sync`, of operands that `ldmatrix` loads where they fit."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.launching import clean_result
from tests.support.lowering import lowered, unordered
from tests.support.meeting_runs import mutants
from tests.support.simulating import reported
from tests.support.warp_products import BLOCK, Tile, excess, operands, warp_product
from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType
from warpsmith.codegen.cuda import cuda_text
from warpsmith.errors import InternalError, ScheduleError
from warpsmith.ir.scalar import Symbol, evaluate
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import CopyVector, Statement
from warpsmith.kernel.products import LoadMatrix, MultiplyByWarp
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.traversal import map_bodies, walk
from warpsmith.layouts.banks import transactions
from warpsmith.lower.pipeline import lower
from warpsmith.targets.atoms import FMA
from warpsmith.targets.blackwell import B200
from warpsmith.targets.hopper import H200

D = DataType
WIDE = Tile(warps=(2, 2), products=(2, 4))
"""64 rows and columns: lines of 128 bytes of operands that lie along these."""


def found(kernel: Kernel, kind: type[Statement]) -> list[Any]:
    return [statement for statement in walk(kernel.body) if isinstance(statement, kind)]


def check(
    fd: FusionDefinition,
    dtype: DataType,
    sizes: tuple[int, int, int],
    turned: tuple[bool, bool] = (False, False),
) -> None:
    """Right within rounding, and clean under two orders of warps."""
    given = operands(dtype, *sizes, turned)
    result = clean_result(fd, given)
    assert excess(result, *given) <= 0


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [D.Half, D.Float, D.Int8, D.Double, D.Float8_e4m3fn])
def test_each_type_has_its_instruction(dtype: DataType) -> None:
    fd = warp_product(dtype)
    check(fd, dtype, (33, 37, 48))
    check(fd, dtype, (1, 1, 1))


SIZES = [(1, 1, 1), (1, 64, 8), (2, 3, 129), (7, 101, 64), (16, 32, 64), (17, 31, 135), (64, 1, 66)]


@pytest.mark.few(2)
@pytest.mark.parametrize("sizes", SIZES)
def test_all_sizes_by_one_kernel(sizes: tuple[int, int, int]) -> None:
    """By TMA where rows begin at multiples of 16 bytes, else by threads, with zeros at the ends."""
    check(warp_product(), D.BFloat16, sizes)


@pytest.mark.few(2)
@pytest.mark.parametrize("role", [{}, {"role": "load", "stages": 3}])
@pytest.mark.parametrize("k", [0, 320, 321])
def test_tiles_come_through_stages(role: dict[str, Any], k: int) -> None:
    check(warp_product(tile=Tile((2, 2), (1, 2)), **role), D.BFloat16, (40, 40, k))


def test_threads_may_bring_tiles() -> None:
    fd = warp_product(carrier=LoadStoreOpType.set)
    check(fd, D.BFloat16, (19, 37, 131))
    (a, _) = found(lowered(fd), LoadMatrix)
    assert a.matrices.count == 4


# --- which instruction loads -------------------------------------------------------------------

LOADS = {
    "along k": (D.BFloat16, (False, False), [(4, False), (4, False)]),
    "a along m": (D.BFloat16, (True, False), [(4, True), (4, False)]),
    "both turned": (D.Half, (True, True), [(4, True), (4, True)]),
    "tf32": (D.Float, (False, False), [(4, False), (4, False)]),
    "tf32, a along m": (D.Float, (True, False), [(4, False)]),
    "int8": (D.Int8, (False, False), [(4, False), (4, False)]),
    "double": (D.Double, (False, False), []),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", LOADS)
def test_matrices_are_loaded_where_the_layout_lets_them(name: str) -> None:
    """Only 16 bits are turned on their way; others that lie so each thread loads for itself."""
    dtype, turned, wanted = LOADS[name]
    tile = replace(WIDE, products=(max(1, 4 // dtype.size), 4))
    fd = warp_product(dtype, turned=turned, tile=tile)
    loads = found(lowered(fd), LoadMatrix)
    assert [(each.matrices.count, each.matrices.transposed) for each in loads] == wanted
    check(fd, dtype, (40, 72, 80), turned)


@pytest.mark.parametrize(("products", "counts"), [((1, 1), [4, 2]), ((1, 3), [4, 2])])
def test_as_many_matrices_at_once_as_registers_take(
    products: tuple[int, int], counts: list[int]
) -> None:
    fd = warp_product(tile=Tile((1, 1), products))
    assert [each.matrices.count for each in found(lowered(fd), LoadMatrix)] == counts
    check(fd, D.BFloat16, (16, 30, 72))


@pytest.mark.parametrize(("swizzle", "conflicts"), [(128, 1), (0, 8)])
@pytest.mark.parametrize("turned", [False, True])
def test_swizzled_rows_meet_no_bank_twice(swizzle: int, conflicts: int, turned: bool) -> None:
    """Clocks of each load: one for eight rows of 16 bytes where no two of them share a bank."""
    kernel = unordered(warp_product(tile=WIDE, swizzle=swizzle, turned=(turned, turned), stages=0))
    loads = found(kernel, LoadMatrix)
    assert len(loads) == 2
    for load in loads:
        names = {node.name: 0 for node in load.source_index.walk() if isinstance(node, Symbol)}
        rows = [evaluate(load.source_index, {**names, "block_x": lane}) for lane in range(32)]
        assert transactions([2 * row for row in rows], 16) == 4 * conflicts


# --- what may not be left out ------------------------------------------------------------------


def is_right(kernel: Kernel, sizes: tuple[int, int, int]) -> bool:
    """Whether the simulator finds nothing, and the result is right within rounding."""
    m, n, k = sizes
    given = operands(D.BFloat16, *sizes)
    *names, result = (each.name for each in kernel.parameters)
    values = {"T0_size0": m, "T0_size1": k, "T1_size0": n, "T1_size1": k}
    report = reported(kernel, values, dict(zip(names, given, strict=True)), schedules=4)
    return report.verdict == "clean" and excess(report.arrays[result].reshape(m, n), *given) <= 0


ROLES: list[dict[str, Any]] = [{"stages": 2}, {"role": "load", "stages": 2}]


def test_a_stage_is_not_filled_while_it_is_loaded_from() -> None:
    kernel, sizes = lowered(warp_product(**ROLES[1])), (16, 32, 256)
    assert is_right(kernel, sizes)
    (mutant,) = [m for m in mutants(kernel) if m.name.startswith("ArriveByWarp")]
    assert not is_right(mutant.kernel, sizes)


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_nothing_planned_may_be_left_out(role: dict[str, Any]) -> None:
    kernel, sizes = lowered(warp_product(**role)), (16, 32, 256)
    assert not [m.name for m in mutants(kernel) if is_right(m.kernel, sizes)]


def without_zeros(kernel: Kernel) -> Kernel:
    def left(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        inner = (map_bodies(each, left) for each in body)
        return tuple(replace(s, zeros=False) if isinstance(s, TileCopy) else s for s in inner)

    return replace(kernel, body=left(kernel.body))


def test_what_threads_bring_in_place_of_tma_is_zero_past_the_ends() -> None:
    fd, sizes = warp_product(), (16, 32, 70)
    by_threads = {"T5": 4, "T6": 4}
    kernel = lower(fd.fusion, "k", DataType.Int32, tma_alignment=by_threads, target=H200)
    assert is_right(kernel, sizes)
    assert not is_right(without_zeros(kernel), sizes)


# --- what is refused ---------------------------------------------------------------------------


def test_an_operand_that_nobody_loads_to_registers_is_refused() -> None:
    with pytest.raises(ScheduleError, match="WS1012") as refusal:
        lowered(warp_product(memory=MemoryType.shared))
    assert "T7 is an operand of mma.sync, which reads registers, and is in shared memory" in str(
        refusal.value
    )
    assert "T7.cache_after(); then call split_operand on T7" in refusal.value.remedy


def test_lanes_that_are_no_warp_are_refused() -> None:
    with pytest.raises(ScheduleError, match="WS1006") as refusal:
        lowered(warp_product(block=BLOCK[::-1]))
    assert "computed by 1 threads along block_x, and tensor cores take a warp of 32" in str(
        refusal.value
    )


def test_cp_async_writes_zeros_past_the_ends() -> None:
    fd = warp_product(D.Float, carrier=LoadStoreOpType.cp_async)
    check(fd, D.Float, (19, 37, 35))
    assert {s.asynchronous for s in found(lowered(fd), CopyVector)} == {True}


def test_vectors_of_cp_async_that_may_end_past_the_ends_are_refused() -> None:
    with pytest.raises(ScheduleError, match="WS1015") as refusal:
        lowered(warp_product(carrier=LoadStoreOpType.cp_async, vector=8))
    assert "brought by cp.async in vectors that may end past the ends" in str(refusal.value)


def test_a_target_without_the_instruction_is_refused() -> None:
    bare = replace(B200, family=replace(B200.family, atoms=FMA))
    with pytest.raises(ScheduleError, match=r"WS1011.* is computed by mma.sync of bfloat16"):
        lower(warp_product().fusion, "k", DataType.Int32, target=bare)


def test_the_text_has_only_instructions_of_the_table() -> None:
    kernel = lowered(warp_product())

    def wrong(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        inner = (map_bodies(each, wrong) for each in body)
        return tuple(
            replace(s, sums=replace(s.sums, dtype=D.Int32)) if isinstance(s, MultiplyByWarp) else s
            for s in inner
        )

    with pytest.raises(InternalError, match="tensor cores multiply no T7 of bfloat16 by T8"):
        cuda_text(replace(kernel, body=wrong(kernel.body)), H200)
