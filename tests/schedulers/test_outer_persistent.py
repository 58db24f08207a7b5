"""Columns that stay in registers: norms and softmaxes over what is not the fastest dimension."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.schedulers.test_inner_grid import batch_norm
from tests.schedulers.test_inner_persistent import (
    PROGRAMS,
    check_read_once,
    inputs_of,
    layer_norm,
    layer_norm_backward,
    softmax,
    softmax_backward,
)
from tests.support.launching import check_automatic, random_inputs, values_of
from tests.support.lowering import lowered
from tests.support.program import Program
from warpsmith import fuse, knobs, ops
from warpsmith.engine.compiled import compile_fusion
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.kernel import Kernel
from warpsmith.knobs import Knobs
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.outer_persistent import heuristic, shapes
from warpsmith.schedulers.outer_persistent.shapes import OuterPersistentParams
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rewrite import rewrite
from warpsmith.schedulers.rows.applicability import columns_refusal
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

Build = Callable[[DataType], Program]

BF16, HALF, FLOAT = DataType.BFloat16, DataType.Half, DataType.Float
SLOW = pytest.mark.slow
SHAPES = (
    pytest.param((64, 1), marks=SLOW),
    (1, 33),
    (33, 5),
    pytest.param((70, 3), marks=SLOW),
    (16, 200),
    pytest.param((136, 40), marks=SLOW),
)
"""Columns and their lengths: one element; one column; vectors of one, two and eight columns;
columns of one thread and of several; blocks that are not full."""


def of_columns(build: Build, dtype: DataType) -> Program:
    """A program of rows with its matrices stored column after column."""
    p = build(dtype)
    for tensor in (*p.fusion.input_tensors, *(o.value for o in p.fusion.outputs)):
        if tensor.rank == 2:
            tensor.stride_order = (0, 1)
    return p


def check_one_kernel(
    p: Program, arrays: dict[str, np.ndarray], terms: int
) -> tuple[Candidate, Kernel]:
    candidate, kernel = check_automatic(p.fusion, arrays, terms=terms)
    assert candidate.scheduler == "outer_persistent"
    return candidate, kernel


@pytest.mark.few(6)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("build", PROGRAMS)
def test_one_kernel_and_right(build: Build, shape: tuple[int, int]) -> None:
    dtype = (BF16, HALF, FLOAT)[shape[1] % 3]
    p = of_columns(build, dtype)
    check_one_kernel(p, inputs_of(p, shape), terms=64 * shape[1])


@pytest.mark.parametrize("dtype", [BF16, FLOAT])
@pytest.mark.parametrize("build", PROGRAMS)
def test_each_column_is_read_once_in_vectors(build: Build, dtype: DataType) -> None:
    p = of_columns(build, dtype)
    arrays = inputs_of(p, (256, 64))
    problem = Problem(values=values_of(p.fusion, arrays), alignment={}, target=H200)
    candidate = select(p.fusion, H200)
    params, _ = candidate.choose(problem)
    assert isinstance(params, OuterPersistentParams)
    check_read_once(lowered(candidate.scheduled(params)), arrays)


@pytest.mark.parametrize("shape", [(2, 3, 4, 16), (3, 1, 5, 6)])
def test_channels_last(shape: tuple[int, ...]) -> None:
    """Three dimensions are reduced, and the fourth has weights."""
    p = batch_norm(rank=4, kept=3)
    names = [t.name for t in p.fusion.input_tensors]
    arrays = random_inputs(p.fusion, dict(zip(names, (shape, shape[-1:]), strict=True)))
    check_one_kernel(p, arrays, terms=64 * shape[0] * shape[1] * shape[2])


def test_what_is_reduced_lies_between_kept_dimensions() -> None:
    p = Program()
    x = p.input(FLOAT, (None,) * 4)
    total = p.broadcast(p.reduce("sum", x, [0, 2]), [True, False, True, False])
    p.output(p.op("div", x, total))
    check_one_kernel(p, random_inputs(p.fusion, {"T0": (3, 2, 5, 12)}), terms=15)


def test_inputs_along_what_is_reduced() -> None:
    p = Program()
    x, weight = p.cast(p.input(BF16, (None, None)), FLOAT), p.input(FLOAT, (None,))
    weighted = p.op("mul", x, p.broadcast(weight, [False, True]))
    total = p.broadcast(p.reduce("sum", weighted, [0]), [True, False])
    p.output(p.cast(p.op("sub", weighted, total), BF16))
    names = [t.name for t in p.fusion.input_tensors]
    arrays = random_inputs(p.fusion, dict(zip(names, ((50, 24), (50,)), strict=True)))
    check_one_kernel(p, arrays, terms=50)


def test_misaligned_addresses_are_read_element_by_element() -> None:
    p = of_columns(softmax, BF16)
    arrays = inputs_of(p, (64, 20))
    problem = Problem(values=values_of(p.fusion, arrays), alignment={"T0": 2}, target=H200)
    params, _ = select(p.fusion, H200).choose(problem)
    assert isinstance(params, OuterPersistentParams)
    assert "T0" not in params.vectorized
    check_automatic(p.fusion, arrays, alignment={"T0": 2}, terms=64)


def rows(p: Program) -> None:
    x = p.input(FLOAT, (None, None))
    p.output(p.op("sub", x, p.broadcast(p.reduce("max", x, [1]), [False, True])))


def pieces(p: Program) -> None:
    x = p.input(FLOAT, (None, None, None))
    p.output(p.op("sub", x, p.broadcast(p.reduce("max", x, [0, 2]), [True, False, True])))


@pytest.mark.parametrize("build", [rows, pieces])
def test_rows_are_refused(build: Callable[[Program], None]) -> None:
    p = Program()
    build(p)
    assert "reduces the fastest dimension" in columns_refusal(p.fusion)


def test_columns_that_no_block_holds_are_refused_with_their_length() -> None:
    candidate = select(of_columns(softmax, BF16).fusion, H200)
    assert candidate.scheduler == "outer_persistent"

    def reason(columns: int, length: int) -> str:
        sizes = {"T0_size0": columns, "T0_size1": length}
        return candidate.unsupported_sizes(Problem(values=sizes, alignment={}, target=H200))

    assert reason(4096, 1024) == ""
    assert "columns of 1000000 elements do not fit" in reason(4096, 1000000)
    assert reason(0, 64) == reason(64, 0) == "its columns are empty"


# --- clusters ----------------------------------------------------------------------------------


@pytest.fixture
def two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heuristic, "CLUSTERS", (2,))
    monkeypatch.setattr(shapes, "LEAST_ROWS", 1)


@pytest.mark.few(4)
@pytest.mark.usefixtures("two_blocks")
@pytest.mark.parametrize(
    "shape", [pytest.param((16, 200), marks=SLOW), (33, 50), pytest.param((70, 9), marks=SLOW)]
)
@pytest.mark.parametrize("build", PROGRAMS)
def test_blocks_that_share_columns_are_right(build: Build, shape: tuple[int, int]) -> None:
    p = of_columns(build, (BF16, FLOAT)[shape[1] % 2])
    arrays = inputs_of(p, shape)
    candidate, kernel = check_one_kernel(p, arrays, terms=64 * shape[1])
    params, _ = candidate.choose(
        Problem(values=values_of(p.fusion, arrays), alignment={}, target=H200)
    )
    assert isinstance(params, OuterPersistentParams)
    assert params.cluster == 2
    assert kernel.launch.cluster_blocks == 2


@pytest.mark.parametrize(
    ("columns", "length", "blocks"), [(65536, 512, 1), (4096, 4096, 8), (2048, 16384, 16)]
)
def test_blocks_share_columns_where_one_has_too_few_threads(
    columns: int, length: int, blocks: int
) -> None:
    candidate = select(of_columns(softmax, BF16).fusion, H200)
    sizes = {"T0_size0": columns, "T0_size1": length}
    params, _ = candidate.choose(Problem(values=sizes, alignment={}, target=H200))
    assert isinstance(params, OuterPersistentParams)
    assert params.cluster == blocks
    assert params.exact
    assert params.even


# --- registers and time ------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "size",
    [
        (4096, 2048),
        *(pytest.param(s, marks=SLOW) for s in ((16384, 1024), (65536, 256), (1000, 999))),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [BF16, FLOAT])
@pytest.mark.parametrize("build", [layer_norm, softmax, softmax_backward, layer_norm_backward])
def test_nothing_spills(
    build: Build, dtype: DataType, size: tuple[int, int], tmp_path: Path
) -> None:
    p = of_columns(build, dtype)
    rewrite(p.fusion)
    arrays = inputs_of(p, (1, 1))
    candidate = select(p.fusion, H200)
    alone = (*candidate.refusals, ("outer_grid", "these columns are a block's, or a cluster's"))
    candidate = replace(candidate, refusals=alone)
    values = {
        name: value if "size" not in name else size[name.endswith("1")]
        for name, value in values_of(p.fusion, arrays).items()
    }
    values |= {f"{t.name}_size0": size[0] for t in p.fusion.input_tensors if t.rank == 1}
    problem = Problem(values=values, alignment={}, target=H200)
    assert not candidate.unsupported_sizes(problem)
    params, _ = candidate.choose(problem)
    scheduled, knobs = partial(candidate.scheduled, params), Knobs(cache_dir=tmp_path)
    made = compile_fusion(scheduled, "test", DataType.Int32, knobs, target=H200)
    assert made.n_spills <= 16


def test_columns_that_two_kernels_do_faster() -> None:
    candidate = select(of_columns(softmax, BF16).fusion, H200)
    sizes = {"T0_size0": 512, "T0_size1": 50176}
    words = candidate.unsupported_sizes(Problem(values=sizes, alignment={}, target=H200))
    assert words == "columns of 50176 elements fill 16 blocks, and two kernels are faster"


def test_columns_that_no_input_has_are_kept_by_no_grid() -> None:
    """What is read at computed places was priced as so many turns of no bytes."""
    x = np.random.default_rng(1).standard_normal((3, 257, 16)).astype(np.float16)

    def centered(x: Any) -> Any:
        y = ops.roll(x, [1], [2]) * 2
        return y - ops.mean(y, [1], True)

    with knobs.scope(device="sim"):
        found = fuse(centered)(x)
    wide = np.roll(x.astype(np.float64), 1, 2) * 2
    np.testing.assert_allclose(found, wide - wide.mean(1, keepdims=True), rtol=2e-3, atol=2e-3)
