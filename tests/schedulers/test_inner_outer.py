"""Rows in registers beside sums of columns: norms backward, from the user's words to results."""

from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.norms_backward import (
    PROGRAMS,
    Case,
    apart,
    explained,
    layer_norm_backward,
    on_simulator,
    residual_backward,
    rms_norm_backward,
    shifted,
)
from warpsmith import knobs, ops
from warpsmith.ops.evaluate import evaluate
from warpsmith.schedulers.rows.columns import refusal


@pytest.mark.few(2)
@pytest.mark.parametrize("shape", [(1, 64), (5, 33), (19, 128), (3, 1030)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_against_float64(program: Any, dtype: str, shape: tuple[int, ...]) -> None:
    """One row, rows of single elements, warps with several rows, and more rows than blocks."""
    case = Case(shape, dtype)
    found = on_simulator(program, case.inputs(program))
    for result, expected in zip(found, case.expected(program), strict=True):
        assert np.isfinite(result.astype(np.float64)).all()
        np.testing.assert_allclose(result.astype(np.float64), expected, case.relative, 1e-4)


def test_two_numbers_of_rows_of_one_element_which_different_passes_load() -> None:
    """Loops over such rows vanish, and what each loads for itself is loaded where it was."""
    with warpsmith.FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=[True, True], stride_order=[0, 1])
        y, number = fd.define_tensor([-1]), fd.define_tensor([])
        fd.add_output(ops.mv(x, y))
        fd.add_output(x * ops.mean(x, [0], keepdim=True) / number)
    values = np.random.default_rng(0).random(11, np.float32)
    with knobs.scope(device="sim"):
        fd.validate(
            [
                np.ndarray((1, 11), np.float32, values, strides=(4, 4)),
                values,
                np.array(0.5, np.float32),
            ]
        )


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.few(3)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_rows_are_read_by_one_kernel_and_columns_summed_by_another(
    program: Any, dtype: str
) -> None:
    text = explained(program, Case((40, 256), dtype).inputs(program))
    assert text.startswith("2 kernels\n")
    assert "scheduler   inner_outer" in text
    assert "scheduler   reduction" in text


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", [(2, 1024), (7, 2048), (600, 32)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_rows_that_are_loaded_ahead(program: Any, dtype: str, shape: tuple[int, ...]) -> None:
    """Fewer turns than stages, more than stages, and turns that run past the last row."""
    case = Case(shape, dtype)
    inputs = case.inputs(program)
    for result, expected in zip(
        on_simulator(program, inputs, "prefer"), case.expected(program), strict=True
    ):
        np.testing.assert_allclose(result.astype(np.float64), expected, case.relative, 1e-4)
    with knobs.scope(rings="prefer"):
        first = explained(program, inputs).split("kernel 1")[0]
    fit = program is not residual_backward or dtype == "bfloat16"
    assert "no ring" not in first or (not fit and "do not fit in shared memory" in first)


@pytest.mark.usefixtures("uncompiled")
def test_rows_that_the_threads_load_are_told_apart_from_those_loaded_ahead() -> None:
    def why(columns: int, dtype: str = "bfloat16") -> str:
        case = Case((3, columns), dtype)
        with knobs.scope(warp_specialize=False):
            text = explained(rms_norm_backward, case.inputs(rms_norm_backward))
        return text.split("kernel 1")[0]

    assert "no ring" not in why(4096)
    assert "rows of 256 bytes are too short" in why(128)
    assert "no ring" not in why(1030)
    assert "no ring" not in why(1032)
    assert "no ring" not in why(12344)
    with knobs.scope(rings="never"):
        assert "the knob `rings` says never" in why(4096)


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", [10004, 11000, 12096])
def test_rows_of_floats_that_no_threads_have_exactly_spill_nothing(columns: int) -> None:
    """In waves, LayerNorm of 11000 had spilled 1000 bytes."""
    inputs = Case((2, columns), "float32").inputs(layer_norm_backward)
    assert warpsmith.fuse(layer_norm_backward).lower(*inputs).compile().n_spills == 0


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("columns", "dtype", "lanes", "threads"),
    [
        (64, "bfloat16", 8, 512),
        (100, "bfloat16", 32, 512),
        (196, "bfloat16", 32, 512),
        (320, "bfloat16", 32, 256),
        (72, "float32", 32, 512),
        (200, "float32", 32, 256),
    ],
)
def test_short_rows_lie_in_the_lanes_of_a_warp(
    columns: int, dtype: str, lanes: int, threads: int
) -> None:
    """As few accesses each as can be; with and without lanes that have nothing of the row."""
    case = Case((70, columns), dtype)
    for program in (layer_norm_backward, rms_norm_backward):
        inputs = case.inputs(program)
        for result, expected in zip(
            on_simulator(program, inputs), case.expected(program), strict=True
        ):
            np.testing.assert_allclose(result.astype(np.float64), expected, case.relative, 1e-4)
    text = explained(layer_norm_backward, case.inputs(layer_norm_backward))
    assert f"block_x={lanes}, block_y={threads // lanes}," in text


