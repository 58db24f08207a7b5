"""Seconds to plan, lower, compile and load a stack of layers as one program; needs no GPU.

`python -m bench.plan_time --layers 32` traces a Llama-shaped stack with a symbolic number of
places. The cold times start from an empty cache of kernels, the warm ones from a full one; each
line stands beside its goal, or says at what it was refused. Processor time of all threads tells
how much of it was waiting, for what else the machine does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.programs.models import blocks
from tests.programs.models.catalog import Kinds, llama
from tests.support.binaries import uncompiled
from warpsmith import DataType, FusionDefinition, knobs
from warpsmith.errors import WarpsmithError
from warpsmith.runtime.arrays import NUMPY_DTYPES

HEADS, GROUPS, FEATURES, HIDDEN, PLACES = 16, 4, 1024, 2816, 512
DTYPE = DataType.BFloat16
GOALS = {"planned and lowered": 15.0, "compiled cold": 60.0, "loaded warm": 3.0}
"""Seconds for 32 layers on 2 cores."""


def stack(layers: int, *, places: int = -1) -> tuple[FusionDefinition, Kinds]:
    """The program, and its inputs: x, cos, sin, then nine weights a layer.

    Args:
        places: rows of a batch; -1 leaves them to the call.
    """
    x, cos, sin, *weights = llama(1, PLACES, HEADS, GROUPS, FEATURES, HIDDEN).arguments
    forward, _ = blocks.llama(HEADS, GROUPS, FEATURES)
    with FusionDefinition() as fd:
        hidden, *angles = (
            fd.define_tensor(shape=[places if n == PLACES else n for n in shape], dtype=DTYPE)
            for _, shape in (x, cos, sin)
        )
        for _ in range(layers):
            given = [fd.define_tensor(shape=list(shape), dtype=DTYPE) for _, shape in weights]
            hidden = forward(hidden, *angles, *given)
        fd.add_output(hidden)
    return fd, (x, cos, sin, *weights * layers)


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds by the clock, and of all processors."""

    clock: float
    processors: float

    @classmethod
    def now(cls) -> Spent:
        return cls(time.perf_counter(), time.process_time())

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.clock - other.clock, self.processors - other.processors)


@contextmanager
def timed(name: str, seconds: dict[str, Spent]) -> Iterator[None]:
    """Notes how long the body took, also where it was refused."""
    began = Spent.now()
    try:
        yield
    finally:
        seconds[name] = Spent.now() - began


def measure(layers: int) -> tuple[dict[str, Spent], str]:
    """Seconds by phase, and the refusal that ended it; empty if none did."""
    seconds: dict[str, Spent] = {}
    with timed("traced", seconds):
        fd, given = stack(layers)
    arrays = [np.empty(shape, NUMPY_DTYPES[DTYPE.value]) for _, shape in given]
    try:
        with uncompiled(), timed("planned and lowered", seconds):
            planned(fd)(arrays)
        with (
            tempfile.TemporaryDirectory() as folder,
            knobs.scope(cache_dir=folder, keep_emitted=True),
        ):
            with timed("planned and compiled cold", seconds):
                planned(fd)(arrays)
            with timed("loaded warm", seconds):
                planned(stack(layers)[0])(arrays)
    except WarpsmithError as refusal:
        return seconds, str(refusal)
    seconds["compiled cold"] = (
        seconds.pop("planned and compiled cold") - seconds["planned and lowered"]
    )
    return seconds, ""


def planned(fd: FusionDefinition) -> Callable[[list[Any]], object]:
    """What plans a call of the definition, with nothing kept from calls before."""
    from warpsmith.engine.executable import Executable

    return Executable(fd.fusion).plan_for


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=32)
    layers = parser.parse_args().layers
    seconds, refusal = measure(layers)
    for name, spent in seconds.items():
        goal = f" (goal {GOALS[name] * layers / 32:.1f})" if name in GOALS else ""
        print(f"{name:24} {spent.clock:8.2f} s{goal}, {spent.processors:.2f} s of processors")
    if refusal:
        print(f"refused: {refusal[:500]}")
    return 1 if refusal else 0


if __name__ == "__main__":
    sys.exit(main())
