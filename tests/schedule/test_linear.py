"""Laying a schedule, and lowering it, take steps that grow with the program and no faster."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import warpsmith
from tests.support.program import Program
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.lower.pipeline import lower
from warpsmith.schedule.caches import cache_after
from warpsmith.schedule.inline import inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import parallelize, split
from warpsmith.targets.hopper import H200

PACKAGE = str(Path(warpsmith.__file__).parent)
STEPS = 40


def chain(length: int) -> Fusion:
    """Each value is read by the next one and by the one after that."""
    p = Program()
    earlier = p.input(DataType.Float, (None, None))
    value = p.op("neg", earlier)
    for _ in range(length):
        earlier, value = value, p.op("mul", value, earlier)
    p.output(value)
    return p.fusion


def outputs(count: int) -> Fusion:
    """As many results of one input."""
    p = Program()
    x = p.input(DataType.Float, (None, None))
    for _ in range(count):
        p.output(p.op("exp", x))
    return p.fusion


def inputs(count: int) -> Fusion:
    """The sum of as many inputs."""
    p = Program()
    value = p.input(DataType.Float, (None, None))
    for _ in range(count):
        value = p.op("add", value, p.input(DataType.Float, (None, None)))
    p.output(value)
    return p.fusion


def lay(fusion: Fusion) -> None:
    reference = fusion.outputs[0].value
    cache_after(fusion.input_tensors[0])
    split(reference, 0, 32)
    transform_like(reference)
    parallelize(reference, 0, ParallelType.grid_x)
    parallelize(reference, 1, ParallelType.block_x)
    parallelize_like(reference)
    inline_most(fusion)


def lines_of(work: Callable[[], object]) -> int:
    """Lines of the package that some work runs."""
    count = 0

    def within(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return within

    def entered(frame: FrameType, event: str, arg: Any) -> Any:
        return within if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.few(2)
@pytest.mark.parametrize("program", [chain, outputs, inputs])
def test_steps_grow_with_the_program(program: Callable[[int], Fusion]) -> None:
    lay(program(STEPS))  # what is kept between programs is there
    laid: list[int] = []
    lowered: list[int] = []
    for length in (STEPS, 2 * STEPS, 4 * STEPS):
        fusion = program(length)
        laid.append(lines_of(lambda fusion=fusion: lay(fusion)))
        lowered.append(lines_of(lambda fusion=fusion: lower(fusion, "kernel", target=H200)))
    for lines in (laid, lowered):
        first, second = lines[1] - lines[0], lines[2] - lines[1]
        assert second < 2.2 * first, (laid, lowered)