@pytest.mark.few(2)
@pytest.mark.parametrize(("columns", "ahead"), [(256, False), (264, True), (324, False)])
def test_many_short_rows_of_two_accesses_come_ahead(columns: int, ahead: bool) -> None:
    """Where lanes of a warp have more than one of each, and a copy can bring a row as it is."""
    case = Case((3201, columns), "bfloat16")
    inputs = case.inputs(rms_norm_backward)
    assert ("ring=0" not in explained(rms_norm_backward, inputs).split("kernel 1")[0]) == ahead
    for result, expected in zip(
        on_simulator(rms_norm_backward, inputs), case.expected(rms_norm_backward), strict=True
    ):
        error = np.linalg.norm(result.astype(np.float64) - expected) / np.linalg.norm(expected)
        assert error < 2.0**-8


def many_sums(x: Any, dy: Any) -> Any:
    """Six sums of columns, for which 64 registers a thread are too few."""
    wide, given = x.to(warpsmith.DataType.Float), dy.to(warpsmith.DataType.Float)
    scaled = wide * ops.mean(wide * given, [-1], keepdim=True)
    terms = (wide, given, wide * given, wide * wide, given * given, scaled)
    return scaled, *(ops.sum(term, [0]) for term in terms)


def test_short_rows_of_many_sums_have_fewer_threads() -> None:
    case = Case((70, 256), "bfloat16")
    inputs = (case.x, case.dy)
    x, dy = (t.astype(np.float64) for t in inputs)
    scaled = x * (x * dy).mean(-1, keepdims=True)
    expected = (scaled, *(t.sum(0) for t in (x, dy, x * dy, x * x, dy * dy, scaled)))
    found = on_simulator(many_sums, inputs)
    for result, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(result.astype(np.float64), want, 2e-5, 1e-4)
    text = explained(many_sums, inputs)
    assert "block_x=32, block_y=8," in text


def test_short_rows_read_element_by_element_keep_several_in_a_lane() -> None:
    case = Case((3, 255), "float32")
    text = explained(layer_norm_backward, case.inputs(layer_norm_backward))
    assert "vector=1, unroll=16," in text
    assert "block_x=16," in text


def test_rows_of_several_dimensions() -> None:
    case = Case((3, 5, 48), "float32")
    found = on_simulator(rms_norm_backward, case.inputs(rms_norm_backward))
    for result, expected in zip(found, case.expected(rms_norm_backward), strict=True):
        np.testing.assert_allclose(result, expected, case.relative, 1e-4)
    assert "inner_outer" in explained(rms_norm_backward, case.inputs(rms_norm_backward))


def test_the_bits_depend_on_no_order_of_warps() -> None:
    case = Case((300, 72), "bfloat16")
    inputs = case.inputs(layer_norm_backward)
    first, second = (on_simulator(layer_norm_backward, inputs) for _ in range(2))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))
    found = warpsmith.verify(warpsmith.fuse(layer_norm_backward), list(inputs), schedules=3)
    assert found.verdict == "clean", found


