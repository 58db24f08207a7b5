"""Rings with one thing wrong: whatever guards a stage, the simulator tells when it is missing."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.exp_rings import exponentials
from warpsmith import FusionDefinition, LoadStoreOpType, knobs
from warpsmith.engine.executable import Executable

TILE, SCHEDULES = 64, 8


def ring(load: LoadStoreOpType) -> FusionDefinition:
    """`exp(x)` through three stages, by two warps that read each other's elements."""
    return exponentials((load, 3), tile=TILE, pairs=True)


BULK_FAULTS = {
    "no wait for the stage": ("ws_barrier_wait(ring0_empty", "if (0) ws_barrier_wait(ring0_empty"),
    "the other parity": ("use_stage, ring0_use_phase", "use_stage, 1 - ring0_use_phase"),
    "no wait for the data": ("ws_barrier_wait(ring0_full", "if (0) ws_barrier_wait(ring0_full"),
    "no fence before the unit writes": ("ws_fence_async();", ";"),
    "no release": ("ws_barrier_release(ring0_empty", "if (0) ws_barrier_release(ring0_empty"),
    "half the warps expected": ("(ws_threads() + 31) / 32", "(ws_threads() + 31) / 64"),
    "more bytes expected": ("ring0_fill_stage, 256", "ring0_fill_stage, 272"),
    "fewer bytes expected": ("ring0_fill_stage, 256", "ring0_fill_stage, 240"),
    "everybody asks": ("const bool elected_lane = ", "const bool elected_lane = true || "),
    "barriers not initialized": ("ws_barrier_init(ring0_full", "if (0) ws_barrier_init(ring0_full"),
    "nobody waits for barriers": ("__syncthreads();  // barriers are ready", ""),
    "the next stage is read": ("block_x + ring0_use_stage", "block_x + (ring0_use_stage + 1) % 3"),
}

CP_ASYNC_FAULTS = {
    "no wait for the group": ("ws_cp_async_wait<1>();", ""),
    "one group too many stays open": ("ws_cp_async_wait<1>();", "ws_cp_async_wait<2>();"),
    "nobody meets": ("__syncthreads();", ""),
}


@pytest.mark.parametrize(
    ("load", "fault"),
    [
        *((LoadStoreOpType.tma, fault) for fault in BULK_FAULTS),
        *((LoadStoreOpType.cp_async, fault) for fault in CP_ASYNC_FAULTS),
    ],
)
def test_a_fault_is_found(load: LoadStoreOpType, fault: str, tmp_path: Path) -> None:
    old, new = (BULK_FAULTS if load.is_tma else CP_ASYNC_FAULTS)[fault]
    x = np.random.default_rng(1).standard_normal(10 * TILE).astype(np.float32)
    right = Executable(ring(load).fusion, scheduled=True)
    assert right.verify([x], schedules=SCHEDULES).verdict == "clean"
    (launch,) = right.plan_for([x]).launches
    head, body = launch.compiled.cuda.split('extern "C"')
    changed = body.replace(old, new)
    assert changed != body, f"{old!r} is not in\n{body}"
    (tmp_path / f"{launch.compiled.name}.cu").write_text(f'{head}extern "C"{changed}')
    with knobs.scope(override_dir=tmp_path):
        wrong = Executable(ring(load).fusion, scheduled=True)
        assert wrong.verify([x], schedules=SCHEDULES).verdict != "clean"
