"""Regions are launched by C where they are small, and where they are large let memory go."""

from typing import Any

import pytest
import torch

from tests.programs import judge
from tests.support.stand_in import StandIn
from tests.torch_backend.graphs import compiled
from warpsmith.engine import runners
from warpsmith.torch_backend.program import Program


def called(gpu: StandIn, program: Program, *values: torch.Tensor) -> Any:
    """What a call launches and allocates."""
    given = list(values)
    with judge.uncompiled():
        results = program(given)
    call = program.last_plan
    assert call is not None
    gpu.knows(call)
    del results
    return gpu.taken(values)


def program_of(gpu: StandIn, *inputs: torch.Tensor) -> Program:
    def twice(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        total = x + y
        return [total.exp() * total.sum(), total * 2]

    program, *others = compiled(twice, *inputs, device="auto").programs
    gpu.made.clear()  # by tracing
    assert isinstance(program, Program)
    assert not others
    return program


def test_a_region_is_launched_by_c(gpu: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.randn(6, 4), torch.randn(6, 4)
    program = program_of(gpu, x, y)
    called(gpu, program, x, y)
    by_python = called(gpu, program, x, y)
    monkeypatch.setattr(runners.OnDevice, "__call__", None)  # Python is asked no more
    assert called(gpu, program, y, x)[0] == by_python[0]
    others = torch.randn(4, 6).t(), torch.randn(4, 6).t()
    with pytest.raises(TypeError):
        called(gpu, program, *others)


def test_a_region_with_large_tensors_lets_go_of_them(gpu: StandIn) -> None:
    x, y = torch.randn(2048, 1024), torch.randn(2048, 1024)
    program = program_of(gpu, x, y)
    for _ in range(2):
        given = [x, y]
        with judge.uncompiled():
            program(given)
        assert not given
