"""`explain` says which warps do what, and what passes between them."""

import numpy as np
import pytest

from pages.examples import scheduled_ring, scheduled_roles
from tests.support.ring_loads import Kind
from tests.support.role_feeds import Feed
from tests.support.role_groups import sliced
from warpsmith import FusionDefinition, ParallelType
from warpsmith.engine.role_facts import RingRow, RoleRow, ring_line, role_line

SILENT = ("  role", "  ring")


def explained(fd: FusionDefinition, *shapes: tuple[int, ...]) -> list[str]:
    """Lines on roles and rings of a call on the simulator, without names of tensors."""
    fd.manual_execute([np.ones(shape, np.float32) for shape in shapes])
    return [line.strip() for line in fd.explain().splitlines() if line.startswith(SILENT)]


def test_roles_stand_in_the_order_of_their_warps() -> None:
    names = [line.split()[1] for line in explained(scheduled_roles(), (4, 500), (4, 500))]
    assert names[:4] == ["load_gate:", "load_x:", "store:", "compute:"]
    assert names[4:] == ["ring0:", "ring1:", "ring2:"]


def test_groups() -> None:
    lines = explained(sliced(Feed(Kind.bulk, 4), groups=2, position=3), (96, 128))
    assert "compute: compute, warps 4 to 11, 256 threads, 2 groups, " in lines[1]
    assert lines[1].endswith(" registers, named barriers 1, 2")
    assert "load to compute, 2 groups in turn, 1 arrival at full, 4 at empty" in lines[2]


def outer_product(stages: int) -> FusionDefinition:
    """Four numbers a row, which a role loads, times as many as a call has threads."""
    with FusionDefinition() as fd:
        rows, columns = fd.define_tensor([-1, 4], True), fd.define_tensor([-1], True)
        wide = fd.ops.broadcast(columns, [True, True, False])
        y = fd.ops.mul(fd.ops.broadcast(rows, [False, False, True]), wide)
        fd.add_output(y)
    load = Feed(Kind.bulk, stages).load(rows)
    load.axis(-1).parallelize(ParallelType.tma)
    for tensor in fd.fusion.computed:
        if len(tensor.loop) == 3:
            tensor.axis(2).parallelize(ParallelType.block_x)
    fd.sched.inline_at(y, 1)
    return fd


@pytest.mark.parametrize("threads", [64, 200])
def test_threads_that_the_call_decides(threads: int) -> None:
    fd = outer_product(3)
    random = np.random.default_rng(threads)
    rows, columns = random.random((5, 4), np.float32), random.random(threads, np.float32)
    (result,) = fd.manual_execute([rows, columns])
    np.testing.assert_allclose(result, rows[:, :, None] * columns, rtol=1e-6)
    lines = explained(fd, (5, 4), (threads,))
    warps = -(-threads // 32)
    assert f"compute: compute, warps 4 to {3 + warps}, {threads} threads" in lines[1]
    assert f"1 arrival at full, {warps} at empty" in lines[2]


def test_a_ring_without_roles_is_released_by_all_warps() -> None:
    (line,) = explained(scheduled_ring(), (8, 500))
    assert line == "ring        ring0: 3 stages of 2048 bytes (T2), 1 arrival at full, 2 at empty"


def test_kernels_without_rings_say_nothing() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        fd.add_output(fd.ops.exp(x))
    fd.execute([np.ones(100, np.float32)])
    assert not [line for line in fd.explain().splitlines() if line.startswith(SILENT)]


def test_words_for_one_and_for_many() -> None:
    role = RoleRow(
        name="load",
        kind="copy",
        first_warp=0,
        last_warp=0,
        threads=1,
        groups=1,
        barriers=(),
        registers=24,
    )
    assert role_line(role) == "load: copy, warp 0, one thread, 24 registers"
    ring = RingRow(
        name="ring1",
        stages=1,
        stage_bytes=(("T4", 64), ("T5", 32)),
        producer="load",
        consumers=("left", "right"),
        groups=1,
        full=1,
        empty=0,
    )
    words = "ring1: 1 stage of 96 bytes (T4, T5), load to left and right, 1 arrival at full"
    assert ring_line(ring) == f"{words}, filled once"
