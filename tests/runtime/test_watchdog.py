"""The record of a wait that was given up: its layout, and what the device code writes there.

The device code runs on the simulator, under orders in which waits find nothing at first, with a
limit that is over at once.
"""

import re
import struct
from dataclasses import replace
from functools import cache

import numpy as np

from tests.support.faulty_rings import TILES, numbers, ring
from warpsmith import knobs
from warpsmith.codegen.prelude import PIECES
from warpsmith.engine.executable import Executable
from warpsmith.engine.launches import Launch
from warpsmith.engine.simulated import Memory
from warpsmith.kernel.waits import wait_sites
from warpsmith.runtime.watchdog import POINTER, RECORD_BYTES, Record
from warpsmith.sim import machine
from warpsmith.sim.machine import Order, Outcome, run_once
from warpsmith.sim.ptx import read
from warpsmith.sim.records import pack

AT_ONCE = 1e-9
SEEDS = 40


def test_the_layout_is_that_of_the_device_code() -> None:
    text = PIECES["watchdog"].text
    declared = re.search(r"struct ws_watchdog_record \{(.*?)\}", text, re.DOTALL)
    assert declared
    members = "unsigned long long waited; int written, site, stage, parity, x, y, z, thread;"
    assert " ".join(declared[1].split()) == members
    content = struct.pack("<Q8i", 2_500_000_000, 1, 7, 2, 1, 3, 4, 5, 96)
    assert len(content) == RECORD_BYTES
    assert Record.read(content) == Record(
        site=7, stage=2, parity=1, block=(3, 4, 5), thread=96, seconds=2.5
    )


def test_nothing_written_is_no_record() -> None:
    assert Record.read(bytes(RECORD_BYTES)) is None


@cache
def launch() -> Launch:
    with knobs.scope(watchdog=True, watchdog_seconds=AT_ONCE):
        (found,) = Executable(ring().fusion, scheduled=True).plan_for([numbers()]).launches
    return found


def outcome(seed: int, *, recorded: bool) -> Outcome:
    """A run in random order, with the address of a record in the module's variable or without."""
    x, y = numbers(), np.empty_like(numbers())
    memory = Memory()
    memory.add("T0", x, defined=True)
    memory.add("T1", y, defined=False)
    ready = memory._launch(launch(), {})
    record = machine.Buffer(name="record", array=np.zeros(RECORD_BYTES, np.uint8))
    buffers = (*ready.buffers, record)
    if recorded:
        address = machine.address_of(len(buffers) - 1)
        ptx, changes = re.subn(
            rf"(\.u64 {POINTER});", rf"\1 = {address};", launch().compiled.binary.ptx
        )
        assert changes == 1
        ready = replace(ready, program=read(ptx, launch().compiled.name))
    ready = replace(ready, buffers=buffers)
    return run_once(ready, pack(ready.program), order=Order.RANDOM, seed=seed, budget=10**7)


def records(*, recorded: bool) -> list[Record | None]:
    """What every run that ended in a trap left."""
    found = []
    for seed in range(SEEDS):
        each = outcome(seed, recorded=recorded)
        kinds = {int(row["kind"]) for row in each.findings}
        if kinds:
            found.append((kinds, Record.read(each.arrays["record"].tobytes())))
    assert len({frozenset(kinds) for kinds, _ in found}) == 1, "traps are the only findings"
    return [record for _, record in found]


def test_the_device_code_writes_what_it_waited_for() -> None:
    sites = wait_sites(launch().compiled.kernel.body)
    found = records(recorded=True)
    assert len(found) > 1
    for record in found:
        assert record is not None
        site = sites[record.site]
        assert record.block == (0, 0, 0)
        assert 0 <= record.thread < 64
        assert 0 <= record.stage < 3
        assert 0 < record.seconds < 1e-3
        if not site.full:
            assert record.thread < 32, "the elected thread is one of the first warp"
    assert {sites[r.site].full for r in found if r} == {True, False}
    assert {r.stage for r in found if r} >= {0, 1}


def test_without_a_record_a_wait_that_is_given_up_traps_all_the_same() -> None:
    found = records(recorded=False)
    assert len(found) > 1
    assert not any(found)


def test_a_long_limit_is_never_reached() -> None:
    with knobs.scope(watchdog=True):
        report = Executable(ring().fusion, scheduled=True).verify([numbers()], schedules=16)
    assert report.verdict == "clean", report
    assert TILES > 3, "stages are used again"
