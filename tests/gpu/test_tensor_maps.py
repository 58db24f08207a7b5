"""Tensor maps from the driver, and a kernel that copies by those of its launch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support import mapped_kernel
from tests.support.tiled_maps import ACCEPTED, GOOD
from warpsmith.engine.runners import OnDevice, ThroughDevice
from warpsmith.runtime.driver import check, initialized


def values(rows: int, columns: int, stride: int) -> dict[str, int]:
    return {"T0_size0": rows, "T0_size1": columns, "T1_size0": rows, "T0_stride0": stride}


def on_device(rows: int, columns: int, stride: int, folder: Path) -> Any:
    fusion = mapped_kernel.fusion()
    call = mapped_kernel.call_plan(fusion, values(rows, columns, stride), folder)
    return OnDevice(fusion, call, 0)


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=ACCEPTED)
def test_the_driver_takes_what_the_rules_allow(change: dict[str, Any]) -> None:
    x = torch.zeros(64, device="cuda")
    assert len(replace(GOOD, **change).encode(x.data_ptr(), 0)) == 128


@pytest.mark.parametrize("shape", [(8, 32, 32), (19, 72, 80), (3, 4, 4), (1, 40, 44), (0, 32, 32)])
def test_tensors_on_the_device(shape: tuple[int, int, int], tmp_path: Path) -> None:
    rows, columns, stride = shape
    run = on_device(*shape, tmp_path)
    kept = []
    for factor in (-1.5, 2.0, 3.0):  # new addresses, then old ones
        x = torch.randn(rows, stride, device="cuda")[:, :columns]
        for _ in range(2):
            (y,) = run([x, factor])
            assert torch.equal(y, x * factor)
        kept.append((x, y))


def test_arrays_on_the_host(tmp_path: Path) -> None:
    raw = np.random.default_rng(0).standard_normal(19 * 80 + 16).astype(np.float32)
    lead = -raw.ctypes.data % 64 // 4
    x = raw[lead : lead + 19 * 80].reshape(19, 80)[:, :72]
    fusion = mapped_kernel.fusion()
    call = mapped_kernel.call_plan(fusion, values(19, 72, 80), tmp_path)
    for factor in (2.0, 3.0):
        (y,) = ThroughDevice(fusion, call, 0)([x, factor])
        np.testing.assert_array_equal(y, x * np.float32(factor))


def test_a_graph_keeps_its_maps(tmp_path: Path) -> None:
    run = on_device(19, 72, 80, tmp_path)
    x = torch.randn(19, 80, device="cuda")[:, :72]
    run([x, 2.0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (y,) = run([x, 2.0])  # into the graph's own memory: a map is encoded while it is captured
    run([torch.randn(19, 80, device="cuda")[:, :72], 2.0])
    x.normal_()
    graph.replay()
    assert torch.equal(y, x * 2.0)


def test_encoding_leaves_the_current_context_alone() -> None:
    x = torch.zeros(64, device="cuda")
    before = check(initialized().cuCtxGetCurrent())
    GOOD.encode(x.data_ptr(), 0)
    assert int(check(initialized().cuCtxGetCurrent())) == int(before)
