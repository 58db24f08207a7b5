"""Kernels of rows whose shapes are timed: the winner is right, and kept for others."""

import numpy as np
import pytest
import torch

import warpsmith
from tests.support.norms_backward import Case, rms_norm_backward
from warpsmith import knobs
from warpsmith.engine import autotune


def test_a_norm_is_timed_once(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its other kernel adds up as many sums of columns as the winner has blocks."""
    case = Case((3000, 1032), "bfloat16")
    inputs = [
        torch.tensor(array.astype(np.float32)).cuda() for array in case.inputs(rms_norm_backward)
    ]
    inputs[:3] = [tensor.bfloat16() for tensor in inputs[:3]]
    with knobs.scope(cache_dir=tmp_path):
        for timed in (True, False):
            if not timed:
                monkeypatch.setattr(autotune, "measure", lambda *given: False)
            found = warpsmith.fuse(rms_norm_backward, autotune=True)(*inputs)
            for result, expected in zip(found, case.expected(rms_norm_backward), strict=True):
                got = result.double().cpu().numpy()
                np.testing.assert_allclose(got, expected, case.relative, 1e-3)
    (kept,) = tmp_path.glob("*.tuned")
    assert kept.read_bytes().count(b"threads") > 3
