"""Whatever the program, the automatic schedules of its segments compute it."""

from __future__ import annotations

import random

import pytest

from tests.support.launching import check_segments, random_inputs
from tests.support.random_programs import RandomProgram
from warpsmith.errors import SchedulerRefusal
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Reduction

PROGRAMS = 30
"""Programs per test; refused are only those that put one dimension into two places."""


@pytest.mark.few(2)
@pytest.mark.parametrize("block", range(10))
def test_right_or_refused_for_its_one_reason(block: int) -> None:
    refused = 0
    for seed in range(block * PROGRAMS, (block + 1) * PROGRAMS):
        made = RandomProgram(seed)
        choice = random.Random(seed)
        fusion = made.program.fusion
        inputs = random_inputs(fusion, made.shapes, seed)
        alignment = {t.name: choice.choice((16, 16, 8, 4, 2)) for t in fusion.tensors}
        try:
            check_segments(
                fusion,
                inputs,
                terms=3000,
                splits=choice.choice((None, 1, 2, 3, 5)),
                alignment=alignment if choice.random() < 0.3 else None,
                index_type=choice.choice((DataType.Int32, DataType.Int)),
                seed=seed,
            )
        except SchedulerRefusal as refusal:
            if "two dimensions of" not in refusal.message:
                raise
            refused += 1
    assert refused <= 1


def test_programs_are_of_every_kind() -> None:
    """The generator reaches moves, reductions and several outputs, or it would prove little."""
    kinds: set[str] = set()
    outputs: set[int] = set()
    for seed in range(100):
        fusion = RandomProgram(seed).program.fusion
        kinds |= {
            operation.carry.name if isinstance(operation, Reduction) else type(operation).__name__
            for operation in fusion.operations
        }
        outputs.add(min(len(fusion.outputs), 3))
    assert kinds == {"Pointwise", "Move", "sum", "max", "welford"}
    assert outputs == {1, 2, 3}
