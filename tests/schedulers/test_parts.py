"""Rows of parts that stay in registers: group norms in both memory formats."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

import warpsmith
from bench.batch_norm import batch_norm
from bench.group_norm import group_norm, group_norm_bwd
from bench.images import Images
from bench.instance_norm import instance_norm, instance_norm_bwd
from bench.problem import Problem, outputs_of
from bench.row_shapes import plan
from tests.support.launching import check_automatic, random_inputs
from tests.support.program import Program
from warpsmith import knobs
from warpsmith.engine.compiled import compile_fusion
from warpsmith.engine.planned import PlannedSegment
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.traversal import walk
from warpsmith.knobs import Knobs
from warpsmith.planner.plan import cut
from warpsmith.schedulers.parts import heuristic, shapes
from warpsmith.schedulers.parts.levels import refusal
from warpsmith.schedulers.parts.shapes import PartsParams
from warpsmith.schedulers.problem import Problem as Call
from warpsmith.targets.hopper import H200
from warpsmith.testing import relative_error

Make = Callable[[Images, str], Problem]

FLOAT = DataType.Float
LARGEST_ERROR = {"bfloat16": 2.0**-7, "float": 2e-6}


def schedulers(problem: Problem) -> list[str]:
    """Of the kernels of a problem, in order."""
    segments = plan(problem).segments
    return [each.candidate.scheduler for each in segments if each.candidate]


def check_right(problem: Problem) -> None:
    """Whether results are those of PyTorch in float64."""
    torch.manual_seed(5)
    inputs = problem.draw("cpu")
    expected = outputs_of(problem.eager(*(x.double() for x in inputs)))
    with knobs.scope(device="sim"):
        found = outputs_of(warpsmith.fuse(problem.fused)(*inputs))
    for got, want in zip(found, expected, strict=True):
        assert relative_error(got, want) < LARGEST_ERROR[problem.dtype]


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("inner", [False, True], ids=["nchw", "nhwc"])
@pytest.mark.parametrize("size", [(2, 96, 5), (3, 64, 8), (1, 256, 7), (2, 32, 3)], ids=str)
def test_elements_are_read_once_backward(
    size: tuple[int, int, int], inner: bool, dtype: str
) -> None:
    problem = group_norm_bwd(Images(*size, inner), dtype)
    assert schedulers(problem)[0] == "parts"
    check_right(problem)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
@pytest.mark.parametrize("size", [(2, 160, 5), (2, 128, 6)], ids=str)
def test_parts_inside_of_pieces_forward(size: tuple[int, int, int], dtype: str) -> None:
    problem = group_norm(Images(*size, True), dtype)
    assert schedulers(problem) == ["parts"]
    check_right(problem)


@pytest.mark.parametrize("inner", [False, True], ids=["nchw", "nhwc"])
def test_blocks_that_share_a_row_are_right(monkeypatch: pytest.MonkeyPatch, inner: bool) -> None:
    monkeypatch.setattr(heuristic, "CLUSTERS", (2,))
    monkeypatch.setattr(shapes, "LEAST_SHARED", 1)
    problem = group_norm_bwd(Images(2, 96, 5, inner), "bfloat16")
    params = plan(problem).launches[0].params
    assert isinstance(params, PartsParams)
    assert params.cluster == 2
    check_right(problem)


def params_of(problem: Problem) -> PartsParams:
    params = plan(problem).launches[0].params
    assert isinstance(params, PartsParams)
    return params


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("make", "size", "dtype"),
    [
        (group_norm_bwd, (3, 64, 13), "bfloat16"),
        (group_norm_bwd, (1, 416, 17), "bfloat16"),
        (group_norm_bwd, (1, 96, 25), "bfloat16"),
        (group_norm, (2, 224, 23), "bfloat16"),
        (group_norm, (1, 64, 19), "float"),
    ],
)
def test_vectors_go_across_the_ends_of_odd_planes(
    make: Make, size: tuple[int, int, int], dtype: str
) -> None:
    problem = make(Images(*size, False), dtype)
    params = params_of(problem)
    assert params.across
    assert params.vector * {"bfloat16": 2, "float": 4}[dtype] == 16
    assert params.block_x >= 8, "threads side by side read whole lines"
    check_right(problem)


@pytest.mark.few(2)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("make", "side", "dtype"),
    [
        (group_norm_bwd, 21, "float"),
        (group_norm_bwd, 10, "bfloat16"),
        (group_norm, 17, "bfloat16"),
        (group_norm_bwd, 5, "bfloat16"),
    ],
)
def test_planes_whose_own_accesses_are_as_good(make: Make, side: int, dtype: str) -> None:
    """Of two inputs, words; and short planes, of which vectors would have ends alone."""
    assert not params_of(make(Images(64, 96, side, False), dtype)).across


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("make", "size", "dtype"),
    [
        (group_norm_bwd, (2, 32, 61), "bfloat16"),
        (group_norm_bwd, (1, 96, 61), "bfloat16"),
        (group_norm_bwd, (1, 64, 61), "float"),
        (group_norm_bwd, (1, 32, 60), "float"),
        (group_norm, (1, 64, 77), "float"),
    ],
)
def test_blocks_share_parts_where_a_row_has_few(
    make: Make, size: tuple[int, int, int], dtype: str
) -> None:
    problem = make(Images(*size, False), dtype)
    params = params_of(problem)
    assert params.shares_parts
    assert params.cluster > size[1] // 32, "more blocks than channels of a group"
    check_right(problem)


@pytest.mark.few(2)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("size", "dtype"),
    [((15, 96, 127), "bfloat16"), ((5, 224, 134), "bfloat16"), ((9, 32, 153), "float")],
    ids=str,
)
def test_large_planes_are_read_once(size: tuple[int, int, int], dtype: str) -> None:
    """Of channels that no block keeps, of which a group has fewer than a cluster blocks: seven
    kernels had them.
    """
    problem = group_norm_bwd(Images(*size, False), dtype)
    assert schedulers(problem) == ["parts", "reduction"]


def test_sums_of_all_images_are_one_kernel() -> None:
    for inner in (False, True):
        problem = group_norm_bwd(Images(3, 64, 6, inner), "float")
        assert schedulers(problem) == ["parts", "reduction"]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("problem", "scheduler", "masked"),
    [
        (group_norm_bwd(Images(134, 160, 47, False), "bfloat16"), "parts", True),
        (instance_norm_bwd(Images(73, 768, 17, True), "bfloat16"), "outer_persistent", True),
        (instance_norm(Images(60, 512, 15, True), "bfloat16"), "outer_persistent", False),
    ],
    ids=lambda value: value.title if isinstance(value, Problem) else str(value),
)
def test_loads_of_several_inputs_have_no_predicates_but_in_the_last_pass(
    problem: Problem, scheduler: str, masked: bool
) -> None:
    call = plan(problem)
    assert schedulers(problem)[0] == scheduler
    assert bool(call.launches[0].compiled.kernel.least) is masked


@pytest.mark.few(4)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("make", "side", "dtype", "scheduler"),
    [
        (batch_norm, 19, "bfloat16", "parts"),
        (batch_norm, 14, "bfloat16", "inner_persistent"),
        (batch_norm, 14, "float", "inner_persistent"),
        (batch_norm, 10, "bfloat16", "parts"),
        (batch_norm, 79, "bfloat16", "inner_grid"),
        (group_norm, 19, "bfloat16", "parts"),
        (group_norm, 10, "bfloat16", "inner_persistent"),
    ],
)
def test_narrow_accesses_are_side_by_side(
    make: Make, side: int, dtype: str, scheduler: str
) -> None:
    assert schedulers(make(Images(64, 96, side, False), dtype)) == [scheduler]


def test_sums_of_parts_that_are_results_are_written_with_the_elements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And read where they are summed again, not made of all elements."""
    monkeypatch.setattr(heuristic, "_rather_as_rows", lambda *given: "")
    p = Program()
    x = p.input(FLOAT, (None, None, None))
    part = p.reduce("sum", x, [2])
    row = p.reduce("sum", p.op("mul", part, part), [1])
    both = p.broadcast(row, [False, True, True])
    p.output(p.op("mul", x, both), part, p.reduce("sum", part, [0]))
    segments = cut(p.fusion, target=H200)
    assert [segment.inputs for segment in segments] == [(x.name,), (part.name,)]
    assert part.name in segments[0].outputs


