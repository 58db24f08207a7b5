"""The kernel of docs/roles.md with one thing wrong, so that it hangs; run with the watchdog on.

One thing that is wrong makes all four roles wait sooner or later; the first to give up is any.
"""

from dataclasses import dataclass

import numpy as np

from pages.examples import SHAPE, scheduled_roles
from tests.support.faulty_rings import put_wrong
from warpsmith import knobs
from warpsmith.engine.executable import Executable
from warpsmith.engine.verification import Verification

SECONDS = 1.0
"""That a wait may take."""


@dataclass(frozen=True)
class Wait:
    """What the role that gave up may have waited for."""

    role: str
    warps: str
    ring: str
    stage: int
    goal: str
    parity: int

    @property
    def words(self) -> str:
        """A pattern of the error's words."""
        return (
            rf"role {self.role}, warp {self.warps}: waited 1 s for stage {self.stage} of "
            rf"{self.ring} \(T\d\) to be {self.goal} \(a phase of parity {self.parity}\); "
            r"asked for at "
        )


@dataclass(frozen=True)
class Fault:
    """Text of the right kernel, what takes its place, and the waits that then hang."""

    old: str
    new: str
    waits: tuple[Wait, ...]


_COMPUTE = "[4-7]"

FAULTS = {
    "a loading role that no warp runs": Fault(
        "else if (warp == 1) {",
        "else if (warp == 12) {",
        (
            Wait("compute", _COMPUTE, "ring1", 0, "filled", 0),
            Wait("load_gate", "0", "ring0", 0, "free again", 0),
            Wait("store", "2", "ring2", 0, "filled", 0),
        ),
    ),
    "more bytes are announced than come": Fault(
        "ring1_load_x_stage, 2048",
        "ring1_load_x_stage, 2064",
        (
            Wait("compute", _COMPUTE, "ring1", 0, "filled", 0),
            Wait("load_gate", "0", "ring0", 0, "free again", 0),
            Wait("load_x", "1", "ring1", 0, "free again", 0),
            Wait("store", "2", "ring2", 0, "filled", 0),
        ),
    ),
    "the storing role gives no stage back": Fault(
        "ws_barrier_arrive(ring2_empty",
        "if (0) ws_barrier_arrive(ring2_empty",
        (
            Wait("compute", _COMPUTE, "ring2", 0, "free again", 0),
            Wait("load_gate", "0", "ring0", 0, "free again", 1),
            Wait("load_x", "1", "ring1", 2, "free again", 0),
            Wait("store", "2", "ring2", 0, "filled", 1),
        ),
    ),
    "the other parity, once the stage is filled": Fault(
        "ws_barrier_wait(ring0_full + ring0_compute_stage, ring0_compute_phase",
        "for (int k = 0; k < 100; ++k) __nanosleep(5000); "
        "ws_barrier_wait(ring0_full + ring0_compute_stage, 1 - ring0_compute_phase",
        (
            Wait("compute", _COMPUTE, "ring0", 0, "filled", 1),
            Wait("load_gate", "0", "ring0", 0, "free again", 0),
            Wait("load_x", "1", "ring1", 0, "free again", 0),
            Wait("store", "2", "ring2", 0, "filled", 0),
        ),
    ),
}


def numbers() -> list[np.ndarray]:
    """Both inputs: one block walks eight tiles of them."""
    random = np.random.default_rng(1)
    return [random.standard_normal(SHAPE).astype(np.float32) for _ in range(2)]


def run(name: str | None, folder: str, seconds: float = SECONDS) -> None:
    """Run the kernel with a fault, or right where there is none, and hold it against NumPy.

    Args:
        folder: for the wrong text.
        seconds: that a wait may take.
    """
    x, gate = numbers()
    with knobs.scope(watchdog=True, watchdog_seconds=seconds, override_dir=folder):
        (y,) = _executable(name, folder).run([x, gate])
    np.testing.assert_allclose(y, x * gate / (1 + np.exp(-gate)), rtol=1e-5, atol=1e-6)


def verified(name: str | None, folder: str) -> Verification:
    """What the simulator says of it; it gives no wait up."""
    with knobs.scope(watchdog=True, watchdog_seconds=SECONDS, override_dir=folder):
        return _executable(name, folder).verify(numbers(), schedules=4)


def _executable(name: str | None, folder: str) -> Executable:
    """The kernel; its wrong text is put where the compiler looks for edited ones."""
    if name is not None:
        fault = FAULTS[name]
        put_wrong(scheduled_roles().fusion, numbers(), fault.old, fault.new, folder)
    return Executable(scheduled_roles().fusion, scheduled=True)
