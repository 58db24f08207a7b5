"""Batch norm's problems mean the same in PyTorch, as fused functions, and in nvFuser's words."""

import pytest
import torch

import warpsmith
from bench import batch_norm, group_norm, instance_norm
from bench.images import Images
from bench.problem import Problem, outputs_of
from warpsmith import knobs
from warpsmith.testing import relative_error

MAKES = (batch_norm.batch_norm, batch_norm.batch_norm_bwd)
WITHIN = (
    *(instance_norm.instance_norm, group_norm.group_norm),
    *(instance_norm.instance_norm_bwd, group_norm.group_norm_bwd),
)
SMALL = [
    problem
    for dtype in ("bfloat16", "float")
    for problem in (
        *(make(Images(3, 16, 5, inner), dtype) for make in MAKES for inner in (False, True)),
        *(make(Images(2, 64, 3, inner), dtype) for make in WITHIN for inner in (False, True)),
        batch_norm.outer_softmax(40, 24, dtype),
    )
]
LARGEST_ERROR = {"bfloat16": 2.0**-7, "float": 2e-6}


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("problem", "device"),
    [
        pytest.param(
            problem,
            device,
            id=f"{problem.title} {device}",
            marks=pytest.mark.slow if device == "sim" and problem.dtype == "float" else (),
        )
        for problem in SMALL
        for device in ("reference", "sim")
    ],
)
def test_fused_and_defined_agree_with_eager_in_double(problem: Problem, device: str) -> None:
    torch.manual_seed(0)
    inputs = problem.draw("cpu")
    expected = outputs_of(problem.eager(*(x.double() for x in inputs)))
    with knobs.scope(device=device):
        found = [outputs_of(warpsmith.fuse(problem.fused)(*inputs))]
        if device == "reference" or problem.name == "group_norm":
            with warpsmith.FusionDefinition() as definition:
                problem.define(definition, warpsmith.DataType, *inputs)
            found.append(outputs_of(definition.execute(list(inputs))))
    for results in found:
        assert len(results) == len(expected)
        for got, want in zip(results, expected, strict=True):
            assert got.shape == want.shape
            assert relative_error(got, want) < LARGEST_ERROR[problem.dtype]


@pytest.mark.parametrize("problem", SMALL, ids=lambda problem: problem.title)
def test_bytes_are_those_of_the_inputs_and_the_outputs(problem: Problem) -> None:
    inputs = problem.draw("cpu")
    outputs = outputs_of(problem.eager(*inputs))
    assert problem.bytes_moved == sum(t.nbytes for t in (*inputs, *outputs))


def test_problems_are_told_apart_by_name_shape_and_dtype() -> None:
    for quick in (True, False):
        titles = [problem.title for problem in batch_norm.problems(quick=quick)]
        assert len(set(titles)) == len(titles)
    assert len(list(batch_norm.problems(quick=True))) < len(titles)


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("problem", "scheduler"),
    [
        (batch_norm.batch_norm(Images(4, 16, 20, False), "bfloat16"), "inner_persistent"),
        (batch_norm.batch_norm(Images(4, 16, 4, False), "bfloat16"), "parts"),
        (batch_norm.batch_norm(Images(4, 16, 4, True), "bfloat16"), "outer_persistent"),
        (batch_norm.batch_norm_bwd(Images(4, 16, 12, False), "float"), "inner_persistent"),
        (batch_norm.batch_norm_bwd(Images(4, 16, 4, True), "float"), "outer_persistent"),
        (instance_norm.instance_norm(Images(4, 16, 4, False), "float"), "inner_persistent"),
        (group_norm.group_norm(Images(4, 64, 4, False), "bfloat16"), "inner_persistent"),
        (group_norm.group_norm(Images(4, 64, 5, False), "bfloat16"), "parts"),
        (batch_norm.outer_softmax(64, 32, "bfloat16"), "outer_persistent"),
    ],
    ids=lambda value: getattr(value, "title", value),
)
def test_one_kernel_each(problem: Problem, scheduler: str) -> None:
    with knobs.scope(device="sim"):
        words = warpsmith.fuse(problem.fused).lower(*problem.draw("cpu")).compile().explain()
    assert words.startswith("1 kernel\n")
    assert f"scheduler   {scheduler}" in words