def test_more_rows_than_blocks_that_run_at_once() -> None:
    """Blocks are persistent: those of the first row also have rows 264 and 528."""
    case = Case((600, 8), "float32")
    found = on_simulator(layer_norm_backward, case.inputs(layer_norm_backward))
    for result, expected in zip(found, case.expected(layer_norm_backward), strict=True):
        np.testing.assert_allclose(result, expected, case.relative, 1e-4)


def test_rows_that_do_not_fit_are_cut_as_before() -> None:
    text = explained(layer_norm_backward, Case((2, 400000), "float32").inputs(layer_norm_backward))
    assert "do not fit in the registers" in text
    assert "scheduler   inner_outer" not in text


def unrelated(x: Any) -> Any:
    """Rows that nobody needs again."""
    return ops.sum(x, [1]), ops.sum(x, [0])


def fed_back(x: Any) -> Any:
    """What needs the sum of a column beside its elements."""
    scaled = x * ops.sum(x, [1], keepdim=True)
    return scaled, x - ops.sum(x, [0], keepdim=True)


def varied(x: Any) -> Any:
    """A variance of columns."""
    return x * ops.sum(x, [1], keepdim=True), ops.var(x, [0], 0, False)


def columns_alone(x: Any) -> Any:
    return ops.sum(x, [0]), ops.max(x, [0])


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (unrelated, "no row is needed again after it was reduced"),
        (fed_back, "combines the sum of a column with its elements"),
        (varied, "is part of a state of columns, which is not summed in parts"),
        (columns_alone, "does not reduce the rows and the columns of the same values"),
    ],
)
def test_refusals_say_why(program: Any, words: str) -> None:
    x = np.random.default_rng(3).standard_normal((6, 40)).astype(np.float32)
    fusion = warpsmith.fuse(program).lower(x).fusion
    assert words in refusal(fusion)
    for result, expected in zip(on_simulator(program, (x,)), evaluate(fusion, [x]), strict=True):
        np.testing.assert_allclose(result, expected, 1e-5, 1e-4)


@pytest.mark.few(2)
@pytest.mark.parametrize("columns", [1024, 4096, 8192, 12288])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("program", [rms_norm_backward, layer_norm_backward])
def test_nothing_spills(program: Any, dtype: str, columns: int) -> None:
    case = Case((2, columns), dtype)
    compiled = warpsmith.fuse(program).lower(*case.inputs(program)).compile()
    assert compiled.n_spills == 0


@pytest.mark.parametrize(
    "laid",
    [shifted, lambda a: apart(a, 8), lambda a: apart(a, 3), np.asfortranarray],
    ids=["shifted", "apart by vectors", "apart", "columns first"],
)
def test_inputs_that_the_tma_unit_or_vectors_cannot_load(laid: Any) -> None:
    case = Case((5, 1024), "bfloat16")
    x, *others = case.inputs(rms_norm_backward)
    found = on_simulator(rms_norm_backward, (laid(x), *others))
    for result, expected in zip(found, case.expected(rms_norm_backward), strict=True):
        np.testing.assert_allclose(result.astype(np.float64), expected, case.relative, 1e-4)


def test_no_rows_sum_to_zero() -> None:
    dx, dw, db = on_simulator(
        layer_norm_backward, Case((0, 64), "float32").inputs(layer_norm_backward)
    )
    assert dx.shape == (0, 64)
    assert not dw.any()
    assert not db.any()


def test_other_reductions_of_columns_than_sums() -> None:
    def scaled(x: Any) -> Any:
        return x / ops.sum(x * x, [1], keepdim=True), ops.max(x, [0])

    x = np.random.default_rng(4).standard_normal((70, 96)).astype(np.float32)
    rows, largest = on_simulator(scaled, (x,))
    assert "scheduler   inner_outer" in explained(scaled, (x,))
    np.testing.assert_array_equal(largest, x.max(0))
    np.testing.assert_allclose(rows, x / (x.astype(np.float64) ** 2).sum(1, keepdims=True), 1e-5)
