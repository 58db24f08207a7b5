"""What is proved before a launch, and what `explain` says of it."""

import numpy as np
import pytest

from pages.examples import scheduled_roles
from warpsmith.protocol import walks

PROOF = "  proof       of loops cut to 16 iterations: a block of this launch takes too many steps"


def test_cut_loops_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the launch that they were cut for: the first one, and later ones at other sizes."""
    monkeypatch.setattr(walks, "MOST_STEPS", 400)
    fd = scheduled_roles()
    for columns, cut in ((128 * 256, True), (128 * 4, False), (128 * 300, True)):
        arrays = [np.ones((4, columns), np.float32), np.ones((4, columns), np.float32)]
        fd.manual_execute(arrays)
        told = [line for line in fd.explain().splitlines() if line.startswith("  proof")]
        assert len(told) == cut
        assert all(line.startswith(PROOF) for line in told)


def test_nothing_is_told_where_all_was_run() -> None:
    fd = scheduled_roles()
    fd.manual_execute([np.ones((4, 1024), np.float32), np.ones((4, 1024), np.float32)])
    assert "proof" not in fd.explain()
