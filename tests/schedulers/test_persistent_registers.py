"""What the heuristic of rows in registers predicts, and what ptxas makes of it."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.schedulers.test_inner_persistent import (
    Build,
    inputs_of,
    layer_norm,
    log_softmax,
    rms_norm,
    softmax,
    softmax_backward,
)
from tests.support.launching import values_of
from warpsmith.engine.compiled import CompiledKernel, compile_fusion
from warpsmith.ir.dtypes import DataType
from warpsmith.knobs import Knobs
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rewrite import rewrite
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.registers import MOST_ELEMENTS
from warpsmith.schedulers.select import select
from warpsmith.targets.hopper import H200

BF16, FLOAT = DataType.BFloat16, DataType.Float


def params_of(build: Build, dtype: DataType, columns: int) -> RowParams:
    candidate = select(build(dtype).fusion, H200)
    sizes = dict.fromkeys(_sizes(build, dtype), columns) | {"T0_size0": 8192}
    params, _ = candidate.choose(Problem(values=sizes, alignment={}, target=H200))
    assert isinstance(params, RowParams)
    return params


def _sizes(build: Build, dtype: DataType) -> list[str]:
    tensors = build(dtype).fusion.input_tensors
    return [f"{t.name}_size{d}" for t in tensors for d in range(t.rank)]


def compiled(build: Build, dtype: DataType, columns: int, folder: Path) -> CompiledKernel:
    p = build(dtype)
    rewrite(p.fusion)
    arrays = {n: np.zeros_like(a) for n, a in inputs_of(p, (1, columns)).items()}
    candidate = select(p.fusion, H200)
    params, _ = candidate.choose(
        Problem(values=values_of(p.fusion, arrays), alignment={}, target=H200)
    )
    knobs = Knobs(cache_dir=folder)
    scheduled = partial(candidate.scheduled, params)
    return compile_fusion(scheduled, "test", DataType.Int32, knobs, target=H200)


@pytest.mark.few(3)
@pytest.mark.parametrize("columns", [1024, 8192, 16384])
@pytest.mark.parametrize("dtype", [BF16, FLOAT])
@pytest.mark.parametrize("build", [layer_norm, rms_norm, softmax, log_softmax, softmax_backward])
def test_hardly_anything_spills(
    build: Build, dtype: DataType, columns: int, tmp_path: Path
) -> None:
    """Two registers, stored and loaded once, are 16 bytes; one case of thirty has so many."""
    assert compiled(build, dtype, columns, tmp_path).n_spills <= 16


@pytest.mark.parametrize("columns", [1, 7, 64, 100, 999, 1024, 1030, 4096, 5120, 12288, 32768])
@pytest.mark.parametrize("dtype", [BF16, FLOAT])
@pytest.mark.parametrize("build", [layer_norm, softmax])
def test_threads_cover_a_row_and_registers_hold_it(
    build: Build, dtype: DataType, columns: int
) -> None:
    params = params_of(build, dtype, columns)
    threads = params.block_x * params.block_y
    covered = params.cluster * params.block_x * params.unroll * params.vector
    assert covered >= columns
    assert covered - params.cluster * params.block_x * params.vector < columns, "a pass of nobody"
    assert params.exact == (covered == columns)
    assert params.unroll * params.vector <= MOST_ELEMENTS
    assert threads <= 1024
    assert params.block_x % 32 == 0 or 32 % params.block_x == 0
    stay = params.unroll * params.vector * 2 // 4  # at least the row itself, in 16 bits
    assert params.blocks_per_sm * threads * stay <= H200.family.limits.sm_registers


def test_inputs_that_all_rows_share_come_early_where_registers_allow() -> None:
    assert not params_of(rms_norm, BF16, 3072).reload_weights
    assert params_of(layer_norm, BF16, 16384).reload_weights
    assert not params_of(softmax, BF16, 16384).reload_weights


def test_exponentials_are_computed_again_only_in_the_longest_rows() -> None:
    assert not params_of(softmax, BF16, 4096).again
    assert params_of(softmax, BF16, 1 << 20).again