# --- what is refused ---------------------------------------------------------------------------


def sums_of_parts(*, needed: bool) -> Program:
    """`[row, part, element]`: each row's sum of its parts' sums, and what elements make of it."""
    p = Program()
    x = p.cast(p.input(DataType.BFloat16, (None, None, None)), FLOAT)
    part = p.reduce("sum", x, [2])
    row = p.reduce("sum", p.op("mul", part, part), [1])
    both = p.broadcast(row, [False, True, True])
    again = p.broadcast(part, [False, False, True])
    p.output(p.op("add", p.op("sub", x, again), both) if needed else p.op("sub", x, again))
    p.output(row, part)
    return p


def test_each_part_is_summed_once() -> None:
    p = sums_of_parts(needed=True)
    assert refusal(p.fusion) == ""
    arrays = random_inputs(p.fusion, {"T0": (5, 6, 40)})
    candidate, kernel = check_automatic(p.fusion, arrays, terms=240)
    assert candidate.scheduler == "parts"
    assert sum(isinstance(each, Reduce) for each in walk(kernel.body)) == 2


def test_rows_that_no_element_needs_are_refused() -> None:
    reason = refusal(sums_of_parts(needed=False).fusion)
    assert reason == "it needs no element again after it reduced a row"


def test_reductions_of_other_dimensions_are_refused() -> None:
    p = Program()
    x = p.input(FLOAT, (None, None, None))
    first, second = p.reduce("sum", x, [2]), p.reduce("sum", x, [0])
    p.output(p.op("sub", x, p.broadcast(first, [False, False, True])))
    p.output(second)
    assert "reduces neither parts of rows nor rows of such parts" in refusal(p.fusion)


