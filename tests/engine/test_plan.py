"""Plans of calls: which kernels, which arrays, which arguments, and what a call is refused for."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.program import Program
from warpsmith.engine import executable, fitting, launches
from warpsmith.engine.executable import Executable
from warpsmith.engine.explain import explain_call
from warpsmith.engine.launches import CallPlan, plan_call
from warpsmith.engine.plan import INDEX_LIMIT, index_type_for, plan, unsupported_segments
from warpsmith.engine.planned import NoKernelError, PlannedSegment
from warpsmith.errors import ArgumentError, InternalError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Full
from warpsmith.ir.scalar import Symbol
from warpsmith.knobs import Knobs
from warpsmith.planner.segment import Unfit
from warpsmith.schedule.caches import cache_after, cache_before
from warpsmith.schedule.inline import inline_most
from warpsmith.schedule.transforms import parallelize, split
from warpsmith.schedulers.pointwise.heuristic import PointwiseParams
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.hopper import H200

CUT = (Unfit("inner_persistent", "rows are to go through memory here"),)


def sizes(*shapes: tuple[int, ...]) -> dict[str, int]:
    return {f"T{k}_size{d}": n for k, shape in enumerate(shapes) for d, n in enumerate(shape)}


class Planner:
    """Plans calls of one fusion, with a cubin cache of its own."""

    def __init__(
        self,
        program: Program,
        folder: Path,
        *,
        scheduled: bool = False,
        without: tuple[Unfit, ...] = (),
    ) -> None:
        self.fusion = program.fusion
        self.segments: tuple[PlannedSegment, ...] = plan(
            self.fusion, scheduled=scheduled, without=without, target=H200
        )
        self._knobs = Knobs(cache_dir=folder)

    def __call__(
        self, *shapes: tuple[int, ...], alignment: dict[str, int] | None = None, **more: int
    ) -> CallPlan:
        values = {**sizes(*shapes), **more}
        return plan_call(self.fusion, self.segments, values, alignment or {}, H200, self._knobs)

    @property
    def compiled(self) -> int:
        return sum(len(planned.kernels) for planned in self.segments)


def negated() -> Program:
    p = Program()
    return p.output(p.op("neg", p.input(DataType.Float, (None, None))))


def summed() -> Program:
    p = Program()
    return p.output(p.reduce("sum", p.input(DataType.Float, (None, None)), [1]))


def centred() -> Program:
    p = Program()
    x = p.input(DataType.Float, (None, None))
    return p.output(p.op("sub", x, p.broadcast(p.reduce("max", x, [1]), [False, True])))


def multiplied() -> Program:
    p = Program()
    x, weight = (p.input(DataType.BFloat16, (None, None)) for _ in range(2))
    return p.output(p.cast(p.matmul(x, weight, transposed=True), DataType.BFloat16))


def by_hand(width: int = 4) -> Program:
    p = negated()
    (source,) = p.fusion.input_tensors
    output = p.fusion.outputs[0].value
    load = cache_after(source)
    register = cache_before(output)
    for tensor in (load, register, output):
        split(tensor, 1, width)
        parallelize(tensor, 0, ParallelType.grid_x)
    parallelize(load, 2, ParallelType.vectorize)
    inline_most(p.fusion)
    return p


@pytest.mark.parametrize("make", [negated, summed])
def test_a_new_number_of_rows_compiles_nothing(make: Callable[[], Program], tmp_path: Path) -> None:
    planner = Planner(make(), tmp_path)
    for rows in (1, 7, 300, 5000):
        planner((rows, 256))
    assert planner.compiled == 1


def test_another_alignment_is_another_kernel(tmp_path: Path) -> None:
    planner = Planner(negated(), tmp_path)
    wide = planner((8, 256)).launches[0].compiled
    narrow = planner((8, 256), alignment={"T0": 4}).launches[0].compiled
    assert planner.compiled == 2
    assert "T0" in dict(wide.kernel.alignments)
    assert "T0" not in dict(narrow.kernel.alignments)


def test_launch_covers_the_output(tmp_path: Path) -> None:
    (launch,) = Planner(negated(), tmp_path)((30, 64)).launches
    params = launch.params
    assert isinstance(params, PointwiseParams)
    assert launch.block[0] * launch.grid[0] * params.vector * params.unroll >= 30 * 64
    assert launch.pointers == ("T0", "T1")
    assert launch.formats == "PP" + "i" * len(launch.scalars)
    assert launch.maps == ()
    named = dict(zip(launch.scalars, launch.constants, strict=True))
    assert {n: v for n, v in named.items() if n.startswith("T")}.items() <= sizes((30, 64)).items()


def test_what_passes_between_kernels_is_allocated(tmp_path: Path) -> None:
    call = Planner(centred(), tmp_path, without=CUT)((6, 64))
    assert [a.shape for a in call.outputs] == [(6, 64)]
    assert [a.shape for a in call.temporaries] == [(6,)]
    first, second = call.launches
    assert call.temporaries[0].name in first.pointers
    assert call.temporaries[0].name in second.pointers


def test_results_of_a_variance_keep_their_names(tmp_path: Path) -> None:
    p = Program()
    p.output(*p.welford(p.input(DataType.Float, (None, None)), [1])[:2])
    call = Planner(p, tmp_path)((6, 64))
    names = [o.value.name for o in p.fusion.outputs]
    assert [a.name for a in call.outputs] == names
    assert set(names) <= set(call.launches[0].pointers)


def test_workspaces_of_a_split_reduction(tmp_path: Path) -> None:
    (launch,) = Planner(summed(), tmp_path)((2, 1 << 22)).launches
    parts, arrivals = launch.workspaces
    assert not parts.zeroed
    assert arrivals.zeroed
    assert arrivals.elements == launch.grid[1] == 2
    assert launch.grid[0] > 1
    assert parts.elements >= launch.grid[0] * launch.grid[1]


def test_stride_order_of_an_output(tmp_path: Path) -> None:
    p = Program()
    p.output(p.op("neg", p.input(DataType.Float, (None, None))), stride_order=(0, 1))
    (output,) = Planner(p, tmp_path)((6, 64)).outputs
    assert output.strides == (1, 6)


def test_nothing_to_compute_launches_nothing(tmp_path: Path) -> None:
    planner = Planner(negated(), tmp_path)
    call = planner((0, 64))
    assert call.launches == ()
    assert "there is nothing to compute" in explain_call(call)


def test_a_sum_of_nothing_is_still_written(tmp_path: Path) -> None:
    (launch,) = Planner(summed(), tmp_path)((6, 0)).launches
    assert launch.grid[0] > 0


def test_explanation_names_choice_and_numbers(tmp_path: Path) -> None:
    planner = Planner(centred(), tmp_path, without=CUT)
    text = explain_call(planner((6, 64)))
    for words in ("2 kernels", "scheduler   reduction", "not pointwise: it reduces", "registers"):
        assert words in text


def test_explanation_of_a_row_that_stays_in_registers(tmp_path: Path) -> None:
    planner = Planner(centred(), tmp_path)
    text = explain_call(planner((6, 64)))
    for words in ("1 kernel", "scheduler   inner_persistent", "not reduction: ", "block_x="):
        assert words in text


def test_rows_too_long_for_registers_are_refused_with_their_length(tmp_path: Path) -> None:
    planner = Planner(centred(), tmp_path)

    def found(columns: int) -> tuple[tuple[str, str], ...]:
        unfit = unsupported_segments(
            planner.segments, Problem(values=sizes((6, columns)), alignment={}, target=H200)
        )
        return tuple((each.scheduler, each.reason) for each in unfit)

    assert found(4096) == ()
    assert found(1 << 20) == (
        ("inner_persistent", "rows of 1048576 elements do not fit in the registers of 16 blocks"),
    )
    assert found(0) == (("inner_persistent", "its rows are empty"),)


def test_calls_of_one_program_are_cut_as_their_rows_need(tmp_path: Path) -> None:
    executable = Executable(centred().fusion)
    knobs = Knobs(cache_dir=tmp_path)
    short, long = (np.zeros((2, columns), np.float32) for columns in (64, 1 << 20))
    assert len(executable.plan_for([short], knobs).launches) == 1
    assert len(executable.plan_for([long], knobs).launches) == 2
    words = "not inner_persistent: rows of 1048576 elements do not fit"
    assert words in executable.explain()
    assert len(executable.plan_for([short], knobs).launches) == 1
    assert words not in executable.explain()


def test_schedule_by_hand_is_kept(tmp_path: Path) -> None:
    planner = Planner(by_hand(), tmp_path, scheduled=True)
    call = planner((6, 64))
    assert call.launches[0].grid == (6, 1, 1)
    assert "scheduled by hand" in explain_call(call)


def test_size_that_a_schedule_by_hand_does_not_allow(tmp_path: Path) -> None:
    planner = Planner(by_hand(), tmp_path, scheduled=True)
    words = r"WS0321.*T0_size1 is 63, and manual_\w+ was scheduled for multiples of 4; vectorize"
    with pytest.raises(ArgumentError, match=words):
        planner((6, 63))
    assert planner((6, 64)).launches


def test_address_that_a_schedule_by_hand_does_not_allow(tmp_path: Path) -> None:
    planner = Planner(by_hand(), tmp_path, scheduled=True)
    words = "WS0322.*the address of T0 is not a multiple of 16 bytes.*or pass an aligned tensor"
    with pytest.raises(ArgumentError, match=words):
        planner((6, 64), alignment={"T0": 8})


def test_scalars_of_the_user_come_with_each_call(tmp_path: Path) -> None:
    p = Program()
    x = p.input(DataType.Float, (None,))
    factor = Symbol("S0", DataType.Float)
    p.fusion.inputs.append(factor)
    constant = p.full((x.logical[0].extent,), 1.0, DataType.Float)
    p.fusion.replace(p.fusion.operations[0], Full(factor, constant))
    p.output(p.op("mul", x, constant))
    (launch,) = Planner(p, tmp_path)((64,)).launches
    assert dict(zip(launch.scalars, launch.constants, strict=True))["S0"] is None
    assert launch.formats[2 + launch.scalars.index("S0")] == "f"


@pytest.mark.parametrize(
    ("largest", "expected"),
    [(1, DataType.Int32), (INDEX_LIMIT - 1, DataType.Int32), (INDEX_LIMIT, DataType.Int)],
)
def test_width_of_indices(largest: int, expected: DataType) -> None:
    assert index_type_for(largest) is expected


def test_large_arrays_get_wide_indices(tmp_path: Path) -> None:
    planner = Planner(negated(), tmp_path)
    small, large = planner((8, 256)), planner((1 << 20, 1 << 12))
    kinds = [call.launches[0].compiled.kernel.index_type for call in (small, large)]
    assert kinds == [DataType.Int32, DataType.Int]


@pytest.mark.parametrize("size", [(3648, 480, 8632), (4096, 4096, 4096)])
def test_a_product_has_narrow_indices_where_its_arrays_have(
    size: tuple[int, int, int], tmp_path: Path
) -> None:
    m, n, k = size
    (launch,) = Planner(multiplied(), tmp_path)((m, k), (n, k)).launches
    assert launch.compiled.kernel.index_type is DataType.Int32


@pytest.mark.parametrize("size", [(1 << 16, 1 << 15, 64), (64, 1 << 8, 1 << 25)])
def test_a_product_of_or_with_a_large_array_has_wide_indices(
    size: tuple[int, int, int], tmp_path: Path
) -> None:
    m, n, k = size
    (launch,) = Planner(multiplied(), tmp_path)((m, k), (n, k)).launches
    assert launch.compiled.kernel.index_type is DataType.Int


def test_sums_over_an_outer_product_count_what_is_merged(tmp_path: Path) -> None:
    """Each of rows times columns is one loop where both are reduced, and two where one is."""
    for dims, expected in (([1], DataType.Int32), ([0, 1], DataType.Int)):
        p = Program()
        column, row = p.input(DataType.Float, (None, 1)), p.input(DataType.Float, (1, None))
        p.output(p.reduce("sum", p.op("mul", column, row), dims))
        (launch,) = Planner(p, tmp_path)((1 << 17, 1), (1, 1 << 17)).launches
        assert launch.compiled.kernel.index_type is expected


def test_partial_sums_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that 16 blocks each sum leave more partial sums than a small limit, and any array."""
    p = Program()
    column, row = p.input(DataType.Float, (None, 1)), p.input(DataType.Float, (1, None))
    p.output(p.reduce("sum", p.op("mul", column, row), [1]))
    for limit, expected in (((1 << 14) + 1, DataType.Int32), (1 << 14, DataType.Int)):
        monkeypatch.setattr(launches, "INDEX_LIMIT", limit)
        (launch,) = Planner(p, tmp_path)((1 << 10, 1), (1, 1 << 20)).launches
        assert max(space.elements for space in launch.workspaces) == 1 << 14
        assert launch.compiled.kernel.index_type is expected


