"""Tensor maps from the driver, and a kernel that copies by those of its launch."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.by_maps import padded, scaled
from tests.support.tiled_maps import ACCEPTED, GOOD
from warpsmith.runtime.driver import check, initialized


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=ACCEPTED)
def test_the_driver_takes_what_the_rules_allow(change: dict[str, Any]) -> None:
    x = torch.zeros(64, device="cuda")
    assert len(replace(GOOD, **change).encode(x.data_ptr(), 0)) == 128


@pytest.mark.parametrize("shape", [(8, 32, 32), (19, 72, 80), (3, 4, 4), (1, 40, 44), (0, 32, 32)])
def test_tensors_on_the_device(shape: tuple[int, int, int]) -> None:
    rows, columns, stride = shape
    fd = scaled()
    kept = []
    for factor in (-1.5, 2.0, 3.0):  # new addresses, then old ones
        x = torch.randn(rows, stride, device="cuda")[:, :columns]
        for _ in range(2):
            (y,) = fd.manual_execute([x, factor])
            assert torch.equal(y, x * factor)
        kept.append((x, y))


def test_arrays_on_the_host() -> None:
    fd, x = scaled(), padded(19, 72, 80)
    for factor in (2.0, 3.0):
        (y,) = fd.manual_execute([x, factor])
        np.testing.assert_array_equal(y, x * np.float32(factor))


def test_a_graph_keeps_its_maps() -> None:
    fd = scaled()
    x = torch.randn(19, 80, device="cuda")[:, :72]
    fd.manual_execute([x, 2.0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        # into the graph's own memory: a map is encoded while it is captured
        (y,) = fd.manual_execute([x, 2.0])
    fd.manual_execute([torch.randn(19, 80, device="cuda")[:, :72], 2.0])
    x.normal_()
    graph.replay()
    assert torch.equal(y, x * 2.0)


def test_encoding_leaves_the_current_context_alone() -> None:
    x = torch.zeros(64, device="cuda")
    before = check(initialized().cuCtxGetCurrent())
    GOOD.encode(x.data_ptr(), 0)
    assert int(check(initialized().cuCtxGetCurrent())) == int(before)
