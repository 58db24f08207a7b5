"""Every problem means the same in PyTorch, as a fused function, and in nvFuser's words."""

from typing import Any

import pytest
import torch

import warpsmith
from bench import (
    ceilings,
    dropout,
    lengths,
    matmul,
    norm_backward,
    norms,
    pace,
    pointwise,
    reduction,
    residual_backward,
)
from bench.peers import contenders, versions
from bench.problem import Problem, outputs_of
from warpsmith import knobs
from warpsmith.testing import relative_error

SMALL = [
    problem
    for dtype in ("bfloat16", "float")
    for problem in (
        pointwise.silu_mul(6, 16, dtype),
        pointwise.bias_gelu(6, 16, dtype),
        pointwise.add3(6, 16, dtype),
        pointwise.broadcast_nchw((2, 3, 4, 5), dtype),
        pointwise.transpose_add(6, 16, dtype),
        *(reduction.total(over, 6, 16, dtype) for over in reduction.AXES),
        *(reduction.var_mean(over, 6, 16, dtype) for over in reduction.AXES),
        *(make(6, 16, dtype) for make in (norms.layer_norm, norms.rms_norm, norms.residual)),
        dropout.dropped_residual(24, 64, dtype),
        norm_backward.layer_norm_bwd(6, 16, dtype),
        norm_backward.rms_norm_bwd(6, 16, dtype),
        residual_backward.residual_bwd(6, 16, dtype),
        residual_backward.dropped_residual_bwd(24, 64, dtype),
        *(make(6, 16, dtype) for make in (norms.softmax, norms.log_softmax, norms.softmax_bwd)),
    )
]
SMALL.append(matmul.linear(8, 24, 16, "bfloat16"))
LARGEST_ERROR = {"bfloat16": 2.0**-7, "float": 1e-6}


@pytest.mark.few(23)
@pytest.mark.parametrize("problem", SMALL, ids=lambda problem: problem.title)
def test_fused_and_defined_agree_with_eager_in_double(problem: Problem) -> None:
    torch.manual_seed(0)  # a mean of few numbers may be so near 0 that its relative error is none
    inputs = problem.draw("cpu")
    expected = outputs_of(problem.eager(*(x.double() for x in inputs)))
    with knobs.scope(device="reference"):
        fused = outputs_of(warpsmith.fuse(problem.fused)(*inputs))
        with warpsmith.FusionDefinition() as definition:
            problem.define(definition, warpsmith.DataType, *inputs)
        defined = definition.execute(list(inputs))
    for results in (fused, defined):
        assert len(results) == len(expected)
        if problem.redrawn is not None:
            expected = outputs_of(problem.redrawn(inputs, results))
        for got, want in zip(results, expected, strict=True):
            assert got.shape == want.shape
            assert got.dtype == inputs[0].dtype
            assert relative_error(got, want) < LARGEST_ERROR[problem.dtype]


@pytest.mark.parametrize("problem", SMALL, ids=lambda problem: problem.title)
def test_bytes_are_those_of_the_inputs_and_the_outputs(problem: Problem) -> None:
    inputs = problem.draw("cpu")
    outputs = outputs_of(problem.eager(*inputs))
    assert problem.bytes_moved == sum(t.nbytes for t in (*inputs, *outputs))


@pytest.mark.parametrize(
    "problems",
    [
        pointwise.problems,
        reduction.problems,
        matmul.problems,
        norms.norm_problems,
        norms.softmax_problems,
        norm_backward.problems,
        lengths.odd_problems,
        lengths.long_problems,
    ],
)
def test_problems_are_told_apart_by_name_shape_and_dtype(problems: Any) -> None:
    for quick in (True, False):
        titles = [problem.title for problem in problems(quick=quick)]
        assert len(set(titles)) == len(titles)
    assert len(list(problems(quick=True))) < len(list(problems(quick=False)))


