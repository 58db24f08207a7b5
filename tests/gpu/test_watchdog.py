"""Kernels that would hang end in an exception that says what was waited for, within seconds: role,
ring, stage and phase.

Each runs in a process of its own: its context is lost. `tests/roles/test_watched_faults.py` runs
those with roles without a GPU, all but the launch.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support import faulty_roles
from tests.support.apart import RaisedApartError, apart
from tests.support.faulty_rings import FAULTS, numbers, ring, run
from warpsmith import knobs

WITHIN = 10.0
"""Seconds for one kernel, from the start of its process to the exception."""


def said_of_hang(run: Callable[..., None], name: str, folder: Path, record_property) -> str:
    """What is said of a kernel with a fault, within the seconds that there are."""
    start = time.monotonic()
    with pytest.raises(RaisedApartError) as raised:
        apart(run, name, str(folder), timeout=60)
    took, said = time.monotonic() - start, str(raised.value)
    record_property("took", f"{took:.1f} s")
    record_property("said", said)
    assert took < WITHIN
    return said


@pytest.mark.parametrize("name", FAULTS)
def test_a_hang_becomes_an_error_in_words(name: str, tmp_path: Path, record_property) -> None:
    said = said_of_hang(run, name, tmp_path, record_property)
    place = r"kernel manual_\w+, block \(0, 0, 0\), all warps, warp [01]: waited 1 s for"
    assert re.match(rf"HangError: \[WS0620\] {place}", said)
    assert any(words in said for words in FAULTS[name].says)


@pytest.mark.parametrize("name", faulty_roles.FAULTS)
def test_a_hang_of_roles_names_them(name: str, tmp_path: Path, record_property) -> None:
    said = said_of_hang(faulty_roles.run, name, tmp_path, record_property)
    assert re.match(r"HangError: \[WS0620\] kernel manual_\w+, block \(0, 0, 0\), role ", said)
    assert any(re.search(wait.words, said) for wait in faulty_roles.FAULTS[name].waits), said


@pytest.mark.parametrize("run", [run, faulty_roles.run])
def test_right_kernels_stay_right(run: Callable[..., None], tmp_path: Path) -> None:
    apart(run, None, str(tmp_path), timeout=60)


def captured() -> bool:
    """Whether a graph of a watched kernel gives what the kernel does."""
    import torch

    x = torch.from_numpy(numbers()).cuda()
    with knobs.scope(watchdog=True):
        fd = ring()
        (wanted,) = fd.manual_execute([x])
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            (result,) = fd.manual_execute([x])
        result.zero_()
        graph.replay()
        torch.cuda.synchronize()
    return torch.equal(result, wanted) and np.allclose(wanted.cpu(), np.exp(x.cpu()), rtol=1e-5)


def test_a_capture_is_not_waited_for() -> None:
    assert apart(captured, timeout=120)
