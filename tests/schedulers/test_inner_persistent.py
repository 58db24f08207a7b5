"""Rows that stay in registers: norms, softmaxes and their kin are one kernel, and right."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.support.launching import Arrays, check_automatic, laid_out, random_inputs, values_of
from tests.support.lowering import lowered
from tests.support.program import Program
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import CopyVector
from warpsmith.kernel.traversal import walk
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows import applicability
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

Build = Callable[[DataType], Program]

BF16, HALF, FLOAT = DataType.BFloat16, DataType.Half, DataType.Float
SHAPES = ((1, 64), (5, 33), (3, 70), (9, 128), (2, 1040), (3, 2200))
"""One row; rows whose vectors are single elements, pairs, sixteen bytes; of warps, and of more."""


def over_rows(p: Program, op: str, x: TensorView) -> TensorView:
    return p.broadcast(p.reduce(op, x, [1]), [False, True])


def row_sized(p: Program, dtype: DataType) -> TensorView:
    return p.broadcast(p.input(dtype, (None,)), [True, False])


def layer_norm(dtype: DataType) -> Program:
    """With weight, bias and the saved statistics."""
    p = Program()
    x = p.cast(p.input(dtype, (None, None)), FLOAT)
    mean, m2, count = p.welford(x, [1])
    scale = p.op("rsqrt", p.op("add", p.op("div", m2, count), 1e-5))
    centred = p.op("sub", x, p.broadcast(mean, [False, True]))
    normal = p.op("mul", centred, p.broadcast(scale, [False, True]))
    scaled = p.op("mul", normal, row_sized(p, dtype))
    p.output(p.cast(p.op("add", scaled, row_sized(p, dtype)), dtype))
    return p.output(mean, scale)


def rms_norm(dtype: DataType) -> Program:
    """With a residual that is added first, and whose sum is a result too; without a weight."""
    p = Program()
    x, residual = p.input(dtype, (None, None)), p.input(dtype, (None, None))
    total = p.op("add", p.cast(x, FLOAT), p.cast(residual, FLOAT))
    square = p.op("mul", over_rows(p, "sum", p.op("mul", total, total)), 1.0 / 64)
    scale = p.op("rsqrt", p.op("add", square, 1e-6))
    p.output(p.cast(p.op("mul", total, scale), dtype))
    return p.output(p.cast(total, dtype))


def softmax(dtype: DataType) -> Program:
    p = Program()
    x = p.cast(p.input(dtype, (None, None)), FLOAT)
    e = p.op("exp", p.op("sub", x, over_rows(p, "max", x)))
    return p.output(p.cast(p.op("div", e, over_rows(p, "sum", e)), dtype))


def log_softmax(dtype: DataType) -> Program:
    p = Program()
    x = p.cast(p.input(dtype, (None, None)), FLOAT)
    shifted = p.op("sub", x, over_rows(p, "max", x))
    total = p.op("log", over_rows(p, "sum", p.op("exp", shifted)))
    return p.output(p.cast(p.op("sub", shifted, total), dtype))


def softmax_backward(dtype: DataType) -> Program:
    p = Program()
    y = p.cast(p.input(dtype, (None, None)), FLOAT)
    dy = p.cast(p.input(dtype, (None, None)), FLOAT)
    along = over_rows(p, "sum", p.op("mul", y, dy))
    return p.output(p.cast(p.op("mul", y, p.op("sub", dy, along)), dtype))


def layer_norm_backward(dtype: DataType) -> Program:
    """dx alone: two sums side by side, saved statistics, an input that two stages read."""
    p = Program()
    x = p.cast(p.input(dtype, (None, None)), FLOAT)
    dy = p.cast(p.input(dtype, (None, None)), FLOAT)
    weighted = p.op("mul", dy, row_sized(p, dtype))
    mean, scale = (p.broadcast(p.input(FLOAT, (None,)), [False, True]) for _ in range(2))
    normal = p.op("mul", p.op("sub", x, mean), scale)
    first = p.op("mul", over_rows(p, "sum", weighted), 1.0 / 64)
    second = p.op("mul", over_rows(p, "sum", p.op("mul", weighted, normal)), 1.0 / 64)
    inner = p.op("sub", p.op("sub", weighted, first), p.op("mul", normal, second))
    return p.output(p.cast(p.op("mul", inner, scale), dtype))


PROGRAMS = (
    layer_norm,
    rms_norm,
    softmax,
    log_softmax,
    softmax_backward,
    layer_norm_backward,
)


def inputs_of(p: Program, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """Arrays for the inputs: a vector takes the size of the dimension that it is used along."""
    kept = {
        id(op.source)
        for op in p.fusion.operations
        if getattr(op, "kind", "") == "broadcast" and op.origin == (0, None)
    }
    shapes = {
        t.name: shape if t.rank == 2 else (shape[:1] if id(t) in kept else shape[1:])
        for t in p.fusion.input_tensors
    }
    return random_inputs(p.fusion, shapes)


def check_one_kernel(p: Program, arrays: Arrays, terms: int) -> tuple[Candidate, Kernel]:
    candidate, kernel = check_automatic(p.fusion, arrays, terms=terms)
    assert candidate.scheduler == "inner_persistent"
    return candidate, kernel


@pytest.mark.few(6)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("build", PROGRAMS)
def test_one_kernel_and_right(build: Build, shape: tuple[int, int]) -> None:
    dtype = (BF16, HALF, FLOAT)[shape[1] % 3]
    p = build(dtype)
    check_one_kernel(p, inputs_of(p, shape), terms=64 * shape[1])


def check_read_once(kernel: Kernel, arrays: Arrays) -> None:
    """Of what is read in vectors nothing is read twice; all matrices are, past L1."""
    loads = [s for s in walk(kernel.body) if isinstance(s, CopyVector)]
    read = [s.source.name for s in loads if s.source.name in arrays]
    matrices = {name for name, array in arrays.items() if array.ndim == 2}
    assert matrices <= set(read)
    assert len(read) == len(set(read))
    assert all(s.streaming == (s.source.name in matrices) for s in loads if s.source.name in read)


@pytest.mark.few(9)
@pytest.mark.parametrize("dtype", [BF16, HALF, FLOAT])
@pytest.mark.parametrize("build", PROGRAMS)
def test_each_row_is_read_once_in_vectors(build: Build, dtype: DataType) -> None:
    p = build(dtype)
    arrays = inputs_of(p, (2, 1024))
    problem = Problem(values=values_of(p.fusion, arrays), alignment={}, target=H200)
    candidate = select(p.fusion, H200)
    params, _ = candidate.choose(problem)
    kernel = lowered(candidate.scheduled(params))
    check_read_once(kernel, arrays)


@pytest.mark.parametrize("columns", [33, 1040])
def test_three_dimensions_of_which_two_are_kept(columns: int) -> None:
    p = Program()
    x = p.cast(p.input(BF16, (None, None, None)), FLOAT)
    total = p.broadcast(p.reduce("sum", p.op("mul", x, x), [2]), [False, False, True])
    weight = p.broadcast(p.input(BF16, (None,)), [True, True, False])
    p.output(p.cast(p.op("mul", p.op("mul", x, p.op("rsqrt", total)), weight), BF16))
    names = [t.name for t in p.fusion.input_tensors]
    shapes = dict(zip(names, ((2, 3, columns), (columns,)), strict=True))
    check_one_kernel(p, random_inputs(p.fusion, shapes), terms=64 * columns)


@pytest.mark.parametrize("shape", [(3, 4, 32), (2, 5, 7)])
def test_rows_of_two_dimensions(shape: tuple[int, ...]) -> None:
    p = Program()
    x = p.input(FLOAT, (None, None, None))
    mean, m2, _ = p.welford(x, [1, 2])
    centred = p.op("sub", x, p.broadcast(mean, [False, True, True]))
    p.output(p.op("div", centred, p.broadcast(m2, [False, True, True])))
    check_one_kernel(p, random_inputs(p.fusion, {"T0": shape}), terms=64 * shape[1] * shape[2])


def test_everything_is_one_row() -> None:
    p = Program()
    x = p.input(FLOAT, (None, None))
    p.output(p.op("sub", x, p.broadcast(p.reduce("max", x, [0, 1]), [True, True])))
    check_one_kernel(p, random_inputs(p.fusion, {"T0": (6, 40)}), terms=240)


def test_rows_apart_in_memory() -> None:
    p = Program()
    x = p.input(HALF, (None, None), contiguity=(False, True))
    wide = p.cast(x, FLOAT)
    p.output(p.cast(p.op("sub", wide, over_rows(p, "max", wide)), HALF))
    check_one_kernel(p, random_inputs(p.fusion, {"T0": (6, 40)}), terms=40)


def test_a_misaligned_address_is_read_element_by_element() -> None:
    p = softmax(BF16)
    arrays = inputs_of(p, (3, 64))
    problem = Problem(values=values_of(p.fusion, arrays), alignment={"T0": 2}, target=H200)
    params, _ = select(p.fusion, H200).choose(problem)
    assert isinstance(params, RowParams)
    assert "T0" not in params.vectorized
    check_automatic(p.fusion, arrays, alignment={"T0": 2}, terms=64)


def test_row_results_feed_row_results_and_other_inputs() -> None:
    p = Program()
    x, row = p.input(FLOAT, (None, None)), p.input(FLOAT, (None,))
    low, high = p.reduce("min", x, [1]), p.reduce("max", x, [1])
    width = p.op("add", p.op("mul", p.op("sub", high, low), row), 1.0)
    p.output(
        p.op(
            "div",
            p.op("sub", x, p.broadcast(low, [False, True])),
            p.broadcast(width, [False, True]),
        ),
        width,
        p.op("neg", row),
    )
    names = [t.name for t in p.fusion.input_tensors]
    arrays = random_inputs(p.fusion, dict(zip(names, ((7, 48), (7,)), strict=True)))
    check_one_kernel(
        p,
        {
            n: laid_out(t, np.abs(arrays[n]))
            for n, t in zip(names, p.fusion.input_tensors, strict=True)
        },
        terms=480,
    )


def test_a_dependent_variance() -> None:
    """The second reduction is Welford's, of what the first one shifted."""
    p = Program()
    x = p.cast(p.input(BF16, (None, None)), FLOAT)
    shifted = p.op("sub", x, over_rows(p, "max", x))
    mean, m2, _ = p.welford(shifted, [1])
    p.output(p.op("mul", shifted, p.broadcast(m2, [False, True])), mean)
    check_one_kernel(p, random_inputs(p.fusion, {"T0": (5, 136)}), terms=64 * 136)


