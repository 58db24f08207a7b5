"""Kernels that would hang end in an exception that says what was waited for, within seconds.

Each runs in a process of its own: its context is lost.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pytest

from tests.support.apart import RaisedApartError, apart
from tests.support.faulty_rings import FAULTS, numbers, ring, run
from warpsmith import knobs

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
    place = r"kernel manual_\w+, block \(0, 0, 0\), all warps, warp [01]: waited 1 s for"
    assert re.match(rf"HangError: \[WS0620\] {place}", said)
    assert any(words in said for words in FAULTS[name].says)
    assert took < WITHIN


def test_right_kernels_stay_right(tmp_path: Path) -> None:
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
    pytest.importorskip("torch")
    assert apart(captured, timeout=120)