def test_places_of_draws_are_counted(tmp_path: Path) -> None:
    """No array has as many elements as the draw of which rows are summed; its places have."""
    with FusionDefinition() as fd:
        column = fd.define_tensor([-1, 1], True)
        row = fd.define_tensor([1, -1], True)
        kept, _ = fd.ops.dropout(fd.ops.add(column, row), 0.5, rng_seed=1, rng_offset=0)
        fd.add_output(fd.ops.sum(kept, [1]))
    values = sizes((1 << 17, 1), (1, 1 << 17))
    call = plan_call(
        fd.fusion,
        plan(fd.fusion, scheduled=False, target=H200),
        values,
        {},
        H200,
        Knobs(cache_dir=tmp_path),
    )
    assert [each.compiled.kernel.index_type for each in call.launches] == [DataType.Int]


@pytest.mark.filterwarnings("ignore::warpsmith.errors.PlanWarning")
@pytest.mark.parametrize("place", ["unsupported_segments", "plan_call"])
def test_a_plan_that_leaves_nothing_more_out_is_no_loop(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is unfit for a part that no plan has is found again and again."""
    unfit = Unfit("pointwise", "it is unfit", frozenset({"T99"}))

    def found(*given: object) -> tuple[Unfit, ...]:
        if place == "plan_call":
            raise NoKernelError(unfit)
        return (unfit,)

    monkeypatch.setattr(fitting if place == "unsupported_segments" else executable, place, found)
    with pytest.raises(InternalError, match="pointwise is left out, and planned again"):
        Executable(negated().fusion).plan_for([np.ones((4, 8), np.float32)])
