"""Rings with one thing wrong, so that a wait in them never ends; run with the watchdog on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.support.exp_rings import exponentials
from warpsmith import FusionDefinition, LoadStoreOpType, knobs
from warpsmith.engine.executable import Executable
from warpsmith.ir.fusion import Fusion

TILE, TILES = 64, 10
SECONDS = 1.0
"""That a wait may take."""


@dataclass(frozen=True)
class Fault:
    """Text of the right kernel, what takes its place, and what may be said of the wait that hangs.

    Where several waits hang at once, the first to be given up is any of them.
    """

    old: str
    new: str
    says: tuple[str, ...]


FAULTS = {
    "more bytes expected than come": Fault(
        "ring0_fill_stage, 256",
        "ring0_fill_stage, 272",
        ("stage 0 of ring0 (T2) to be filled (a phase of parity 0)",),
    ),
    "the other parity, once the stage is filled": Fault(
        "ws_barrier_wait(ring0_full + ring0_use_stage, ring0_use_phase",
        "__nanosleep(500000); ws_barrier_wait(ring0_full + ring0_use_stage, 1 - ring0_use_phase",
        ("stage 0 of ring0 (T2) to be filled (a phase of parity 1)",),
    ),
    "no release": Fault(
        "ws_barrier_release(ring0_empty",
        "if (0) ws_barrier_release(ring0_empty",
        (
            "stage 0 of ring0 (T2) to be free again (a phase of parity 0)",
            "stage 0 of ring0 (T2) to be filled (a phase of parity 1)",
        ),
    ),
}


def ring() -> FusionDefinition:
    """`exp(x)` through three stages that the TMA unit fills, by one block of two warps."""
    return exponentials((LoadStoreOpType.tma, 3), tile=TILE)


def numbers() -> np.ndarray:
    return np.random.default_rng(1).standard_normal(TILES * TILE).astype(np.float32)


def run(name: str | None, folder: str, seconds: float = SECONDS) -> None:
    """Run the ring with a fault, or right where there is none, and hold the result against NumPy.

    Args:
        folder: for the wrong text.
        seconds: that a wait may take.
    """
    x = numbers()
    with knobs.scope(watchdog=True, watchdog_seconds=seconds, override_dir=folder):
        if name is not None:
            fault = FAULTS[name]
            put_wrong(ring().fusion, [x], fault.old, fault.new, folder)
        (y,) = Executable(ring().fusion, scheduled=True).run([x])
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-5)


def put_wrong(fusion: Fusion, inputs: Sequence[object], old: str, new: str, folder: str) -> None:
    """Put wrong text of a scheduled kernel where the compiler looks for edited ones."""
    (launch,) = Executable(fusion, scheduled=True).plan_for(inputs).launches
    head, body = launch.compiled.cuda.split('extern "C"')
    changed = body.replace(old, new)
    assert changed != body, f"{old!r} is not in\n{body}"
    (Path(folder) / f"{launch.compiled.name}.cu").write_text(f'{head}extern "C"{changed}')
