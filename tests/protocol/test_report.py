"""What people read when a protocol is wrong."""

from dataclasses import replace

import pytest

from tests.protocol.edits import edited, instead, without
from tests.protocol.kernels import matmul
from tests.support.role_fault_edits import flipped
from tests.support.role_fault_kernels import trap
from tests.support.role_kernels import RoleCase, streaming
from warpsmith.errors import ProtocolError
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.rings import ArriveByWarp, Await
from warpsmith.protocol import check
from warpsmith.targets.hopper import H200


def refused(kernel: Kernel, case: RoleCase) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        check(kernel, case.values, target=H200)
    return caught.value


def test_the_trap() -> None:
    case = trap(2, 3)
    ring = replace(case.kernel.pipelines[0], where="model.py:12")
    error = refused(replace(case.kernel, pipelines=(ring,)), case)
    assert str(error).splitlines() == [
        "[WS0902] ring0.full[0] (roles add, load): the wait for phase 1 (parity 1) may find the "
        "barrier still in phase 0, and passes at once, since phase -1 had the same parity; the "
        "rule is that a waiter has seen the phase before the one that it waits for (the waiter "
        "knows before that phase 0 is over); the ring is asked for at model.py:12; 2 groups take "
        "turns of 1 in 3 stages: use a multiple of 2, so that each stage belongs to one group; the "
        "shortest run that goes wrong:",
        *error.run,
    ]
    assert error.rule == "a waiter has seen the phase before the one that it waits for"
    assert (error.ring, error.stage, error.phase) == ("ring0", 0, 1)


def test_the_run_is_no_longer_than_it_must_be() -> None:
    case = streaming(size=60000)
    error = refused(edited(case.kernel, without(Await, barrier="ring0_empty")), case)
    assert error.run == (
        "  block (0, 0, 0) with size=2048:",
        "  load_x: fence for the TMA unit",
        "  load_x: arrive and expect 1024 bytes at ring0.full[0] phase 0",
        "  load_x: copy 1024 bytes into ring0_tile[0], at ring0.full[0] phase 0",
        "  load_x: fence for the TMA unit",
        "  load_x: arrive and expect 1024 bytes at ring0.full[1] phase 0",
        "  load_x: copy 1024 bytes into ring0_tile[1], at ring0.full[1] phase 0",
        "  load_x: fence for the TMA unit",
        "  load_x: arrive and expect 1024 bytes at ring0.full[2] phase 0",
        "  load_x: copy 1024 bytes into ring0_tile[2], at ring0.full[2] phase 0",
        "  load_x: fence for the TMA unit",
        "  load_x: arrive and expect 1024 bytes at ring0.full[0] phase 1   <- here",
    )


def test_a_deadlock_says_who_waits_for_what() -> None:
    case = streaming()
    change = instead(Await, flipped, barrier="ring0_empty")
    error = refused(edited(case.kernel, change), case)
    assert error.run[-5:] == (
        "  load_x: await ring0.empty[0] phase 0 (parity 0) ... waits",
        "  load_y: done",
        "  add, warp 0: await ring0.full[0] phase 0 (parity 0) ... waits",
        "  add, warp 1: await ring0.full[0] phase 0 (parity 0) ... waits",
        "  add, warps 2 to 7: await ring0.full[0] phase 0 (parity 0) ... waits",
    )


def test_loops_of_known_length_are_shortened() -> None:
    case = matmul()
    error = refused(edited(case.kernel, without(ArriveByWarp, barrier="ring0_empty")), case)
    assert (error.code, error.ring, error.stage) == ("WS0901", "ring0", 0)
    omitted = next((line for line in error.run if "steps ..." in line), "... 0 steps ...")
    assert int(omitted.split()[1]) < 150