def test_rows_of_what_is_reduced_elsewhere_are_refused() -> None:
    """One sum keeps a dimension that the other reduces, and reduces the one that it keeps."""
    p = Program()
    x, w = p.input(DataType.Float, (5, 6, 7)), p.input(DataType.Float, (7, 5))
    total = p.broadcast(p.reduce("sum", x, [1, 2]), [True, False])
    mixed = p.broadcast(p.reduce("sum", p.op("mul", w, total), [1]), [True, True, False])
    p.output(p.op("sub", x, mixed))
    assert "keeps what" in refusal(p.fusion)


def test_one_row_is_refused() -> None:
    p = Program()
    x = p.input(FLOAT, (None, None))
    row = p.reduce("sum", p.reduce("sum", x, [1]), [0])
    p.output(p.op("sub", x, p.broadcast(row, [True, True])))
    assert refusal(p.fusion) == "all of it is one row"


def test_rows_in_one_piece_are_refused() -> None:
    p = Program()
    x = p.input(FLOAT, (None, None))
    p.output(p.op("sub", x, p.broadcast(p.reduce("max", x, [1]), [False, True])))
    assert refusal(p.fusion) == "its rows are not made of parts"


def test_rows_that_no_cluster_holds_are_refused_with_their_length() -> None:
    segment, call = first_of(group_norm_bwd(Images(2, 64, 8, True), "float"))
    assert segment.candidate is not None
    values = {
        name: 3000 if name.endswith(("size1", "size2")) and value == 8 else value
        for name, value in call.values.items()
    }
    reason = segment.candidate.unsupported_sizes(
        Call(values=values, alignment={}, target=call.target)
    )
    assert reason == "rows of 18000000 elements do not fit in the registers of 16 blocks"


# --- registers ---------------------------------------------------------------------------------


def first_of(problem: Problem) -> tuple[PlannedSegment, Call]:
    """The first kernel's share of a problem, and the call as it knows it."""
    call = plan(problem)
    segment = call.segments[0]
    return segment, segment.local(call.problem)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("make", "inner"), [(group_norm, True), (group_norm_bwd, True), (group_norm_bwd, False)]
)
@pytest.mark.parametrize("size", [(64, 256, 28), (32, 320, 32), (16, 96, 75)], ids=str)
def test_nothing_spills(
    make: Make, size: tuple[int, int, int], inner: bool, tmp_path: Path
) -> None:
    segment, call = first_of(make(Images(*size, inner), "bfloat16"))
    candidate = segment.candidate
    assert candidate is not None
    params, _ = candidate.choose(call)
    scheduled, kept = partial(candidate.scheduled, params), Knobs(cache_dir=tmp_path)
    made = compile_fusion(scheduled, "test", DataType.Int32, kept, target=H200)
    assert made.n_spills <= 24


def test_columns_are_not_divided_by_their_length_each() -> None:
    """A quotient's rare cases are a call; the reciprocal of the length is one of all columns."""
    launch = plan(instance_norm(Images(179, 448, 27, True), "bfloat16")).launches[0]
    assert launch.params is not None
    assert "outer_persistent" in launch.compiled.kernel.name
    assert str(launch.compiled.asm["sass"]).count("CALL") < 8
