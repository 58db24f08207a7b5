"""Kernels with roles in which one thing is wrong, each refused, and each found by the simulator.

The protocol check sees the kernel, the simulator the PTX of its text; neither knows of the other.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.support import role_fault_table
from tests.support.role_fault_kernels import (
    ADDING,
    CHAIN,
    DOUBLING,
    PING_PONG,
    SUMS,
    UNEQUAL,
    WITH_REGISTERS,
)
from tests.support.role_fault_table import FAULTS, HARMLESS
from tests.support.role_faults import Made, report_of, simulated
from warpsmith.engine.proofs import prove
from warpsmith.errors import ProtocolError, WarpsmithError
from warpsmith.targets.hopper import H200

PAGE = Path(__file__).parents[2] / "docs" / "lessons" / "roles.md"
RIGHT = {
    "ADDING": ADDING,
    "WITH_REGISTERS": WITH_REGISTERS,
    "DOUBLING": DOUBLING,
    "UNEQUAL": UNEQUAL,
    "CHAIN": CHAIN,
    "PING_PONG": PING_PONG,
    "SUMS": SUMS,
}


@pytest.mark.few(40)
@pytest.mark.parametrize("name", FAULTS)
def test_is_refused(name: str) -> None:
    fault = FAULTS[name]
    kernel, values = fault.wrong()
    with pytest.raises(ProtocolError) as caught:
        prove(kernel, values, H200)
    error, said = caught.value, str(caught.value)
    print(said)
    assert error.code == fault.code
    assert error.ring.startswith(fault.ring)
    assert set(fault.roles) <= set(error.roles)
    assert error.phase == fault.phase
    message = said.partition("; the shortest run")[0]
    assert fault.ring in message
    assert all(re.search(rf"\b{role}\b", message) for role in fault.roles)
    assert fault.phase is None or f"phase {fault.phase}" in message


@pytest.mark.few(40)
@pytest.mark.parametrize("name", [name for name in FAULTS if not FAULTS[name].unsaid])
def test_is_found(name: str) -> None:
    fault = FAULTS[name]
    if fault.refused:
        with pytest.raises(WarpsmithError) as caught:
            report_of(fault)
        assert caught.value.code == fault.refused
        return
    report = report_of(fault)
    print(report)
    assert fault.finds
    assert set(fault.finds) <= {finding.kind for finding in report.findings}


@pytest.mark.parametrize("name", HARMLESS)
def test_does_no_harm(name: str) -> None:
    case = HARMLESS[name]
    report = report_of(case)
    assert report.verdict == "clean", str(report)
    for tensor, array in simulated(*case.right()).arrays.items():
        np.testing.assert_array_equal(report.arrays[tensor], array)


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_is_refused_only_where_it_says_so(name: str) -> None:
    case = HARMLESS[name]
    kernel, values = case.wrong()
    if not case.code:
        prove(kernel, values, H200)
        return
    with pytest.raises(ProtocolError) as caught:
        prove(kernel, values, H200)
    assert caught.value.code == case.code


@pytest.mark.parametrize("make", RIGHT.values(), ids=RIGHT)
def test_the_right_kernels_are_right(make: Made) -> None:
    kernel, values = make()
    prove(kernel, values, H200)
    report = simulated(kernel, values)
    assert report.verdict == "clean", str(report)


def test_the_page_has_the_tables() -> None:
    page = PAGE.read_text()
    assert role_fault_table.replaced(page) == page