@pytest.mark.parametrize(("dtype", "item_bytes"), [("bfloat16", 2), ("float", 4)])
def test_ceilings_move_as_many_bytes_as_the_problem(dtype: str, item_bytes: int) -> None:
    for problem in pointwise.problems(quick=False):
        if problem.dtype != dtype:
            continue
        copied = 2 * item_bytes * ceilings.copy_elements(problem.bytes_moved, item_bytes)
        added = 3 * item_bytes * ceilings.add_elements(problem.bytes_moved, item_bytes)
        for moved in (copied, added):
            assert problem.bytes_moved - 3 * item_bytes < moved <= problem.bytes_moved


def test_products_are_held_against_the_rate_of_tensor_cores() -> None:
    problem = matmul.linear(4096, 4096, 4096, "bfloat16")
    assert ceilings.multiplying_us(problem) == pytest.approx(138.9, abs=0.1)
    assert ceilings.ceilings_of(problem) == {}


def test_what_was_dropped_is_read_off_the_sum() -> None:
    """And a share that is not the one asked for, or a wrong element, is noticed."""
    problem = dropout.dropped_residual(64, 256, "float")
    x, other, weight = problem.draw("cpu")
    redrawn = problem.redrawn
    assert redrawn is not None
    y, total = problem.eager(x, other, weight)
    for got, want in zip((y, total), redrawn((x, other, weight), (y, total)), strict=True):
        assert relative_error(got, want) < 1e-6
    wrong = total.clone()
    wrong[3, 5] += 1
    assert relative_error(wrong, redrawn((x, other, weight), (y, wrong))[1]) > 1e-4
    with pytest.raises(ValueError, match="0.000 of the elements were dropped"):
        redrawn((x, other, weight), (y, x / (1 - dropout.DROPPED) + other))


def test_who_takes_part() -> None:
    problem = SMALL[0]
    assert list(contenders(problem, "none")) == ["warpsmith"]
    assert list(contenders(problem, "fast")) == ["warpsmith", "torch"]
    everyone = list(contenders(problem, "auto"))
    assert everyone[:3] == ["warpsmith", "torch", "torch_compile"]
    assert list(contenders(problem, "torch_compile")) == ["warpsmith", "torch_compile"]
    assert list(contenders(problem, "cudnn")) == ["warpsmith"]  # which cannot do it


def test_versions_name_what_takes_part() -> None:
    found = dict(versions())
    assert {"warpsmith", "torch", "nvrtc"} <= set(found)


def test_suite_pace_has_what_is_paced_with_and_without() -> None:
    problems = list(pace.problems(quick=False))
    names = {"rms_norm_bwd", "residual_rms_norm_bwd", "dropout_residual_rms_norm_bwd"}
    assert {problem.name for problem in problems} == names
    found = {(p.shape, p.dtype) for p in problems}
    assert ((8192, 8192), "bfloat16") in found
    assert ((8192, 4096), "float") in found
    assert ((8192, 5120), "bfloat16") not in found
    assert all(list(contenders(problem, "auto")) == ["warpsmith", "free"] for problem in problems)


def test_odd_rows_have_no_whole_vectors_long_ones_fit_no_multiprocessor_short_ones_a_warp() -> None:
    odd, long = list(lengths.odd_problems(quick=False)), list(lengths.long_problems(quick=False))
    short = list(lengths.short_problems(quick=False))
    suites = {problem.suite for problem in (*odd, *long, *short)}
    assert suites == {"odd_rows", "long_rows", "short_rows"}
    assert max(problem.shape[-1] for problem in short) <= 32 * 16
    assert {problem.shape[-1] % 8 for problem in odd} == {1, 2, 4}
    assert min(problem.shape[-1] * 2 for problem in long) > 233472
    names = {problem.name for problem in norm_backward.problems(quick=True)}
    for problems in (odd, long, short):
        assert {p.name for p in problems} >= names & {"layer_norm_bwd", "rms_norm_bwd"}
