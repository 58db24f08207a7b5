"""The faults of roles of `tests/gpu/test_watchdog.py` without a GPU: they hang on the simulator."""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from pages.examples import scheduled_roles
from tests.support.faulty_roles import FAULTS, numbers, run, verified
from warpsmith import knobs
from warpsmith.engine.compiled import CompiledKernel
from warpsmith.engine.executable import Executable
from warpsmith.engine.watched import described
from warpsmith.kernel.waits import wait_sites
from warpsmith.runtime.watchdog import Record


def watched() -> CompiledKernel:
    """The right kernel, with waits that end."""
    with knobs.scope(watchdog=True):
        executable = Executable(scheduled_roles().fusion, scheduled=True)
        (launch,) = executable.plan_for(numbers()).launches
    return launch.compiled


WAITS = re.compile(r"warp (\d) of CTA 0 \(line \d+\) waits for phase (\d) of .*? 0x(\w+),")
SHARED_START = 1 << 10
"""Of a kernel's own shared memory, in the simulator's addresses."""
COMPUTE = 4
"""The first of the warps that compute, and all wait for the same."""


@pytest.mark.parametrize("name", FAULTS)
def test_the_waits_hang_on_the_simulator(name: str, tmp_path: Path) -> None:
    (report,) = verified(name, str(tmp_path)).reports
    deadlock = next(found for found in report.findings if found.kind == "deadlock")
    stages = {
        int(start) + 8 * stage: f"{ring} {goal} {stage}"
        for ring, goal, start in re.findall(
            r"(ring\d)_(\w+) = .*ws_shared \+ (\d+)", watched().cuda
        )
        for stage in range(3)
    }
    assert len(stages) >= 2 * (2 + 3 + 2)
    waits = {
        (stages[int(address, 16) - SHARED_START], int(phase) % 2, min(int(warp), COMPUTE))
        for warp, phase, address in WAITS.findall(deadlock.message)
    }
    goals = {"filled": "full", "free again": "empty"}
    assert waits == {
        (
            f"{wait.ring} {goals[wait.goal]} {wait.stage}",
            wait.parity,
            int(wait.warps.strip("[]")[0]),
        )
        for wait in FAULTS[name].waits
    }


def test_the_right_kernel_is_clean_and_right(tmp_path: Path) -> None:
    report = verified(None, str(tmp_path))
    assert report.verdict == "clean", str(report)
    run(None, str(tmp_path))


@pytest.mark.parametrize("name", FAULTS)
def test_the_waits_are_some_that_the_watchdog_can_tell(name: str) -> None:
    sites = wait_sites(watched().kernel.body)
    said = [
        described("k", sites, replace(record, site=site.number, stage=stage, parity=parity))
        for site, stage, parity in product(sites, range(3), range(2))
        for record in (_of_warp(warp) for warp in range(8))
    ]
    for wait in FAULTS[name].waits:
        assert any(re.search(wait.words, text) for text in said), wait.words


def _of_warp(warp: int) -> Record:
    return Record(site=0, stage=0, parity=0, block=(0, 0, 0), thread=32 * warp, seconds=1.0)
