"""Runs a kernel scheduled by hand on the simulator, and keeps what happened when."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpsmith import FusionDefinition, knobs, sim
from warpsmith.engine.executable import Executable
from warpsmith.engine.launches import CallPlan, Launch
from warpsmith.runtime.arrays import NUMPY_DTYPES

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """From one cycle of the timing model to another."""

    begin: int
    end: int


def planned(fd: FusionDefinition, shapes: Sequence[Sequence[int]]) -> CallPlan:
    """The call of a fusion for float32 inputs of these shapes."""
    inputs = [np.zeros(tuple(shape), np.float32) for shape in shapes]
    return Executable(fd.fusion, scheduled=True).plan_for(inputs, knobs.current())


def timeline(call: CallPlan, shapes: Sequence[Sequence[int]]) -> list[Event]:
    """The events of the call's one kernel on the simulator.

    Raises:
        ValueError: the simulator finds something wrong.
    """
    (launch,) = call.launches
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timeline.json"
        spec = _spec(launch, call, shapes)
        report = sim.run(str(launch.compiled.asm["ptx"]), spec, schedules=1, trace=path)
        if report.verdict != "clean":
            raise ValueError(str(report))
        events: list[Event] = json.loads(path.read_text())["traceEvents"]
    return events


def _spec(launch: Launch, call: CallPlan, shapes: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The launch as `warpsmith sim` takes it; inputs are random."""
    results = {each.name: each.shape for each in call.outputs}
    sources = [name for name in launch.pointers if name not in results]
    buffers = {
        name: {"dtype": "float32", "shape": list(shape), "init": "randn"}
        for name, shape in zip(sources, shapes, strict=True)
    }
    buffers |= {
        name: {"dtype": "float32", "shape": list(shape), "init": "undefined"}
        for name, shape in results.items()
    }
    maps = [
        {
            "buffer": each.tensor,
            "dtype": NUMPY_DTYPES[each.dtype].name,
            "dims": list(each.sizes),
            "strides_bytes": list(each.strides),
            "box": list(each.box),
        }
        for each in launch.maps
    ]
    return {
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.shared_bytes,
        "buffers": buffers,
        "params": [
            *({"ptr": name} for name in launch.pointers),
            *({"tensormap": each} for each in maps),
            *({"i32": value} for value in launch.constants),
        ],
    }
