"""Kernels with roles that would hang end in an exception that names role, ring, stage and phase.

Each runs in a process of its own: its context is lost. `tests/roles/test_watched_faults.py` runs
all but the launch without a GPU.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.support.apart import RaisedApartError, apart
from tests.support.faulty_roles import FAULTS, run

WITHIN = 10.0
"""Seconds for one kernel, from the start of its process to the exception."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_hang_becomes_an_error_in_words(name: str, tmp_path: Path, record_property) -> None:
    start = time.monotonic()
    with pytest.raises(RaisedApartError) as raised:
        apart(run, name, str(tmp_path), timeout=60)
    took, said = time.monotonic() - start, str(raised.value)
    record_property("took", f"{took:.1f} s")
    record_property("said", said)
    assert re.match(r"HangError: \[WS0620\] kernel manual_\w+, block \(0, 0, 0\), role ", said)
    assert any(re.search(wait.words, said) for wait in FAULTS[name].waits), said
    assert took < WITHIN


def test_the_right_kernel_stays_right(tmp_path: Path) -> None:
    apart(run, None, str(tmp_path), timeout=60)
