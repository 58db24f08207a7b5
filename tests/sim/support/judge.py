"""Simulates the kernels of tests/sim/kernels and compares their outputs with the reference."""

from typing import Any

from tests.sim.support.expected import EXPECTED
from tests.sim.support.expected_triton import EXPECTED_TRITON
from warpsmith.sim.ptx import read
from warpsmith.sim.report import Report
from warpsmith.sim.simulate import Expectation, simulate
from warpsmith.sim.spec import prepare

REFERENCE = {**EXPECTED, **EXPECTED_TRITON}
SCHEDULES = 4


def judge(
    ptx: str,
    spec: dict[str, Any],
    name: str | None = None,
    *,
    count: int = SCHEDULES,
    budget: int = 20_000_000,
) -> Report:
    """Simulate; with a `name` the outputs are compared with that kernel's reference."""
    launch = prepare(read(ptx), spec).launch
    expected = {}
    if name is not None:
        reference = REFERENCE[name]
        before = {buffer.name: buffer.array for buffer in launch.buffers}
        values = reference.compute(spec, before)
        expected = {
            output: Expectation(values=values[output], rtol=reference.rtol, atol=reference.atol)
            for output in spec["outputs"]
        }
    return simulate(launch, count=count, expected=expected, budget=budget)


def kinds_of(report: Report) -> set[str]:
    return {finding.kind for finding in report.findings}