def refusal_of(build: Callable[[Program], None]) -> str:
    p = Program()
    build(p)
    return applicability.refusal(p.fusion)


def columns_too(p: Program) -> None:
    x = p.input(FLOAT, (None, None))
    centred = p.op("sub", x, over_rows(p, "max", x))
    p.output(centred, p.reduce("sum", centred, [0]))


def of_columns(p: Program) -> None:
    x = p.input(FLOAT, (None, None))
    p.output(p.op("sub", x, p.broadcast(p.reduce("max", x, [0]), [True, False])))


def of_stored_columns(p: Program) -> None:
    x = p.input(FLOAT, (None, None), stride_order=(0, 1))
    p.output(p.op("sub", x, over_rows(p, "max", x)))


def half_of_it(p: Program) -> None:
    x, y = p.input(FLOAT, (None, None, None)), p.input(FLOAT, (None,))
    total = p.broadcast(p.reduce("sum", x, [1, 2]), [False, True])
    p.output(p.op("mul", total, p.broadcast(y, [True, False])))
    p.output(p.op("mul", x, p.broadcast(y, [True, True, False])))


def half_of_what_was_merged(p: Program) -> None:
    x, y = p.input(FLOAT, (None, None)), p.input(FLOAT, (None,))
    total = p.broadcast(p.reduce("sum", p.merge_dims(x, 0), [0]), [True])
    scaled = p.op("mul", total, y)
    p.output(p.op("add", x, p.broadcast(scaled, [True, False])))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda p: p.output(p.op("neg", p.input(FLOAT, (None,)))), "it does not reduce"),
        (columns_too, "reduce different dimensions"),
        (of_columns, "reduces dimensions that are not rows"),
        (of_stored_columns, "reduces dimensions that are not rows"),
        (half_of_it, "has some of the dimensions that were reduced, not all"),
        (half_of_what_was_merged, "T5 has some of the dimensions that were reduced, not all"),
    ],
)
def test_refusals(build: Callable[[Program], None], words: str) -> None:
    assert words in refusal_of(build)


@pytest.mark.parametrize(("rows", "alike"), [(70, 132), (1100, 1300), (1 << 20, 3 << 20)])
@pytest.mark.parametrize("build", PROGRAMS)
def test_row_counts_of_a_class_have_the_same_parameters(
    build: Build, rows: int, alike: int
) -> None:
    """Up to 75 MB rows leave no copy in L1; beyond, they are the last to go from the L2."""
    candidate = select(build(BF16).fusion, H200)
    names = [s.name for s in candidate.fusion.inputs if isinstance(s, TensorView)]

    def chosen(count: int) -> RowParams:
        sizes = {f"{n}_size{d}": (count, 4096)[d] for n in names for d in (0, 1)}
        sizes |= {f"{n}_size0": 4096 for n in names[2:]}
        sizes |= {"T0_size0": count}
        params, _ = candidate.choose(Problem(values=sizes, alignment={}, target=H200))
        assert isinstance(params, RowParams)
        return params

    few = rows < 1 << 20
    assert chosen(rows) == chosen(alike)
    assert (chosen(rows).streaming, chosen(rows).evict_last) == (few, not few)
